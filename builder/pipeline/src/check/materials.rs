//! What the compiler's stages of a check need: the site's own toolchain and dependency cache, the
//! worker, and the full sandbox.
//!
//! Only the exact compiler gives the server's answer, and only the full sandbox may run it on a source
//! that nobody has looked at. So whatever is missing, altered or of another id is a reason not to run,
//! and never a reason to take something similar.

use std::path::{Path, PathBuf};

use mfaas_rules::AllowlistSnapshot;

use crate::config::{self, CheckConfig};
use crate::deps::Deps;
use crate::error::BuilderError;
use crate::sandbox::{Sandbox, SandboxMinimum};
use crate::stages::{self, BuildContext};
use crate::toolchain::Toolchain;
use crate::workspace::InstanceDirectory;

/// Said when no compiler is found.
pub(super) const NOTHING_FOUND: &str = "no toolchain with its dependency cache was found: set MFAAS_TOOLCHAIN_DIR \
                                        and MFAAS_DEPS_DIR, or run `mfaas up` once";
/// Which directory of a kind a home uses at present, as `mfaas up` remembers it.
const CURRENT_FILE: &str = "current.json";

/// A toolchain, and the dependency cache whose index names that toolchain's id.
#[derive(Debug)]
pub(super) struct Materials {
    pub(super) toolchain: Toolchain,
    pub(super) deps: Deps,
}

/// Finds the pair. The error is a reason not to run the stages that need it.
pub(super) fn find(config: &CheckConfig) -> Result<Materials, String> {
    match (&config.toolchain, &config.deps) {
        (Some(toolchain), Some(deps)) => Materials::open(toolchain, deps),
        (None, None) => config::homes()
            .iter()
            .find_map(|home| Some((current(&home.join("toolchains"))?, current(&home.join("deps"))?)))
            .map_or_else(
                || Err(NOTHING_FOUND.to_owned()),
                |(toolchain, deps)| Materials::open(&toolchain, &deps),
            ),
        (Some(_), None) | (None, Some(_)) => {
            Err("MFAAS_TOOLCHAIN_DIR and MFAAS_DEPS_DIR belong together, and one of them is not set"
                .to_owned())
        }
    }
}

/// The toolchain alone, for whoever compiles no function.
pub(crate) fn toolchain(config: &CheckConfig) -> Result<Toolchain, String> {
    let in_home = || config::homes().iter().find_map(|home| current(&home.join("toolchains")));
    let root = config.toolchain.clone().or_else(in_home);
    let root = root.ok_or("no toolchain was found: set MFAAS_TOOLCHAIN_DIR, or run `mfaas up` once")?;
    Toolchain::open(&root).map_err(|error| error.to_string())
}

/// The directory that a home has in use; `None` if there is none.
fn current(directory: &Path) -> Option<PathBuf> {
    #[derive(serde::Deserialize)]
    struct Current {
        id: String,
    }
    let bytes = std::fs::read(directory.join(CURRENT_FILE)).ok()?;
    let current: Current = serde_json::from_slice(&bytes).ok()?;
    let is_name = !current.id.contains('/');
    is_name.then(|| directory.join(current.id))
}

impl Materials {
    /// Opens both: each must be what its name says, and the cache must have been built by this very
    /// toolchain.
    fn open(toolchain: &Path, deps: &Path) -> Result<Self, String> {
        let toolchain = Toolchain::open(toolchain).map_err(|error| error.to_string())?;
        let deps = Deps::open(deps, toolchain.id()).map_err(|error| error.to_string())?;
        Ok(Self { toolchain, deps })
    }

    /// The decisions that the site started with.
    pub(super) fn allowlist(&self) -> Result<AllowlistSnapshot, BuilderError> {
        self.deps.seed_allowlist()
    }

    /// The work place of the compiler's stages, in a full sandbox. `Ok(Err(reason))` says why there can
    /// be none on this machine.
    pub(super) fn build_context(
        self,
        scratch: &Path,
    ) -> Result<Result<(BuildContext, InstanceDirectory), String>, BuilderError> {
        let programs = match stages::Programs::find() {
            Ok(programs) => programs,
            Err(error) => return Ok(Err(error.to_string())),
        };
        let sandbox = match Sandbox::new(SandboxMinimum::Full) {
            Ok(sandbox) => sandbox,
            Err(error) => return Ok(Err(error.to_string())),
        };
        let instance = InstanceDirectory::make(scratch, "check")?;
        let work = instance.path().to_path_buf();
        let Self { toolchain, deps } = self;
        Ok(Ok((BuildContext::new(sandbox, toolchain, deps, work, programs), instance)))
    }
}
