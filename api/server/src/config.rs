//! The server's slice of the environment, parsed once at start. A missing or unfit variable is
//! an error that names it; there is no second place where the environment is read.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::limits::{self, Bounds, Deadlines};

use mfaas_catalog::{QueueLimits, Retention};

/// Why the configuration is no good.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ConfigError {
    /// A variable that has no default is not set.
    #[error("{0} is not set")]
    Missing(&'static str),
    /// A variable has a value that does not fit.
    #[error("{name} is not valid: {reason}")]
    Invalid {
        /// The variable.
        name: &'static str,
        /// What is wrong with it.
        reason: String,
    },
}

/// What `serve` needs.
#[derive(Clone)]
pub struct ServeConfig {
    /// `MFAAS_DATABASE_URL`, with the server's own role. Holds a password: never logged.
    pub database_url: String,
    /// `MFAAS_BLOBS_URL`.
    pub blobs_url: String,
    /// `MFAAS_LISTEN`, plain HTTP, loopback only.
    pub listen: SocketAddr,
    /// `MFAAS_NODE_LISTEN`, mutual TLS.
    pub node_listen: SocketAddr,
    /// `MFAAS_METRICS_LISTEN`: where the numbers are served, alone and in plain HTTP; on the HTTP listener when absent.
    pub metrics_listen: Option<SocketAddr>,
    /// `MFAAS_TLS_DIR`, made by `init`.
    pub tls_dir: PathBuf,
    /// `MFAAS_CALL_KEYS_DIR`: private keys for call tokens; `call-keys` in `MFAAS_TLS_DIR` when absent.
    pub call_keys_dir: PathBuf,
    /// Names that the HTTP listener answers to: the loopback names and `MFAAS_HOSTS`.
    pub hosts: Vec<String>,
    /// `MFAAS_PUBLIC_URL`: how people reach the console, without a slash at the end. Absent: by
    /// the address that is listened on.
    pub public_url: Option<String>,
    /// `MFAAS_OIDC_FILE`: the configuration of the OpenID provider; none when absent.
    pub oidc_file: Option<PathBuf>,
    /// `MFAAS_TENANT_QUEUED` and `MFAAS_TENANT_QUEUED_BYTES`: what one tenant may have in the queue; `MFAAS_TENANT_FUNCTIONS`:
    /// how many functions in all.
    pub tenant_queue: QueueLimits,
    /// `MFAAS_TENANT_UPLOADS`: uploads of one tenant that are received at once.
    pub tenant_uploads: usize,
    /// `MFAAS_KEEP_*_DAYS`: how long what has ended is kept; 0 for ever.
    pub retention: Retention,
    /// `MFAAS_BLOB_GRACE_HOURS`: how long a blob is kept that no row refers to.
    pub blob_grace: Duration,
    /// `MFAAS_READY_FILE`.
    pub ready_file: Option<PathBuf>,
    /// How long callers may take: [`Deadlines::SERVER`]. No variable; tests wait less.
    pub deadlines: Deadlines,
    /// Connections on the HTTP listener: [`Bounds::HTTP`]. No variable, either.
    pub http_bounds: Bounds,
    /// How often what is old is forgotten: [`limits::FORGET_EVERY`]. No variable, either.
    pub forget_every: Duration,
    /// How long counted numbers are served: [`limits::COUNTS_LIFE`]. No variable, either.
    pub counts_life: Duration,
    /// How often the blob store is looked at: [`limits::PARTS_LOOK_EVERY`]. No variable, either.
    pub parts_look_every: Duration,
    /// How often deployments are looked for that have ended: [`limits::STAGES_LOOK_EVERY`]. No variable, either.
    pub stages_look_every: Duration,
    /// After what time an ended one is counted: [`limits::STAGES_SETTLE`]. No variable, either.
    pub stages_settle: Duration,
}

/// Hand-written so that no password reaches a log.
impl std::fmt::Debug for ServeConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServeConfig")
            .field("listen", &self.listen)
            .field("node_listen", &self.node_listen)
            .field("tls_dir", &self.tls_dir)
            .field("hosts", &self.hosts)
            .finish_non_exhaustive()
    }
}

/// Names of this machine for itself; a request under them cannot come through a stranger's DNS.
const LOOPBACK_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

