//! Rewrites a relocatable object so that the image which is linked from it passes
//! `mfaas_inspect::verify`: every address is truncated, every indirect branch and return masked,
//! every bundle whole.
//!
//! Outside of the trusted base: what this does wrong, the verifier refuses or the function's own
//! tests notice. It must be deterministic, and name the symbol where it gives up.
//!
//! - `translate` turns an instruction into one or several that do the same within the window;
//! - `place` puts them into bundles and decides how far branches reach;
//! - `object` finds what refers to code, and makes it refer to where the code is now.

mod object;
mod place;
mod translate;

pub use object::rewrite;

/// Bytes of a bundle, as the verifier wants it.
const BUNDLE_BYTES: usize = mfaas_inspect::verify::BUNDLE_BYTES as usize;

/// Why an object cannot be rewritten.
#[derive(Debug, thiserror::Error)]
pub enum RewriteError {
    /// It cannot be read or written.
    #[error("the object cannot be read or written: {0}")]
    Object(String),
    /// An instruction that has no counterpart within the window.
    #[error("`{section}` at {at:#x}: {why}")]
    Code {
        /// The section, which names the function.
        section: String,
        /// Where in the section.
        at: u64,
        /// What is wrong there.
        why: &'static str,
    },
}
