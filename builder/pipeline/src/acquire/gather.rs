//! The facts about the crates of a closure: resolved alone, compiled once, and read.

use std::collections::BTreeSet;

use mfaas_rules::CrateRequest;
use mfaas_rules::crate_facts::CrateReport;

use super::context::AcquireContext;
use super::download::Download;
use super::resolve::{Resolution, Resolved, ResolvedCrate, Workspace, resolve_all};
use super::texts::{Text, texts};
use crate::deps::PackageKey;
use crate::error::BuilderError;

/// The crate that was asked for and everything that it pulls in; the rest of the site is not its matter.
pub(crate) fn closure(resolution: &Resolution) -> Vec<ResolvedCrate> {
    let is_part = |member: &&ResolvedCrate| resolution.paths.contains_key(&member.key());
    resolution.members.iter().filter(is_part).cloned().collect()
}

/// A resolution of nothing but these crates, in these versions and features, downloaded.
pub(crate) fn alone(context: &AcquireContext, closure: &[ResolvedCrate]) -> Result<Resolved, BuilderError> {
    let base = Workspace::empty();
    let exact: Vec<CrateRequest> = closure
        .iter()
        .map(|member| CrateRequest::of_version(member.name.clone(), &member.version, &member.features))
        .collect();
    let resolved = resolve_all(&context.cargo, &base, &exact)?;
    context.fetch(&base, &resolved.manifest, &resolved.lock_text)?;
    Ok(resolved)
}

/// Compiles the closure once, in versions and features as resolved, and reads what is not known.
pub(crate) fn gather(
    context: &AcquireContext,
    closure: &[ResolvedCrate],
    unknown: &BTreeSet<PackageKey>,
) -> Result<Vec<(CrateReport, Download, Vec<Text>)>, BuilderError> {
    let resolved = alone(context, closure)?;
    let mut verdicts = context.verdicts(&Workspace::empty(), &resolved.manifest, &resolved.lock_text)?;
    let wanted = closure.iter().filter(|member| unknown.contains(&member.key()));
    let report = |member: &ResolvedCrate| {
        let (mut report, download) = context.report(member, closure, verdicts.remove(&member.key()))?;
        // Without a lock cargo chooses no version that its publisher has taken back.
        report.yanked = Some(false);
        let texts = texts(&download);
        Ok((report, download, texts))
    };
    wanted.map(report).collect()
}
