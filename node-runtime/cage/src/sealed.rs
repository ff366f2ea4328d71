//! Copies of bytes that nobody can change any more.

use std::io::Write as _;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{MemfdFlags, SealFlags};

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

/// All bytes behind a sealed descriptor; an error if it is not sealed.
pub(crate) fn read_sealed(fd: impl AsFd) -> Result<Vec<u8>, CageError> {
    // Descriptors that cannot be sealed answer EINVAL, which says the same.
    let seals = rustix::fs::fcntl_get_seals(&fd).unwrap_or(SealFlags::empty());
    if !seals.contains(SEALS) {
        return Err(CageError::NotSealed);
    }
    let size = rustix::fs::fstat(&fd).map_err(system("fstat"))?.st_size;
    let limit = mfaas_rules::limits::BINARY.file_bytes_max;
    let size = u64::try_from(size)
        .ok()
        .filter(|size| *size <= limit)
        .and_then(|size| usize::try_from(size).ok())
        .ok_or(CageError::Unmappable("the file is larger than its limit"))?;
    let mut bytes = vec![0; size];
    let mut done = 0;
    while done < size {
        match rustix::io::pread(&fd, &mut bytes[done..], done as u64).map_err(system("read the image"))? {
            0 => return Err(CageError::Unmappable("the file ended early")),
            count => done += count,
        }
    }
    Ok(bytes)
}
