//! The node's servers: a client that believes one certificate authority and asks the addresses that the operator gave, one
//! at a time. It stays with one as long as that answers.
//!
//! Must never follow a redirect, use a proxy, or read an answer without a limit. What arrives is
//! bytes; whether they count is decided in [`crate::agent`].

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use mfaas_attest::SHARD_BYTES_MAX;
use mfaas_delivery::{
    BanAnswer, BanNotice, IsolationReport, JoinRequest, JoinResponse, LoadReport, LogBatch, RenewalRequest,
    Report, SiteIsolation, UsageReport,
};
use mfaas_ident::{BuildVersion, Digest, TraceParent};
use mfaas_rules::Code;
use reqwest::{Certificate, Client, Identity, RequestBuilder, Response, StatusCode, redirect};

use crate::config::Membership;
use crate::image::ImageKey;
use crate::state::NodeIdentity;

const CONNECT_WAIT_MAX: Duration = Duration::from_secs(5);
/// For an asset, of which the largest take a while on a slow line.
const ASSET_WAIT_MAX: Duration = Duration::from_secs(600);
/// For everything but the long poll.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(30);
/// How long the server may hold the question for a newer serving set.
pub(crate) const POLL_WAIT: Duration = Duration::from_secs(25);
const SMALL_BYTES_MAX: usize = 64 << 10;
/// Where directives are. Servers answer at `/node/v1/directives` as well; one of the release before knows this name
/// alone, and nodes are updated before it.
const DIRECTIVES_PATH: &str = "/node/v1/orders";

