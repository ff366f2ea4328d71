//! What builds need and what takes long to make: the imported toolchain, the vendored sources and
//! the compiled dependencies. Each is made once and found again.
//!
//! The directories may be shared between homes (`--toolchains`, `--vendor`, `--deps`): whoever
//! makes something holds the directory's lock. What is published belongs to root (or the one
//! user) and nobody else can write it.

use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use mfaas_ident::Digest;
use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

use crate::error::SupervisorError;
use crate::files::{publish_tree, write_atomically};
use crate::identity::{Identities, Role};
use crate::launch::run_as_self;
use crate::layout::Home;
use crate::options::Materials;
use crate::programs::Programs;

/// The only toolchain there is.
const RUST_VERSION: &str = "1.95.0";

/// Something that was made once from an input and is current while the input stays the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Made {
    /// A fingerprint of the input.
    from: String,
    /// The name of the result: a toolchain id or a dependency key.
    id: String,
}

impl Materials {
    /// The current toolchain's directory, imported if the installed compiler changed.
    pub(crate) fn toolchain(&self, programs: &Programs<'_>) -> Result<PathBuf, SupervisorError> {
        let sysroot = match &self.sysroot {
            Some(sysroot) => sysroot.clone(),
            None => match self.without_rust() {
                Some(ready) => return Ok(ready),
                None => find_sysroot()?,
            },
        };
        let _lock = lock(&self.toolchains)?;
        let from = fingerprint_of_sysroot(&sysroot, &programs.siblings.path("mfaas-builder"))?;
        if let Some(ready) = current(&self.toolchains, &from) {
            return Ok(ready);
        }
        let builder = programs.siblings.path("mfaas-builder");
        let arguments = [
            "toolchain".as_ref(),
            "import".as_ref(),
            "--from".as_ref(),
            sysroot.as_os_str(),
            "--into".as_ref(),
            self.toolchains.as_os_str(),
        ];
        let printed = run_as_self(&builder, arguments.map(std::ffi::OsStr::to_owned))?;
        remember(&self.toolchains, from, &printed)
    }

    /// On a machine where rustup is gone the toolchain that was imported before still serves.
    fn without_rust(&self) -> Option<PathBuf> {
        if find_sysroot().is_ok() {
            return None;
        }
        current_in(&self.toolchains).ok().filter(|path| path.is_dir())
    }

    /// The current dependencies' directory, vendored and compiled if the seed, the toolchain or
    /// the builder changed.
    pub(crate) fn dependencies(
        &self,
        programs: &Programs<'_>,
        identities: &Identities,
        toolchain: &Path,
    ) -> Result<PathBuf, SupervisorError> {
        let home = programs.home;
        let seed = self.local_seed(home)?;
        let _lock = lock(&self.deps)?;
        let builder = programs.siblings.path("mfaas-builder");
        let from = fingerprint_of_seed(&seed, toolchain, &builder)?;
        if let Some(ready) = current(&self.deps, &from) {
            return Ok(ready);
        }
        self.vendored(&seed, &builder, identities)?;
        // The build runs code of dependencies (procedural macros): never as root. It gets the
        // directory for as long as it takes.
        give(&self.deps, identities.of(Role::Builder))?;
        let built = programs
            .builder_command()
            .args(["deps", "build", "--seed"])
            .arg(&seed)
            .arg("--vendor")
            .arg(&self.vendor)
            .arg("--toolchain")
            .arg(toolchain)
            .arg("--into")
            .arg(&self.deps)
            .run(home, identities);
        give(&self.deps, identities.owner(None))?;
        let printed = built?;
        publish_tree(&self.deps, identities.owner(None))?;
        remember(&self.deps, from, &printed)
    }

    /// Downloads the sources, unless that was done for the same lockfile: an update of mfaas alone
    /// must not need the network.
    fn vendored(&self, seed: &Path, builder: &Path, identities: &Identities) -> Result<(), SupervisorError> {
        let marker = self.vendor.with_extension("lock");
        let lockfile =
            std::fs::read(seed.join("Cargo.lock")).map_err(SupervisorError::io("cannot read", seed))?;
        if self.vendor.is_dir() && std::fs::read(&marker).is_ok_and(|done| done == lockfile) {
            return Ok(());
        }
        let arguments = [
            "deps".as_ref(),
            "vendor".as_ref(),
            "--seed".as_ref(),
            seed.as_os_str(),
            "--into".as_ref(),
            self.vendor.as_os_str(),
        ];
        run_as_self(builder, arguments.map(std::ffi::OsStr::to_owned))?;
        publish_tree(&self.vendor, identities.owner(None))?;
        write_atomically(&marker, &lockfile, 0o644)
    }

    /// A copy of the seed that the builder's user can read: the original may be below /root.
    fn local_seed(&self, home: &Home) -> Result<PathBuf, SupervisorError> {
        let copy = home.join("seed");
        let original = self.seed.clone().or_else(find_seed);
        match original {
            Some(original) => {
                // A file copied onto itself would be emptied.
                if original.canonicalize().ok() != copy.canonicalize().ok() || !copy.exists() {
                    copy_tree(&original, &copy)?;
                }
                publish_tree(&copy, None)?;
                Ok(copy)
            }
            None if copy.join("Cargo.lock").is_file() => Ok(copy),
            None => Err(SupervisorError::Usage(
                "cannot find the seed workspace (builder/toolchain/seed of the sources); give --seed"
                    .to_owned(),
            )),
        }
    }
}

