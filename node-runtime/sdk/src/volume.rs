//! Files of a volume.

use std::marker::PhantomData;

use mfaas_abi::frame::RequestFrame;
use mfaas_abi::limits::VOLUME_PIECE_BYTES_MAX;
use mfaas_abi::{VolumeReply, VolumeRequest};

use crate::Response;
use crate::binding::{
    Access, Binding, DataError, Declared, Manifest, Read, Write, ask, ask_together, place_of, text,
};
use crate::input::FromRequest;

/// Where more is asked for, it is looked first how much there is: memory is reserved for all of it.
const KNOWN_BYTES_MAX: usize = 8 * VOLUME_PIECE_BYTES_MAX;

/// Files and directories, in a resource of the site that the function binds: a parameter of a handler.
///
/// ```
/// use mfaas::{Binding, Error, Volume, Write};
///
/// struct Journal;
///
/// impl Binding for Journal {
///     const NAME: &'static str = "journal";
///     type Value = ();
/// }
///
/// pub async fn handle(line: String, journal: Volume<Journal, Write>) -> Result<String, Error> {
///     let today = journal.open_or_create("2026/november.txt").await?;
///     let offset = today.append(format!("{line}\n")).await?;
///     today.sync().await?;
///     Ok(format!("at {offset} of {}", today.size().await?))
/// }
/// # let answer = mfaas::testing::block_on(handle("a".to_owned(), mfaas::testing::volume()));
/// # assert_eq!(answer.unwrap(), "at 0 of 2");
/// ```
///
/// With Cargo.toml:
/// ```toml
/// [package.metadata.mfaas.bindings.journal]
/// kind = "volume"
/// access = "write"
/// ```
///
/// A path is names between `/`: `2026/november.txt`. Links are not followed.
///
/// Unlike other data, what a call writes to files is there for everybody at once, also if its handler fails afterwards. A call that
/// has written is never run again by its node. A change that ends with `MF1205` may have been made, in part, or be made yet.
pub struct Volume<B, A = Read> {
    place: u32,
    marker: PhantomData<fn() -> (B, A)>,
}

/// A file of a volume, by its path: it may have been removed since it was opened.
pub struct File<B, A = Read> {
    place: u32,
    path: String,
    marker: PhantomData<fn() -> (B, A)>,
}

/// What lies in a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// A file, and its size in bytes.
    File(u64),
    /// Another directory.
    Directory,
}

/// A part of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entries {
    /// Names and what they name, in the order of the names.
    pub entries: Vec<(String, Entry)>,
    /// After which name the next part begins; this is the last if absent.
    pub next: Option<String>,
}

impl<B, A> Volume<B, A> {
    pub(crate) fn at(place: u32) -> Self {
        Self { place, marker: PhantomData }
    }
}

impl<B: Binding, A> std::fmt::Debug for Volume<B, A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Volume").field(&B::NAME).finish()
    }
}

impl<B: Binding, A> std::fmt::Debug for File<B, A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("File").field(&B::NAME).field(&self.path).finish()
    }
}

/// Takes nothing of the request.
impl<B: Binding, A: Access> FromRequest for Volume<B, A> {
    const BINDING: Option<Declared> = Some(Declared { name: B::NAME, kind: "volume", access: A::WORD });

    fn from_request<M: Manifest>(_: &RequestFrame<'_>) -> Result<Self, Response> {
        let place =
            const { place_of(&Declared { name: B::NAME, kind: "volume", access: A::WORD }, M::BINDINGS) };
        Ok(Self::at(place))
    }
}

impl<B: Binding, A: Access> Volume<B, A> {
    /// The file of that path, if there is one.
    pub async fn open(&self, path: impl Into<String>) -> Result<Option<File<B, A>>, DataError> {
        let file = self.file(path);
        Ok(file.look().await?.map(|_| file))
    }

    /// The first entries of a directory, `""` for the root, that come after `after` if that is given: up to `limit`, which is 256 at
    /// most. What is neither a file nor a directory is left out.
    pub async fn list(
        &self,
        directory: impl AsRef<str>,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Entries, DataError> {
        let (directory, after) = (directory.as_ref().as_bytes(), after.map(str::as_bytes));
        let request = VolumeRequest::List { directory, after, limit };
        let answered = ask(request.encode(self.place)).await?;
        let Some(VolumeReply::Entries { entries, next }) = VolumeReply::decode(&answered, &request) else {
            return Err(DataError::not_understood());
        };
        let entry = |(name, size): (_, Option<u64>)| {
            Ok::<_, DataError>((text(name)?, size.map_or(Entry::Directory, Entry::File)))
        };
        Ok(Entries {
            entries: entries.into_iter().map(entry).collect::<Result<_, _>>()?,
            next: next.map(text).transpose()?,
        })
    }

    fn file(&self, path: impl Into<String>) -> File<B, A> {
        File { place: self.place, path: path.into(), marker: PhantomData }
    }
}

impl<B: Binding> Volume<B, Write> {
    /// The file of that path, with what it has. Where there is none it makes an empty one, and the directories above it.
    pub async fn open_or_create(&self, path: impl Into<String>) -> Result<File<B, Write>, DataError> {
        let file = self.file(path);
        ask(VolumeRequest::Create { path: file.path.as_bytes() }.encode(self.place)).await?;
        Ok(file)
    }

