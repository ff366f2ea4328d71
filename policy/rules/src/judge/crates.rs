//! A crate version against the rules: admitted by itself, for one person, for two, or refused.
//!
//! The criterion is `hostile-caller`: no sequence of safe calls, callbacks, panics, trait
//! implementations or doc-hidden items reaches undefined behaviour or an ambient capability. Only
//! where nothing of what the rules look for was found, and nothing was left unread, does a crate need
//! no person. Every reason has its [`RiskClass`]; an answer that is missing is a reason of its own.
//! Nothing that somebody else says in favour of a crate changes the suggestion.

mod archive;
mod count;
mod imported;
mod licence;
mod people;
mod reason;
mod risk;
mod source;
mod versions;

use mfaas_ident::CrateName;
use serde::{Deserialize, Serialize};

use crate::crate_facts::{Advisory, AdvisoryKind, AdvisorySet, AuditSet, CrateReport, FACTS_REVISION, Need};

pub use imported::AuditHint;
pub use licence::{LicenceVerdict, judge_licence};
pub use people::People;
pub use reason::{Place, Reason};
pub use risk::{Effect, RiskClass};
pub use versions::advisory_affects;

use reason::Reasons;

/// Names this set of rules and rows; recorded with every decision that they made. It changes with
/// every row, which a snapshot enforces.
pub const RULES_REVISION: &str = "crates-2026-11.1";

/// What the world says, at the moment of judging.
#[derive(Debug, Clone, Copy)]
pub struct Outside<'a> {
    /// Advisories.
    pub advisories: &'a AdvisorySet,
    /// Other people's audits.
    pub audits: &'a AuditSet,
}

/// What the rules say about one crate version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CrateJudgement {
    /// What to do.
    pub suggestion: Suggestion,
    /// Why, the most severe first.
    pub reasons: Vec<Reason>,
    /// Who else has looked at it; never a reason to admit.
    pub hints: Vec<AuditHint>,
    /// [`RULES_REVISION`] of whoever judged.
    pub rules_revision: String,
}

/// What to do about a crate version; later ones are further from admission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Suggestion {
    /// It may be allowed without a person.
    AdmitAutomatically,
    /// People decide.
    Review {
        /// How many.
        people: People,
    },
    /// It must not be allowed.
    Refuse,
}

/// Judges one crate version. `closure` is all that it needs, directly and through others; each member
/// is judged by its own facts, too, and one that needs a person means that this crate needs one.
pub fn judge_crate(report: &CrateReport, closure: &[&CrateReport], outside: Outside<'_>) -> CrateJudgement {
    let mut reasons = own_reasons(report, outside);
    needs(report, closure, &mut reasons);
    for member in closure {
        needs(member, closure, &mut reasons);
        self::member(member, outside, &mut reasons);
    }
    let unproven = count::people(report) == People::Two || reasons.any(RiskClass::is_about_unsafe);
    let people = if unproven { People::Two } else { People::One };
    let reasons = reasons.finish();
    let suggestion = match reasons.iter().map(|reason| reason.risk.effect()).max() {
        None | Some(Effect::Note) => Suggestion::AdmitAutomatically,
        Some(Effect::Review) => Suggestion::Review { people },
        Some(Effect::Refuse) => Suggestion::Refuse,
    };
    CrateJudgement {
        suggestion,
        reasons,
        hints: imported::hints(report, outside.audits),
        rules_revision: RULES_REVISION.to_owned(),
    }
}

/// All that stands against a crate itself.
fn own_reasons(report: &CrateReport, outside: Outside<'_>) -> Reasons {
    let mut reasons = Reasons::default();
    if report.revision != FACTS_REVISION {
        let text = format!("its facts are of revision {}, not {FACTS_REVISION}", report.revision);
        reasons.add(RiskClass::FactsOutdated, text);
    }
    advisories(report, outside.advisories, &mut reasons);
    imported::judge(report, outside.audits, &mut reasons);
    count::judge(report, &mut reasons);
    source::judge(report, &mut reasons);
    archive::judge(report, &mut reasons);
    licence::judge(report, &mut reasons);
    reasons
}

fn advisories(report: &CrateReport, known: &AdvisorySet, reasons: &mut Reasons) {
    let affects = |advisory: &&Advisory| advisory_affects(advisory, &report.name, &report.version);
    for advisory in known.advisories.iter().filter(affects) {
        reasons.add(risk_of(advisory.kind), sentence(advisory));
    }
    if known.advisories.is_empty() && known.unread.is_empty() {
        reasons.add(RiskClass::AdvisoriesUnread, "there is not one advisory to compare with");
    }
    for unread in &known.unread {
        if unread.package.as_ref().is_none_or(|name| versions::same_name(name, &report.name)) {
            reasons.add(RiskClass::AdvisoriesUnread, &unread.reason);
        }
    }
}

/// The first advisory for which this version must not be used, whatever was decided about it.
pub fn refusing_advisory<'a>(
    known: &'a AdvisorySet,
    name: &CrateName,
    version: &semver::Version,
) -> Option<&'a Advisory> {
    let refuses = |advisory: &&Advisory| risk_of(advisory.kind).effect() == Effect::Refuse;
    known.advisories.iter().filter(refuses).find(|advisory| advisory_affects(advisory, name, version))
}

fn risk_of(kind: AdvisoryKind) -> RiskClass {
    match kind {
        AdvisoryKind::Malicious => RiskClass::AdvisoryMalicious,
        AdvisoryKind::Unsound => RiskClass::AdvisoryUnsound,
        AdvisoryKind::Vulnerability => RiskClass::AdvisoryVulnerability,
        AdvisoryKind::Unmaintained => RiskClass::AdvisoryUnmaintained,
        AdvisoryKind::Notice => RiskClass::AdvisoryNotice,
    }
}

fn sentence(advisory: &Advisory) -> String {
    format!("{}: {}", advisory.id, advisory.title)
}

/// What a crate needs must be among what is judged with it, byte for byte.
fn needs(report: &CrateReport, closure: &[&CrateReport], reasons: &mut Reasons) {
    let is = |need: &Need, member: &CrateReport| {
        need.name == member.name && need.version == member.version && need.checksum == member.checksum
    };
    for need in report.needs.iter().filter(|need| !closure.iter().any(|member| is(need, member))) {
        let text = format!(
            "{} {} needs {} {}, of which there are no facts",
            report.name, report.version, need.name, need.version
        );
        reasons.add(RiskClass::ClosureIncomplete, text);
    }
}

fn member(member: &CrateReport, outside: Outside<'_>, reasons: &mut Reasons) {
    let mut words: Vec<&str> = own_reasons(member, outside)
        .finish()
        .iter()
        .filter(|reason| reason.risk.effect() > Effect::Note)
        .map(|reason| reason.risk.word())
        .collect();
    words.dedup();
    if !words.is_empty() {
        let text = format!("it needs {} {}: {}", member.name, member.version, words.join(", "));
        reasons.add(RiskClass::Closure, text);
    }
}

#[cfg(test)]
mod tests;
