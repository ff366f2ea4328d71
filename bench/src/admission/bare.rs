//! The compiler alone: the same rustc commands that the builder runs, without sandbox, queue, audit,
//! inspection, signature or node.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, bail};
use serde::Deserialize;

use super::cpu::reaped_children;
use super::table::Sample;

/// The builder, and what it compiles with.
#[derive(Debug)]
pub struct Builder {
    /// `mfaas-builder`.
    pub program: PathBuf,
    /// The imported toolchain.
    pub toolchain: PathBuf,
    /// The compiled dependencies.
    pub dependencies: PathBuf,
}

impl Builder {
    /// One of its commands for a package.
    pub fn command(&self, name: &str, package: &Path) -> Command {
        let mut command = Command::new(&self.program);
        command
            .arg(name)
            .arg(package)
            .arg("--json")
            .env("MFAAS_TOOLCHAIN_DIR", &self.toolchain)
            .env("MFAAS_DEPS_DIR", &self.dependencies)
            .stdin(Stdio::null());
        command
    }
}

/// The commands for one package.
#[derive(Debug)]
pub struct Bare {
    commands: Vec<Line>,
    out: tempfile::TempDir,
}

#[derive(Debug, Deserialize)]
struct Printed {
    commands: Vec<Line>,
}

#[derive(Debug, Deserialize)]
struct Line {
    program: PathBuf,
    args: Vec<String>,
    env: BTreeMap<String, String>,
    directory: PathBuf,
}

impl Bare {
    /// Asks the builder for its commands.
    pub fn of(builder: &Builder, package: &Path) -> anyhow::Result<Self> {
        let out = tempfile::tempdir().context("no temporary directory")?;
        let mut command = builder.command("commands", package);
        let output = command.arg("--out").arg(out.path()).output();
        let output = output.with_context(|| format!("cannot start {}", builder.program.display()))?;
        if !output.status.success() {
            bail!("mfaas-builder commands: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        let printed: Printed = serde_json::from_slice(&output.stdout)
            .context("mfaas-builder commands answered with something unexpected")?;
        Ok(Self { commands: printed.commands, out })
    }

    /// Runs them one after the other and makes sure that they made an image.
    pub fn measure(&self) -> anyhow::Result<Sample> {
        let children = reaped_children()?;
        let begin = Instant::now();
        self.commands.iter().try_for_each(Line::run)?;
        anyhow::ensure!(holds_image(self.out.path())?, "bare rustc made no image");
        let wall = begin.elapsed();
        Ok(Sample { wall, cpu: reaped_children()?.saturating_sub(children) })
    }
}

impl Line {
    fn run(&self) -> anyhow::Result<()> {
        let output = Command::new(&self.program)
            .args(&self.args)
            .env_clear()
            .envs(&self.env)
            .current_dir(&self.directory)
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("cannot start {}", self.program.display()))?;
        if !output.status.success() {
            bail!("bare rustc failed: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(())
    }
}

fn holds_image(dir: &Path) -> anyhow::Result<bool> {
    let unreadable = || format!("cannot read {}", dir.display());
    for entry in std::fs::read_dir(dir).with_context(unreadable)? {
        let path = entry.with_context(unreadable)?.path();
        if path.extension().is_some_and(|extension| extension == "so") || path.is_dir() && holds_image(&path)?
        {
            return Ok(true);
        }
    }
    Ok(false)
}
