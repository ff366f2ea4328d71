//! Files of volumes: below a directory of this machine, a kernel's mount perhaps, or on an NFS server.
//!
//! A path of a function is hostile, and so may be what others have put into a volume: no link is followed, and nothing above a
//! volume or beside it is reached. Of a directory the kernel sees to that, twice (`directory`); on an NFS server, which looks up
//! one name at a time, this crate does (`nfs`). What is mounted or has another name (a hard link) below a volume is part of it.
//!
//! A change that is said to have failed may have been made, wholly or in part, and where a disk or a server hangs it may be made later.

mod directory;
mod entries;
mod error;
mod limits;
mod nfs;
mod path;
mod permits;
mod room;
mod threads;

pub use entries::{Entries, Entry};
pub use error::VolumeError;
pub use limits::{ANSWER_MAX, ENTRY_BYTES, OPERATIONS_MAX, VOLUME_OPERATIONS_MAX};
pub use path::VolumePath;
pub use permits::VolumePermits;
pub use room::{Room, SharedRoom};

use crate::directory::Directory;
use crate::limits::COUNTED_MAX;
use crate::nfs::{Nfs, NfsAddress};
use mfaas_ident::ResourceName;
use url::Url;

/// All volumes of a site, each in a directory of its name.
#[derive(Debug)]
pub struct Volumes(Backend);

#[derive(Debug)]
enum Backend {
    Directory(Directory),
    Nfs(Box<Nfs>),
}

/// The same operation of whichever backend, in time.
macro_rules! within {
    ($self:ident, $time:expr, $backend:ident => $asked:expr) => {{
        let asked = async {
            match &$self.0 {
                Backend::Directory($backend) => $asked.await,
                Backend::Nfs($backend) => $asked.await,
            }
        };
        tokio::time::timeout($time, asked).await.unwrap_or_else(|_| Err(VolumeError::silent($time)))
    }};
}

impl Volumes {
    /// Those below `file:///DIRECTORY` or `nfs://HOST/EXPORT`; either is looked for later.
    pub fn open(url: &str) -> Result<Self, VolumeError> {
        let address = || VolumeError::Address(url.to_owned());
        let parsed = Url::parse(url).map_err(|_| address())?;
        match parsed.scheme() {
            "file" => {
                let path = parsed.to_file_path().map_err(|()| address())?;
                Ok(Self(Backend::Directory(Directory::at(&path))))
            }
            "nfs" => {
                let address = NfsAddress::of(&parsed).ok_or_else(address)?;
                Ok(Self(Backend::Nfs(Box::new(Nfs::new(address)))))
            }
            _ => Err(address()),
        }
    }

    /// Looks at what is there now, and whether volumes of a site lie there: an empty place, as where nothing is mounted, is not taken
    /// for one. Nothing else can be done before.
    pub async fn is_marked(&self) -> Result<bool, VolumeError> {
        within!(self, ANSWER_MAX, backend => backend.is_marked())
    }

    /// From here on volumes lie here.
    pub async fn mark(&self) -> Result<(), VolumeError> {
        within!(self, ANSWER_MAX, backend => backend.mark())
    }

    /// How many bytes a file has; nothing if there is none.
    pub async fn size(&self, path: &VolumePath) -> Result<Option<u64>, VolumeError> {
        within!(self, ANSWER_MAX, backend => backend.size(path))
    }

    /// Makes an empty file, and the directories above it, where there are none.
    pub async fn create(&self, path: &VolumePath, room: &SharedRoom) -> Result<(), VolumeError> {
        within!(self, ANSWER_MAX, backend => backend.create(path, room))
    }

    /// Those of so many bytes from `offset` on that a file has.
    pub async fn read_at(
        &self,
        path: &VolumePath,
        offset: u64,
        bytes: usize,
    ) -> Result<Vec<u8>, VolumeError> {
        within!(self, ANSWER_MAX, backend => backend.read_at(path, offset, bytes))
    }

    /// Puts bytes over those of a file.
    pub async fn write_at(
        &self,
        path: &VolumePath,
        offset: u64,
        bytes: &[u8],
        room: &SharedRoom,
    ) -> Result<(), VolumeError> {
        within!(self, ANSWER_MAX, backend => backend.write_at(path, offset, bytes, room))
    }

    /// The same behind its last byte: where that was.
    pub async fn append(
        &self,
        path: &VolumePath,
        bytes: &[u8],
        room: &SharedRoom,
    ) -> Result<u64, VolumeError> {
        within!(self, ANSWER_MAX, backend => backend.append(path, bytes, room))
    }

    /// Gives a file another size.
    pub async fn truncate(&self, path: &VolumePath, size: u64, room: &SharedRoom) -> Result<(), VolumeError> {
        within!(self, ANSWER_MAX, backend => backend.truncate(path, size, room))
    }

    /// Waits until what was written to a file survives a failure of power.
    pub async fn sync(&self, path: &VolumePath) -> Result<(), VolumeError> {
        within!(self, ANSWER_MAX, backend => backend.sync(path))
    }

    /// Removes a file or an empty directory, if there is one.
    pub async fn remove(&self, path: &VolumePath) -> Result<(), VolumeError> {
        within!(self, ANSWER_MAX, backend => backend.remove(path))
    }

    /// The first entries of a directory that come after a name.
    pub async fn list(
        &self,
        directory: &VolumePath,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Entries, VolumeError> {
        within!(self, ANSWER_MAX, backend => backend.list(directory, after, limit))
    }

    /// What a volume holds: the bytes of its files, and [`ENTRY_BYTES`] for each of these and of its directories. It takes its time.
    pub async fn held(&self, volume: &ResourceName) -> Result<u64, VolumeError> {
        within!(self, COUNTED_MAX, backend => backend.held(volume))
    }
}

#[cfg(test)]
mod tests;
