//! An offered crate that trusts its callers.

/// Evaluates the caller's expression inside `unsafe`.
#[macro_export]
macro_rules! trusting {
    ($value:expr) => {
        unsafe { $value }
    };
}

/// Needs a symbol that functions are not offered. The facade of std stops names, not symbols.
pub fn number_of_this_process() -> i32 {
    unsafe extern "C" {
        safe fn getpid() -> i32;
    }
    getpid()
}

/// Hands on all that it has of the library.
pub use std as library;
pub mod everything {
    pub use std::*;
}
