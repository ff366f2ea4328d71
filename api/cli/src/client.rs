//! Talking to `mfaas-server`: one place that knows addresses, tokens and problem documents.
//!
//! A token is never sent over plain HTTP to another machine. What reads is asked again when a connection breaks or a balancer
//! has no server; what writes is not, but for an upload, whose key makes it one deployment.

mod retry;

use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use mfaas_ident::TraceParent;
use mfaas_supervisor::innermost;
use mfaas_wire::{IDEMPOTENCY_KEY, PROBLEM_MEDIA_TYPE, Problem, UPLOAD_MEDIA_TYPE};
use reqwest::{Certificate, ClientBuilder, Method, RequestBuilder, Response, StatusCode, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;

use self::retry::{Retries, is_for_now, retry_after};
use crate::failure::Failure;

/// How long a connection may take to stand.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// How long an ordinary exchange may take.
const EXCHANGE_LIMIT: Duration = Duration::from_secs(60);
/// The largest answer that is read into memory, in bytes: an artifact is the largest of them.
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// How often a follower waits for room among the tenant's event streams before that is an answer.
const STREAM_WAITS: u32 = 120;
/// How often an upload waits for room in the tenant's queue before that is an answer.
const ROOM_WAITS: u32 = 12;
/// How long such a wait is where the server does not say.
const ROOM_WAIT: Duration = Duration::from_secs(1);
/// The certificates of an authority, in bytes.
const CA_FILE_BYTES_MAX: u64 = 1 << 20;

/// How long bytes of an asset may be on their way.
const BYTES_TIME_MAX: Duration = Duration::from_secs(600);

/// The server when nobody names one.
pub(crate) const DEFAULT_SERVER: &str = "http://127.0.0.1:7700";

/// A connection to one server with one token.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    http: reqwest::Client,
    base: Url,
    token: Option<Secret>,
    /// Another tenant than the token's own; for administrators.
    tenant: Option<String>,
}

