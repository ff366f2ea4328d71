//! The archive reader: one gzip member or plain bytes, holding one tar of the ustar family.
//!
//! It reads the headers itself instead of asking a general tar reader, because such readers
//! repair: they take numbers with stray bytes, follow long-name and sparse extensions, stop at
//! the first zero block and ignore what follows. Here every byte has to be what an ordinary
//! writer puts there. Accepted beyond plain ustar: the old GNU magic without its extensions, and
//! pax records that carry nothing but times and comments, since times are dropped anyway.

use std::io::{BufRead, Read};

use flate2::bufread::GzDecoder;
use mfaas_rules::limits::ARCHIVE;

use crate::UnpackError;
use crate::error::shown;
use crate::path::{self, Kind, Register};
use crate::tree::Files;

const BLOCK: usize = 512;
type Block = [u8; BLOCK];

/// A pax header with nothing but times fits one block many times over.
const PAX_BYTES_MAX: u64 = 4 << 10;
/// pax keywords that cannot change what the tree is.
const PAX_KEYS_WITHOUT_EFFECT: &[&str] = &["atime", "comment", "ctime", "mtime"];

/// Reads a whole upload.
pub(crate) fn read(upload: &[u8]) -> Result<Files, UnpackError> {
    if upload.starts_with(b"PK") {
        return Err(UnpackError::malformed("it is a zip file; send a tar.gz"));
    }
    if !upload.starts_with(&[0x1f, 0x8b]) {
        return Reader::new(upload).files();
    }
    let mut decoder = GzDecoder::new(upload);
    let files = Reader::new(&mut decoder).files()?;
    // The decoder checked the checksum when it answered the end of the stream.
    let rest = decoder.into_inner().fill_buf().map_or(0, <[u8]>::len);
    if rest > 0 {
        return Err(UnpackError::malformed(format!("{rest} bytes follow the end of the gzip stream")));
    }
    Ok(files)
}

/// What an entry's header says.
struct Header {
    path: Vec<u8>,
    size: u64,
    kind: HeaderKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum HeaderKind {
    Entry(Kind),
    /// A pax extended header, for the next entry or for all.
    Pax,
}

struct Reader<R> {
    input: R,
    /// Bytes of tar that may still be read.
    budget: u64,
    entries: usize,
    register: Register,
    files: Files,
}

impl<R: Read> Reader<R> {
    fn new(input: R) -> Self {
        Self {
            input,
            budget: ARCHIVE.unpacked_bytes_max,
            entries: 0,
            register: Register::default(),
            files: Files::new(),
        }
    }

    fn files(mut self) -> Result<Files, UnpackError> {
        while let Some(block) = self.next_header()? {
            self.entries += 1;
            if self.entries > ARCHIVE.entries_max {
                return Err(UnpackError::TooManyEntries { limit: ARCHIVE.entries_max });
            }
            let header = parse_header(&block)?;
            match header.kind {
                HeaderKind::Entry(kind) => self.entry(&header, kind)?,
                HeaderKind::Pax => self.pax(&header)?,
            }
        }
        self.end()?;
        Ok(self.files)
    }

    /// The next header, or `None` at the first zero block.
    fn next_header(&mut self) -> Result<Option<Block>, UnpackError> {
        let block = self
            .block(b"(header)")?
            .ok_or_else(|| UnpackError::malformed("it ends without the two zero blocks of a tar"))?;
        Ok((!is_zero(&block)).then_some(block))
    }

    fn entry(&mut self, header: &Header, kind: Kind) -> Result<(), UnpackError> {
        let Some(path) = path::parse(&header.path, kind)? else { return Ok(()) };
        self.register.enter(&path, kind)?;
        if kind == Kind::File {
            let content = self.content(header)?;
            self.files.insert(path, content);
        }
        Ok(())
    }

    fn pax(&mut self, header: &Header) -> Result<(), UnpackError> {
        if header.size > PAX_BYTES_MAX {
            return Err(UnpackError::malformed(
                "it needs a pax extension (long names?), which is not allowed",
            ));
        }
        let records = self.content(header)?;
        check_pax(&records)
    }

    /// The bytes behind a header. The size is believed only as far as the budget goes, and
    /// memory grows with the bytes that are really there.
    fn content(&mut self, header: &Header) -> Result<Vec<u8>, UnpackError> {
        if header.size > self.budget {
            return Err(self.too_large(&header.path));
        }
        let mut content = Vec::new();
        let mut left = header.size;
        while left > 0 {
            let block = self.block(&header.path)?.ok_or_else(|| {
                UnpackError::malformed(format!("it is cut off in {:?}", shown(&header.path)))
            })?;
            let used = left.min(BLOCK as u64);
            // `used` is at most 512.
            let (data, padding) = block.split_at(used as usize);
            if !is_zero(padding) {
                return Err(UnpackError::malformed(format!("bytes hide behind {:?}", shown(&header.path))));
            }
            content.extend_from_slice(data);
            left -= used;
        }
        Ok(content)
    }