/// Why the server did not give what was asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UpstreamError {
    #[error("{path}: {reason}")]
    Unreadable { path: std::path::PathBuf, reason: String },
    #[error("the TLS client cannot be set up: {0}")]
    Setup(#[source] reqwest::Error),
    #[error("the server cannot be reached: {}", causes(.0))]
    Unreachable(#[source] reqwest::Error),
    #[error("the server answers {status} to {path}: {text}")]
    Refused { status: StatusCode, path: String, code: Option<Code>, text: String },
    #[error("the answer to {path} is larger than {bytes_max} bytes")]
    TooLarge { path: String, bytes_max: usize },
    #[error("the answer to {path} cannot be read: {reason}")]
    Malformed { path: String, reason: String },
}

impl UpstreamError {
    /// The server's own code for it, if it gave one.
    pub(crate) fn code(&self) -> Option<Code> {
        match self {
            Self::Refused { code, .. } => *code,
            Self::Unreadable { .. }
            | Self::Setup(_)
            | Self::Unreachable(_)
            | Self::TooLarge { .. }
            | Self::Malformed { .. } => None,
        }
    }
}

/// A connection pool to the servers.
#[derive(Debug, Clone)]
pub(crate) struct Upstream {
    /// Another one when the node has another certificate.
    client: Arc<RwLock<Client>>,
    servers: Arc<Servers>,
}

/// The servers, and which of them is asked.
#[derive(Debug)]
struct Servers {
    urls: Vec<String>,
    asked: AtomicUsize,
}

impl Servers {
    fn of(urls: Vec<String>) -> Self {
        Self { urls, asked: AtomicUsize::new(0) }
    }

    /// Which one is asked, and its address.
    fn current(&self) -> (usize, &str) {
        let at = self.asked.load(Ordering::Relaxed) % self.urls.len().max(1);
        (at, self.urls.get(at).map_or("", String::as_str))
    }

    /// Asks the next one from now on, unless somebody has gone there already.
    fn leave(&self, at: usize) {
        let next = (at + 1) % self.urls.len().max(1);
        let left = self.asked.compare_exchange(at, next, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if left && next != at {
            tracing::warn!(
                left = self.urls.get(at),
                asked = self.urls.get(next),
                "the node asks another server"
            );
        }
    }
}

impl Upstream {
    /// A client without a certificate: it may only join.
    pub(crate) fn anonymous(membership: &Membership) -> Result<Self, UpstreamError> {
        Self::build(membership, None)
    }

    /// A client that shows the node's certificate.
    pub(crate) fn joined(membership: &Membership, identity: &NodeIdentity) -> Result<Self, UpstreamError> {
        let pem = [&identity.certificate_pem[..], b"\n", &identity.key_pem].concat();
        Self::build(membership, Some(Identity::from_pem(&pem).map_err(UpstreamError::Setup)?))
    }

    fn build(membership: &Membership, identity: Option<Identity>) -> Result<Self, UpstreamError> {
        let path = membership.ca_file.clone();
        let ca_pem = std::fs::read(&path)
            .map_err(|e| UpstreamError::Unreadable { path: path.clone(), reason: e.to_string() })?;
        let roots = Certificate::from_pem_bundle(&ca_pem).map_err(UpstreamError::Setup)?;
        if roots.is_empty() {
            return Err(UpstreamError::Unreadable { path, reason: "holds no certificate".to_owned() });
        }
        let mut builder = Client::builder()
            .tls_certs_only(roots)
            .https_only(true)
            .no_proxy()
            .redirect(redirect::Policy::none())
            .connect_timeout(CONNECT_WAIT_MAX)
            .tcp_keepalive(Duration::from_secs(15))
            .user_agent(format!("mfaas-node/{}", BuildVersion::this()));
        if let Some(identity) = identity {
            builder = builder.identity(identity);
        }
        let client = builder.build().map_err(UpstreamError::Setup)?;
        Ok(Self {
            client: Arc::new(RwLock::new(client)),
            servers: Arc::new(Servers::of(membership.servers.clone())),
        })
    }

    /// Shows the certificate of `other` from now on, in all clones of this one. What is on its way ends as it began.
    pub(crate) fn show_that_of(&self, other: &Self) {
        let client = other.client();
        *self.client.write().unwrap_or_else(PoisonError::into_inner) = client;
    }

    fn client(&self) -> Client {
        self.client.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Asks for another certificate.
    pub(crate) async fn renew(&self, request: &RenewalRequest) -> Result<JoinResponse, UpstreamError> {
        self.certificate("/node/v1/certificate", request).await
    }

    /// Trades a join token and a certificate request for a certificate.
    pub(crate) async fn join(&self, request: &JoinRequest) -> Result<JoinResponse, UpstreamError> {
        self.certificate("/node/v1/join", request).await
    }

    async fn certificate(
        &self,
        path: &str,
        request: &impl serde::Serialize,
    ) -> Result<JoinResponse, UpstreamError> {
        let bytes = self.post(path, request, SMALL_BYTES_MAX).await?;
        serde_json::from_slice(&bytes)
            .map_err(|e| UpstreamError::Malformed { path: path.to_owned(), reason: e.to_string() })
    }

    /// The envelope of a serving set that does not have the digest `known`, or `None` when there was none for so long.
    pub(crate) async fn serving_set(
        &self,
        known: Option<Digest>,
        wait: Duration,
        bytes_max: usize,
    ) -> Result<Option<Vec<u8>>, UpstreamError> {
        let known = known.map_or(String::new(), |digest| format!("&known={digest}"));
        let path = format!("/node/v1/serving-set?wait={}{known}", wait.as_secs());
        self.poll(&path, bytes_max).await
    }

    /// The bytes of these shards, in their order. Not hashed here.
    pub(crate) async fn shards(&self, digests: &[Digest]) -> Result<Vec<Vec<u8>>, UpstreamError> {
        let path = "/node/v1/shards";
        let bytes = self.post(path, &digests, digests.len() * (SHARD_BYTES_MAX + 1)).await?;
        // Each ends with a line feed, which is in none of them.
        let lines: Vec<Vec<u8>> = bytes.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
        if lines.len() != digests.len() {
            let reason = format!("{} lines for {} shards", lines.len(), digests.len());
            return Err(UpstreamError::Malformed { path: path.to_owned(), reason });
        }
        Ok(lines
            .into_iter()
            .map(|line| line.strip_suffix(b"\n").map(<[u8]>::to_vec).unwrap_or(line))
            .collect())
    }

    /// A question that the server may hold for [`POLL_WAIT`].
    async fn poll(&self, path: &str, bytes_max: usize) -> Result<Option<Vec<u8>>, UpstreamError> {
        self.get_if_any(path, POLL_WAIT + ANSWER_WAIT_MAX, bytes_max).await
    }

    /// The body of the answer, or `None` when the server has nothing to say (204).
    async fn get_if_any(
        &self,
        path: &str,
        wait_max: Duration,
        bytes_max: usize,
    ) -> Result<Option<Vec<u8>>, UpstreamError> {
        let response = self.send(path, |url| self.client().get(url).timeout(wait_max)).await?;
        if response.status() == StatusCode::NO_CONTENT {
            return Ok(None);
        }
        body(accepted(response, path).await?, path, bytes_max).await.map(Some)
    }

    /// The envelope of the key list after that version, or `None` when there is none. A server of the release before gives the
    /// newest, whatever the node has.
    pub(crate) async fn key_list_after(
        &self,
        version: u32,
        bytes_max: usize,
    ) -> Result<Option<Vec<u8>>, UpstreamError> {
        self.get_if_any(&format!("/node/v1/key-list?after={version}"), ANSWER_WAIT_MAX, bytes_max).await
    }

    /// The bytes of an artifact. Not hashed here.
    pub(crate) async fn artifact(&self, digest: Digest, bytes_max: usize) -> Result<Vec<u8>, UpstreamError> {
        self.get(&format!("/node/v1/artifacts/{digest}"), bytes_max).await
    }

    /// The bytes of an asset. Not hashed here.
    pub(crate) async fn asset(&self, digest: Digest, bytes_max: usize) -> Result<Vec<u8>, UpstreamError> {
        let path = format!("/node/v1/assets/{digest}");
        let response = self.send(&path, |url| self.client().get(url).timeout(ASSET_WAIT_MAX)).await?;
        body(accepted(response, &path).await?, &path, bytes_max).await
    }

    /// The envelope of a version's statement, and where its deployment stands in a trace. Not hashed here.
    pub(crate) async fn statement(
        &self,
        key: &ImageKey,
        bytes_max: usize,
    ) -> Result<(Vec<u8>, Option<TraceParent>), UpstreamError> {
        let ImageKey { tenant, function, version, statement, .. } = key;
        let path =
            format!("/node/v1/statements/{statement}?tenant={tenant}&function={function}&version={version}");
        let response = self.send(&path, |url| self.client().get(url).timeout(ANSWER_WAIT_MAX)).await?;
        let response = accepted(response, &path).await?;
        let place = response.headers().get("traceparent").and_then(|value| value.to_str().ok());
        let place = place.and_then(|text| TraceParent::parse(text).ok());
        Ok((body(response, &path, bytes_max).await?, place))
    }

    /// Says what is loaded.
    pub(crate) async fn report(&self, report: &Report) -> Result<(), UpstreamError> {
        self.post("/node/v1/report", report, SMALL_BYTES_MAX).await.map(drop)
    }

    /// Tells what calls used.
    pub(crate) async fn usage(&self, report: &UsageReport) -> Result<(), UpstreamError> {
        self.post("/node/v1/usage", report, SMALL_BYTES_MAX).await.map(drop)
    }

    /// Tells how busy the node is; `false` when the server is of the release before and does not know of it.
    pub(crate) async fn load(&self, report: &LoadReport) -> Result<bool, UpstreamError> {
        match self.post("/node/v1/load", report, SMALL_BYTES_MAX).await {
            Ok(_) => Ok(true),
            Err(UpstreamError::Refused { status: StatusCode::NOT_FOUND, .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Tells how this machine's isolation stands; what the site wants of it, or `None` when the server is of the release before
    /// and does not know of it.
    pub(crate) async fn isolation(
        &self,
        report: &IsolationReport,
    ) -> Result<Option<SiteIsolation>, UpstreamError> {
        let path = "/node/v1/isolation";
        let bytes = match self.post(path, report, SMALL_BYTES_MAX).await {
            Err(UpstreamError::Refused { status: StatusCode::NOT_FOUND, .. }) => return Ok(None),
            answered => answered?,
        };
        let malformed = |reason: String| UpstreamError::Malformed { path: path.to_owned(), reason };
        let site: SiteIsolation = serde_json::from_slice(&bytes).map_err(|e| malformed(e.to_string()))?;
        site.settings.check().map_err(|e| malformed(e.to_string()))?;
        Ok(Some(site))
    }

    /// Tells a ban.
    pub(crate) async fn ban(&self, notice: &BanNotice) -> Result<BanAnswer, UpstreamError> {
        let path = "/node/v1/bans";
        let bytes = self.post(path, notice, SMALL_BYTES_MAX).await?;
        serde_json::from_slice(&bytes)
            .map_err(|e| UpstreamError::Malformed { path: path.to_owned(), reason: e.to_string() })
    }

    /// The node's directives as bytes as soon as they are not those with the digest `known`, or `None` when they were the
    /// same for a while.
    pub(crate) async fn directives(
        &self,
        known: Option<Digest>,
        bytes_max: usize,
    ) -> Result<Option<Vec<u8>>, UpstreamError> {
        let known = known.map(|digest| format!("&known={digest}")).unwrap_or_default();
        self.poll(&format!("{DIRECTIVES_PATH}?wait={}{known}", POLL_WAIT.as_secs()), bytes_max).await
    }

    /// Hands over log lines.
    pub(crate) async fn logs(&self, batch: &LogBatch) -> Result<(), UpstreamError> {
        self.post("/node/v1/logs", batch, SMALL_BYTES_MAX).await.map(drop)
    }

    /// Asks the server that answered last. One that cannot be reached is left for the next, and the question goes there; one
    /// that takes no questions, or is silent, is left for the next question, since it may have had this one.
    async fn send(
        &self,
        path: &str,
        request: impl Fn(String) -> RequestBuilder,
    ) -> Result<Response, UpstreamError> {
        let mut left = self.servers.urls.len();
        loop {
            let (at, url) = self.servers.current();
            left = left.saturating_sub(1);
            match request(format!("{url}{path}")).send().await {
                Ok(response) => {
                    if matches!(response.status(), StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE)
                    {
                        self.servers.leave(at);
                    }
                    return Ok(response);
                }
                Err(error) => {
                    self.servers.leave(at);
                    if !error.is_connect() || left == 0 {
                        return Err(UpstreamError::Unreachable(error));
                    }
                }
            }
        }
    }

    async fn get(&self, path: &str, bytes_max: usize) -> Result<Vec<u8>, UpstreamError> {
        let response = self.send(path, |url| self.client().get(url).timeout(ANSWER_WAIT_MAX)).await?;
        body(accepted(response, path).await?, path, bytes_max).await
    }

    async fn post(
        &self,
        path: &str,
        message: &impl serde::Serialize,
        bytes_max: usize,
    ) -> Result<Vec<u8>, UpstreamError> {
        let request = |url| self.client().post(url).timeout(ANSWER_WAIT_MAX).json(message);
        let response = self.send(path, request).await?;
        body(accepted(response, path).await?, path, bytes_max).await
    }
}

async fn accepted(response: Response, path: &str) -> Result<Response, UpstreamError> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let (code, text) = match body(response, path, SMALL_BYTES_MAX).await {
        Ok(bytes) => problem(&bytes),
        Err(error) => (None, error.to_string()),
    };
    Err(UpstreamError::Refused { status, path: path.to_owned(), code, text })
}

/// Code and sentence of a problem document (RFC 9457); of anything else its beginning.
fn problem(bytes: &[u8]) -> (Option<Code>, String) {
    #[derive(serde::Deserialize)]
    struct Problem {
        code: Code,
        detail: String,
    }
    match serde_json::from_slice::<Problem>(bytes) {
        Ok(problem) => (Some(problem.code), mfaas_ident::sanitise_line(&problem.detail, 300)),
        Err(_) => (None, mfaas_ident::sanitise_line(&String::from_utf8_lossy(bytes), 300)),
    }
}

/// Reads the body piece by piece, so that no answer is ever larger than its limit in memory.
async fn body(mut response: Response, path: &str, bytes_max: usize) -> Result<Vec<u8>, UpstreamError> {
    let mut bytes = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(UpstreamError::Unreachable)? {
        if bytes.len() + piece.len() > bytes_max {
            return Err(UpstreamError::TooLarge { path: path.to_owned(), bytes_max });
        }
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes)
}

/// The chain of causes in one line: reqwest's own text stops at "error sending request".
fn causes(error: &reqwest::Error) -> String {
    let mut text = error.to_string();
    let mut next = std::error::Error::source(error);
    while let Some(cause) = next {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests;
