//! Toolchain and dependency cache for tests that call `mfaas-builder` without an installation:
//! made by the program itself, kept under the build directory, and made again only when something
//! that goes into them has changed.
//!
//! It must never use a toolchain or cache of the machine: what a test shows has to be about this
//! checkout.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
};

use rustix::fs::FlockOperation;

use crate::seed::{self, Offer};
use crate::{profile_directory, programs};

/// Where everything is.
#[derive(Debug)]
pub struct Installed {
    /// The imported toolchain, `…/toolchains/<id>`.
    pub toolchain: PathBuf,
    /// The dependency cache, `…/deps/<key>`. It offers the seed's crates and those of `tests/fixtures`.
    pub deps: PathBuf,
}

impl Installed {
    /// Makes what is missing with the programs of this build, which takes a minute or two on a cold machine.
    ///
    /// # Panics
    /// When a step fails; the message holds what it said.
    pub fn make() -> Self {
        let (home, _lock) = materials();
        let toolchain = import_toolchain(&home.join("toolchains"));
        let deps = build_deps(&home, &toolchain);
        Self { toolchain, deps }
    }

    /// `mfaas-builder` with this toolchain and this cache.
    pub fn builder(&self) -> Command {
        let mut command = builder();
        command.env("MFAAS_TOOLCHAIN_DIR", &self.toolchain).env("MFAAS_DEPS_DIR", &self.deps);
        command
    }
}

/// `mfaas-builder` of this build, without anything of this machine's configuration.
pub fn builder() -> Command {
    let mut command = Command::new(programs().join("mfaas-builder"));
    for name in ["MFAAS_TOOLCHAIN_DIR", "MFAAS_DEPS_DIR", "MFAAS_SANDBOX_MINIMUM", "MFAAS_LOG"] {
        command.env_remove(name);
    }
    command
}

/// `mfaas-worker` of this build.
pub fn worker() -> Command {
    Command::new(programs().join("mfaas-worker"))
}

/// Runs to the end and answers the last line of the standard output.
///
/// # Panics
/// When the command fails.
fn stdout(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{err}", output.status);
    out.lines().last().unwrap_or_default().to_owned()
}

fn import_toolchain(into: &Path) -> PathBuf {
    let sysroot = stdout(Command::new("rustc").args(["--print", "sysroot"]));
    let id = stdout(builder().args(["toolchain", "import", "--from", &sysroot, "--into"]).arg(into));
    keep_only(into, &id);
    into.join(id)
}

fn build_deps(home: &Path, toolchain: &Path) -> PathBuf {
    let (vendor, caches) = (home.join("vendor"), home.join("deps"));
    let seed = seed::write(&home.join("seed"), Offer::All).unwrap_or_else(|error| panic!("seed: {error}"));
    let _ = stdout(builder().args(["deps", "vendor", "--seed"]).arg(&seed).arg("--into").arg(&vendor));
    let mut build = builder();
    build.args(["deps", "build", "--seed"]).arg(seed).arg("--vendor").arg(&vendor);
    let key = stdout(build.arg("--toolchain").arg(toolchain).arg("--into").arg(&caches));
    keep_only(&caches, &key);
    caches.join(key)
}

/// Removes what earlier versions of the inputs led to, and a note of an installation about which of
/// them is current: a toolchain is half a gigabyte.
fn keep_only(directory: &Path, name: &str) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_name() != name {
            let path = entry.path();
            let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
            removed.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        }
    }
}

/// Where toolchain, vendored sources and dependency caches of this build directory lie, and the
/// lock that makes sure that only one test makes them.
pub(crate) fn materials() -> (PathBuf, File) {
    let directory = profile_directory().join("site");
    fs::create_dir_all(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let path = directory.join("lock");
    let lock = File::create(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    rustix::fs::flock(&lock, FlockOperation::LockExclusive)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    (directory, lock)
}
