//! The trusted cargo, outside of the sandbox: it resolves and downloads, and runs nothing of what it
//! downloads.
//!
//! Its whole environment is ours: a home below the given work directory, and of the caller's variables
//! only those that name a proxy or certificates. Where the registry is reached through a mirror,
//! `MFAAS_REGISTRY_CONFIG` names a cargo configuration file that says so. It must never run on a manifest that is not of our making.

use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use mfaas_rules::limits::RESOLVE;

use super::error::AcquireError;
use super::refusal;
use crate::config;
use crate::disk;
use crate::error::BuilderError;
use crate::toolchain::Toolchain;

/// The variables of the caller that say how a registry is reached.
const NETWORK_VARIABLES: [&str; 8] = [
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "CARGO_HTTP_CAINFO",
];

/// How often a running cargo is looked after.
const POLL: Duration = Duration::from_millis(20);

/// cargo with a home of its own.
#[derive(Debug)]
pub(crate) struct Cargo {
    program: PathBuf,
    rustc: PathBuf,
    home: PathBuf,
    scratch: PathBuf,
    config: Option<PathBuf>,
}

impl Cargo {
    /// The cargo of `toolchain`, with its home and cache below `home`, and what it is run on below `scratch`.
    pub(crate) fn new(toolchain: &Toolchain, home: &Path, scratch: &Path) -> Result<Self, BuilderError> {
        std::fs::create_dir_all(home).map_err(BuilderError::io(home))?;
        Ok(Self {
            program: toolchain.trusted_root().join("bin/cargo"),
            rustc: toolchain.compiler_root().join("bin/rustc"),
            home: home.canonicalize().map_err(BuilderError::io(home))?,
            scratch: scratch.to_path_buf(),
            config: config::registry_config()?,
        })
    }

    /// A directory that is gone afterwards, for a workspace that it is run on.
    pub(super) fn scratch(&self) -> Result<tempfile::TempDir, BuilderError> {
        tempfile::tempdir_in(&self.scratch).map_err(BuilderError::io(&self.scratch))
    }

    /// Where it keeps what it read of registries' indexes.
    pub(super) fn indexes(&self) -> PathBuf {
        self.home.join("cargo/registry/index")
    }

    /// Where it keeps the archives that it downloaded: one directory for each registry.
    pub(super) fn archives(&self) -> PathBuf {
        self.home.join("cargo/registry/cache")
    }

    /// Runs it in `directory`, which holds our manifest, and answers its standard output.
    pub(super) fn run(&self, directory: &Path, arguments: &[&str]) -> Result<String, BuilderError> {
        let file = || tempfile::tempfile_in(&self.scratch).map_err(BuilderError::io(&self.scratch));
        let (mut out, mut err) = (file()?, file()?);
        let copy = |file: &File| file.try_clone().map_err(BuilderError::io("cargo's output"));
        let mut command = Command::new(&self.program);
        command
            .env_clear()
            .env("HOME", &self.home)
            .env("CARGO_HOME", self.home.join("cargo"))
            .env("TMPDIR", &self.scratch)
            .env("CARGO_TERM_COLOR", "never")
            .env("RUSTC", &self.rustc)
            .envs(NETWORK_VARIABLES.into_iter().filter_map(|name| Some((name, std::env::var_os(name)?))))
            .current_dir(directory)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(copy(&out)?)
            .stderr(copy(&err)?);
        if let Some(config) = &self.config {
            command.arg("--config").arg(config);
        }
        let child = command.spawn().map_err(BuilderError::io(&self.program))?;
        let status = wait(child, &[&out, &err])?;
        if !status.success() {
            self.has_room()?;
            return Err(refusal::classify(&String::from_utf8_lossy(&read(&mut err)?)).into());
        }
        String::from_utf8(read(&mut out)?).map_err(|_| other("it printed something else than text").into())
    }

    /// Whether it had room wherever it writes. cargo tells a full disk in many words, and a crate's own words stand beside
    /// them: nobody reads them for that.
    fn has_room(&self) -> Result<(), BuilderError> {
        let directories = [&self.home, &self.scratch];
        directories.into_iter().try_for_each(|path| disk::has_quota(path, RESOLVE.free_bytes_min))
    }
}

/// Everything that was written to one of cargo's outputs.
fn read(file: &mut File) -> Result<Vec<u8>, BuilderError> {
    let mut bytes = Vec::new();
    file.rewind()
        .and_then(|()| file.read_to_end(&mut bytes))
        .map_err(BuilderError::io("cargo's output"))
        .map(|_| bytes)
}

/// Waits for the end, which comes at the limits of [`RESOLVE`] at the latest.
fn wait(mut child: Child, outputs: &[&File]) -> Result<ExitStatus, BuilderError> {
    let end = Instant::now() + Duration::from_secs(RESOLVE.wall_seconds_max);
    let is_large = |file: &&File| file.metadata().is_ok_and(|found| found.len() > RESOLVE.output_bytes_max);
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
                true => AcquireError::Network { reason: format!("no end after {seconds} s") }.into(),
                false => other("it printed more than is read").into(),
            });
        }
        std::thread::sleep(POLL);
    }
}

fn other(text: &str) -> AcquireError {
    AcquireError::Other { reason: text.to_owned() }
}

#[cfg(test)]
mod tests;
