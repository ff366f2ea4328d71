//! Copies of bytes that nobody can change any more.

use std::io::Write as _;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{MemfdFlags, SealFlags};

use crate::{ExecutorError, system};

const SEALS: SealFlags = SealFlags::WRITE.union(SealFlags::SHRINK).union(SealFlags::GROW);

/// A memfd with these bytes, sealed against every change.
pub fn sealed_copy(bytes: &[u8]) -> Result<OwnedFd, ExecutorError> {
    let fd = rustix::fs::memfd_create("mfaas-image", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
        .map_err(system("memfd_create"))?;
    let mut file = std::fs::File::from(fd);
    file.write_all(bytes).map_err(|source| ExecutorError::System { step: "write the copy", source })?;
    rustix::fs::fcntl_add_seals(&file, SEALS | SealFlags::SEAL).map_err(system("seal the copy"))?;
    Ok(file.into())
}

/// What tells one sealed memory from all others, also from those that were there before: no two have
/// a number at once, and a number is given again after billions of others, so at another time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Identity {
    device: u64,
    number: u64,
    changed: (i64, u64),
    bytes: usize,
}

/// Memory that nobody can change any more.
#[derive(Debug)]
pub(crate) struct Sealed<Fd> {
    fd: Fd,
    identity: Identity,
}

impl<Fd: AsFd> Sealed<Fd> {
    /// An error if what is behind `fd` is not sealed, or larger than any image.
    pub(crate) fn new(fd: Fd) -> Result<Self, ExecutorError> {
        // Descriptors that cannot be sealed answer EINVAL, which says the same.
        let seals = rustix::fs::fcntl_get_seals(&fd).unwrap_or(SealFlags::empty());
        if !seals.contains(SEALS) {
            return Err(ExecutorError::NotSealed);
        }
        let stat = rustix::fs::fstat(&fd).map_err(system("fstat"))?;
        let limit = mfaas_rules::limits::BINARY.file_bytes_max;
        let bytes = u64::try_from(stat.st_size).ok().filter(|size| *size <= limit);
        let bytes = bytes.and_then(|size| usize::try_from(size).ok());
        let identity = Identity {
            device: stat.st_dev,
            number: stat.st_ino,
            changed: (stat.st_ctime, stat.st_ctime_nsec),
            bytes: bytes.ok_or(ExecutorError::Unmappable("the file is larger than its limit"))?,
        };
        Ok(Self { fd, identity })
    }

    /// Which memory it is. What is in it never changes.
    pub(crate) fn identity(&self) -> Identity {
        self.identity
    }

    /// All of its bytes, in place of what `into` held. A buffer that was used before has its memory
    /// already: this takes a third of what mapping takes.
    pub(crate) fn read(&self, into: &mut Vec<u8>) -> Result<(), ExecutorError> {
        into.resize(self.identity.bytes, 0);
        let mut done = 0;
        while done < into.len() {
            match rustix::io::pread(&self.fd, &mut into[done..], done as u64)
                .map_err(system("read the image"))?
            {
                0 => return Err(ExecutorError::Unmappable("the file ended early")),
                count => done += count,
            }
        }
        Ok(())
    }
}
