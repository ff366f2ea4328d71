//! The types of a backtrace, without the walk over the stack: error types that carry one compile,
//! and it is always disabled. Addresses are never shown.

use std::fmt;

/// A backtrace that was not captured.
pub struct Backtrace(());

/// Why there is nothing in a backtrace.
#[derive(Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BacktraceStatus {
    /// The platform has none.
    Unsupported,
    /// Nobody asked for one; always the case here.
    Disabled,
    /// There is one; never the case here.
    Captured,
}

impl Backtrace {
    /// An empty one.
    pub fn capture() -> Self {
        Self::disabled()
    }

    /// An empty one all the same.
    pub fn force_capture() -> Self {
        Self::disabled()
    }

    /// An empty one.
    pub const fn disabled() -> Self {
        Self(())
    }

    /// Always `Disabled`.
    pub fn status(&self) -> BacktraceStatus {
        BacktraceStatus::Disabled
    }
}

impl fmt::Debug for Backtrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<disabled>")
    }
}

impl fmt::Display for Backtrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("disabled backtrace")
    }
}
