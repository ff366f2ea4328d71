//! What a failure is about: a crate, which fails again, or the machine, which is tried again.

use super::error::AcquireError;
use crate::error::BuilderError;

/// Bytes of a build's failure that whoever waits, or decides, is told.
pub(crate) const REASON_BYTES_MAX: usize = 1_000;

/// What cargo printed from the compiler's first error on; what compiled before is of no use to anybody.
pub(crate) fn first_error(text: &str) -> String {
    let at = text.lines().position(|line| line.starts_with("error"));
    let lines: Vec<&str> = text.lines().skip(at.unwrap_or(0)).collect();
    mfaas_ident::sanitise(&lines.join("\n"), REASON_BYTES_MAX)
}

/// Whether another attempt would end in the same way, on any machine that works.
pub(crate) fn is_about_crates(error: &BuilderError) -> bool {
    let is_found_in_them = match error {
        BuilderError::Acquire(AcquireError::Network { .. }) => false,
        BuilderError::Acquire(_)
        | BuilderError::Command { .. }
        | BuilderError::Product { .. }
        | BuilderError::Unit { .. } => true,
        _ => false,
    };
    is_found_in_them && !error.is_of_the_machine()
}

#[cfg(test)]
mod tests;
