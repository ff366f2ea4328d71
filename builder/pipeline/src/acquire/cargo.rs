//! The trusted cargo, outside of the cage: it resolves and downloads, and runs nothing of what it
//! downloads.
//!
//! Its whole environment is ours: a home below the given work directory, no variable of the caller's.
//! Where the registry is reached through a mirror or a proxy, `MFAAS_REGISTRY_CONFIG` names a cargo
//! configuration file that says so. It must never run on a manifest that is not of our making.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use mfaas_rules::limits::RESOLVE;

use super::error::AcquireError;
use super::refusal;
use crate::config;
use crate::error::BuilderError;
use crate::toolchain::Toolchain;

/// How often a running cargo is looked after.
const POLL: Duration = Duration::from_millis(20);

/// cargo with a home of its own.
#[derive(Debug)]
pub(crate) struct Cargo {
    program: PathBuf,
    rustc: PathBuf,
    home: PathBuf,
    config: Option<PathBuf>,
}

impl Cargo {
    /// The cargo of `toolchain`, with its home and cache below `home`.
    pub(crate) fn new(toolchain: &Toolchain, home: &Path) -> Result<Self, BuilderError> {
        std::fs::create_dir_all(home).map_err(BuilderError::io(home))?;
        Ok(Self {
            program: toolchain.trusted_root().join("bin/cargo"),
            rustc: toolchain.compiler_root().join("bin/rustc"),
            home: home.canonicalize().map_err(BuilderError::io(home))?,
            config: config::registry_config()?,
        })
    }

    /// Where it keeps the archives that it downloaded: one directory for each registry.
    pub(super) fn archives(&self) -> PathBuf {
        self.home.join("cargo/registry/cache")
    }

    /// Runs it in `directory`, which holds our manifest, and answers its standard output.
    pub(super) fn run(&self, directory: &Path, arguments: &[&str]) -> Result<String, BuilderError> {
        let (out, err) = (self.home.join("stdout"), self.home.join("stderr"));
        let create = |path: &Path| File::create(path).map_err(BuilderError::io(path));
        let mut command = Command::new(&self.program);
        command
            .env_clear()
            .env("HOME", &self.home)
            .env("CARGO_HOME", self.home.join("cargo"))
            .env("CARGO_TERM_COLOR", "never")
            .env("RUSTC", &self.rustc)
            .current_dir(directory)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(create(&out)?)
            .stderr(create(&err)?);
        if let Some(config) = &self.config {
            command.arg("--config").arg(config);
        }
        let child = command.spawn().map_err(BuilderError::io(&self.program))?;
        let status = wait(child, &[&out, &err])?;
        let said = std::fs::read(&err).map_err(BuilderError::io(&err))?;
        if !status.success() {
            return Err(refusal::classify(&String::from_utf8_lossy(&said)).into());
        }
        std::fs::read_to_string(&out).map_err(BuilderError::io(&out))
    }
}

/// Waits for the end, which comes at the limits of [`RESOLVE`] at the latest.
fn wait(mut child: Child, outputs: &[&Path]) -> Result<ExitStatus, BuilderError> {
    let end = Instant::now() + Duration::from_secs(RESOLVE.wall_seconds_max);
    let is_large =
        |path: &&Path| std::fs::metadata(path).is_ok_and(|found| found.len() > RESOLVE.output_bytes_max);
    loop {
        if let Some(status) = child.try_wait().map_err(BuilderError::io("cargo"))? {
            return match outputs.iter().any(is_large) {
                true => Err(other("it printed more than is read").into()),
                false => Ok(status),
            };
        }
        let late = Instant::now() >= end;
        if late || outputs.iter().any(is_large) {
            // A child that is gone already is what we want.
            let _ = child.kill();
            child.wait().map_err(BuilderError::io("cargo"))?;
            let seconds = RESOLVE.wall_seconds_max;
            return Err(match late {
                true => AcquireError::Network { said: format!("no end after {seconds} s") }.into(),
                false => other("it printed more than is read").into(),
            });
        }
        std::thread::sleep(POLL);
    }
}

fn other(said: &str) -> AcquireError {
    AcquireError::Other { said: said.to_owned() }
}
