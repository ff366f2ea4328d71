//! Dependencies against the allowlist, and from a decision to a compiled crate.
//!
//! Nothing is resolved here: the site has one resolution, and a request either fits it or waits.

use std::collections::BTreeSet;

use mfaas_attest::DecisionUsed;
use mfaas_delivery::Diagnostic;
use mfaas_rules::facts::DependencyRequest;
use mfaas_rules::{
    AllowlistSnapshot, CrateRequest, DependencyVerdict, Finding, Granted, Layer, LinkedCrate, UndecidedCrate,
    codes, judge_closure, judge_dependencies,
};

use super::audit::AuditedSource;
use crate::deps::{CachedCrate, ClosureCrate, CrateKind, Deps, Product};
use crate::journal::{Review, Stop};

/// A source whose every dependency is allowed and compiled. Made by [`resolve`] alone.
#[derive(Debug)]
pub(crate) struct ResolvedSource {
    pub(super) source: AuditedSource,
    pub(super) externs: Vec<Extern>,
    pub(super) decisions: Vec<DecisionUsed>,
    pub(super) policy_version: i64,
    /// A procedural macro can be called: the source's tokens alone do not say what is compiled.
    pub(super) has_procedural_macros: bool,
}

/// A crate that the source may name.
#[derive(Debug, Clone)]
pub(super) struct Extern {
    /// Its name in source.
    pub(super) name: String,
    /// Its file in the library directory.
    pub(super) file: String,
}

/// Judges every dependency and everything that comes along with it.
pub(crate) fn resolve(
    source: AuditedSource,
    allowlist: &AllowlistSnapshot,
    deps: &Deps,
) -> Result<ResolvedSource, Stop> {
    let granted = match judge_dependencies(&source.dependencies, allowlist) {
        DependencyVerdict::Admit(granted) => granted,
        DependencyVerdict::NeedsReview(findings) => {
            let wanted =
                source.dependencies.iter().filter_map(|request| wanted(request, allowlist)).collect();
            return Err(Stop::Waiting(Review { findings, wanted, unbuilt: Vec::new() }));
        }
        DependencyVerdict::Reject(findings) => {
            return Err(Stop::Refused(findings.iter().map(Diagnostic::from).collect()));
        }
    };
    let mut externs = Vec::new();
    let mut linked = BTreeSet::new();
    for grant in &granted {
        let (entry, product) = cached(grant, deps)?;
        let rename = grant.rename.as_ref().map(|name| name.replace('-', "_"));
        externs.push(Extern {
            name: rename.unwrap_or_else(|| product.extern_name.clone()),
            file: product.file.clone(),
        });
        linked.insert(entry.as_part());
        linked.extend(entry.closure.iter().cloned());
    }
    judge_linked(&linked, allowlist)?;
    let decisions = decisions(&linked, allowlist);
    let has_procedural_macros = linked.iter().any(|part| {
        let product = deps.find(&part.name, &part.version).and_then(|entry| entry.product.as_ref());
        product.is_some_and(|product| product.kind == CrateKind::ProcMacro)
    });
    let policy_version = allowlist.policy_version;
    Ok(ResolvedSource { source, externs, decisions, policy_version, has_procedural_macros })
}

/// The crates that are allowed and that this machine has not compiled: whoever has can go on from here.
pub(crate) fn unbuilt(source: &AuditedSource, allowlist: &AllowlistSnapshot, deps: &Deps) -> Vec<String> {
    let DependencyVerdict::Admit(granted) = judge_dependencies(&source.dependencies, allowlist) else {
        return Vec::new();
    };
    let missing = granted.iter().filter(|grant| cached(grant, deps).is_err());
    missing.map(|grant| format!("{} {}", grant.name, grant.version)).collect()
}

/// What a reviewer has to decide about this request; `None` if it could be granted by itself.
fn wanted(request: &DependencyRequest, allowlist: &AllowlistSnapshot) -> Option<UndecidedCrate> {
    match judge_dependencies(std::slice::from_ref(request), allowlist) {
        DependencyVerdict::Admit(_) | DependencyVerdict::Reject(_) => None,
        DependencyVerdict::NeedsReview(findings) => Some(UndecidedCrate {
            request: CrateRequest {
                name: request.name.clone(),
                requirement: request.requirement.clone(),
                features: request.features.clone(),
                default_features: request.default_features,
            },
            code: findings.first()?.code,
        }),
    }
}

/// The compiled crate behind a grant. An allowed crate that this builder has no compiled form
/// of waits like an unknown one: somebody has to rebuild the cache first. Where somebody has, the builder
/// that lacks it is told apart by whoever knows the site (`serve`).
fn cached<'a>(grant: &Granted, deps: &'a Deps) -> Result<(&'a CachedCrate, &'a Product), Stop> {
    deps.find(&grant.name, &grant.version)
        .filter(|entry| entry.checksum == grant.checksum)
        .and_then(|entry| Some((entry, entry.product.as_ref()?)))
        .ok_or_else(|| {
            let message =
                format!("crate `{}` {} is allowed and not yet built here", grant.name, grant.version);
            let part = LinkedCrate {
                name: grant.name.clone(),
                version: grant.version.clone(),
                checksum: grant.checksum.clone(),
            };
            let finding = Finding::new(codes::MF0204, Layer::Manifest, message);
            let wanted = as_wanted(std::slice::from_ref(&part));
            Stop::Waiting(Review { findings: vec![finding], wanted, unbuilt: vec![part] })
        })
}

/// Everything that is linked must be allowed today, not only what the manifest names. What nobody
/// has decided about waits; what was decided against is refused.
fn judge_linked(linked: &BTreeSet<ClosureCrate>, allowlist: &AllowlistSnapshot) -> Result<(), Stop> {
    let parts: Vec<LinkedCrate> = linked.iter().cloned().map(LinkedCrate::from).collect();
    let findings = judge_closure(&parts, allowlist);
    if findings.is_empty() {
        return Ok(());
    }
    if findings.iter().any(|finding| finding.code != codes::MF0204) {
        return Err(Stop::Refused(findings.iter().map(Diagnostic::from).collect()));
    }
    let undecided: Vec<LinkedCrate> = parts
        .into_iter()
        .filter(|part| !judge_closure(std::slice::from_ref(part), allowlist).is_empty())
        .collect();
    let wanted = as_wanted(&undecided);
    Err(Stop::Waiting(Review { findings, wanted, unbuilt: Vec::new() }))
}

/// Asks reviewers about exact crate versions.
fn as_wanted(parts: &[LinkedCrate]) -> Vec<UndecidedCrate> {
    parts
        .iter()
        .map(|part| UndecidedCrate {
            request: CrateRequest::of_version(part.name.clone(), &part.version, &[]),
            code: codes::MF0204,
        })
        .collect()
}

/// The decisions that let these crates in, for the signed statement.
fn decisions(linked: &BTreeSet<ClosureCrate>, allowlist: &AllowlistSnapshot) -> Vec<DecisionUsed> {
    linked
        .iter()
        .filter_map(|part| {
            let row =
                allowlist.crates.iter().find(|row| row.name == part.name && row.version == part.version)?;
            Some(DecisionUsed {
                name: part.name.clone(),
                version: part.version.to_string(),
                checksum: part.checksum.clone(),
                decided_by: row.decided_by.clone(),
            })
        })
        .collect()
}
