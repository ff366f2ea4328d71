//! An offered crate that trusts its callers.

/// Evaluates the caller's expression inside `unsafe`.
#[macro_export]
macro_rules! trusting {
    ($value:expr) => {
        unsafe { $value }
    };
}

/// Needs a symbol that functions are not offered.
pub fn number_of_this_process() -> u32 {
    std::process::id()
}
