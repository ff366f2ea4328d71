//! Compares what a review is about with the nearest version that was decided about before.
//!
//! A step of its own behind the opening of reviews: whoever reviews can begin before, and no failure here stands
//! in anybody's way. A review gets its comparison once; without one it gets the reason. What ships was never
//! looked at: it is fetched, read and compiled here like any crate that is asked for, so that both sides of a
//! comparison were asked the same questions.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use mfaas_audit::delta::{Texts, delta, volumes};
use mfaas_catalog::{self as catalog, Baseline, Comparison, CrateFile, Uncompared};
use mfaas_ident::Digest;
use mfaas_rules::CrateRequest;
use mfaas_rules::crate_facts::{CrateReport, DELTA_REVISION, FACTS_REVISION};
use mfaas_rules::limits::CRATE_TEXT;

use super::examine::keep;
use super::site_cache;
use super::state::{AcquirerState, blocking};
use crate::acquire::gather::{closure, gather};
use crate::acquire::resolve::{ResolvedCrate, Workspace, resolve};
use crate::acquire::{AcquireError, is_about_crates};
use crate::deps::PackageKey;
use crate::error::BuilderError;
use crate::toolchain::TARGET;

/// Reviews that are compared before new requests are looked at again.
const COMPARISONS_MAX: u32 = 8;

/// Compares what was not compared.
pub(super) async fn complete(
    state: &AcquirerState,
    session: &mut catalog::Acquirer,
) -> Result<(), BuilderError> {
    for about in session.uncompared(&state.toolchain, COMPARISONS_MAX).await? {
        match compare(state, session, &about).await {
            Ok(()) => tracing::info!(review = about.review, "compared"),
            Err(BuilderError::Acquire(error @ AcquireError::Network { .. })) => {
                tracing::warn!(review = about.review, %error, "the registry does not answer; compared later");
                return Ok(());
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

async fn compare(
    state: &AcquirerState,
    session: &mut catalog::Acquirer,
    about: &Uncompared,
) -> Result<(), BuilderError> {
    let Some(report) = session.report(&about.report).await? else {
        let problem = Comparison::Problem("its own facts are not there".to_owned());
        return Ok(session.compared(about.review, None, None, &problem).await?);
    };
    let texts = match texts(state, session, &about.checksum).await? {
        Ok(texts) => texts,
        Err(problem) => {
            let problem = Comparison::Problem(format!("its own texts cannot be read: {problem}"));
            return Ok(session.compared(about.review, None, None, &problem).await?);
        }
    };
    let volumes = volumes(&report, &texts);
    let Some(base) = session.baseline(about, &state.toolchain).await? else {
        let problem = Comparison::Problem(format!("no other version of `{}` is allowed", about.name));
        return Ok(session.compared(about.review, Some(&volumes), None, &problem).await?);
    };
    let comparison = match against(state, session, about, &base, (report, texts)).await {
        Ok(comparison) => comparison,
        Err(error @ BuilderError::Acquire(AcquireError::Network { .. })) => return Err(error),
        Err(error) if is_about_crates(&error) => Comparison::Problem(format!(
            "version {} is allowed and could not be looked at: {error}",
            base.version
        )),
        Err(error) => return Err(error),
    };
    Ok(session.compared(about.review, Some(&volumes), Some(&base), &comparison).await?)
}

async fn against(
    state: &AcquirerState,
    session: &mut catalog::Acquirer,
    about: &Uncompared,
    base: &Baseline,
    (report, new): (CrateReport, Texts),
) -> Result<Comparison, BuilderError> {
    let (base_key, base_report) = examined(state, session, about, base).await?;
    let key = Digest::of(format!("delta {DELTA_REVISION}\n{base_key}\n{}\n", about.report).as_bytes());
    if let Some(delta) = session.crate_delta(&key).await? {
        return Ok(Comparison::Delta { key, delta: Box::new(delta) });
    }
    let old = match texts(state, session, &base.checksum).await? {
        Ok(old) => old,
        Err(problem) => {
            return Ok(Comparison::Problem(format!(
                "the texts of {} cannot be read: {problem}",
                base.version
            )));
        }
    };
    let delta = blocking(move || Ok(delta((&base_report, &old), (&report, &new), Instant::now()))).await?;
    Ok(Comparison::Delta { key, delta: Box::new(delta) })
}

/// The report about a baseline: the one with the features that it is allowed with, or any; a new one when there
/// is none.
async fn examined(
    state: &AcquirerState,
    session: &mut catalog::Acquirer,
    about: &Uncompared,
    base: &Baseline,
) -> Result<(Digest, CrateReport), BuilderError> {
    if let Some(found) = known(session, base).await? {
        return Ok(found);
    }
    let key: PackageKey = (about.name.clone(), base.version.clone());
    tracing::info!(name = %key.0, version = %key.1, "looking at what is allowed, to compare");
    let extras = session.extras(&state.toolchain, &[]).await?;
    let (context, seed, wanted, asked) = (
        Arc::clone(&state.context),
        state.seed.clone(),
        key.clone(),
        CrateRequest::of_version(about.name.clone(), &base.version, &base.features),
    );
    let (members, gathered) = blocking(move || {
        let workspace = Workspace::of_seed(&seed)?;
        let resolution = resolve(&context.cargo, &workspace, &site_cache::requests(&extras), &asked)?;
        let members: Vec<ResolvedCrate> = closure(&resolution);
        let gathered = gather(&context, &members, &BTreeSet::from([wanted]))?;
        Ok((members, gathered))
    })
    .await?;
    let problem = |reason: &str| AcquireError::Archive {
        name: key.0.clone(),
        version: key.1.clone(),
        reason: reason.to_owned(),
    };
    for (report, download, texts) in gathered {
        // What the registry has today must be what was allowed.
        if report.checksum != base.checksum {
            return Err(problem("the registry has other bytes than those that are allowed").into());
        }
        keep(state, session, &members, report, download, texts).await?;
    }
    Ok(known(session, base).await?.ok_or_else(|| problem("nothing was found out about it"))?)
}

async fn known(
    session: &mut catalog::Acquirer,
    base: &Baseline,
) -> Result<Option<(Digest, CrateReport)>, BuilderError> {
    let mut reports = session.reports_about(&base.checksum).await?;
    reports.retain(|(_, report)| report.revision == FACTS_REVISION && report.target == TARGET);
    let same = reports.iter().position(|(_, report)| report.features == base.features);
    Ok((!reports.is_empty()).then(|| reports.swap_remove(same.unwrap_or(0))))
}

/// The texts of an archive out of the blob store, or why one of them is not there. The store's own trouble is
/// an error.
async fn texts(
    state: &AcquirerState,
    session: &mut catalog::Acquirer,
    checksum: &Digest,
) -> Result<Result<Texts, String>, BuilderError> {
    let mut texts = Texts::new();
    for CrateFile { path, blob, .. } in session.crate_files(checksum).await? {
        match state.blobs.get(&blob, CRATE_TEXT.file_bytes_max).await {
            Ok(bytes) => match String::from_utf8(bytes.to_vec()) {
                Ok(text) => drop(texts.insert(path, text)),
                Err(_) => return Ok(Err(format!("`{path}` is no text"))),
            },
            Err(error) if error.is_transient() => return Err(error.into()),
            Err(error) => return Ok(Err(error.to_string())),
        }
    }
    Ok(if texts.is_empty() { Err("none were kept".to_owned()) } else { Ok(texts) })
}
