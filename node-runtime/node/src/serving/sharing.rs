//! Whether tenants share worker processes, and what a site trusts if they do.
//!
//! What safe Rust compiles to can touch any memory of its process where the compiler has a hole. With
//! protection keys such an access ends the call; without them nothing but the process stands between
//! tenants, so each has its own unless the site says that it trusts the compiler.

use std::fmt;
use std::str::FromStr;

/// The site's choice, `MFAAS_SHARE_WORKERS`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Sharing {
    /// Each tenant has worker processes of its own.
    Never,
    /// Tenants share workers where protection keys hold each call, else each has its own.
    #[default]
    WithProtectionKeys,
    /// Tenants share workers whatever holds their calls.
    TrustingTheCompiler,
}

/// Not one of the three.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("`never`, `with-protection-keys` or `trusting-the-compiler`")]
pub(crate) struct NoSharing;

impl Sharing {
    /// Whether tenants may share a worker whose calls run with or without protection keys.
    pub(crate) fn allows(self, keys_are_on: bool) -> bool {
        match self {
            Self::Never => false,
            Self::WithProtectionKeys => keys_are_on,
            Self::TrustingTheCompiler => true,
        }
    }
}

impl FromStr for Sharing {
    type Err = NoSharing;

    fn from_str(text: &str) -> Result<Self, NoSharing> {
        [Self::Never, Self::WithProtectionKeys, Self::TrustingTheCompiler]
            .into_iter()
            .find(|sharing| sharing.to_string() == text)
            .ok_or(NoSharing)
    }
}

impl fmt::Display for Sharing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Never => "never",
            Self::WithProtectionKeys => "with-protection-keys",
            Self::TrustingTheCompiler => "trusting-the-compiler",
        })
    }
}

#[cfg(test)]
mod tests;
