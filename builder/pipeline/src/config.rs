//! This program's slice of the environment, read once at start.

use std::path::PathBuf;

use crate::error::BuilderError;
use crate::sandbox::SandboxMinimum;

/// What `serve` needs.
#[derive(Debug)]
pub(crate) struct ServeConfig {
    /// `MFAAS_DATABASE_URL`.
    pub(crate) database_url: String,
    /// `MFAAS_BLOBS_URL`.
    pub(crate) blobs_url: String,
    /// `MFAAS_TOOLCHAIN_DIR`: one imported toolchain, `…/toolchains/<id>`.
    pub(crate) toolchain: PathBuf,
    /// `MFAAS_DEPS_DIR`: one dependency cache, `…/deps/<key>`.
    pub(crate) deps: PathBuf,
    /// `MFAAS_SITE_DEPS_DIR`: where the acquirer puts caches that hold more than what ships; without it, what
    /// ships is all there is.
    pub(crate) site_deps: Option<PathBuf>,
    /// `MFAAS_WORK_DIR`: where scratch directories are made.
    pub(crate) work: PathBuf,
    /// `MFAAS_SANDBOX_MINIMUM`: `full` (default) or `landlock`.
    pub(crate) sandbox_minimum: SandboxMinimum,
    /// `MFAAS_READY_FILE`, if it is to be written.
    pub(crate) ready_file: Option<PathBuf>,
}

/// What `acquire` needs.
#[derive(Debug)]
pub(crate) struct AcquireConfig {
    /// `MFAAS_DATABASE_URL`.
    pub(crate) database_url: String,
    /// `MFAAS_BLOBS_URL`.
    pub(crate) blobs_url: String,
    /// `MFAAS_TOOLCHAIN_DIR`: one imported toolchain.
    pub(crate) toolchain: PathBuf,
    /// `MFAAS_DEPS_DIR`: the dependency cache that ships.
    pub(crate) deps: PathBuf,
    /// `MFAAS_SITE_DEPS_DIR`: where the site's own caches go.
    pub(crate) site_deps: PathBuf,
    /// `MFAAS_SEED_DIR`: the seed that the cache was built from.
    pub(crate) seed: PathBuf,
    /// `MFAAS_WORK_DIR`: where downloads are kept and builds run.
    pub(crate) work: PathBuf,
    /// `MFAAS_SANDBOX_MINIMUM`: `full` (default) or `landlock`.
    pub(crate) sandbox_minimum: SandboxMinimum,
    /// `MFAAS_AUTOMATIC_ADMISSION`: 1 if the rules may admit a crate by themselves, default 0.
    pub(crate) automatic_admission: bool,
    /// `MFAAS_READY_FILE`, if it is to be written.
    pub(crate) ready_file: Option<PathBuf>,
}

impl AcquireConfig {
    /// Reads and checks every variable.
    pub(crate) fn from_environment() -> Result<Self, BuilderError> {
        Ok(Self {
            database_url: required("MFAAS_DATABASE_URL")?,
            blobs_url: required("MFAAS_BLOBS_URL")?,
            toolchain: required("MFAAS_TOOLCHAIN_DIR")?.into(),
            deps: required("MFAAS_DEPS_DIR")?.into(),
            site_deps: required("MFAAS_SITE_DEPS_DIR")?.into(),
            seed: required("MFAAS_SEED_DIR")?.into(),
            work: required("MFAAS_WORK_DIR")?.into(),
            sandbox_minimum: sandbox_minimum()?,
            automatic_admission: switch("MFAAS_AUTOMATIC_ADMISSION")?,
            ready_file: optional("MFAAS_READY_FILE")?.map(PathBuf::from),
        })
    }
}

/// Where `check` finds a compiler, if it finds one. How strong its sandbox is cannot be configured: a
/// check runs the compiler in a full one or not at all.
#[derive(Debug)]
pub(crate) struct CheckConfig {
    /// `MFAAS_TOOLCHAIN_DIR`.
    pub(crate) toolchain: Option<PathBuf>,
    /// `MFAAS_DEPS_DIR`.
    pub(crate) deps: Option<PathBuf>,
}

