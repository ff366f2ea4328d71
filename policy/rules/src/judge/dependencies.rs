//! Dependencies against the allowlist.

use mfaas_ident::CrateName;
use serde::{Deserialize, Serialize};

use crate::{Finding, Layer, codes, facts::DependencyRequest, profiles::manifest_keys::RESERVED_CRATE_NAMES};

/// What reviewers have decided, at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct AllowlistSnapshot {
    /// Grows with every decision.
    pub policy_version: i64,
    /// Every decided crate version.
    pub crates: Vec<AllowedCrate>,
}

/// One crate version with its decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllowedCrate {
    /// The package name.
    pub name: CrateName,
    /// The version.
    pub version: semver::Version,
    /// sha256 of the `.crate` file, as the index has it.
    pub checksum: String,
    /// Features that it is built with.
    pub features: Vec<String>,
    /// Whether tenants may name it, or only other crates.
    pub direct: bool,
    /// The decision.
    pub status: CrateStatus,
    /// Who decided; `seed` for what ships with mfaas.
    pub decided_by: String,
    /// Why.
    pub reason: String,
}

impl AllowedCrate {
    /// Whether people have decided; see [`is_people`].
    pub fn is_decided_by_people(&self) -> bool {
        is_people(&self.decided_by)
    }
}

/// Whether the principal of a decision is people, and not mfaas itself: by what it ships, or by its rules. No list of
/// people begins with a word and a space.
pub fn is_people(decided_by: &str) -> bool {
    decided_by != "seed" && !decided_by.starts_with("rules ")
}

/// A reviewer's decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CrateStatus {
    /// May be used.
    Allowed,
    /// Was looked at and refused.
    Denied,
    /// Was allowed and is no longer.
    Revoked,
}

/// A dependency with the decision that lets it in; part of the signed statement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Granted {
    /// The package name.
    pub name: CrateName,
    /// The name in the tenant's source when it differs.
    pub rename: Option<String>,
    /// The one offered version.
    pub version: semver::Version,
    /// sha256 of the `.crate` file.
    pub checksum: String,
    /// Who decided.
    pub decided_by: String,
}

/// What becomes of a deployment's dependencies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DependencyVerdict {
    /// All of them may be used.
    Admit(Vec<Granted>),
    /// At least one needs a reviewer; none is refused.
    NeedsReview(Vec<Finding>),
    /// At least one was denied or revoked.
    Reject(Vec<Finding>),
}

/// One crate that is linked, named by the tenant or pulled in by another crate.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LinkedCrate {
    /// The package name.
    pub name: CrateName,
    /// The version.
    pub version: semver::Version,
    /// sha256 of the `.crate` file.
    pub checksum: String,
}

/// Judges everything that is linked: each crate of the closure must be allowed today with exactly
/// this checksum, so that a revoked crate cannot stay in behind another one's back.
pub fn judge_closure(closure: &[LinkedCrate], snapshot: &AllowlistSnapshot) -> Vec<Finding> {
    closure.iter().filter_map(|linked| judge_linked(linked, snapshot)).collect()
}

fn judge_linked(linked: &LinkedCrate, snapshot: &AllowlistSnapshot) -> Option<Finding> {
    let shown = format!("crate `{}` {}", linked.name, linked.version);
    let row = snapshot.crates.iter().find(|row| row.name == linked.name && row.version == linked.version);
    let (code, message) = match row {
        None => (codes::MF0204, format!("{shown} would be linked and is not on the allowlist")),
        Some(row) if row.checksum != linked.checksum => {
            (codes::MF0209, format!("{shown} would be linked with other bytes than those reviewed"))
        }
        Some(row) => match row.status {
            CrateStatus::Allowed => return None,
            CrateStatus::Denied => {
                (codes::MF0209, format!("{shown} would be linked and was denied: {}", row.reason))
            }
            CrateStatus::Revoked => {
                (codes::MF0209, format!("{shown} would be linked and was revoked: {}", row.reason))
            }
        },
    };
    Some(Finding::new(code, Layer::Manifest, message))
}

enum One {
    Granted(Granted),
    Waits(Finding),
    Refused(Finding),
}

/// Judges every request; a refusal outweighs a wait, a wait outweighs an admission.
pub fn judge_dependencies(requests: &[DependencyRequest], snapshot: &AllowlistSnapshot) -> DependencyVerdict {
    let (mut granted, mut waits, mut refused) = (Vec::new(), Vec::new(), Vec::new());
    for request in requests {
        match judge_one(request, snapshot) {
            One::Granted(grant) => granted.push(grant),
            One::Waits(finding) => waits.push(finding),
            One::Refused(finding) => refused.push(finding),
        }
    }
    if !refused.is_empty() {
        refused.append(&mut waits);
        DependencyVerdict::Reject(refused)
    } else if !waits.is_empty() {
        DependencyVerdict::NeedsReview(waits)
    } else {
        DependencyVerdict::Admit(granted)
    }
}

fn judge_one(request: &DependencyRequest, snapshot: &AllowlistSnapshot) -> One {
    let finding =
        |code, message: String| Finding::new(code, Layer::Manifest, message).at_opt(request.span.clone());
    if let Some(rename) = &request.rename
        && RESERVED_CRATE_NAMES.contains(&rename.replace('-', "_").as_str())
    {
        return One::Refused(finding(
            codes::MF0207,
            format!("`{}` cannot be renamed to `{rename}`, which means something else", request.name),
        ));
    }
    let named: Vec<&AllowedCrate> = snapshot.crates.iter().filter(|row| row.name == request.name).collect();
    let fitting: Vec<&AllowedCrate> =
        named.iter().copied().filter(|row| request.requirement.matches(&row.version)).collect();
    let best = fitting
        .iter()
        .copied()
        .filter(|row| row.status == CrateStatus::Allowed && row.direct)
        .max_by(|a, b| a.version.cmp(&b.version));
    if let Some(row) = best {
        return judge_features(request, row, finding);
    }
    if let Some(row) = fitting.iter().find(|row| row.status != CrateStatus::Allowed) {
        let word = if row.status == CrateStatus::Denied { "denied" } else { "revoked" };
        return One::Refused(finding(
            codes::MF0209,
            format!("crate `{}` {} was {word} by {}: {}", row.name, row.version, row.decided_by, row.reason),
        ));
    }
    let offered: Vec<String> = named
        .iter()
        .filter(|row| row.status == CrateStatus::Allowed && row.direct)
        .map(|row| row.version.to_string())
        .collect();
    if offered.is_empty() {
        One::Waits(finding(codes::MF0204, format!("crate `{}` is not on the allowlist", request.name)))
    } else {
        One::Waits(finding(
            codes::MF0205,
            format!(
                "crate `{}` is offered as {}, not as `{}`",
                request.name,
                offered.join(", "),
                request.requirement
            ),
        ))
    }
}

fn judge_features(
    request: &DependencyRequest,
    row: &AllowedCrate,
    finding: impl Fn(crate::Code, String) -> Finding,
) -> One {
    let missing: Vec<&str> = request
        .features
        .iter()
        .map(String::as_str)
        .chain(request.default_features.then_some("default"))
        .filter(|feature| *feature != "default" && !row.features.iter().any(|offered| offered == feature))
        .collect();
    if !missing.is_empty() {
        return One::Waits(finding(
            codes::MF0206,
            format!("crate `{}` is offered without the feature {}", row.name, missing.join(", ")),
        ));
    }
    One::Granted(Granted {
        name: row.name.clone(),
        rename: request.rename.clone(),
        version: row.version.clone(),
        checksum: row.checksum.clone(),
        decided_by: row.decided_by.clone(),
    })
}