    /// Behind the first zero block: a second one, and nothing but zero blocks to the end.
    fn end(&mut self) -> Result<(), UnpackError> {
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
        UnpackError::UnpackedTooLarge { limit: ARCHIVE.unpacked_bytes_max, path: shown(path) }
    }
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

/// Reads one header block. Field offsets are those of POSIX.1-2017, pax, "ustar Interchange Format".
fn parse_header(block: &Block) -> Result<Header, UnpackError> {
    check_sum(block)?;
    let mut path = text(&block[..100])?.to_vec();
    match &block[257..265] {
        b"ustar\x0000" => {
            let prefix = text(&block[345..500])?;
            if !prefix.is_empty() {
                path = [prefix, b"/", &path].concat();
            }
        }
        // Old GNU: the place of the prefix holds times and sparse maps.
        b"ustar  \0" if is_zero(&block[345..500]) => {}
        _ => return Err(UnpackError::malformed("a header is neither ustar nor plain GNU")),
    }
    if !is_zero(&block[500..]) {
        return Err(UnpackError::malformed("a header has bytes behind its last field"));
    }
    let size = octal(&block[124..136])?;
    let kind = entry_kind(block[156], &path)?;
    if kind == HeaderKind::Entry(Kind::Directory) && size != 0 {
        return Err(UnpackError::malformed(format!("the directory {:?} has content", shown(&path))));
    }
    if !text(&block[157..257])?.is_empty() {
        return Err(UnpackError::malformed(format!("{:?} has a link target", shown(&path))));
    }
    if octal(&block[100..108])? & !0o777 != 0 {
        return Err(UnpackError::EntryType { path: shown(&path), what: "marked setuid, setgid or sticky" });
    }
    Ok(Header { path, size, kind })
}

fn entry_kind(flag: u8, path: &[u8]) -> Result<HeaderKind, UnpackError> {
    let refuse = |what| Err(UnpackError::EntryType { path: shown(path), what });
    match flag {
        b'0' | 0 => Ok(HeaderKind::Entry(Kind::File)),
        b'5' => Ok(HeaderKind::Entry(Kind::Directory)),
        b'x' | b'g' => Ok(HeaderKind::Pax),
        b'1' => refuse("a hard link"),
        b'2' => refuse("a symbolic link"),
        b'3' => refuse("a character device"),
        b'4' => refuse("a block device"),
        b'6' => refuse("a named pipe"),
        b'L' | b'K' => refuse("a GNU long name"),
        b'S' => refuse("a sparse file"),
        _ => refuse("of an unknown entry type"),
    }
}

/// The sum over the header with its own field read as spaces.
fn check_sum(block: &Block) -> Result<(), UnpackError> {
    let claimed = octal(&block[148..156])?;
    let sum: u64 = block
        .iter()
        .enumerate()
        .map(|(at, byte)| if (148..156).contains(&at) { u64::from(b' ') } else { u64::from(*byte) })
        .sum();
    if sum == claimed { Ok(()) } else { Err(UnpackError::malformed("a header's checksum is wrong")) }
}

/// The bytes before the first NUL; behind it only NULs may stand.
fn text(field: &[u8]) -> Result<&[u8], UnpackError> {
    let end = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
    let (text, rest) = field.split_at(end);
    if is_zero(rest) {
        Ok(text)
    } else {
        Err(UnpackError::malformed("a header field has bytes behind its end"))
    }
}

/// Octal digits, then NULs or spaces. No sign, no base-256, no digits behind the padding.
fn octal(field: &[u8]) -> Result<u64, UnpackError> {
    let end = field.iter().position(|byte| !(b'0'..=b'7').contains(byte)).unwrap_or(field.len());
    let (digits, padding) = field.split_at(end);
    if digits.is_empty() || !padding.iter().all(|byte| matches!(byte, 0 | b' ')) {
        return Err(UnpackError::malformed("a number in a header is not plain octal"));
    }
    // At most 12 octal digits: 36 bits.
    Ok(digits.iter().fold(0, |sum, digit| sum * 8 + u64::from(digit - b'0')))
}

/// pax records are `length key=value\n`, the length counting itself. Only keys without an
/// effect on the tree pass; a value may hold anything but a newline, so that nobody can see
/// another record boundary than we do.
fn check_pax(mut records: &[u8]) -> Result<(), UnpackError> {
    let malformed = || UnpackError::malformed("a pax header is malformed");
    while !records.is_empty() {
        let space = records.iter().position(|byte| *byte == b' ').filter(|at| (1..=4).contains(at));
        let (digits, _) = records.split_at(space.ok_or_else(malformed)?);
        if !digits.iter().all(u8::is_ascii_digit) {
            return Err(malformed());
        }
        let length = digits.iter().fold(0, |sum, digit| sum * 10 + usize::from(digit - b'0'));
        let record = records.get(digits.len() + 1..length).ok_or_else(malformed)?;
        let pair = record.strip_suffix(b"\n").filter(|pair| !pair.contains(&b'\n')).ok_or_else(malformed)?;
        let equals = pair.iter().position(|byte| *byte == b'=').ok_or_else(malformed)?;
        let key = &pair[..equals];
        if !PAX_KEYS_WITHOUT_EFFECT.iter().any(|allowed| allowed.as_bytes() == key) {
            return Err(UnpackError::malformed(format!(
                "the pax extension {:?} is not allowed; use short ASCII paths and `tar --format=ustar`",
                shown(key)
            )));
        }
        records = &records[length..];
    }
    Ok(())
}
