//! The programs under test, a toolchain and a dependency cache.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;

/// What a check needs.
#[derive(Debug, Clone)]
pub struct Installed {
    builder: PathBuf,
    toolchain: PathBuf,
    deps: PathBuf,
}

impl Installed {
    /// Without a builder: the programs of this checkout, with a toolchain and a cache that they make
    /// below `target/`, which takes some minutes once. With one: that builder, `mfaas-worker` beside
    /// it, and what `MFAAS_TOOLCHAIN_DIR` and `MFAAS_DEPS_DIR` name.
    pub fn get(builder: Option<PathBuf>) -> anyhow::Result<Self> {
        let Some(builder) = builder else {
            let made = mfaas_harness::Installed::make();
            let builder = mfaas_harness::builder().get_program().into();
            return Ok(Self { builder, toolchain: made.toolchain, deps: made.deps });
        };
        let given = |name: &'static str| std::env::var_os(name).map(PathBuf::from).context(name);
        Ok(Self { builder, toolchain: given("MFAAS_TOOLCHAIN_DIR")?, deps: given("MFAAS_DEPS_DIR")? })
    }

    /// `mfaas-builder check --json PACKAGE`, with `scratch` for its temporary files.
    pub fn check(&self, package: &Path, scratch: &Path) -> Command {
        let mut command = Command::new(&self.builder);
        command.args(["check", "--json"]).arg(package);
        command.env_remove("MFAAS_SANDBOX_MINIMUM").env("TMPDIR", scratch);
        command.env("MFAAS_TOOLCHAIN_DIR", &self.toolchain).env("MFAAS_DEPS_DIR", &self.deps);
        command
    }
}