/// A token; never printed.
#[derive(Clone)]
struct Secret(String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl Client {
    /// A client for `server`; refuses to send a token in the clear to another machine. With `ca_file` the server's certificate has
    /// to be of the authorities in that file, and of no other.
    pub(crate) fn new(
        server: &str,
        ca_file: Option<&Path>,
        token: Option<String>,
        tenant: Option<String>,
    ) -> Result<Self, Failure> {
        let base =
            Url::parse(server).map_err(|e| Failure::Usage(format!("server {server:?} is not a URL: {e}")))?;
        match base.scheme() {
            "https" => {}
            "http" if is_loopback(&base) => {}
            "http" => {
                return Err(Failure::Usage(format!(
                    "{server} is plain HTTP to another machine, which would show your token to the network; use https"
                )));
            }
            other => {
                return Err(Failure::Usage(format!("{other}: is no scheme of a server; use http or https")));
            }
        }
        let http = trusting(reqwest::Client::builder(), ca_file)?
            .connect_timeout(CONNECT_LIMIT)
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .user_agent(format!("mfaas/{}", mfaas_ident::BuildVersion::this()))
            .build()
            .map_err(|e| Failure::Local(format!("cannot make an HTTP client: {}", innermost(&e))))?;
        Ok(Self { http, base, token: token.map(Secret), tenant })
    }

    /// The server's address without a trailing slash.
    pub(crate) fn server(&self) -> &str {
        self.base.as_str().trim_end_matches('/')
    }

    /// Whether the server runs on this machine.
    pub(crate) fn is_of_this_machine(&self) -> bool {
        is_loopback(&self.base)
    }

    /// GET of a JSON document.
    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        self.parsed(&self.get_bytes(path).await?, path)
    }

    /// The same, or nothing if what is asked for is not there.
    pub(crate) async fn find<T: DeserializeOwned>(&self, path: &str) -> Result<Option<T>, Failure> {
        match self.get(path).await {
            Ok(found) => Ok(Some(found)),
            Err(Failure::Problem(problem)) if problem.status == 404 => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// GET of raw bytes, again where the answer does not arrive as a whole.
    pub(crate) async fn get_bytes(&self, path: &str) -> Result<Vec<u8>, Failure> {
        let mut retries = Retries::new();
        loop {
            let answered = self.exchange(self.request(Method::GET, path)?).await;
            let (failure, asked_for) = match answered {
                Ok(response) if is_for_now(&response) => {
                    let asked_for = retry_after(&response);
                    (refusal(response, path).await, asked_for)
                }
                Ok(response) => match bounded(accepted(response, path).await?, path).await {
                    Err(failure @ Failure::Unreachable { .. }) => (failure, None),
                    read => return read,
                },
                Err(failure) => (failure, None),
            };
            match retries.pause(asked_for) {
                Some(pause) => tokio::time::sleep(pause).await,
                None => return Err(failure),
            }
        }
    }

    /// POST of a JSON document.
    pub(crate) async fn post<B: Serialize, T: DeserializeOwned>(
        &self,
        path: &str,
        body: &B,
    ) -> Result<T, Failure> {
        let request = self.request(Method::POST, path)?.json(body);
        self.json(self.send(request, path).await?, path).await
    }

    /// PUT of a JSON document.
    pub(crate) async fn put<B: Serialize, T: DeserializeOwned>(
        &self,
        path: &str,
        body: &B,
    ) -> Result<T, Failure> {
        let request = self.request(Method::PUT, path)?.json(body);
        self.json(self.send(request, path).await?, path).await
    }

    /// PUT of bytes, which may take as long as an upload.
    pub(crate) async fn put_bytes<T: DeserializeOwned>(
        &self,
        path: &str,
        bytes: Vec<u8>,
    ) -> Result<T, Failure> {
        let request = self
            .request(Method::PUT, path)?
            .timeout(BYTES_TIME_MAX)
            .header(reqwest::header::CONTENT_TYPE, "application/octet-stream")
            .body(bytes);
        self.json(self.send(request, path).await?, path).await
    }

    /// DELETE.
    pub(crate) async fn delete<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        let request = self.request(Method::DELETE, path)?;
        self.json(self.send(request, path).await?, path).await
    }

    /// Uploads an archive. Where the connection breaks or a balancer has no server it is made again with the same key, so
    /// that one command makes one deployment; a server without room for it is asked again when it says so, for some minutes.
    pub(crate) async fn upload<T: DeserializeOwned>(
        &self,
        path: &str,
        archive: Vec<u8>,
        place: &TraceParent,
    ) -> Result<T, Failure> {
        let key = uuid::Uuid::new_v4().to_string();
        let archive = bytes_of(archive);
        let (mut retries, mut waits) = (Retries::new(), 0);
        loop {
            let request = self
                .request(Method::POST, path)?
                .header(IDEMPOTENCY_KEY, &key)
                .header("traceparent", place.to_string())
                .header(reqwest::header::CONTENT_TYPE, UPLOAD_MEDIA_TYPE)
                .body(archive.clone());
            let (failure, asked_for) = match self.exchange(request).await {
                Ok(response) if response.status() == StatusCode::TOO_MANY_REQUESTS && waits < ROOM_WAITS => {
                    (retries, waits) = (Retries::new(), waits + 1);
                    tokio::time::sleep(retry_after(&response).unwrap_or(ROOM_WAIT)).await;
                    continue;
                }
                Ok(response) if is_for_now(&response) => {
                    let asked_for = retry_after(&response);
                    (refusal(response, path).await, asked_for)
                }
                Ok(response) => match bounded(accepted(response, path).await?, path).await {
                    // It has arrived, and perhaps made a deployment, which the same key finds.
                    Err(failure @ Failure::Unreachable { .. }) => (failure, None),
                    read => return self.parsed(&read?, path),
                },
                Err(failure) => (failure, None),
            };
            match retries.pause(asked_for) {
                Some(pause) => tokio::time::sleep(pause).await,
                None => return Err(failure),
            }
        }
    }

    /// Opens an event stream behind `after`; the answer has no time limit of its own.
    pub(crate) async fn events(&self, path: &str, after: Option<&str>) -> Result<Response, Failure> {
        let url = self.url(path)?;
        let (mut retries, mut waits) = (Retries::new(), 0);
        loop {
            let mut request = self.http.get(url.clone()).header(reqwest::header::ACCEPT, "text/event-stream");
            if let Some(token) = &self.token {
                request = request.bearer_auth(&token.0);
            }
            if let Some(after) = after {
                request = request.header("last-event-id", after);
            }
            match self.exchange(request).await? {
                // The tenant has as many streams as it may; one ends with each deployment.
                response if response.status() == StatusCode::TOO_MANY_REQUESTS && waits < STREAM_WAITS => {
                    waits += 1;
                    tokio::time::sleep(retry_after(&response).unwrap_or(ROOM_WAIT)).await;
                }
                response if is_for_now(&response) => {
                    let asked_for = retry_after(&response);
                    match retries.pause(asked_for) {
                        Some(pause) => tokio::time::sleep(pause).await,
                        None => return accepted(response, path).await,
                    }
                }
                response => return accepted(response, path).await,
            }
        }
    }

    fn url(&self, path: &str) -> Result<Url, Failure> {
        let mut url =
            self.base.join(path).map_err(|e| Failure::Usage(format!("{path:?} is no path: {e}")))?;
        if let Some(tenant) = &self.tenant {
            url.query_pairs_mut().append_pair("tenant", tenant);
        }
        Ok(url)
    }

    fn request(&self, method: Method, path: &str) -> Result<RequestBuilder, Failure> {
        let request = self.http.request(method, self.url(path)?).timeout(EXCHANGE_LIMIT);
        Ok(match &self.token {
            Some(token) => request.bearer_auth(&token.0),
            None => request,
        })
    }

    async fn send(&self, request: RequestBuilder, path: &str) -> Result<Response, Failure> {
        accepted(self.exchange(request).await?, path).await
    }

    /// Whatever the server answers.
    async fn exchange(&self, request: RequestBuilder) -> Result<Response, Failure> {
        let unreachable = |e| Failure::Unreachable { what: self.server().to_owned(), cause: innermost(&e) };
        request.send().await.map_err(unreachable)
    }

    async fn json<T: DeserializeOwned>(&self, response: Response, path: &str) -> Result<T, Failure> {
        self.parsed(&bounded(response, path).await?, path)
    }

    fn parsed<T: DeserializeOwned>(&self, bytes: &[u8], path: &str) -> Result<T, Failure> {
        serde_json::from_slice(bytes)
            .map_err(|e| Failure::Protocol { what: format!("{}{path}", self.server()), cause: e.to_string() })
    }
}

/// A client that takes certificates of the authorities in this file alone, or those that the machine trusts.
pub(crate) fn trusting(builder: ClientBuilder, ca_file: Option<&Path>) -> Result<ClientBuilder, Failure> {
    let Some(path) = ca_file else { return Ok(builder) };
    let mut pem = Vec::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(CA_FILE_BYTES_MAX).read_to_end(&mut pem))
        .map_err(Failure::io("cannot read the CA file", path))?;
    match Certificate::from_pem_bundle(&pem) {
        Ok(authorities) if !authorities.is_empty() => Ok(builder.tls_certs_only(authorities)),
        Ok(_) => Err(Failure::Usage(format!("the CA file {} holds no certificate in PEM", path.display()))),
        Err(error) => Err(Failure::Usage(format!("the CA file {}: {}", path.display(), innermost(&error)))),
    }
}

