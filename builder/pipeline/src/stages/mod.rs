//! The road from an upload to an inspected artifact, one file for each stage.
//!
//! Each stage consumes what only the stage before it can make: `Upload → SourceTree →
//! AuditedSource → ResolvedSource → AdmittedSource → CompiledCrate → BuiltArtifact →
//! InspectedArtifact → ProvenArtifact`. A compiler's output is never looked at before the
//! expansion of the same source was judged. No stage knows a database.

mod audit;
mod bench;
mod commands;
mod compile;
mod dependencies;
mod expand;
mod inspect;
mod link;
mod load;
mod second_opinion;

use std::path::PathBuf;
use std::sync::Arc;

use mfaas_delivery::Stage;
use mfaas_rules::AllowlistSnapshot;
use mfaas_unpack::{SourceTree, UnpackError, Upload};

use crate::cage::Cage;
use crate::deps::Deps;
use crate::error::BuilderError;
use crate::journal::{Journal, Stop, refusal};
use crate::layers::Layers;
use crate::toolchain::Toolchain;

pub(crate) use audit::{AuditedSource, audit};
pub(crate) use commands::commands;
pub(crate) use dependencies::{ResolvedSource, resolve, unbuilt};
pub(crate) use load::{ProvenArtifact, find_worker};

/// What a build needs beside the source.
#[derive(Debug, Clone)]
pub(crate) struct Workshop {
    /// What confines every command.
    pub(crate) cage: Cage,
    /// The compiler.
    pub(crate) toolchain: Toolchain,
    /// The compiled crates.
    pub(crate) deps: Arc<Deps>,
    /// Where scratch directories are made; only this program's user can enter it.
    pub(crate) work: PathBuf,
    /// `mfaas-worker`, for the throw-away load.
    pub(crate) worker: PathBuf,
    /// What may refuse.
    pub(crate) layers: Layers,
}

impl Workshop {
    /// A workshop with the limits and all the layers that a deploy has.
    pub(crate) fn new(cage: Cage, toolchain: Toolchain, deps: Deps, work: PathBuf, worker: PathBuf) -> Self {
        Self { cage, toolchain, deps: Arc::new(deps), work, worker, layers: Layers::all() }
    }
}

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

/// The whole road.
pub(crate) fn build(
    upload: Vec<u8>,
    allowlist: &AllowlistSnapshot,
    workshop: &Workshop,
    journal: &Journal<'_>,
) -> Result<ProvenArtifact, Stop> {
    let tree = journal.stage(Stage::Unpack, |_| unpack(upload))?;
    let audited = journal.stage(Stage::Audit, |_| audit(tree, &workshop.layers))?;
    let resolved = journal.stage(Stage::Dependencies, |_| resolve(audited, allowlist, &workshop.deps))?;
    make(resolved, workshop, journal)
}

/// The stages that run the compiler.
pub(crate) fn make(
    resolved: ResolvedSource,
    workshop: &Workshop,
    journal: &Journal<'_>,
) -> Result<ProvenArtifact, Stop> {
    let admitted = journal.stage(Stage::Expand, |meter| expand::expand(resolved, workshop, meter))?;
    let compiled = journal.stage(Stage::Compile, |meter| compile::compile(admitted, workshop, meter))?;
    journal.warn(Stage::Compile, compiled.warnings());
    let built = journal.stage(Stage::Link, |meter| link::link(compiled, workshop, meter))?;
    let inspected = journal.stage(Stage::Inspect, |_| inspect::inspect(built, &workshop.layers))?;
    journal.stage(Stage::Load, |meter| load::load(inspected, workshop, meter))
}
