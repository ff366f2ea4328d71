//! Licences: an SPDX expression against the rows of permitted ones.
//!
//! What cannot be parsed is unknown and never permitted. `/` between identifiers, as crates wrote it
//! before 2018, means `OR`; nothing else is repaired.

use spdx::{Expression, LicenseReq, ParseMode};

use super::RiskClass;
use super::reason::Reasons;
use crate::crate_facts::{CrateReport, LicenceFacts};
use crate::limits::CRATE_RULES;
use crate::profiles::crate_rules::{EXCEPTIONS, LICENCES};

/// Whether a crate's licence lets it in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LicenceVerdict {
    /// The rows permit it.
    Permitted,
    /// It needs a licence that no row permits.
    NotPermitted {
        /// Which, one sentence, sanitised.
        why: String,
    },
    /// It does not say, or not in a way that can be read.
    Unknown {
        /// One sentence, sanitised.
        why: String,
    },
}

/// Judges what a crate writes about its licence.
pub fn judge_licence(facts: &LicenceFacts) -> LicenceVerdict {
    let unknown = |why: String| LicenceVerdict::Unknown { why: mfaas_ident::sanitise_line(&why, 300) };
    let Some(written) = &facts.expression else {
        let file = facts.file.as_deref().map_or(String::new(), |file| format!(", only the file {file:?}"));
        return unknown(format!("it names no licence{file}"));
    };
    // The parser's stack grows with the parentheses.
    if written.len() > CRATE_RULES.licence_bytes_max {
        return unknown(format!("its licence has more than {} bytes", CRATE_RULES.licence_bytes_max));
    }
    let mode = ParseMode { allow_slash_as_or_operator: true, ..ParseMode::STRICT };
    let Ok(expression) = Expression::parse_mode(written, mode) else {
        return unknown(format!("its licence is no SPDX expression: {written:?}"));
    };
    if expression.evaluate(permitted) {
        return LicenceVerdict::Permitted;
    }
    let missing: Vec<String> = expression
        .requirements()
        .filter(|requirement| !permitted(&requirement.req))
        .map(|requirement| requirement.req.to_string())
        .collect();
    let why = format!("{written}: {} is not permitted", missing.join(", "));
    LicenceVerdict::NotPermitted { why: mfaas_ident::sanitise_line(&why, 300) }
}

fn permitted(required: &LicenseReq) -> bool {
    let licence = required.license.id().is_some_and(|id| LICENCES.iter().any(|row| row.id == id.name));
    let addition = match &required.addition {
        None => true,
        Some(addition) => addition.id().is_some_and(|id| EXCEPTIONS.iter().any(|row| row.id == id.name)),
    };
    licence && addition
}

pub(super) fn judge(report: &CrateReport, reasons: &mut Reasons) {
    match judge_licence(&report.licence) {
        LicenceVerdict::Permitted => {}
        LicenceVerdict::NotPermitted { why } => reasons.add(RiskClass::LicenceNotPermitted, why),
        LicenceVerdict::Unknown { why } => reasons.add(RiskClass::LicenceUnknown, why),
    }
}
