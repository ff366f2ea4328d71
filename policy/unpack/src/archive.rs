//! The tar reader: plain bytes or what one gzip member holds, in the ustar family.
//!
//! It reads the headers itself instead of asking a general tar reader, because such readers
//! repair: they take numbers with stray bytes, follow long-name and sparse extensions, stop at
//! the first zero block and ignore what follows. Here every byte has to be what an ordinary
//! writer puts there. Accepted beyond plain ustar: the old GNU magic without its extensions, and
//! pax records that carry nothing but times and comments, since times are dropped anyway.
//!
//! A field that means nothing to us is checked all the same where another reader would stumble
//! over it: a listing that ends early, or that fails, is a second reading of the same bytes.

use std::io::Read;

use mfaas_rules::limits::ARCHIVE;

use crate::UnpackError;
use crate::blocks::{Block, Blocks, is_zero};
use crate::error::shown;
use crate::gzip;
use crate::path::{self, Files, Kind, Register};
use crate::pax;

/// Magic and version of POSIX, and what old GNU tar writes in their place.
const POSIX: &[u8] = b"ustar\x0000";
const OLD_GNU: &[u8] = b"ustar  \0";

/// How zip files begin: an entry, an empty file, a part of a split one.
const ZIP: &[&[u8]] = &[b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08"];

/// Reads a whole upload.
pub(crate) fn read(upload: &[u8]) -> Result<Files, UnpackError> {
    if ZIP.iter().any(|magic| upload.starts_with(magic)) {
        return Err(UnpackError::malformed("it is a zip file; send a tar.gz"));
    }
    if !upload.starts_with(gzip::MAGIC) {
        return Reader::new(upload).files();
    }
    let mut member = gzip::Member::open(upload)?;
    let files = Reader::new(&mut member).files()?;
    member.close()?;
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
    /// A pax extended header for the next entry.
    PaxNext,
    /// A pax extended header for everything behind it.
    PaxGlobal,
}

struct Reader<R> {
    blocks: Blocks<R>,
    register: Register,
    files: Files,
}

impl<R: Read> Reader<R> {
    fn new(input: R) -> Self {
        let blocks = Blocks::new(input, ARCHIVE.unpacked_bytes_max);
        Self { blocks, register: Register::default(), files: Files::new() }
    }

    fn files(mut self) -> Result<Files, UnpackError> {
        // A header for the next entry, behind which that entry has to come: some readers fail on
        // another header or the end there, and some do not.
        let mut announced = false;
        while let Some(block) = self.blocks.header()? {
            let header = parse_header(&block)?;
            match header.kind {
                HeaderKind::Entry(kind) => self.entry(&header, kind)?,
                _ if announced => return Err(lone_pax()),
                HeaderKind::PaxNext | HeaderKind::PaxGlobal => self.pax(&header)?,
            }
            announced = header.kind == HeaderKind::PaxNext;
        }
        if announced {
            return Err(lone_pax());
        }
        self.blocks.end()?;
        Ok(self.files)
    }

    fn entry(&mut self, header: &Header, kind: Kind) -> Result<(), UnpackError> {
        let Some(path) = path::parse(&header.path, kind)? else { return self.register.enter_root() };
        self.register.enter(&path, kind)?;
        if kind == Kind::File {
            let content = self.blocks.content(&header.path, header.size)?;
            self.files.insert(path, content);
        }
        Ok(())
    }

    fn pax(&mut self, header: &Header) -> Result<(), UnpackError> {
        if header.kind == HeaderKind::PaxGlobal {
            self.register.count()?;
        }
        if header.size > pax::BYTES_MAX {
            return Err(UnpackError::malformed(
                "it needs a pax extension (long names?), which is not allowed",
            ));
        }
        pax::check(&self.blocks.content(&header.path, header.size)?)
    }
}

pub(crate) fn lone_pax() -> UnpackError {
    UnpackError::malformed("a pax header announces an entry that does not follow")
}

/// Reads one header block. Field offsets are those of POSIX.1-2017, pax, "ustar Interchange Format".
fn parse_header(block: &Block) -> Result<Header, UnpackError> {
    check_sum(block)?;
    let path = header_path(block)?;
    check_unused(block)?;
    let size = octal(&block[124..136])?;
    let kind = entry_kind(block[156], &path)?;
    if kind == HeaderKind::Entry(Kind::Directory) && size != 0 {
        return Err(UnpackError::malformed(format!("the directory {:?} has content", shown(&path))));
    }
    if !matches!(kind, HeaderKind::Entry(_)) && !block[257..].starts_with(POSIX) {
        return Err(UnpackError::malformed("a pax header without the magic of POSIX"));
    }
    if !text(&block[157..257])?.is_empty() {
        return Err(UnpackError::malformed(format!("{:?} has a link target", shown(&path))));
    }
    if octal(&block[100..108])? & !0o777 != 0 {
        return Err(UnpackError::EntryType { path: shown(&path), what: "marked setuid, setgid or sticky" });
    }
    Ok(Header { path, size, kind })
}

/// The path of prefix and name. The two magics are those of POSIX and of old GNU, where the place
/// of the prefix holds times and sparse maps.
pub(crate) fn header_path(block: &Block) -> Result<Vec<u8>, UnpackError> {
    let name = text(&block[..100])?;
    let prefix = text(&block[345..500])?;
    match &block[257..265] {
        POSIX | OLD_GNU if prefix.is_empty() => Ok(name.to_vec()),
        POSIX if name.is_empty() => {
            Err(UnpackError::malformed("a header has the prefix of a path without the path"))
        }
        POSIX => Ok([prefix, b"/", name].concat()),
        _ => Err(UnpackError::malformed("a header is neither ustar nor plain GNU")),
    }
}

/// Fields without a meaning here: owners, times, devices and what lies behind the last field.
pub(crate) fn check_unused(block: &Block) -> Result<(), UnpackError> {
    for number in [&block[108..116], &block[116..124], &block[136..148], &block[329..337], &block[337..345]] {
        if !is_zero(number) {
            octal(number)?;
        }
    }
    for name in [&block[265..297], &block[297..329]] {
        text(name)?;
    }
    if is_zero(&block[500..]) {
        Ok(())
    } else {
        Err(UnpackError::malformed("a header has bytes behind its last field"))
    }
}

fn entry_kind(flag: u8, path: &[u8]) -> Result<HeaderKind, UnpackError> {
    let refuse = |what| Err(UnpackError::EntryType { path: shown(path), what });
    match flag {
        b'0' | 0 => Ok(HeaderKind::Entry(Kind::File)),
        b'5' => Ok(HeaderKind::Entry(Kind::Directory)),
        b'x' => Ok(HeaderKind::PaxNext),
        b'g' => Ok(HeaderKind::PaxGlobal),
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
pub(crate) fn check_sum(block: &Block) -> Result<(), UnpackError> {
    let claimed = octal(&block[148..156])?;
    let sum: u64 = block
        .iter()
        .enumerate()
        .map(|(at, byte)| if (148..156).contains(&at) { u64::from(b' ') } else { u64::from(*byte) })
        .sum();
    if sum == claimed { Ok(()) } else { Err(UnpackError::malformed("a header's checksum is wrong")) }
}

/// The bytes before the first NUL; behind it only NULs may stand.
pub(crate) fn text(field: &[u8]) -> Result<&[u8], UnpackError> {
    let end = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
    let (text, rest) = field.split_at(end);
    if is_zero(rest) {
        Ok(text)
    } else {
        Err(UnpackError::malformed("a header field has bytes behind its end"))
    }
}

/// Octal digits, then NULs or spaces. No sign, no base-256, no digits behind the padding.
pub(crate) fn octal(field: &[u8]) -> Result<u64, UnpackError> {
    let end = field.iter().position(|byte| !(b'0'..=b'7').contains(byte)).unwrap_or(field.len());
    let (digits, padding) = field.split_at(end);
    if digits.is_empty() || !padding.iter().all(|byte| matches!(byte, 0 | b' ')) {
        return Err(UnpackError::malformed("a number in a header is not plain octal"));
    }
    // At most 12 octal digits: 36 bits.
    Ok(digits.iter().fold(0, |sum, digit| sum * 8 + u64::from(digit - b'0')))
}
