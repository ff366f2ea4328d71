//! The server's slice of the environment, parsed once at start. A missing or unfit variable is
//! an error that names it; there is no second place where the environment is read.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use crate::certificate::CertificateFiles;
use crate::limits::{self, Bounds, Deadlines};

use mfaas_authority::{SERVER_CERTIFICATE, SERVER_KEY};
use mfaas_catalog::{QueueLimits, Retention};
use mfaas_startup::{VariableError, Variables};

/// What `serve` needs.
#[derive(Clone)]
pub struct ServeConfig {
    /// `MFAAS_DATABASE_URL`, with the server's own role. Holds a password: never logged.
    pub database_url: String,
    /// `MFAAS_EVENTS_DATABASE_URL`: the database of functions' data, with a role for events alone; no triggers when absent.
    pub events_database_url: Option<String>,
    /// `MFAAS_BLOBS_URL`.
    pub blobs_url: String,
    /// `MFAAS_LISTEN`; the loopback only, unless [`Self::listen_tls`].
    pub listen: SocketAddr,
    /// `MFAAS_LISTEN_TLS`: whether REST and console speak HTTPS there; plain HTTP otherwise.
    pub listen_tls: bool,
    /// `MFAAS_HEALTH_LISTEN`: where `/healthz` and `/readyz` are served too, alone and in plain HTTP, under any name.
    pub health_listen: Option<SocketAddr>,
    /// `MFAAS_NODE_LISTEN`, mutual TLS.
    pub node_listen: SocketAddr,
    /// `MFAAS_METRICS_LISTEN`: where the numbers are served, alone and in plain HTTP; on the HTTP listener when absent.
    pub metrics_listen: Option<SocketAddr>,
    /// `MFAAS_TLS_DIR`, made by `mfaas-signer certify-server`.
    pub tls_dir: PathBuf,
    /// `MFAAS_TLS_CERTIFICATE_FILE` and `MFAAS_TLS_KEY_FILE`: what the server shows; what was made in `MFAAS_TLS_DIR`
    /// when absent.
    pub certificate: CertificateFiles,
    /// `MFAAS_CALL_KEYS_DIR`: private keys for call tokens; `call-keys` in `MFAAS_TLS_DIR` when absent.
    pub call_keys_dir: PathBuf,
    /// Names that the HTTP listener answers to: the loopback names and `MFAAS_HOSTS`.
    pub hosts: Vec<String>,
    /// `MFAAS_PUBLIC_URL`: how people reach the console, without a slash at the end. Absent: by
    /// the address that is listened on.
    pub public_url: Option<String>,
    /// `MFAAS_PUBLIC_INGRESS_URL`: where callers reach functions, without a slash at the end: a balancer before the nodes.
    /// Absent: at each node, where that says.
    pub public_ingress_url: Option<String>,
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
    /// How often the certificate's files are looked at: [`limits::CERTIFICATE_LOOK_EVERY`]. No variable, either.
    pub certificate_look_every: Duration,
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

/// Where events of objects are.
pub(crate) const EVENTS_VARIABLE: &str = "MFAAS_EVENTS_DATABASE_URL";

const HTTP_DEFAULT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7700);
const NODES_DEFAULT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7701);

/// Names of this machine for itself; a request under them cannot come through a stranger's DNS.
const LOOPBACK_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

impl ServeConfig {
    /// Reads and checks every variable.
    pub fn read(variables: &Variables) -> Result<Self, VariableError> {
        Ok(Self {
            database_url: variables.required("MFAAS_DATABASE_URL")?,
            events_database_url: variables.optional(EVENTS_VARIABLE)?,
            blobs_url: variables.required("MFAAS_BLOBS_URL")?,
            listen: listen(variables)?,
            listen_tls: variables.switch("MFAAS_LISTEN_TLS")?,
            health_listen: address(variables, "MFAAS_HEALTH_LISTEN")?,
            node_listen: address(variables, "MFAAS_NODE_LISTEN")?.unwrap_or(NODES_DEFAULT),
            metrics_listen: address(variables, "MFAAS_METRICS_LISTEN")?,
            tls_dir: variables.required("MFAAS_TLS_DIR")?.into(),
            certificate: certificate(variables)?,
            call_keys_dir: call_keys_dir(variables)?,
            hosts: hosts(variables)?,
            public_url: public_url(variables, "MFAAS_PUBLIC_URL")?,
            public_ingress_url: public_url(variables, "MFAAS_PUBLIC_INGRESS_URL")?,
            oidc_file: variables.optional("MFAAS_OIDC_FILE")?.map(PathBuf::from),
            tenant_queue: QueueLimits {
                deployments_max: variables.number(
                    "MFAAS_TENANT_QUEUED",
                    1..=u64::MAX,
                    limits::TENANT_QUEUED_DEFAULT,
                )?,
                source_bytes_max: variables.number(
                    "MFAAS_TENANT_QUEUED_BYTES",
                    1..=u64::MAX,
                    limits::TENANT_QUEUED_BYTES_DEFAULT,
                )?,
                functions_max: variables.number(
                    "MFAAS_TENANT_FUNCTIONS",
                    1..=u64::MAX,
                    limits::TENANT_FUNCTIONS_DEFAULT,
                )?,
            },
            tenant_uploads: variables.number(
                "MFAAS_TENANT_UPLOADS",
                1..=limits::UPLOADS_MAX,
                limits::TENANT_UPLOADS_DEFAULT,
            )?,
            retention: retention(variables)?,
            blob_grace: blob_grace(variables)?,
            ready_file: variables.optional("MFAAS_READY_FILE")?.map(PathBuf::from),
            deadlines: Deadlines::SERVER,
            http_bounds: Bounds::HTTP,
            forget_every: limits::FORGET_EVERY,
            counts_life: limits::COUNTS_LIFE,
            parts_look_every: limits::PARTS_LOOK_EVERY,
            certificate_look_every: limits::CERTIFICATE_LOOK_EVERY,
            stages_look_every: limits::STAGES_LOOK_EVERY,
            stages_settle: limits::STAGES_SETTLE,
        })
    }
}

