//! Descriptors that a program was started with, as owned values.
//!
//! It must never give one descriptor to two owners.

use std::collections::BTreeSet;
use std::os::fd::{BorrowedFd, FromRawFd as _, OwnedFd};
use std::sync::{Mutex, PoisonError};

use rustix::io::FdFlags;

use crate::RingError;

/// The first descriptor that is nobody's: 0, 1 and 2 are the standard streams.
const FIRST: i32 = 3;

/// Takes the open descriptor `number`, which the parent passed on. A program calls this before it
/// opens anything itself; each number is given out once.
pub fn take_inherited(number: i32) -> Result<OwnedFd, RingError> {
    static TAKEN: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());
    if number < FIRST {
        return Err(RingError::Violation("a standard stream is not to be taken"));
    }
    // SAFETY: INV-RING-4. Borrowed for this call alone; a number that is not open is an error there.
    let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
    rustix::io::fcntl_setfd(borrowed, FdFlags::CLOEXEC)
        .map_err(|errno| RingError::System { step: "take a descriptor", source: errno.into() })?;
    if !TAKEN.lock().unwrap_or_else(PoisonError::into_inner).insert(number) {
        return Err(RingError::Violation("a descriptor is named twice"));
    }
    // SAFETY: INV-RING-4. Open, not a standard stream, and given out for the first time.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}
