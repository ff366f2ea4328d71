//! The tenant's crate becomes an rlib: safe code only, judged by what the compiler read.

use mfaas_audit::depinfo;
use mfaas_delivery::Diagnostic;
use mfaas_rules::judge_dep_info;

use super::bench::{Bench, CRATE_ROOT};
use super::expand::AdmittedSource;
use super::second_opinion::second_opinion;
use super::{ResolvedSource, Workshop};
use crate::diagnostics::{Messages, judge_compiler};
use crate::error::BuilderError;
use crate::journal::{Meter, Stop};

/// File name of rustc's list of what it read.
const DEP_INFO: &str = "source.d";

/// The tenant's crate as an rlib in the scratch directory. Made by [`compile`] alone.
#[derive(Debug)]
pub(super) struct CompiledCrate {
    pub(super) admitted: AdmittedSource,
    messages: Messages,
}

impl CompiledCrate {
    /// What the compiler minded.
    pub(super) fn warnings(&self) -> Vec<Diagnostic> {
        self.messages.warning_diagnostics()
    }
}

/// Compiles in the cage, judges the list of files and variables that the compiler read, and asks
/// for a second opinion on the types.
pub(super) fn compile(
    admitted: AdmittedSource,
    workshop: &Workshop,
    meter: &Meter,
) -> Result<CompiledCrate, Stop> {
    let (resolved, bench) = (&admitted.resolved, &admitted.bench);
    let ran = admitted.compile(arguments(resolved, bench), workshop, meter)?;
    let messages = Messages::read(&ran.stderr);
    judge_compiler(&ran, &messages)?;
    let path = bench.product_on_host(DEP_INFO);
    let list = std::fs::read(&path).map_err(BuilderError::io(&path))?;
    let mut facts = depinfo::read(&list);
    // rustc started in the source's root and names what lies there relative to it.
    for file in facts.files.iter_mut().filter(|file| !file.starts_with('/')) {
        *file = format!("{}/{file}", bench.source_root());
    }
    workshop.layers.refuse_if_any(&judge_dep_info(&facts, bench.source_root(), &bench.library_roots()))?;
    second_opinion(resolved, bench, workshop, meter)?;
    Ok(CompiledCrate { messages, admitted })
}

/// rustc's arguments for the tenant's crate.
pub(super) fn arguments(resolved: &ResolvedSource, bench: &Bench) -> Vec<String> {
    let mut arguments = bench.tenant_flags(&resolved.source.crate_name, &resolved.externs);
    let rlib = bench.product(&rlib_name(resolved));
    arguments.push(format!("--emit=link={rlib},dep-info={}", bench.product(DEP_INFO)));
    arguments.push(CRATE_ROOT.to_owned());
    arguments
}

/// File name of the tenant's rlib in the output directory.
pub(super) fn rlib_name(resolved: &ResolvedSource) -> String {
    format!("lib{}.rlib", resolved.source.crate_name)
}
