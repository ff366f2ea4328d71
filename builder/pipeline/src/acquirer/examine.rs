//! What one request comes down to: a resolution, the facts about each crate of it, and what the rules say.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use mfaas_catalog::{
    self as catalog, CrateFile, Extra, MemberOutcome, Request, ResolvedMember, ResolvedRequest, is_allowed,
};
use mfaas_ident::{CrateName, Digest};
use mfaas_rules::crate_facts::{CrateReport, FACTS_REVISION, TrialBuild};
use mfaas_rules::{
    AllowedCrate, AllowlistSnapshot, CrateJudgement, CrateRequest, Outside, People, Suggestion, judge_crate,
};

use super::site_cache;
use super::state::{AcquirerState, blocking};
use crate::acquire::AcquireError;
use crate::acquire::download::Download;
use crate::acquire::gather::{alone, closure, gather};
use crate::acquire::resolve::{Resolution, ResolvedCrate, Workspace, resolve};
use crate::acquire::texts::Text;
use crate::acquire::trial::{Granted, trial};
use crate::deps::{PackageKey, Seed};
use crate::error::BuilderError;
use crate::toolchain::TARGET;

/// What came of the look at a request.
pub(super) enum Examined {
    /// This is what it comes down to.
    Resolved(ResolvedRequest),
    /// The rules refuse a crate of it, for this reason.
    Refused(String),
}

/// The reports about a closure, by crate version, each with its key.
type Reports = BTreeMap<PackageKey, (Digest, CrateReport)>;

/// Resolves, gathers what is not known yet, and judges.
pub(super) async fn examine(
    state: &AcquirerState,
    session: &mut catalog::Acquirer,
    request: &Request,
) -> Result<Examined, BuilderError> {
    let asked = asked(request)?;
    let extras = session.extras(&state.toolchain, &[]).await?;
    let (context, seed, requests) =
        (Arc::clone(&state.context), state.seed.clone(), site_cache::requests(&extras));
    let resolution = blocking(move || {
        let base = Workspace::of_seed(&seed)?;
        resolve(&context.cargo, &base, &requests, &asked)
    })
    .await?;
    let closure = closure(&resolution);
    let reports = reports(state, session, closure.clone()).await?;
    let allowlist = session.allowlist(request, &state.toolchain).await?;
    let (advisories, audits) = session.outside().await?;
    let outside = Outside { advisories: &advisories, audits: &audits };
    let mut members = Vec::new();
    for member in &closure {
        let Some((key, report)) = reports.get(&member.key()) else {
            return Err(missing(member).into());
        };
        let judgement = judge_crate(report, &needed(report, &reports), outside);
        if judgement.suggestion == Suggestion::Refuse {
            return Ok(Examined::Refused(refusal(member, &judgement)));
        }
        let path = path(&resolution, member);
        let policy =
            Policy { allowlist: &allowlist, automatic: state.automatic, overrides: request.overrides };
        members.push(outcome(member, report, path, *key, judgement, policy));
    }
    if members.iter().any(|member| matches!(member.outcome, MemberOutcome::Review { .. })) {
        try_out(state, closure, granted(state, &extras)?, &mut members).await?;
    }
    Ok(Examined::Resolved(ResolvedRequest { request: request.id, chosen: resolution.chosen.1, members }))
}

/// What crates are granted that the site offers: by what ships, and by its reviewers in its place.
fn granted(state: &AcquirerState, extras: &[Extra]) -> Result<Granted, BuilderError> {
    let seed = Seed::read(&state.seed)?;
    let of_seed = |name: &CrateName| (name.clone(), seed.grants.of(name).iter().copied().collect());
    let mut all: Granted = seed.lock.names().map(of_seed).collect();
    let of_site = extras.iter().filter(|extra| !extra.grants.is_empty());
    all.extend(of_site.map(|extra| (extra.name.clone(), extra.grants.clone())));
    Ok(all)
}

/// Compiles the closure as it would be offered, and tells the reviewers of each crate how that ended.
async fn try_out(
    state: &AcquirerState,
    closure: Vec<ResolvedCrate>,
    granted: Granted,
    members: &mut [ResolvedMember],
) -> Result<(), BuilderError> {
    let context = Arc::clone(&state.context);
    let mut found = blocking(move || {
        let resolved = alone(&context, &closure)?;
        trial(&context, &resolved, &closure, granted)
    })
    .await?;
    for member in members {
        if let MemberOutcome::Review { trial, .. } = &mut member.outcome
            && let Some(ended) = found.remove(&(member.name.clone(), member.version.clone()))
        {
            *trial = ended;
        }
    }
    Ok(())
}

fn asked(request: &Request) -> Result<CrateRequest, AcquireError> {
    let requirement =
        semver::VersionReq::parse(&request.requirement).map_err(|error| AcquireError::Other {
            reason: format!("`{}`: {error}", mfaas_ident::sanitise_line(&request.requirement, 100)),
        })?;
    Ok(CrateRequest {
        name: request.name.clone(),
        requirement,
        features: request.features.clone(),
        default_features: request.default_features,
    })
}

fn path(resolution: &Resolution, member: &ResolvedCrate) -> Vec<String> {
    let path = resolution.paths.get(&member.key());
    path.into_iter().flatten().map(|(name, _)| name.to_string()).collect()
}

/// Names what a report depends on: the same bytes with the same features for the same target, looked at in
/// the same way, are looked at once.
fn report_key(member: &ResolvedCrate) -> Digest {
    let text = format!(
        "report {FACTS_REVISION}\n{TARGET}\n{}\n{}\n",
        member.checksum.as_deref().unwrap_or_default(),
        member.features.join(",")
    );
    Digest::of(text.as_bytes())
}

