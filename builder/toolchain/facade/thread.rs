//! The one thread that a function runs on, as a value. It has no name, waits for nobody, and asks
//! the operating system for nothing: std's own would allocate it and count processors in files.

use std::num::NonZero;

/// The thread of the call.
#[derive(Clone, Debug)]
pub struct Thread(());

/// Its identity: all calls have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ThreadId(());

impl Thread {
    /// Always the same.
    pub fn id(&self) -> ThreadId {
        ThreadId(())
    }

    /// It has none.
    pub fn name(&self) -> Option<&str> {
        None
    }

    /// There is nobody to wake.
    pub fn unpark(&self) {}
}

/// The thread of the call.
pub fn current() -> Thread {
    Thread(())
}

/// Goes on at once: there is nobody to yield to.
pub fn yield_now() {}

/// One.
///
/// # Errors
/// None; the signature is std's.
pub fn available_parallelism() -> std::io::Result<NonZero<usize>> {
    Ok(NonZero::<usize>::MIN)
}