impl ServeConfig {
    /// Reads and checks every variable.
    pub(crate) fn from_environment() -> Result<Self, BuilderError> {
        Ok(Self {
            database_url: required("MFAAS_DATABASE_URL")?,
            blobs_url: required("MFAAS_BLOBS_URL")?,
            toolchain: required("MFAAS_TOOLCHAIN_DIR")?.into(),
            deps: required("MFAAS_DEPS_DIR")?.into(),
            site_deps: optional("MFAAS_SITE_DEPS_DIR")?.map(PathBuf::from),
            work: required("MFAAS_WORK_DIR")?.into(),
            sandbox_minimum: sandbox_minimum()?,
            ready_file: optional("MFAAS_READY_FILE")?.map(PathBuf::from),
        })
    }
}

impl CheckConfig {
    /// Reads the variables; all are optional.
    pub(crate) fn from_environment() -> Result<Self, BuilderError> {
        Ok(Self {
            toolchain: optional("MFAAS_TOOLCHAIN_DIR")?.map(PathBuf::from),
            deps: optional("MFAAS_DEPS_DIR")?.map(PathBuf::from),
        })
    }
}

/// The directories in which `mfaas up` keeps its home, the present user's first.
pub(crate) fn homes() -> Vec<PathBuf> {
    let user = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/share/mfaas"));
    user.into_iter().chain([PathBuf::from("/var/lib/mfaas")]).collect()
}

/// `MFAAS_SANDBOX_MINIMUM`: `full` (default) or `landlock`.
pub(crate) fn sandbox_minimum() -> Result<SandboxMinimum, BuilderError> {
    let (name, value) = renamed("MFAAS_SANDBOX_MINIMUM", "MFAAS_CAGE_MINIMUM")?;
    match value.as_deref() {
        None | Some("full") => Ok(SandboxMinimum::Full),
        Some("landlock") => Ok(SandboxMinimum::Landlock),
        Some(_) => Err(invalid(name, "it is neither full nor landlock")),
    }
}

/// A variable that had another name in the release before, and the name under which it was found.
fn renamed(
    name: &'static str,
    old_name: &'static str,
) -> Result<(&'static str, Option<String>), BuilderError> {
    match optional(name)? {
        Some(value) => Ok((name, Some(value))),
        None => {
            let value = optional(old_name)?;
            if value.is_some() {
                tracing::warn!(
                    "{old_name} is now called {name}; set that one, the next release ignores {old_name}"
                );
            }
            Ok((old_name, value))
        }
    }
}

/// `MFAAS_REGISTRY_CONFIG`: a cargo configuration file that says how the registry is reached, where it
/// is not reached directly.
pub(crate) fn registry_config() -> Result<Option<PathBuf>, BuilderError> {
    Ok(optional("MFAAS_REGISTRY_CONFIG")?.map(PathBuf::from))
}

/// `0` (default) or `1`.
fn switch(name: &'static str) -> Result<bool, BuilderError> {
    match optional(name)?.as_deref() {
        None | Some("0") => Ok(false),
        Some("1") => Ok(true),
        Some(_) => Err(invalid(name, "it is neither 0 nor 1")),
    }
}

fn required(name: &'static str) -> Result<String, BuilderError> {
    optional(name)?.ok_or_else(|| invalid(name, "it is not set"))
}

/// An empty variable counts as not set.
fn optional(name: &'static str) -> Result<Option<String>, BuilderError> {
    match std::env::var(name) {
        Ok(value) if value.is_empty() => Ok(None),
        Ok(value) => Ok(Some(value)),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(std::env::VarError::NotUnicode(_)) => Err(invalid(name, "it is not UTF-8")),
    }
}

fn invalid(name: &'static str, problem: &str) -> BuilderError {
    BuilderError::Config { name, problem: problem.to_owned() }
}
