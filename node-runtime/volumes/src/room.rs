//! How much more a volume may hold.

use std::sync::Arc;

use crate::error::VolumeError;
use crate::limits::ENTRY_BYTES;

/// How much more a volume may hold.
pub trait Room: Send + Sync {
    /// Takes so many bytes of it, if there are as many: before they are stored, and for good, whether or not they are.
    fn take(&self, bytes: u64) -> bool;
}

/// The room that a change may take.
pub type SharedRoom = Arc<dyn Room>;

/// A file of that size is to have so many bytes from `offset` on.
pub(crate) fn take_room(room: &SharedRoom, size: u64, offset: u64, bytes: usize) -> Result<(), VolumeError> {
    // As large as a file system has them.
    let end = offset.checked_add(bytes as u64).filter(|end| i64::try_from(*end).is_ok());
    let grown = end.ok_or(VolumeError::Full)?.saturating_sub(size);
    if grown == 0 || room.take(grown) { Ok(()) } else { Err(VolumeError::Full) }
}

/// A file or directory is to be made.
pub(crate) fn take_entry(room: &SharedRoom) -> Result<(), VolumeError> {
    if room.take(ENTRY_BYTES) { Ok(()) } else { Err(VolumeError::Full) }
}
