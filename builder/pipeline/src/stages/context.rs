//! What the stages of a build work with.

use std::path::PathBuf;
use std::sync::Arc;

use crate::deps::Deps;
use crate::layers::Layers;
use crate::sandbox::Sandbox;
use crate::toolchain::Toolchain;

/// What a build needs beside the source.
#[derive(Debug, Clone)]
pub(crate) struct BuildContext {
    /// What confines every command.
    pub(crate) sandbox: Sandbox,
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

impl BuildContext {
    /// A context with the limits and all the layers that a deploy has.
    pub(crate) fn new(
        sandbox: Sandbox,
        toolchain: Toolchain,
        deps: Deps,
        work: PathBuf,
        worker: PathBuf,
    ) -> Self {
        Self { sandbox, toolchain, deps: Arc::new(deps), work, worker, layers: Layers::all() }
    }
}