/// Looks for the seed in the source tree that we were built in.
fn find_seed() -> Option<PathBuf> {
    let own = std::env::current_exe().ok()?;
    let here = std::env::current_dir().ok();
    own.ancestors()
        .map(Path::to_owned)
        .chain(here)
        .map(|dir| dir.join("builder/toolchain/seed"))
        .find(|seed| seed.join("Cargo.lock").is_file())
}

/// The sysroot of exactly our version, by rustup.
pub fn find_sysroot() -> Result<PathBuf, SupervisorError> {
    run_as_self(Path::new("rustup"), ["run", RUST_VERSION, "rustc", "--print", "sysroot"])
        .or_else(|_| run_as_self(Path::new("rustc"), ["--print", "sysroot"]))
        .map(PathBuf::from)
        .map_err(|_| {
            SupervisorError::Local(format!(
                "Rust {RUST_VERSION} is not installed (rustup toolchain install {RUST_VERSION})"
            ))
        })
}

fn fingerprint_of_sysroot(sysroot: &Path, builder: &Path) -> Result<String, SupervisorError> {
    let compiler = sysroot.join("bin/rustc");
    // The builder makes the link stub that becomes part of the toolchain.
    Ok(format!("{} {} {}", sysroot.display(), stamp(&compiler)?, stamp(builder)?))
}

fn fingerprint_of_seed(seed: &Path, toolchain: &Path, builder: &Path) -> Result<String, SupervisorError> {
    let mut parts = Vec::new();
    for name in ["Cargo.toml", "Cargo.lock"] {
        let path = seed.join(name);
        parts.push(
            Digest::of(&std::fs::read(&path).map_err(SupervisorError::io("cannot read", &path))?).to_string(),
        );
    }
    parts.push(toolchain.file_name().unwrap_or_default().to_string_lossy().into_owned());
    // The builder carries the sources of the SDK that are compiled along.
    parts.push(stamp(builder)?);
    Ok(parts.join(" "))
}

/// Size and time of a file: changes whenever the file is built again.
fn stamp(path: &Path) -> Result<String, SupervisorError> {
    let meta = std::fs::metadata(path).map_err(SupervisorError::io("cannot read", path))?;
    Ok(format!("{}:{}.{}", meta.len(), meta.mtime(), meta.mtime_nsec()))
}

fn current(dir: &Path, from: &str) -> Option<PathBuf> {
    let made: Made = serde_json::from_slice(&std::fs::read(dir.join("current.json")).ok()?).ok()?;
    Some(dir.join(made.id)).filter(|path| made.from == from && path.is_dir())
}

/// The toolchain that builds of this home use.
pub fn current_toolchain(home: &Home) -> Result<PathBuf, SupervisorError> {
    current_in(&home.join("toolchains"))
}

/// The compiled dependencies that builds of this home use.
pub fn current_dependencies(home: &Home) -> Result<PathBuf, SupervisorError> {
    current_in(&home.join("deps"))
}

/// The result that a directory remembers, whatever it was made from.
fn current_in(dir: &Path) -> Result<PathBuf, SupervisorError> {
    let path = dir.join("current.json");
    let bytes = std::fs::read(&path).map_err(SupervisorError::io("cannot read", &path))?;
    let made: Made = serde_json::from_slice(&bytes)
        .map_err(|e| SupervisorError::Local(format!("{} is damaged: {e}", path.display())))?;
    Ok(dir.join(made.id))
}

/// The last line that the builder printed names the result.
fn remember(dir: &Path, from: String, printed: &str) -> Result<PathBuf, SupervisorError> {
    let id = printed.lines().last().unwrap_or("").trim().to_owned();
    let result = dir.join(&id);
    if id.is_empty() || id.contains('/') || !result.is_dir() {
        return Err(SupervisorError::Protocol {
            what: "mfaas-builder".to_owned(),
            cause: format!("{} is not there", result.display()),
        });
    }
    let bytes = serde_json::to_vec(&Made { from, id }).map_err(|e| SupervisorError::Local(e.to_string()))?;
    write_atomically(&dir.join("current.json"), &bytes, 0o644)?;
    Ok(result)
}

/// Waits for the directory's lock; it is released with the value.
fn lock(dir: &Path) -> Result<File, SupervisorError> {
    std::fs::create_dir_all(dir).map_err(SupervisorError::io("cannot make", dir))?;
    let path = dir.join(".lock");
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(SupervisorError::io("cannot open", &path))?;
    rustix::fs::flock(&file, FlockOperation::LockExclusive)
        .map_err(|e| SupervisorError::io("cannot lock", &path)(e.into()))?;
    Ok(file)
}

fn give(dir: &Path, owner: Option<(rustix::fs::Uid, rustix::fs::Gid)>) -> Result<(), SupervisorError> {
    match owner {
        Some((uid, gid)) => rustix::fs::chown(dir, Some(uid), Some(gid))
            .map_err(|e| SupervisorError::io("cannot chown", dir)(e.into())),
        None => Ok(()),
    }
}

fn copy_tree(from: &Path, to: &Path) -> Result<(), SupervisorError> {
    std::fs::create_dir_all(to).map_err(SupervisorError::io("cannot make", to))?;
    for entry in std::fs::read_dir(from).map_err(SupervisorError::io("cannot read", from))? {
        let entry = entry.map_err(SupervisorError::io("cannot read", from))?;
        let kind = entry.file_type().map_err(SupervisorError::io("cannot read", from))?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if kind.is_dir() && entry.file_name() != "target" {
            copy_tree(&source, &target)?;
        } else if kind.is_file() {
            std::fs::copy(&source, &target).map_err(SupervisorError::io("cannot copy to", &target))?;
        }
    }
    Ok(())
}
