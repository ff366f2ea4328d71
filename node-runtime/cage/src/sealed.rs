//! Copies of bytes that nobody can change any more.

use std::io::Write as _;
use std::ops::Deref;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};

use crate::{CageError, system};

const SEALS: SealFlags = SealFlags::WRITE.union(SealFlags::SHRINK).union(SealFlags::GROW);

/// A memfd with these bytes, sealed against every change.
pub fn sealed_copy(bytes: &[u8]) -> Result<OwnedFd, CageError> {
    let fd = rustix::fs::memfd_create("mfaas-image", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
        .map_err(system("memfd_create"))?;
    let mut file = std::fs::File::from(fd);
    file.write_all(bytes).map_err(|source| CageError::System { step: "write the copy", source })?;
    rustix::fs::fcntl_add_seals(&file, SEALS | SealFlags::SEAL).map_err(system("seal the copy"))?;
    Ok(file.into())
}

/// All bytes behind a sealed descriptor, mapped: nobody can change them, nor take them away, so they
/// need not be copied to be looked at twice.
#[derive(Debug)]
pub(crate) struct SealedBytes {
    start: NonNull<u8>,
    bytes: usize,
    identity: Identity,
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

impl SealedBytes {
    /// Maps what is behind `fd`; an error if it is not sealed, or larger than any image.
    pub(crate) fn map(fd: impl AsFd) -> Result<Self, CageError> {
        // Descriptors that cannot be sealed answer EINVAL, which says the same.
        let seals = rustix::fs::fcntl_get_seals(&fd).unwrap_or(SealFlags::empty());
        if !seals.contains(SEALS) {
            return Err(CageError::NotSealed);
        }
        let identity = identity_of(&fd)?;
        let bytes = identity.bytes;
        if bytes == 0 {
            return Ok(Self { start: NonNull::dangling(), bytes, identity });
        }
        // Private, since kernels before 6.7 take a shared mapping for one that could become writable.
        let flags = MapFlags::PRIVATE | MapFlags::POPULATE;
        // SAFETY: INV-CAGE-14. A new mapping that replaces nothing.
        let start = unsafe { rustix::mm::mmap(std::ptr::null_mut(), bytes, ProtFlags::READ, flags, &fd, 0) };
        let start = start.map_err(system("map the image"))?;
        let start = NonNull::new(start.cast()).ok_or(CageError::Unmappable("mapped at address 0"))?;
        Ok(Self { start, bytes, identity })
    }

    /// Which memory it is. What is in it never changes.
    pub(crate) fn identity(&self) -> Identity {
        self.identity
    }
}

fn identity_of(fd: impl AsFd) -> Result<Identity, CageError> {
    let stat = rustix::fs::fstat(&fd).map_err(system("fstat"))?;
    let limit = mfaas_rules::limits::BINARY.file_bytes_max;
    let bytes = u64::try_from(stat.st_size).ok().filter(|size| *size <= limit);
    let bytes = bytes.and_then(|size| usize::try_from(size).ok());
    Ok(Identity {
        device: stat.st_dev,
        number: stat.st_ino,
        changed: (stat.st_ctime, stat.st_ctime_nsec),
        bytes: bytes.ok_or(CageError::Unmappable("the file is larger than its limit"))?,
    })
}

impl Deref for SealedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: INV-CAGE-14. Mapped as long as `self`, and as many bytes as the file has for good.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }
}

impl Drop for SealedBytes {
    fn drop(&mut self) {
        if self.bytes == 0 {
            return;
        }
        // SAFETY: INV-CAGE-14. Our own mapping, and every reference into it borrows `self`.
        let unmapped = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.bytes) };
        debug_assert!(unmapped.is_ok(), "our own mapping");
    }
}
