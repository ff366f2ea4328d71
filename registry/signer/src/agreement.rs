//! Whether as many builders as the site demands have made the same from one source.
//!
//! Pure: examined claims go in, each with the database role that gave it. A role is the database's own word, so one builder
//! that was taken over cannot speak for two.

use std::collections::BTreeSet;

use mfaas_attest::{BuildClaim, DecisionUsed, SandboxLevel};
use mfaas_ident::{CrateName, Digest};

/// A claim and who gave it.
#[derive(Debug, Clone)]
pub(crate) struct GivenClaim {
    /// The database role of the builder.
    pub(crate) role: String,
    /// What it says.
    pub(crate) claim: BuildClaim,
}

/// What several claims about one deployment come to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Agreement {
    /// Enough builders agree.
    Reached {
        /// Their roles.
        builders: BTreeSet<String>,
        /// The weakest sandbox among theirs.
        sandbox_level: SandboxLevel,
    },
    /// They agree so far, and more are needed.
    Short,
    /// They did not build the same: another compiler, other versions of crates or other rules. That proves nothing against anybody.
    OtherInputs,
    /// From the same they made different artifacts.
    Broken,
}

/// Weighs the newest claim against those that were kept; `wanted` builders have to agree.
pub(crate) fn weigh(newest: &GivenClaim, kept: &[GivenClaim], wanted: usize) -> Agreement {
    let all = || kept.iter().chain([newest]);
    if all().any(|given| inputs(&given.claim) != inputs(&newest.claim)) {
        return Agreement::OtherInputs;
    }
    if all().any(|given| given.claim.artifact != newest.claim.artifact) {
        return Agreement::Broken;
    }
    let builders: BTreeSet<String> = all().map(|given| given.role.clone()).collect();
    if builders.len() < wanted {
        return Agreement::Short;
    }
    let sandbox_level =
        all().map(|given| given.claim.sandbox_level).min().unwrap_or(newest.claim.sandbox_level);
    Agreement::Reached { builders, sandbox_level }
}

fn part(used: &DecisionUsed) -> (&CrateName, &str, &str) {
    (&used.name, &used.version, &used.checksum)
}

/// What a build is made from, beside the source that the server recorded.
fn inputs(claim: &BuildClaim) -> (&str, Digest, u32, BTreeSet<(&CrateName, &str, &str)>) {
    (&claim.policy_revision, claim.toolchain.0, claim.abi_version, claim.decisions.iter().map(part).collect())
}