fn retention(variables: &Variables) -> Result<Retention, VariableError> {
    let default = Retention::DEFAULT;
    Ok(Retention {
        events_days: days(variables, "MFAAS_KEEP_EVENTS_DAYS", default.events_days)?,
        tokens_days: days(variables, "MFAAS_KEEP_TOKENS_DAYS", default.tokens_days)?,
        logs_days: days(variables, "MFAAS_KEEP_LOGS_DAYS", default.logs_days)?,
        usage_days: days(variables, "MFAAS_KEEP_USAGE_DAYS", default.usage_days)?,
        reports_days: days(variables, "MFAAS_KEEP_REPORTS_DAYS", default.reports_days)?,
        revocations_days: days(variables, "MFAAS_KEEP_REVOCATIONS_DAYS", default.revocations_days)?,
        uploads_days: days(variables, "MFAAS_KEEP_UPLOADS_DAYS", default.uploads_days)?,
        artifacts_days: days(variables, "MFAAS_KEEP_ARTIFACTS_DAYS", default.artifacts_days)?,
    })
}

/// A number of days, 0 for all that come.
fn days(variables: &Variables, name: &'static str, default: u32) -> Result<u32, VariableError> {
    variables.number(name, 0..=limits::KEEP_DAYS_MAX, default)
}

/// At least an hour: an upload and a build have to find their row within that time.
fn blob_grace(variables: &Variables) -> Result<Duration, VariableError> {
    let range = 1..=limits::BLOB_GRACE_HOURS_MAX;
    let hours = variables.number("MFAAS_BLOB_GRACE_HOURS", range, limits::BLOB_GRACE_HOURS_DEFAULT)?;
    Ok(Duration::from_secs(hours * 3_600))
}

/// Where the private keys for call tokens lie.
fn call_keys_dir(variables: &Variables) -> Result<PathBuf, VariableError> {
    match variables.optional("MFAAS_CALL_KEYS_DIR")? {
        Some(directory) => Ok(directory.into()),
        None => Ok(PathBuf::from(variables.required("MFAAS_TLS_DIR")?).join("call-keys")),
    }
}

fn address(variables: &Variables, name: &'static str) -> Result<Option<SocketAddr>, VariableError> {
    variables.parsed_by(name, |text| {
        text.parse().map_err(|_| "expected an address and a port, for example 127.0.0.1:7700")
    })
}

/// Where REST and console are: beyond this machine with TLS alone.
fn listen(variables: &Variables) -> Result<SocketAddr, VariableError> {
    let address = address(variables, "MFAAS_LISTEN")?.unwrap_or(HTTP_DEFAULT);
    if address.ip().is_loopback() || variables.switch("MFAAS_LISTEN_TLS")? {
        return Ok(address);
    }
    let reason = "tokens would cross the network in the clear: set MFAAS_LISTEN_TLS=1, or listen on 127.0.0.1 and put a \
                  TLS proxy in front";
    Err(VariableError::invalid("MFAAS_LISTEN", reason))
}

/// The certificate that the server shows: from outside both files, or those of the private authority.
fn certificate(variables: &Variables) -> Result<CertificateFiles, VariableError> {
    let certificate = variables.optional("MFAAS_TLS_CERTIFICATE_FILE")?;
    let key = variables.optional("MFAAS_TLS_KEY_FILE")?;
    match (certificate, key) {
        (Some(certificate), Some(key)) => {
            Ok(CertificateFiles { certificate: certificate.into(), key: key.into() })
        }
        (None, None) => {
            let dir = PathBuf::from(variables.required("MFAAS_TLS_DIR")?);
            Ok(CertificateFiles { certificate: dir.join(SERVER_CERTIFICATE), key: dir.join(SERVER_KEY) })
        }
        (Some(_), None) => Err(VariableError::invalid(
            "MFAAS_TLS_KEY_FILE",
            "the certificate of MFAAS_TLS_CERTIFICATE_FILE needs its private key: set both, or neither",
        )),
        (None, Some(_)) => Err(VariableError::invalid(
            "MFAAS_TLS_CERTIFICATE_FILE",
            "the key of MFAAS_TLS_KEY_FILE needs its certificate: set both, or neither",
        )),
    }
}

fn hosts(variables: &Variables) -> Result<Vec<String>, VariableError> {
    let configured = variables.optional("MFAAS_HOSTS")?.unwrap_or_default();
    let configured = configured.split(',').map(str::trim).filter(|name| !name.is_empty());
    Ok(LOOPBACK_NAMES.into_iter().chain(configured).map(str::to_owned).collect())
}

fn public_url(variables: &Variables, name: &'static str) -> Result<Option<String>, VariableError> {
    let Some(url) = variables.optional(name)? else { return Ok(None) };
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
    Err(VariableError::Invalid { name, reason })
}

#[cfg(test)]
mod tests;
