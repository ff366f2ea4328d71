//! The blocks of a tar: headers, contents and the end, read one at a time under a budget.
//!
//! Shared by the reader of uploads and the reader of dependencies' archives; what an entry means is
//! theirs to say. Nothing here believes a size further than the budget goes, or takes a byte that
//! another reader could take for something else.

use std::io::Read;

use crate::UnpackError;
use crate::error::shown;

pub(crate) const BLOCK: usize = 512;
pub(crate) type Block = [u8; BLOCK];

/// The blocks of one tar.
pub(crate) struct Blocks<R> {
    input: R,
    /// Bytes of tar that may be read in all.
    limit: u64,
    /// Bytes of tar that may still be read.
    budget: u64,
}

impl<R: Read> Blocks<R> {
    pub(crate) fn new(input: R, limit: u64) -> Self {
        Self { input, limit, budget: limit }
    }

    /// The next header, or `None` at the first zero block.
    pub(crate) fn header(&mut self) -> Result<Option<Block>, UnpackError> {
        let block = self
            .block(b"(header)")?
            .ok_or_else(|| UnpackError::malformed("it ends without the two zero blocks of a tar"))?;
        Ok((!is_zero(&block)).then_some(block))
    }

    /// The bytes behind a header. The size is believed only as far as the budget goes, and
    /// memory grows with the bytes that are really there.
    pub(crate) fn content(&mut self, path: &[u8], size: u64) -> Result<Vec<u8>, UnpackError> {
        if size > self.budget {
            return Err(self.too_large(path));
        }
        let mut content = Vec::new();
        let mut left = size;
        while left > 0 {
            let block = self
                .block(path)?
                .ok_or_else(|| UnpackError::malformed(format!("it is cut off in {:?}", shown(path))))?;
            let used = left.min(BLOCK as u64);
            // `used` is at most 512.
            let (data, padding) = block.split_at(used as usize);
            if !is_zero(padding) {
                return Err(UnpackError::malformed(format!("bytes hide behind {:?}", shown(path))));
            }
            content.extend_from_slice(data);
            left -= used;
        }
        Ok(content)
    }

    /// Behind the first zero block: a second one, and nothing but zero blocks to the end.
    pub(crate) fn end(&mut self) -> Result<(), UnpackError> {
        let mut zero_blocks = 1;
        while let Some(block) = self.block(b"(end)")? {
            if !is_zero(&block) {
                return Err(UnpackError::malformed("bytes follow the end of the archive"));
            }
            zero_blocks += 1;
        }
        if zero_blocks < 2 {
            return Err(UnpackError::malformed("it ends without the two zero blocks of a tar"));
        }
        Ok(())
    }

    /// The next whole block, or `None` at the exact end of the input.
    fn block(&mut self, path: &[u8]) -> Result<Option<Block>, UnpackError> {
        let mut block = [0; BLOCK];
        let mut filled = 0;
        while filled < BLOCK {
            match self.input.read(&mut block[filled..]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(UnpackError::malformed(format!("gzip: {error}"))),
            }
        }
        match filled {
            0 => Ok(None),
            BLOCK if self.budget < BLOCK as u64 => Err(self.too_large(path)),
            BLOCK => {
                self.budget -= BLOCK as u64;
                Ok(Some(block))
            }
            _ => Err(UnpackError::malformed("it is cut off, or is not a tar")),
        }
    }

    fn too_large(&self, path: &[u8]) -> UnpackError {
        UnpackError::UnpackedTooLarge { limit: self.limit, path: shown(path) }
    }
}

pub(crate) fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}
