//! Whether tenants share worker processes, and what holds a call that a node runs at all.
//!
//! Verified code stays in its window, whatever compiled it; protection keys hold what is not verified to
//! the same window; else the process and its filters are all that holds a call.

use std::fmt;
use std::str::FromStr;

use crate::image::MachineCode;

/// The site's choice, `MFAAS_SHARE_WORKERS`. Where tenants share workers, all of their code is verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Sharing {
    /// Each tenant has worker processes of its own.
    Never,
    /// Tenants share workers where protection keys hold each call too, else each has its own.
    #[default]
    WithProtectionKeys,
    /// Tenants share workers where verified code alone keeps them apart: one can read another's code and
    /// constants, and nothing else of it.
    WithVerifiedCode,
}

/// Not one of the three.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("`never`, `with-protection-keys` or `with-verified-code`")]
pub(crate) struct NoSharing;

impl Sharing {
    /// Whether tenants may share a worker whose calls run with or without protection keys.
    pub(crate) fn allows(self, keys_are_on: bool) -> bool {
        match self {
            Self::Never => false,
            Self::WithProtectionKeys => keys_are_on,
            Self::WithVerifiedCode => true,
        }
    }
}

impl FromStr for Sharing {
    type Err = NoSharing;

    fn from_str(text: &str) -> Result<Self, NoSharing> {
        match text {
            "never" => Ok(Self::Never),
            "with-protection-keys" => Ok(Self::WithProtectionKeys),
            // Until 0.2, when nothing but the compiler kept tenants apart in a shared worker.
            "with-verified-code" | "trusting-the-compiler" => Ok(Self::WithVerifiedCode),
            _ => Err(NoSharing),
        }
    }
}

impl fmt::Display for Sharing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Never => "never",
            Self::WithProtectionKeys => "with-protection-keys",
            Self::WithVerifiedCode => "with-verified-code",
        })
    }
}

/// What must hold a call at least, `MFAAS_ISOLATION_MINIMUM`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum IsolationMinimum {
    /// Only verified code runs.
    #[default]
    Verified,
    /// Other code runs where there are protection keys, in worker processes of its tenant's own.
    Keys,
    /// Other code runs in worker processes of its tenant's own.
    Process,
}

/// Not one of the three.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("`verified`, `keys` or `process`")]
pub(crate) struct NoMinimum;

impl IsolationMinimum {
    /// The least that an image must be to run where calls are held by protection keys or not.
    pub(crate) fn code(self, keys_are_on: bool) -> MachineCode {
        match self {
            Self::Process => MachineCode::Unverified,
            Self::Keys if keys_are_on => MachineCode::Unverified,
            Self::Keys | Self::Verified => MachineCode::Verified,
        }
    }
}

impl FromStr for IsolationMinimum {
    type Err = NoMinimum;

    fn from_str(text: &str) -> Result<Self, NoMinimum> {
        match text {
            "verified" => Ok(Self::Verified),
            "keys" => Ok(Self::Keys),
            "process" => Ok(Self::Process),
            _ => Err(NoMinimum),
        }
    }
}

impl fmt::Display for IsolationMinimum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Verified => "verified",
            Self::Keys => "keys",
            Self::Process => "process",
        })
    }
}

#[cfg(test)]
mod tests;
