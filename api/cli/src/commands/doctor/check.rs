//! What one check of `mfaas doctor` comes to.

use serde::Serialize;

/// How a check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Verdict {
    /// As it should be.
    Good,
    /// Works, with less protection or speed.
    Weaker,
    /// Does not work.
    Bad,
}

/// One finding.
#[derive(Debug, Serialize)]
pub(super) struct Check {
    pub(super) name: &'static str,
    pub(super) verdict: Verdict,
    pub(super) found: String,
    /// What to do; empty when all is good.
    pub(super) fix: String,
}

impl Check {
    pub(super) fn good(name: &'static str, found: impl Into<String>) -> Self {
        Self { name, verdict: Verdict::Good, found: found.into(), fix: String::new() }
    }

    pub(super) fn weaker(name: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { name, verdict: Verdict::Weaker, found: found.into(), fix: fix.into() }
    }

    pub(super) fn bad(name: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { name, verdict: Verdict::Bad, found: found.into(), fix: fix.into() }
    }
}
