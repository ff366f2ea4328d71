//! The verdicts, one file for each kind of fact.

mod binary;
mod crates;
mod dependencies;
mod expansion;
mod manifest;
mod soundness;
mod source;

pub use binary::judge_binary;
pub use crates::{
    AuditHint, CrateJudgement, Effect, LicenceVerdict, Outside, People, Place, RULES_REVISION, Reason,
    RiskClass, Suggestion, advisory_affects, judge_crate, judge_licence, refusing_advisory,
};
pub use dependencies::{
    AllowedCrate, AllowlistSnapshot, CrateStatus, DependencyVerdict, Granted, LinkedCrate, is_people,
    judge_closure, judge_dependencies,
};
pub use expansion::{judge_dep_info, judge_expansion};
pub use manifest::judge_manifest;
pub use soundness::judge_soundness;
pub use source::judge_source;
