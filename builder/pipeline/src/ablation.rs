//! The whole pipeline with named layers off, for tests that show which layer stops an attack and what
//! stands behind it.
//!
//! Only here can a layer be taken off, and only under the feature of this name. What is refused
//! by a layer that is on is refused as in a deploy; nothing is ever run outside of a full sandbox.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use mfaas_delivery::{Diagnostic, Event};
use mfaas_rules::Layer;
use mfaas_rules::limits::CompileLimits;
use mfaas_sandbox::Level;
use mfaas_unpack::SourceTree;

use crate::deps::{self, Deps, Seed};
use crate::journal::{Journal, Progress, Stop};
use crate::layers::Layers;
use crate::sandbox::Sandbox;
use crate::stages::{self, BuildContext};
use crate::toolchain::Toolchain;

/// A toolchain, a dependency cache and a place to work.
#[derive(Debug, Clone)]
pub struct Site {
    context: BuildContext,
}

/// What becomes of one source.
#[derive(Debug)]
pub enum Ending {
    /// It became this image.
    Admitted(Vec<u8>),
    /// A layer that was on refused it.
    Refused(Vec<Diagnostic>),
    /// A reviewer would be asked.
    Waiting(Vec<Diagnostic>),
}

/// Something of the host that an attack looks for, to be shown in the sandbox while its walls are
/// thought away: a copy, never the thing itself.
#[derive(Debug, Clone)]
pub struct Decoy {
    /// The copy, a file or directory.
    pub host: PathBuf,
    /// Where the attack looks.
    pub inside: String,
}

/// A failure of the machine, never of the source.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Failed(String);

impl Site {
    /// Opens what [`crate::main`]'s `toolchain import` and `deps build` made. The calling program
    /// is the sandbox's helper: it has to call [`mfaas_sandbox::sandbox_exec_main`] for
    /// [`mfaas_sandbox::SANDBOX_EXEC`].
    pub fn open(
        toolchain: &Path,
        deps: &Path,
        worker: &Path,
        work: &Path,
        limits: CompileLimits,
    ) -> Result<Self, Failed> {
        let failed = |error: crate::error::BuilderError| Failed(error.to_string());
        let toolchain = Toolchain::open(toolchain).map_err(failed)?;
        let deps = Deps::open(deps, toolchain.id()).map_err(failed)?;
        let sandbox = Sandbox::new(Level::Full).map_err(failed)?.with_at_most(limits);
        let programs = stages::Programs::beside(worker).map_err(failed)?;
        let context = BuildContext::new(sandbox, toolchain, deps, work.to_path_buf(), programs);
        Ok(Self { context })
    }

    /// Takes an archive through the whole pipeline with every layer on, as a deploy does.
    pub fn deploy(&self, upload: Vec<u8>) -> Result<Ending, Failed> {
        let allowlist = self.context.deps.seed_allowlist().map_err(|error| Failed(error.to_string()))?;
        ending(stages::build(upload, &allowlist, &self.context, &Journal::new(&Nobody)))
    }

    /// Takes a tree through the pipeline behind the archive reader, without the layers `off`.
    pub fn without(
        &self,
        tree: SourceTree,
        off: impl IntoIterator<Item = Layer>,
        decoys: &[Decoy],
    ) -> Result<Ending, Failed> {
        let sandbox = &self.context.sandbox;
        let decoys = decoys.iter().map(|decoy| sandbox.read(&decoy.host, &decoy.inside)).collect();
        let context = BuildContext { layers: Layers::without(off, decoys), ..self.context.clone() };
        let allowlist = context.deps.seed_allowlist().map_err(|error| Failed(error.to_string()))?;
        let made = stages::audit(tree, &context.layers)
            .and_then(|audited| stages::resolve(audited, &allowlist, &context.deps))
            .and_then(|resolved| stages::make(resolved, &context, &Journal::new(&Nobody)));
        ending(made)
    }
}

/// Compiles a seed's crates as for a dependency cache and answers what would be kept, by package. `together`: everything
/// in one sandbox. The calling program is what cargo starts in place of rustc: it has to call [`crate::main`] where
/// `MFAAS_RUSTC_PLAN` is set.
pub fn compile_dependencies(
    seed: &Path,
    toolchain: &Path,
    work: &Path,
    together: bool,
) -> Result<BTreeMap<String, Vec<u8>>, Failed> {
    let failed = |error: crate::error::BuilderError| Failed(error.to_string());
    let toolchain = Toolchain::open(toolchain).map_err(failed)?;
    let seed = Seed::read(seed).map_err(failed)?;
    let vendor = work.join("vendor");
    std::fs::create_dir_all(&vendor).map_err(|error| Failed(error.to_string()))?;
    deps::compile_only(&seed, &vendor, &toolchain, &work.join("staging"), together).map_err(failed)
}

fn ending(made: Result<stages::ProvenArtifact, Stop>) -> Result<Ending, Failed> {
    match made {
        Ok(artifact) => Ok(Ending::Admitted(artifact.bytes().to_vec())),
        Err(Stop::Refused(diagnostics)) => Ok(Ending::Refused(diagnostics)),
        Err(Stop::Waiting(review)) => {
            Ok(Ending::Waiting(review.findings.iter().map(Diagnostic::from).collect()))
        }
        Err(Stop::Failed(error)) => Err(Failed(error.to_string())),
    }
}

struct Nobody;

impl Progress for Nobody {
    fn report(&self, _event: Event) {}
}