impl ServeConfig {
    /// Reads every variable through `var` (the process's environment, or a test's).
    pub fn parse(var: &dyn Fn(&str) -> Option<String>) -> Result<Self, ConfigError> {
        Ok(Self {
            database_url: required(var, "MFAAS_DATABASE_URL")?,
            blobs_url: required(var, "MFAAS_BLOBS_URL")?,
            listen: loopback("MFAAS_LISTEN", address(var, "MFAAS_LISTEN", "127.0.0.1:7700")?)?,
            node_listen: address(var, "MFAAS_NODE_LISTEN", "127.0.0.1:7701")?,
            metrics_listen: metrics_listen(var)?,
            tls_dir: required(var, "MFAAS_TLS_DIR")?.into(),
            call_keys_dir: call_keys_dir(var)?,
            hosts: hosts(var),
            public_url: public_url(var)?,
            oidc_file: optional(var, "MFAAS_OIDC_FILE").map(PathBuf::from),
            tenant_queue: QueueLimits {
                deployments_max: number(var, "MFAAS_TENANT_QUEUED", limits::TENANT_QUEUED_DEFAULT)?,
                source_bytes_max: number(
                    var,
                    "MFAAS_TENANT_QUEUED_BYTES",
                    limits::TENANT_QUEUED_BYTES_DEFAULT,
                )?,
                functions_max: number(var, "MFAAS_TENANT_FUNCTIONS", limits::TENANT_FUNCTIONS_DEFAULT)?,
            },
            tenant_uploads: tenant_uploads(var)?,
            retention: retention(var)?,
            blob_grace: blob_grace(var)?,
            ready_file: optional(var, "MFAAS_READY_FILE").map(PathBuf::from),
            deadlines: Deadlines::SERVER,
            http_bounds: Bounds::HTTP,
            forget_every: limits::FORGET_EVERY,
            counts_life: limits::COUNTS_LIFE,
            parts_look_every: limits::PARTS_LOOK_EVERY,
            stages_look_every: limits::STAGES_LOOK_EVERY,
            stages_settle: limits::STAGES_SETTLE,
        })
    }
}

/// A whole number from 1.
fn number(
    var: &dyn Fn(&str) -> Option<String>,
    name: &'static str,
    default: u64,
) -> Result<u64, ConfigError> {
    let Some(text) = optional(var, name) else { return Ok(default) };
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or(ConfigError::Invalid { name, reason: "expected a whole number from 1".to_owned() })
}

/// No more than there are for all.
fn tenant_uploads(var: &dyn Fn(&str) -> Option<String>) -> Result<usize, ConfigError> {
    let name = "MFAAS_TENANT_UPLOADS";
    let uploads = number(var, name, limits::TENANT_UPLOADS_DEFAULT as u64)?;
    let uploads = usize::try_from(uploads).ok().filter(|uploads| *uploads <= limits::UPLOADS_MAX);
    let reason = || format!("expected a number up to {}", limits::UPLOADS_MAX);
    uploads.ok_or_else(|| ConfigError::Invalid { name, reason: reason() })
}

fn retention(var: &dyn Fn(&str) -> Option<String>) -> Result<Retention, ConfigError> {
    let default = Retention::DEFAULT;
    Ok(Retention {
        events_days: days(var, "MFAAS_KEEP_EVENTS_DAYS", default.events_days)?,
        tokens_days: days(var, "MFAAS_KEEP_TOKENS_DAYS", default.tokens_days)?,
        logs_days: days(var, "MFAAS_KEEP_LOGS_DAYS", default.logs_days)?,
        usage_days: days(var, "MFAAS_KEEP_USAGE_DAYS", default.usage_days)?,
        reports_days: days(var, "MFAAS_KEEP_REPORTS_DAYS", default.reports_days)?,
        revocations_days: days(var, "MFAAS_KEEP_REVOCATIONS_DAYS", default.revocations_days)?,
        uploads_days: days(var, "MFAAS_KEEP_UPLOADS_DAYS", default.uploads_days)?,
        artifacts_days: days(var, "MFAAS_KEEP_ARTIFACTS_DAYS", default.artifacts_days)?,
    })
}

