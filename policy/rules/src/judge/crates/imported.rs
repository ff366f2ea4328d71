//! Other people's audits: a violation refuses, all else is a hint.

use serde::{Deserialize, Serialize};

use super::RiskClass;
use super::reason::Reasons;
use super::versions::{same_name, violates};
use crate::crate_facts::{AuditKind, AuditSet, CrateReport, ImportedAudit};
use crate::limits::CRATE_RULES;
use crate::profiles::crate_rules::AUDIT_SOURCES;
use crate::profiles::crate_rules::Trust;

/// Somebody else has looked at this crate. Shown to the reviewer; no criterion of theirs is ours.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditHint {
    /// What they wrote.
    pub audit: ImportedAudit,
    /// It is about this very version, wholly or as the end of a delta.
    pub this_version: bool,
    /// Our trust in them.
    pub trust: Trust,
    /// What they asked, or that we do not know them.
    pub why: String,
}

/// Violations refuse, and a file that could not be read may hold one.
pub(super) fn judge(report: &CrateReport, set: &AuditSet, reasons: &mut Reasons) {
    for audit in set.audits.iter().filter(|audit| same_name(&audit.package, &report.name)) {
        if let AuditKind::Violation { versions } = &audit.kind
            && violates(versions, &report.version)
        {
            let notes = audit.notes.as_deref().unwrap_or("no notes");
            let text = format!("{}: {} does not hold: {notes}", audit.source, audit.criteria.join(", "));
            reasons.add(RiskClass::AuditViolation, text);
        }
    }
    set.unread.iter().for_each(|what| reasons.add(RiskClass::AuditsUnread, what));
}

/// What was said about any version of the crate, this version's first.
pub(super) fn hints(report: &CrateReport, set: &AuditSet) -> Vec<AuditHint> {
    let about = set.audits.iter().filter(|audit| same_name(&audit.package, &report.name));
    let mut hints: Vec<AuditHint> = about.map(|audit| hint(audit, report)).collect();
    hints.sort_by_cached_key(|hint| {
        (!hint.this_version, std::cmp::Reverse(hint.trust), format!("{:?}", hint.audit))
    });
    hints.truncate(CRATE_RULES.hints_max);
    hints
}

fn hint(audit: &ImportedAudit, report: &CrateReport) -> AuditHint {
    let this_version = match &audit.kind {
        AuditKind::Full { version } => *version == report.version,
        AuditKind::Delta { to, .. } => *to == report.version,
        AuditKind::Violation { versions } => violates(versions, &report.version),
    };
    let row = AUDIT_SOURCES.iter().find(|row| row.source == audit.source);
    AuditHint {
        audit: audit.clone(),
        this_version,
        trust: row.map_or(Trust::Unknown, |row| row.trust),
        why: row.map_or("nobody here has looked at how they work", |row| row.why).to_owned(),
    }
}
