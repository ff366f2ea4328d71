//! This program's slice of the environment, read once at start.

use std::net::SocketAddr;
use std::path::PathBuf;

use mfaas_startup::{VariableError, Variables};

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
    /// `MFAAS_ISOLATION_SOCKET`: where the isolation controller of this machine listens, if what is built gives way to calls.
    pub(crate) isolation_socket: Option<PathBuf>,
    /// `MFAAS_METRICS_LISTEN`: where metrics are shown; nowhere if absent.
    pub(crate) metrics_listen: Option<SocketAddr>,
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
    /// `MFAAS_METRICS_LISTEN`: where metrics are shown; nowhere if absent.
    pub(crate) metrics_listen: Option<SocketAddr>,
    /// `MFAAS_READY_FILE`, if it is to be written.
    pub(crate) ready_file: Option<PathBuf>,
}

impl AcquireConfig {
    /// Reads and checks every variable.
    pub(crate) fn read(variables: &Variables) -> Result<Self, VariableError> {
        Ok(Self {
            database_url: variables.required("MFAAS_DATABASE_URL")?,
            blobs_url: variables.required("MFAAS_BLOBS_URL")?,
            toolchain: variables.required("MFAAS_TOOLCHAIN_DIR")?.into(),
            deps: variables.required("MFAAS_DEPS_DIR")?.into(),
            site_deps: variables.required("MFAAS_SITE_DEPS_DIR")?.into(),
            seed: variables.required("MFAAS_SEED_DIR")?.into(),
            work: variables.required("MFAAS_WORK_DIR")?.into(),
            sandbox_minimum: sandbox_minimum(variables)?,
            automatic_admission: variables.switch("MFAAS_AUTOMATIC_ADMISSION")?,
            metrics_listen: variables.parsed("MFAAS_METRICS_LISTEN")?,
            ready_file: variables.optional("MFAAS_READY_FILE")?.map(PathBuf::from),
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
    pub(crate) fn read(variables: &Variables) -> Result<Self, VariableError> {
        Ok(Self {
            database_url: variables.required("MFAAS_DATABASE_URL")?,
            blobs_url: variables.required("MFAAS_BLOBS_URL")?,
            toolchain: variables.required("MFAAS_TOOLCHAIN_DIR")?.into(),
            deps: variables.required("MFAAS_DEPS_DIR")?.into(),
            site_deps: variables.optional("MFAAS_SITE_DEPS_DIR")?.map(PathBuf::from),
            work: variables.required("MFAAS_WORK_DIR")?.into(),
            sandbox_minimum: sandbox_minimum(variables)?,
            isolation_socket: isolation_socket(variables)?,
            metrics_listen: variables.parsed("MFAAS_METRICS_LISTEN")?,
            ready_file: variables.optional("MFAAS_READY_FILE")?.map(PathBuf::from),
        })
    }
}

impl CheckConfig {
    /// Reads the variables; all are optional.
    pub(crate) fn read(variables: &Variables) -> Result<Self, VariableError> {
        Ok(Self {
            toolchain: variables.optional("MFAAS_TOOLCHAIN_DIR")?.map(PathBuf::from),
            deps: variables.optional("MFAAS_DEPS_DIR")?.map(PathBuf::from),
        })
    }
}

/// The directories in which `mfaas up` keeps its home, the present user's first.
pub(crate) fn homes() -> Vec<PathBuf> {
    let user = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/share/mfaas"));
    user.into_iter().chain([PathBuf::from("/var/lib/mfaas")]).collect()
}

/// `MFAAS_ISOLATION_SOCKET`, if it is set.
pub(crate) fn isolation_socket(variables: &Variables) -> Result<Option<PathBuf>, VariableError> {
    Ok(variables.optional("MFAAS_ISOLATION_SOCKET")?.map(PathBuf::from))
}

/// `MFAAS_SANDBOX_MINIMUM`: `full` (default) or `landlock`.
pub(crate) fn sandbox_minimum(variables: &Variables) -> Result<SandboxMinimum, VariableError> {
    let minimum = variables.parsed_by("MFAAS_SANDBOX_MINIMUM", |text| match text {
        "full" => Ok(SandboxMinimum::Full),
        "landlock" => Ok(SandboxMinimum::Landlock),
        _ => Err("expected full or landlock"),
    })?;
    Ok(minimum.unwrap_or(SandboxMinimum::Full))
}

/// `MFAAS_REGISTRY_CONFIG`: a cargo configuration file that says how the registry is reached, where it
/// is not reached directly.
pub(crate) fn registry_config() -> Result<Option<PathBuf>, VariableError> {
    Ok(Variables::of_process().optional("MFAAS_REGISTRY_CONFIG")?.map(PathBuf::from))
}