/// A number of days, 0 for all that come.
fn days(var: &dyn Fn(&str) -> Option<String>, name: &'static str, default: u32) -> Result<u32, ConfigError> {
    let Some(text) = optional(var, name) else { return Ok(default) };
    let days = text.parse().ok().filter(|days| *days <= limits::KEEP_DAYS_MAX);
    let reason = || format!("expected a number of days up to {}, or 0 for ever", limits::KEEP_DAYS_MAX);
    days.ok_or_else(|| ConfigError::Invalid { name, reason: reason() })
}

/// At least an hour: an upload and a build have to find their row within that time.
fn blob_grace(var: &dyn Fn(&str) -> Option<String>) -> Result<Duration, ConfigError> {
    let name = "MFAAS_BLOB_GRACE_HOURS";
    let hours = number(var, name, limits::BLOB_GRACE_HOURS_DEFAULT)?;
    if hours <= limits::BLOB_GRACE_HOURS_MAX {
        return Ok(Duration::from_secs(hours * 3_600));
    }
    let reason = format!("expected a number of hours up to {}", limits::BLOB_GRACE_HOURS_MAX);
    Err(ConfigError::Invalid { name, reason })
}

/// Where the private keys for call tokens lie.
fn call_keys_dir(var: &dyn Fn(&str) -> Option<String>) -> Result<PathBuf, ConfigError> {
    match optional(var, "MFAAS_CALL_KEYS_DIR") {
        Some(directory) => Ok(directory.into()),
        None => Ok(PathBuf::from(required(var, "MFAAS_TLS_DIR")?).join("call-keys")),
    }
}

/// A variable that has to be there and not empty.
pub fn required(var: &dyn Fn(&str) -> Option<String>, name: &'static str) -> Result<String, ConfigError> {
    optional(var, name).ok_or(ConfigError::Missing(name))
}

fn optional(var: &dyn Fn(&str) -> Option<String>, name: &str) -> Option<String> {
    var(name).filter(|value| !value.is_empty())
}

fn address(
    var: &dyn Fn(&str) -> Option<String>,
    name: &'static str,
    default: &str,
) -> Result<SocketAddr, ConfigError> {
    let text = optional(var, name).unwrap_or_else(|| default.to_owned());
    text.parse().map_err(|_| ConfigError::Invalid {
        name,
        reason: "expected an address and a port, for example 127.0.0.1:7700".to_owned(),
    })
}

/// Anywhere: numbers name no tenant and open nothing.
fn metrics_listen(var: &dyn Fn(&str) -> Option<String>) -> Result<Option<SocketAddr>, ConfigError> {
    let name = "MFAAS_METRICS_LISTEN";
    optional(var, name).map(|text| address(var, name, &text)).transpose()
}

fn loopback(name: &'static str, address: SocketAddr) -> Result<SocketAddr, ConfigError> {
    if address.ip().is_loopback() {
        return Ok(address);
    }
    let reason =
        "tokens would cross the network in the clear; listen on 127.0.0.1 and put a TLS proxy in front";
    Err(ConfigError::Invalid { name, reason: reason.to_owned() })
}

fn hosts(var: &dyn Fn(&str) -> Option<String>) -> Vec<String> {
    let configured = optional(var, "MFAAS_HOSTS").unwrap_or_default();
    let configured = configured.split(',').map(str::trim).filter(|name| !name.is_empty());
    LOOPBACK_NAMES.into_iter().chain(configured).map(str::to_owned).collect()
}

fn public_url(var: &dyn Fn(&str) -> Option<String>) -> Result<Option<String>, ConfigError> {
    let Some(url) = optional(var, "MFAAS_PUBLIC_URL") else { return Ok(None) };
    let parsed = url.parse::<http::Uri>().ok();
    let fits = parsed.is_some_and(|uri| {
        matches!(uri.scheme_str(), Some("http" | "https"))
            && uri.authority().is_some()
            && uri.query().is_none()
    });
    if fits {
        return Ok(Some(url.trim_end_matches('/').to_owned()));
    }
    let reason = "expected an address such as https://mfaas.example".to_owned();
    Err(ConfigError::Invalid { name: "MFAAS_PUBLIC_URL", reason })
}

#[cfg(test)]
mod tests;