/// An answer that is no refusal.
async fn accepted(response: Response, path: &str) -> Result<Response, Failure> {
    if response.status().is_success() { Ok(response) } else { Err(refusal(response, path).await) }
}

/// The problem document of a refusal; an answer without one becomes a plain failure.
pub(crate) async fn refusal(response: Response, path: &str) -> Failure {
    let status = response.status();
    let is_problem = response
        .headers()
        .get(reqwest::header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|value| value.starts_with(PROBLEM_MEDIA_TYPE));
    let parsed = match bounded(response, path).await {
        Ok(bytes) if is_problem => serde_json::from_slice::<Problem>(&bytes).ok(),
        Ok(_) | Err(_) => None,
    };
    match parsed {
        Some(problem) if problem.status == 401 => {
            Failure::SignIn(format!("{}: {}", problem.code, problem.detail))
        }
        Some(problem) => Failure::Problem(Box::new(problem)),
        None => Failure::Protocol {
            what: path.to_owned(),
            cause: format!("status {status} without a problem document"),
        },
    }
}

/// Reads a body that may not be larger than what we are willing to hold.
pub(crate) async fn bounded(mut response: Response, path: &str) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let broken = |e: &reqwest::Error| Failure::Unreachable { what: path.to_owned(), cause: innermost(e) };
    while let Some(chunk) = response.chunk().await.map_err(|e| broken(&e))? {
        if bytes.len() + chunk.len() > ANSWER_BYTES_MAX {
            return Err(Failure::Protocol {
                what: path.to_owned(),
                cause: format!("the answer is larger than {} MiB", ANSWER_BYTES_MAX >> 20),
            });
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

/// A body that can be sent more than once without copying.
fn bytes_of(archive: Vec<u8>) -> bytes::Bytes {
    bytes::Bytes::from(archive)
}

/// Whether an address is this machine's alone.
pub(crate) fn is_loopback(url: &Url) -> bool {
    match url.host_str() {
        Some("localhost" | "[::1]") => true,
        Some(host) => host.parse::<std::net::Ipv4Addr>().is_ok_and(|address| address.is_loopback()),
        None => false,
    }
}

#[cfg(test)]
mod tests;
