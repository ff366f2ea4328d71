//! What may run: facts and an allowlist snapshot go in, a verdict comes out.
//!
//! Everything here is pure. Facts are gathered by `mfaas-audit` (source) and `mfaas-inspect`
//! (binaries); verdicts are made here and nowhere else, so that the builder, the signer, the
//! node and `mfaas check` cannot disagree about the same facts. No file, clock, socket or
//! environment variable is read, and no verdict depends on the order of its input.

pub mod codes;
pub mod crate_facts;
mod crate_request;
pub mod facts;
mod finding;
mod judge;
pub mod limits;
mod nearest;
mod precedence;
pub mod profiles;
pub mod review;

pub use codes::Code;
pub use crate_request::{CrateRequest, UndecidedCrate, exact};
pub use finding::{Finding, Layer, Span};
pub use judge::{
    AllowedCrate, AllowlistSnapshot, AuditHint, CrateJudgement, CrateStatus, DependencyVerdict, Effect,
    Granted, LicenceVerdict, LinkedCrate, Outside, People, Place, RULES_REVISION, Reason, RiskClass,
    Suggestion, advisory_affects, is_people, judge_binary, judge_closure, judge_crate, judge_dep_info,
    judge_dependencies, judge_expansion, judge_licence, judge_manifest, judge_soundness, judge_source,
    refusing_advisory,
};

pub use nearest::nearest;
pub use precedence::{Precedence, deciding};

/// Names this set of rows and limits in signed statements. It changes with every row, which
/// `tests/rows.rs` enforces.
pub const POLICY_REVISION: &str = "2026-11.13";

#[cfg(test)]
mod tests;
