//! The tenant's crate becomes an rlib: safe code only, judged by what the compiler read.

use mfaas_audit::depinfo;
use mfaas_delivery::Diagnostic;
use mfaas_rules::judge_dep_info;

use super::build_directory::{BuildDirectory, CRATE_ROOT};
use super::context::BuildContext;
use super::dependencies::ResolvedSource;
use super::expand::AdmittedSource;
use super::second_opinion::second_opinion;
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

/// Compiles in the sandbox, judges the list of files and variables that the compiler read, and asks
/// for a second opinion on the types.
pub(super) fn compile(
    admitted: AdmittedSource,
    context: &BuildContext,
    meter: &Meter,
) -> Result<CompiledCrate, Stop> {
    let (resolved, directory) = (&admitted.resolved, &admitted.directory);
    let ran = admitted.compile(arguments(resolved, directory), context, meter)?;
    let messages = Messages::read(&ran.stderr);
    judge_compiler(&ran, &messages)?;
    let path = directory.product_on_host(DEP_INFO);
    let list = std::fs::read(&path).map_err(BuilderError::product(&path))?;
    let mut facts = depinfo::read(&list);
    // rustc started in the source's root and names what lies there relative to it.
    for file in facts.files.iter_mut().filter(|file| !file.starts_with('/')) {
        *file = format!("{}/{file}", directory.source_root());
    }
    context.layers.refuse_if_any(&judge_dep_info(
        &facts,
        directory.source_root(),
        &directory.library_roots(),
    ))?;
    second_opinion(resolved, directory, context, meter)?;
    Ok(CompiledCrate { messages, admitted })
}

/// rustc's arguments for the tenant's crate.
pub(super) fn arguments(resolved: &ResolvedSource, directory: &BuildDirectory) -> Vec<String> {
    let mut arguments = directory.tenant_flags(&resolved.source.crate_name, &resolved.externs);
    let rlib = directory.product(&rlib_name(resolved));
    arguments.push(format!("--emit=link={rlib},dep-info={}", directory.product(DEP_INFO)));
    arguments.push(CRATE_ROOT.to_owned());
    arguments
}

/// File name of the tenant's rlib in the output directory.
pub(super) fn rlib_name(resolved: &ResolvedSource) -> String {
    format!("lib{}.rlib", resolved.source.crate_name)
}