    /// Removes a file or an empty directory, which need not be there.
    pub async fn remove(&self, path: impl AsRef<str>) -> Result<(), DataError> {
        ask(VolumeRequest::Remove { path: path.as_ref().as_bytes() }.encode(self.place)).await.map(drop)
    }
}

impl<B: Binding, A: Access> File<B, A> {
    /// Its path in the volume.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// How many bytes it has.
    pub async fn size(&self) -> Result<u64, DataError> {
        self.look().await?.ok_or_else(|| DataError::of_node(1_212, b"there is no file at this path"))
    }

    /// Those of `bytes` bytes from `offset` on that it has.
    pub async fn read_at(&self, offset: u64, bytes: usize) -> Result<Vec<u8>, DataError> {
        let request = |at: usize, bytes: usize| {
            let (path, offset) = (self.path.as_bytes(), offset.saturating_add(at as u64));
            VolumeRequest::Read { path, offset, bytes: bytes as u32 }.encode(self.place)
        };
        if bytes <= VOLUME_PIECE_BYTES_MAX {
            return ask(request(0, bytes)).await;
        }
        let bytes = if bytes > KNOWN_BYTES_MAX {
            bytes.min(self.size().await?.saturating_sub(offset) as usize)
        } else {
            bytes
        };
        let (mut read, mut is_over) = (Vec::with_capacity(bytes), false);
        let pieces = (0..bytes).step_by(VOLUME_PIECE_BYTES_MAX);
        let requests = pieces.map(|at| request(at, (bytes - at).min(VOLUME_PIECE_BYTES_MAX)));
        ask_together(requests, |piece| {
            // Others may have made the file longer since it ended within a piece.
            if !is_over {
                read.extend_from_slice(&piece);
            }
            is_over |= piece.len() < VOLUME_PIECE_BYTES_MAX;
            Ok(())
        })
        .await?;
        Ok(read)
    }

    async fn look(&self) -> Result<Option<u64>, DataError> {
        let request = VolumeRequest::Size { path: self.path.as_bytes() };
        match VolumeReply::decode(&ask(request.encode(self.place)).await?, &request) {
            Some(VolumeReply::Size(size)) => Ok(size),
            _ => Err(DataError::not_understood()),
        }
    }
}

impl<B: Binding> File<B, Write> {
    /// Puts bytes over those from `offset` on; what lies between the end of the file and `offset` is zero. Up to 128 KiB are written at
    /// once, more in pieces: if one fails, others may have been written.
    pub async fn write_at(&self, offset: u64, bytes: impl AsRef<[u8]>) -> Result<(), DataError> {
        let pieces = bytes.as_ref().chunks(VOLUME_PIECE_BYTES_MAX).enumerate();
        let requests = pieces.map(|(number, piece)| {
            let offset = offset.saturating_add((number * VOLUME_PIECE_BYTES_MAX) as u64);
            VolumeRequest::Write { path: self.path.as_bytes(), offset, bytes: piece }.encode(self.place)
        });
        ask_together(requests, |_| Ok(())).await
    }

    /// Puts bytes behind the last one: where the first of them lies. Up to 128 KiB stay together if other calls of the node append meanwhile.
    /// Calls of several nodes can overwrite each other's where files lie on a server.
    pub async fn append(&self, bytes: impl AsRef<[u8]>) -> Result<u64, DataError> {
        let mut first = None;
        // Without any it is still said where the file ends.
        let bytes = bytes.as_ref();
        let (piece, rest) = bytes.split_at(bytes.len().min(VOLUME_PIECE_BYTES_MAX));
        for piece in std::iter::once(piece).chain(rest.chunks(VOLUME_PIECE_BYTES_MAX)) {
            let request = VolumeRequest::Append { path: self.path.as_bytes(), bytes: piece };
            match VolumeReply::decode(&ask(request.encode(self.place)).await?, &request) {
                Some(VolumeReply::Offset(offset)) => first.get_or_insert(offset),
                _ => return Err(DataError::not_understood()),
            };
        }
        first.ok_or_else(DataError::not_understood)
    }

    /// Gives it another size; what it has more then is zero.
    pub async fn truncate(&self, size: u64) -> Result<(), DataError> {
        ask(VolumeRequest::Truncate { path: self.path.as_bytes(), size }.encode(self.place)).await.map(drop)
    }

    /// Waits until what was written to it is where a failure of power does not reach it.
    pub async fn sync(&self) -> Result<(), DataError> {
        ask(VolumeRequest::Sync { path: self.path.as_bytes() }.encode(self.place)).await.map(drop)
    }
}
