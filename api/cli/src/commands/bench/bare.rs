//! The compiler alone: the same rustc commands that the builder runs, without sandbox, queue, audit,
//! inspection, signature or node.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use mfaas_supervisor::{Home, Siblings, current_dependencies, current_toolchain};
use serde::Deserialize;

use crate::failure::Failure;

/// The commands for one package.
#[derive(Debug)]
pub(super) struct Bare {
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
    pub(super) fn of(home: &Home, package: &Path) -> Result<Self, Failure> {
        let builder = Siblings::beside_us()?.path("mfaas-builder");
        let out = tempfile::tempdir().map_err(|e| Failure::Local(format!("no temporary directory: {e}")))?;
        let output = Command::new(&builder)
            .arg("commands")
            .arg(package)
            .arg("--out")
            .arg(out.path())
            .arg("--json")
            .env("MFAAS_TOOLCHAIN_DIR", current_toolchain(home)?)
            .env("MFAAS_DEPS_DIR", current_dependencies(home)?)
            .stdin(Stdio::null())
            .output()
            .map_err(Failure::io("cannot start", &builder))?;
        if !output.status.success() {
            return Err(Failure::Local(format!(
                "mfaas-builder commands: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            )));
        }
        let printed: Printed = serde_json::from_slice(&output.stdout).map_err(|e| Failure::Protocol {
            what: "mfaas-builder commands".to_owned(),
            cause: e.to_string(),
        })?;
        Ok(Self { commands: printed.commands, out })
    }

    /// Runs them one after the other and makes sure that they made an image.
    pub(super) fn run(&self) -> Result<(), Failure> {
        for line in &self.commands {
            let output = Command::new(&line.program)
                .args(&line.args)
                .env_clear()
                .envs(&line.env)
                .current_dir(&line.directory)
                .stdin(Stdio::null())
                .output()
                .map_err(Failure::io("cannot start", &line.program))?;
            if !output.status.success() {
                return Err(Failure::Local(format!(
                    "bare rustc failed: {}",
                    String::from_utf8_lossy(&output.stderr).trim()
                )));
            }
        }
        if holds_image(self.out.path())? {
            return Ok(());
        }
        Err(Failure::Local("bare rustc made no image".to_owned()))
    }
}

fn holds_image(dir: &Path) -> Result<bool, Failure> {
    for entry in std::fs::read_dir(dir).map_err(Failure::io("cannot read", dir))? {
        let path = entry.map_err(Failure::io("cannot read", dir))?.path();
        if path.extension().is_some_and(|extension| extension == "so") || path.is_dir() && holds_image(&path)?
        {
            return Ok(true);
        }
    }
    Ok(false)
}
