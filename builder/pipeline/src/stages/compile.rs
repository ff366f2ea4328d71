//! The tenant's crate becomes an rlib: safe code only, judged by what the compiler read.

use mfaas_audit::depinfo;
use mfaas_delivery::Diagnostic;
use mfaas_rules::judge_dep_info;

use super::Workshop;
use super::bench::CRATE_ROOT;
use super::expand::AdmittedSource;
use crate::diagnostics::{Messages, judge_compiler};
use crate::error::BuilderError;
use crate::journal::{Meter, Stop, refuse_if_any};

/// The tenant's crate as an rlib in the scratch directory. Made by [`compile`] alone.
#[derive(Debug)]
pub(super) struct CompiledCrate {
    pub(super) admitted: AdmittedSource,
    /// File name of the rlib in the output directory.
    pub(super) rlib: String,
    messages: Messages,
}

impl CompiledCrate {
    /// What the compiler minded.
    pub(super) fn warnings(&self) -> Vec<Diagnostic> {
        self.messages.warning_diagnostics()
    }
}

/// Compiles in the cage, then judges the list of files and variables that the compiler read.
pub(super) fn compile(
    admitted: AdmittedSource,
    workshop: &Workshop,
    meter: &Meter,
) -> Result<CompiledCrate, Stop> {
    let AdmittedSource { resolved, bench } = &admitted;
    let rlib = format!("lib{}.rlib", resolved.source.crate_name);
    let mut arguments = bench.tenant_flags(&resolved.source.crate_name, &resolved.externs);
    arguments.push(format!("--emit=link={},dep-info={}", bench.product(&rlib), bench.product("source.d")));
    arguments.push(CRATE_ROOT.to_owned());
    let ran = bench.rustc(workshop, arguments, false, meter)?;
    let messages = Messages::read(&ran.stderr);
    judge_compiler(&ran, &messages)?;
    let path = bench.product_on_host("source.d");
    let list = std::fs::read(&path).map_err(BuilderError::io(&path))?;
    let facts = depinfo::read(&list);
    refuse_if_any(&judge_dep_info(&facts, bench.source_root(), &bench.library_roots()))?;
    Ok(CompiledCrate { rlib, messages, admitted })
}
