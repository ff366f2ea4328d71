//! What a function asks of the files of a volume, and what it hears.

use alloc::vec::Vec;

use crate::fields::{Reader, put_bytes, put_option, put_u32, with_binding};
use crate::limits::{VOLUME_DEPTH_MAX, VOLUME_ENTRIES_MAX, VOLUME_NAME_BYTES_MAX, VOLUME_PATH_BYTES_MAX};

/// What is asked for. Paths are names between `/`, from the root of the volume on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VolumeRequest<'a> {
    /// How large a file is: [`VolumeReply::Size`].
    Size {
        /// The file.
        path: &'a [u8],
    },
    /// Makes an empty file, and the directories above it, where there are none: [`VolumeReply::Done`].
    Create {
        /// The file.
        path: &'a [u8],
    },
    /// Bytes of a file: [`VolumeReply::Bytes`].
    Read {
        /// The file.
        path: &'a [u8],
        /// The first byte.
        offset: u64,
        /// How many at most.
        bytes: u32,
    },
    /// Puts bytes into a file, over those that are there: [`VolumeReply::Done`].
    Write {
        /// The file.
        path: &'a [u8],
        /// Where the first one is put; what lies between the end of the file and this is zero.
        offset: u64,
        /// The bytes.
        bytes: &'a [u8],
    },
    /// Puts bytes behind the last one of a file: [`VolumeReply::Offset`].
    Append {
        /// The file.
        path: &'a [u8],
        /// The bytes.
        bytes: &'a [u8],
    },
    /// Gives a file another size; what it has more then is zero: [`VolumeReply::Done`].
    Truncate {
        /// The file.
        path: &'a [u8],
        /// Its bytes from now on.
        size: u64,
    },
    /// Waits until what was written to a file lies where a failure of power does not reach it: [`VolumeReply::Done`].
    Sync {
        /// The file.
        path: &'a [u8],
    },
    /// Removes a file or an empty directory, which need not be there: [`VolumeReply::Done`].
    Remove {
        /// What is removed.
        path: &'a [u8],
    },
    /// The next entries of a directory: [`VolumeReply::Entries`].
    List {
        /// The directory; the root if empty.
        directory: &'a [u8],
        /// After which name; from the first one if absent.
        after: Option<&'a [u8]>,
        /// Entries at most.
        limit: u32,
    },
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VolumeReply<'a> {
    /// It is done.
    Done,
    /// Bytes of the file; absent if there is none.
    Size(Option<u64>),
    /// Those bytes of the range that the file has.
    Bytes(&'a [u8]),
    /// Where the first byte was put.
    Offset(u64),
    /// Entries in the order of their names, and after which name the next ones come; the last if absent.
    Entries {
        /// Names, and sizes in bytes of those that are files; the others are directories.
        entries: Vec<(&'a [u8], Option<u64>)>,
        /// Where to go on.
        next: Option<&'a [u8]>,
    },
}

const SIZE: u8 = 1;
const CREATE: u8 = 2;
const READ: u8 = 3;
const WRITE: u8 = 4;
const APPEND: u8 = 5;
const TRUNCATE: u8 = 6;
const SYNC: u8 = 7;
const REMOVE: u8 = 8;
const LIST: u8 = 9;

impl<'a> VolumeRequest<'a> {
    /// The operation that asks this of a binding.
    pub fn encode(&self, binding: u32) -> Vec<u8> {
        let mut to = with_binding(binding, &[self.number()]);
        match self {
            Self::Size { path } | Self::Create { path } | Self::Sync { path } | Self::Remove { path } => {
                put_bytes(&mut to, path);
            }
            Self::Read { path, offset, bytes } => {
                put_bytes(&mut to, path);
                to.extend_from_slice(&offset.to_le_bytes());
                to.extend_from_slice(&bytes.to_le_bytes());
            }
            Self::Write { path, offset, bytes } => {
                put_bytes(&mut to, path);
                to.extend_from_slice(&offset.to_le_bytes());
                put_bytes(&mut to, bytes);
            }
            Self::Append { path, bytes } => {
                put_bytes(&mut to, path);
                put_bytes(&mut to, bytes);
            }
            Self::Truncate { path, size } => {
                put_bytes(&mut to, path);
                to.extend_from_slice(&size.to_le_bytes());
            }
            Self::List { directory, after, limit } => {
                put_bytes(&mut to, directory);
                put_option(&mut to, *after);
                to.extend_from_slice(&limit.to_le_bytes());
            }
        }
        to
    }

    /// Reads a request of any origin, behind its binding.
    pub fn decode(request: &'a [u8]) -> Option<Self> {
        let mut from = Reader(request);
        let (number, path) = (from.byte()?, from.bytes()?);
        let request = match number {
            SIZE => Self::Size { path },
            CREATE => Self::Create { path },
            READ => Self::Read { path, offset: from.u64()?, bytes: from.u32()? as u32 },
            WRITE => Self::Write { path, offset: from.u64()?, bytes: from.bytes()? },
            APPEND => Self::Append { path, bytes: from.bytes()? },
            TRUNCATE => Self::Truncate { path, size: from.u64()? },
            SYNC => Self::Sync { path },
            REMOVE => Self::Remove { path },
            LIST => Self::List { directory: path, after: from.option()?, limit: from.u32()? as u32 },
            _ => return None,
        };
        from.ends().then_some(request)
    }

    fn number(&self) -> u8 {
        match self {
            Self::Size { .. } => SIZE,
            Self::Create { .. } => CREATE,
            Self::Read { .. } => READ,
            Self::Write { .. } => WRITE,
            Self::Append { .. } => APPEND,
            Self::Truncate { .. } => TRUNCATE,
            Self::Sync { .. } => SYNC,
            Self::Remove { .. } => REMOVE,
            Self::List { .. } => LIST,
        }
    }

    /// Whether it changes files: what it has changed is there at once, and for good.
    pub fn changes(&self) -> bool {
        self.writes() && !matches!(self, Self::Sync { .. })
    }

    /// Whether it is for those alone who may change files.
    pub fn writes(&self) -> bool {
        match self {
            Self::Size { .. } | Self::Read { .. } | Self::List { .. } => false,
            Self::Create { .. }
            | Self::Write { .. }
            | Self::Append { .. }
            | Self::Truncate { .. }
            | Self::Sync { .. }
            | Self::Remove { .. } => true,
        }
    }
}

impl<'a> VolumeReply<'a> {
    /// As it stands in an outcome.
    pub fn encode(&self) -> Vec<u8> {
        let mut to = Vec::new();
        match self {
            Self::Done => {}
            Self::Size(size) => put_size(&mut to, *size),
            Self::Bytes(bytes) => to.extend_from_slice(bytes),
            Self::Offset(offset) => to.extend_from_slice(&offset.to_le_bytes()),
            Self::Entries { entries, next } => {
                put_u32(&mut to, entries.len());
                for (name, size) in entries {
                    put_bytes(&mut to, name);
                    put_size(&mut to, *size);
                }
                put_option(&mut to, *next);
            }
        }
        to
    }

    /// Reads the reply to a request of that form.
    pub fn decode(reply: &'a [u8], request: &VolumeRequest<'_>) -> Option<Self> {
        let mut from = Reader(reply);
        let reply = match request {
            VolumeRequest::Read { .. } => return Some(Self::Bytes(reply)),
            VolumeRequest::Size { .. } => Self::Size(size(&mut from)?),
            VolumeRequest::Append { .. } => Self::Offset(from.u64()?),
            VolumeRequest::Create { .. }
            | VolumeRequest::Write { .. }
            | VolumeRequest::Truncate { .. }
            | VolumeRequest::Sync { .. }
            | VolumeRequest::Remove { .. } => Self::Done,
            VolumeRequest::List { .. } => {
                let count = from.u32()?;
                (count <= VOLUME_ENTRIES_MAX).then_some(())?;
                let entries = (0..count).map(|_| Some((from.bytes()?, size(&mut from)?)));
                let entries = entries.collect::<Option<_>>()?;
                Self::Entries { entries, next: from.option()? }
            }
        };
        from.ends().then_some(reply)
    }
}

/// The names of a path, none of the root; or what is wrong with it. Of any origin.
pub fn names_of(path: &[u8]) -> Result<Vec<&str>, &'static str> {
    if path.len() > VOLUME_PATH_BYTES_MAX {
        return Err("a path has 1024 bytes at most");
    }
    let path = core::str::from_utf8(path).map_err(|_| "a path is text in UTF-8")?;
    if path.is_empty() {
        return Ok(Vec::new());
    }
    let names: Vec<&str> = path.split('/').collect();
    if names.len() > VOLUME_DEPTH_MAX {
        return Err("a path has 16 names at most");
    }
    let wrong = names.iter().find_map(|name| match *name {
        "" => Some("a path is names with one `/` between them, and begins and ends with a name"),
        "." | ".." => Some("no name of a path is `.` or `..`"),
        name if name.len() > VOLUME_NAME_BYTES_MAX => Some("a name has 255 bytes at most"),
        name if name.contains('\0') => Some("a name has no NUL"),
        _ => None,
    });
    wrong.map_or(Ok(names), Err)
}

fn put_size(to: &mut Vec<u8>, size: Option<u64>) {
    to.push(u8::from(size.is_some()));
    size.iter().for_each(|bytes| to.extend_from_slice(&bytes.to_le_bytes()));
}

fn size(from: &mut Reader<'_>) -> Option<Option<u64>> {
    match from.byte()? {
        0 => Some(None),
        1 => from.u64().map(Some),
        _ => None,
    }
}
