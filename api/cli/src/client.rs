//! Talking to `mfaas-server`: one place that knows addresses, tokens and problem documents.
//!
//! A token is never sent over plain HTTP to another machine.

use std::time::Duration;

use mfaas_supervisor::innermost;
use mfaas_wire::{IDEMPOTENCY_KEY, PROBLEM_MEDIA_TYPE, Problem, UPLOAD_MEDIA_TYPE};
use reqwest::{Method, RequestBuilder, Response, StatusCode, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::failure::Failure;

/// How long a connection may take to stand.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// How long an ordinary exchange may take.
const EXCHANGE_LIMIT: Duration = Duration::from_secs(60);
/// The largest answer that is read into memory, in bytes: an artifact is the largest of them.
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// How often an upload is tried when the connection breaks.
const UPLOAD_TRIES: u32 = 4;
/// How often a follower waits for room among the tenant's event streams before that is an answer.
const STREAM_WAITS: u32 = 120;
/// How often an upload waits for room in the tenant's queue before that is an answer.
const ROOM_WAITS: u32 = 12;
/// The longest such wait, whatever the server says.
const ROOM_WAIT_MAX: Duration = Duration::from_secs(30);

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
    /// A client for `server`; refuses to send a token in the clear to another machine.
    pub(crate) fn new(server: &str, token: Option<String>, tenant: Option<String>) -> Result<Self, Failure> {
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
        let http = reqwest::Client::builder()
            .connect_timeout(CONNECT_LIMIT)
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .user_agent(concat!("mfaas/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|e| Failure::Local(format!("cannot make an HTTP client: {}", innermost(&e))))?;
        Ok(Self { http, base, token: token.map(Secret), tenant })
    }

    /// The server's address without a trailing slash.
    pub(crate) fn server(&self) -> &str {
        self.base.as_str().trim_end_matches('/')
    }

    /// GET of a JSON document.
    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        let request = self.request(Method::GET, path)?;
        self.json(self.send(request, path).await?, path).await
    }

    /// GET of raw bytes.
    pub(crate) async fn get_bytes(&self, path: &str) -> Result<Vec<u8>, Failure> {
        let request = self.request(Method::GET, path)?;
        bounded(self.send(request, path).await?, path).await
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

    /// DELETE.
    pub(crate) async fn delete<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        let request = self.request(Method::DELETE, path)?;
        self.json(self.send(request, path).await?, path).await
    }

    /// Uploads an archive. A broken connection is tried again with the same key, so that one
    /// command makes one deployment; a server without room for it is asked again when it says so, for some minutes.
    pub(crate) async fn upload<T: DeserializeOwned>(
        &self,
        path: &str,
        archive: Vec<u8>,
    ) -> Result<T, Failure> {
        let key = uuid::Uuid::new_v4().to_string();
        let archive = bytes_of(archive);
        let mut pause = Duration::from_millis(200);
        let (mut attempt, mut waits) = (0, 0);
        loop {
            attempt += 1;
            let request = self
                .request(Method::POST, path)?
                .header(IDEMPOTENCY_KEY, &key)
                .header(reqwest::header::CONTENT_TYPE, UPLOAD_MEDIA_TYPE)
                .body(archive.clone());
            match self.exchange(request).await {
                Err(Failure::Unreachable { .. }) if attempt < UPLOAD_TRIES => {
                    tokio::time::sleep(pause).await;
                    pause *= 2;
                }
                Err(failure) => return Err(failure),
                Ok(response) if response.status() == StatusCode::TOO_MANY_REQUESTS && waits < ROOM_WAITS => {
                    (attempt, waits) = (0, waits + 1);
                    tokio::time::sleep(retry_after(&response)).await;
                }
                Ok(response) => return self.json(accepted(response, path).await?, path).await,
            }
        }
    }

    /// Opens an event stream behind `after`; the answer has no time limit of its own.
    pub(crate) async fn events(&self, path: &str, after: Option<&str>) -> Result<Response, Failure> {
        let url = self.url(path)?;
        let mut waits = 0;
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
                    tokio::time::sleep(retry_after(&response)).await;
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
        let bytes = bounded(response, path).await?;
        serde_json::from_slice(&bytes)
            .map_err(|e| Failure::Protocol { what: format!("{}{path}", self.server()), cause: e.to_string() })
    }
}

/// When the server wants to be asked again; in a second if it does not say.
fn retry_after(response: &Response) -> Duration {
    let header = response.headers().get(reqwest::header::RETRY_AFTER);
    let seconds = header.and_then(|value| value.to_str().ok()?.parse().ok()).unwrap_or(1);
    Duration::from_secs(seconds).min(ROOM_WAIT_MAX)
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

fn is_loopback(url: &Url) -> bool {
    match url.host_str() {
        Some("localhost" | "[::1]") => true,
        Some(host) => host.parse::<std::net::Ipv4Addr>().is_ok_and(|address| address.is_loopback()),
        None => false,
    }
}

#[cfg(test)]
mod tests;
