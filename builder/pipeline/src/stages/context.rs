//! What the stages of a build work with.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::deps::Deps;
use crate::error::BuilderError;
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
    /// The programs beside this one.
    pub(crate) programs: Programs,
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
        programs: Programs,
    ) -> Self {
        Self { sandbox, toolchain, deps: Arc::new(deps), work, programs, layers: Layers::all() }
    }
}

/// What else runs in the sandbox.
#[derive(Debug, Clone)]
pub(crate) struct Programs {
    /// `mfaas-rewriter`, in the linker's place.
    pub(crate) rewriter: PathBuf,
    /// `mfaas-worker`, for the throw-away load.
    pub(crate) worker: PathBuf,
}

impl Programs {
    /// Those beside this program.
    pub(crate) fn find() -> Result<Self, BuilderError> {
        let own = std::env::current_exe().map_err(BuilderError::io("this program's own file"))?;
        Self::beside(&own)
    }

    /// Those beside a program.
    pub(crate) fn beside(program: &Path) -> Result<Self, BuilderError> {
        let beside = |name: &str| program.with_file_name(name);
        let programs = Self { rewriter: beside("mfaas-rewriter"), worker: beside("mfaas-worker") };
        programs.are_there().map(|()| programs)
    }

    /// Whether they are where they were found.
    pub(crate) fn are_there(&self) -> Result<(), BuilderError> {
        for (name, file) in [("mfaas-rewriter", &self.rewriter), ("mfaas-worker", &self.worker)] {
            if !file.is_file() {
                return Err(BuilderError::ProgramMissing { name, file: file.clone() });
            }
        }
        Ok(())
    }
}
