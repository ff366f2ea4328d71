//! The gzip layer: exactly one member, with a header that every reader understands alike.
//!
//! RFC 1952 has optional parts that readers treat differently: a header checksum is checked by
//! some and skipped by others, an extra field splits an archive into members that seekable
//! formats use. Only the file name is taken, which `gzip FILE` and Python write and everybody skips.

use std::io::{BufRead as _, Read};

use flate2::bufread::GzDecoder;

use crate::UnpackError;

/// ID1 and ID2.
pub(crate) const MAGIC: &[u8] = &[0x1f, 0x8b];
/// Bytes of the fixed part of a header.
const FIXED_BYTES: usize = 10;
/// The compression method "deflate", the only one there is.
const DEFLATE: u8 = 8;
/// FLG bit 3: a file name follows, up to a NUL.
const FLAG_NAME: u8 = 1 << 3;
/// Bytes of the file name, without its NUL: what file systems allow.
const NAME_BYTES_MAX: usize = 255;

/// The bytes inside the one member of `upload`, as a stream.
pub(crate) struct Member<'upload>(GzDecoder<&'upload [u8]>);

impl<'upload> Member<'upload> {
    /// Checks the header.
    pub(crate) fn open(upload: &'upload [u8]) -> Result<Self, UnpackError> {
        check_header(upload)?;
        Ok(Self(GzDecoder::new(upload)))
    }

    /// Behind the end of the stream, where the decoder has checked length and checksum: nothing
    /// may follow, not even a second member or padding.
    pub(crate) fn close(self) -> Result<(), UnpackError> {
        match self.0.into_inner().fill_buf().map_or(0, <[u8]>::len) {
            0 => Ok(()),
            rest => Err(UnpackError::malformed(format!("{rest} bytes follow the end of the gzip stream"))),
        }
    }
}

impl Read for Member<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.0.read(buffer)
    }
}

fn check_header(upload: &[u8]) -> Result<(), UnpackError> {
    let refuse = |reason| Err(UnpackError::malformed(reason));
    let Some((fixed, rest)) = upload.split_at_checked(FIXED_BYTES) else {
        return refuse("the gzip header is cut off");
    };
    match (fixed[2], fixed[3]) {
        (DEFLATE, 0) => Ok(()),
        (DEFLATE, FLAG_NAME) if rest.iter().take(NAME_BYTES_MAX + 1).any(|byte| *byte == 0) => Ok(()),
        (DEFLATE, FLAG_NAME) => refuse("the file name in the gzip header is longer than 255 bytes"),
        (DEFLATE, _) => refuse("the gzip header has optional fields other than a file name"),
        _ => refuse("it is gzip of an unknown compression method"),
    }
}
