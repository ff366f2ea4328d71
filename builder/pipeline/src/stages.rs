//! The pipeline from an upload to an inspected artifact, one file for each stage.
//!
//! Each stage consumes what only the stage before it can make: `Upload → SourceTree →
//! AuditedSource → ResolvedSource → AdmittedSource → CompiledCrate → BuiltArtifact →
//! InspectedArtifact → ProvenArtifact`. A compiler's output is never looked at before the
//! expansion of the same source was judged. No stage knows a database.

mod audit;
mod build_directory;
mod commands;
mod compile;
mod context;
mod dependencies;
mod expand;
mod inspect;
mod link;
mod load;
mod second_opinion;

use mfaas_delivery::Stage;
use mfaas_rules::AllowlistSnapshot;
use mfaas_unpack::{SourceTree, UnpackError, Upload};

use crate::error::BuilderError;
use crate::journal::{Journal, Stop, refusal};

pub(crate) use audit::audit;
pub(crate) use commands::commands;
pub(crate) use context::BuildContext;
pub(crate) use context::Programs;
pub(crate) use dependencies::{ResolvedSource, resolve, unbuilt};
pub(crate) use load::ProvenArtifact;

/// The archive's bytes become a tree, or a refusal.
pub(crate) fn unpack(upload: Vec<u8>) -> Result<SourceTree, Stop> {
    Upload::new(upload).and_then(|upload| upload.unpack()).map_err(archive_refusal)
}

/// The refusal of an archive; a failure of our own disk is a failure of ours.
pub(crate) fn archive_refusal(error: UnpackError) -> Stop {
    match error.finding() {
        Some(finding) => refusal(&finding),
        None => Stop::Failed(BuilderError::Unpack(error)),
    }
}

/// The whole pipeline.
pub(crate) fn build(
    upload: Vec<u8>,
    allowlist: &AllowlistSnapshot,
    context: &BuildContext,
    journal: &Journal<'_>,
) -> Result<ProvenArtifact, Stop> {
    let tree = journal.stage(Stage::Unpack, |_| unpack(upload))?;
    let audited = journal.stage(Stage::Audit, |_| audit(tree, &context.layers))?;
    let resolved = journal.stage(Stage::Dependencies, |_| resolve(audited, allowlist, &context.deps))?;
    make(resolved, context, journal)
}

/// The stages that run the compiler.
pub(crate) fn make(
    resolved: ResolvedSource,
    context: &BuildContext,
    journal: &Journal<'_>,
) -> Result<ProvenArtifact, Stop> {
    let admitted = journal.stage(Stage::Expand, |meter| expand::expand(resolved, context, meter))?;
    let compiled = journal.stage(Stage::Compile, |meter| compile::compile(admitted, context, meter))?;
    journal.warn(Stage::Compile, compiled.warnings());
    let built = journal.stage(Stage::Link, |meter| link::link(compiled, context, meter))?;
    let inspected = journal.stage(Stage::Inspect, |_| inspect::inspect(built, &context.layers))?;
    journal.stage(Stage::Load, |meter| load::load(inspected, context, meter))
}