/// The stored reports, and new ones for what has none.
async fn reports(
    state: &AcquirerState,
    session: &mut catalog::Acquirer,
    closure: Vec<ResolvedCrate>,
) -> Result<Reports, BuilderError> {
    let mut found = Reports::new();
    for member in &closure {
        let key = report_key(member);
        if let Some(report) = session.report(&key).await? {
            found.insert(member.key(), (key, report));
        }
    }
    let unknown: BTreeSet<PackageKey> =
        closure.iter().map(ResolvedCrate::key).filter(|key| !found.contains_key(key)).collect();
    if unknown.is_empty() {
        return Ok(found);
    }
    let context = Arc::clone(&state.context);
    let members = closure.clone();
    let gathered = blocking(move || gather(&context, &members, &unknown)).await?;
    for (report, download, texts) in gathered {
        if let Some((member, key, report)) = keep(state, session, &closure, report, download, texts).await? {
            found.insert(member, (key, report));
        }
    }
    Ok(found)
}

/// Stores one report of a closure with its archive and its texts; `None` when no member is of that archive.
pub(super) async fn keep(
    state: &AcquirerState,
    session: &mut catalog::Acquirer,
    closure: &[ResolvedCrate],
    report: CrateReport,
    download: Download,
    texts: Vec<Text>,
) -> Result<Option<(PackageKey, Digest, CrateReport)>, BuilderError> {
    let member =
        closure.iter().find(|member| member.checksum.as_deref() == Some(&report.checksum.to_string()));
    let Some(member) = member else { return Ok(None) };
    // The archive is stored before anything names it.
    let mut hold = state.catalog.hold_blobs().await?;
    state.blobs.put(download.bytes.into()).await?;
    let files = put(state, texts).await?;
    let key = report_key(member);
    hold.confirm().await?;
    session.store_report(&key, &report, &files).await?;
    Ok(Some((member.key(), key, report)))
}

/// The texts as blobs of their own, so that whoever shows one has nothing to unpack.
async fn put(state: &AcquirerState, texts: Vec<Text>) -> Result<Vec<CrateFile>, BuilderError> {
    let mut files = Vec::with_capacity(texts.len());
    for Text { path, content } in texts {
        let bytes = content.len() as u64;
        files.push(CrateFile { path, blob: state.blobs.put(content.into()).await?, bytes });
    }
    Ok(files)
}

/// Every report that a crate's judgement rests on beside its own.
fn needed<'a>(report: &CrateReport, reports: &'a Reports) -> Vec<&'a CrateReport> {
    let mut found: BTreeMap<PackageKey, &CrateReport> = BTreeMap::new();
    let mut open: Vec<PackageKey> = needs(report);
    while let Some(key) = open.pop() {
        if let Some((_, report)) = reports.get(&key)
            && found.insert(key, report).is_none()
        {
            open.extend(needs(report));
        }
    }
    found.into_values().collect()
}

fn needs(report: &CrateReport) -> Vec<PackageKey> {
    report.needs.iter().map(|need| (need.name.clone(), need.version.clone())).collect()
}

/// What decides beside the facts.
#[derive(Clone, Copy)]
struct Policy<'a> {
    allowlist: &'a AllowlistSnapshot,
    /// The rules may admit a crate by themselves.
    automatic: bool,
    /// What nobody of this site has decided about counts as not decided.
    overrides: bool,
}

impl Policy<'_> {
    fn allows(&self, member: &ResolvedMember) -> bool {
        let row = |row: &&AllowedCrate| row.name == member.name && row.version == member.version;
        let row = self.allowlist.crates.iter().find(row);
        let is_ours = row.is_some_and(AllowedCrate::is_decided_by_people);
        (is_ours || !self.overrides) && is_allowed(member, self.allowlist)
    }
}

/// What has to happen before a member may be used.
fn outcome(
    member: &ResolvedCrate,
    report: &CrateReport,
    path: Vec<String>,
    key: Digest,
    judgement: CrateJudgement,
    policy: Policy<'_>,
) -> ResolvedMember {
    let mut resolved = ResolvedMember {
        name: member.name.clone(),
        version: member.version.clone(),
        checksum: report.checksum,
        features: member.features.clone(),
        path,
        outcome: MemberOutcome::Allowed,
    };
    if policy.allows(&resolved) {
        return resolved;
    }
    resolved.outcome = match judgement.suggestion {
        // Whoever wants people to decide is not answered by the rules.
        Suggestion::AdmitAutomatically if policy.automatic && !policy.overrides => {
            MemberOutcome::Admit { rules_revision: judgement.rules_revision }
        }
        Suggestion::AdmitAutomatically => {
            MemberOutcome::Review { people: People::One, judgement, report: key, trial: not_tried() }
        }
        Suggestion::Review { people } => {
            MemberOutcome::Review { people, judgement, report: key, trial: not_tried() }
        }
        // Whoever calls has ended the request; two people would be the least.
        Suggestion::Refuse => {
            MemberOutcome::Review { people: People::Two, judgement, report: key, trial: not_tried() }
        }
    };
    resolved
}

/// What stands there until the trial has ended.
fn not_tried() -> TrialBuild {
    TrialBuild::NotRun { reason: "nobody has tried".to_owned() }
}

fn refusal(member: &ResolvedCrate, judgement: &CrateJudgement) -> String {
    let why = judgement.reasons.first().map_or("the rules refuse it", |reason| reason.text.as_str());
    format!("crate `{}` {}: {why}", member.name, member.version)
}

fn missing(member: &ResolvedCrate) -> AcquireError {
    AcquireError::Archive {
        name: member.name.clone(),
        version: member.version.clone(),
        reason: "nothing is known about it".to_owned(),
    }
}
