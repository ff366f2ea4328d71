//! The macro-expanded source, judged before anything is compiled.
//!
//! A dependency's macro can put a tenant's tokens inside `unsafe` without the tenant writing the
//! word; after expansion every such place shows, with the hygiene marks that tell whose token is
//! whose.

use mfaas_audit::{expansion, soundness};
use mfaas_rules::{judge_expansion, judge_soundness};

use super::bench::{Bench, CRATE_ROOT};
use super::{ResolvedSource, Workshop};
use crate::diagnostics::{Messages, judge_compiler};
use crate::journal::{Meter, Stop};

/// A source that may be compiled. Made by [`expand`] alone.
#[derive(Debug)]
pub(super) struct AdmittedSource {
    pub(super) resolved: ResolvedSource,
    pub(super) bench: Bench,
}

/// Expands in the cage, then scans and judges the text.
pub(super) fn expand(
    resolved: ResolvedSource,
    workshop: &Workshop,
    meter: &Meter,
) -> Result<AdmittedSource, Stop> {
    let bench = Bench::prepare(&resolved.source.tree, workshop)?;
    let mut arguments = bench.tenant_flags(&resolved.source.crate_name, &resolved.externs);
    arguments.push("-Zunpretty=expanded,hygiene".to_owned());
    arguments.push(CRATE_ROOT.to_owned());
    let ran = bench.rustc(workshop, arguments, true, meter)?;
    judge_compiler(&ran, &Messages::read(&ran.stderr))?;
    let tree = &resolved.source.tree;
    workshop.layers.refuse_if_any(&judge_expansion(&expansion::read(&ran.stdout, tree)))?;
    workshop.layers.refuse_if_any(&judge_soundness(&soundness::read(&ran.stdout, tree)))?;
    Ok(AdmittedSource { resolved, bench })
}
