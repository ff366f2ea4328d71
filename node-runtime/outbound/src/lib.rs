//! HTTP requests of functions.
//!
//! A file of the operator says which servers there are, each with its origin, and which secrets, each with the servers that it may be
//! sent to and the header that carries it. A function chooses a path, a method and other headers, and is hostile: it reaches no other
//! origin, no address that is not public unless the operator names its network, and no secret. What a name leads to is looked up for each
//! connection, and the connection goes there: a name that leads elsewhere a moment later changes nothing. Tenants share no connection.
//!
//! Nothing is sent twice: redirects are answers, and a request that is lost is not sent again.

mod addresses;
mod error;
mod file;
mod reserved;
mod resolver;
mod secret;
mod server;

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use mfaas_abi::frame::Headers;
use mfaas_abi::is_safe;
use mfaas_abi::limits::{HEADERS_BYTES_MAX, HEADERS_MAX, HTTP_BODY_BYTES_MAX};
use mfaas_ident::{ResourceName, TenantName};
use reqwest::Method;
use reqwest::header::{
    ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_RANGE, HeaderMap, HeaderName, HeaderValue, RANGE,
};
use url::Url;

pub use crate::error::{OutboundError, SendError};

use crate::file::{File, ServerEntry};
use crate::reserved::header_name;
use crate::resolver::Forbidden;
use crate::secret::{Secret, Trace, shows};
use crate::server::Server;

/// All that a request may take.
const ANSWER_MAX: Duration = Duration::from_secs(30);
/// A longer answer is looked through on a thread of its own.
const LOOKED_THROUGH_AT_ONCE: usize = 64 << 10;

/// Methods that a function may use.
const METHODS: [Method; 7] =
    [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::OPTIONS];
/// Headers of an answer that say how it was sent.
const OF_CONNECTION: [&str; 8] = [
    "connection",
    "content-length",
    "keep-alive",
    "proxy-authenticate",
    "proxy-connection",
    "trailer",
    "transfer-encoding",
    "upgrade",
];
/// Which trace a request is part of.
const TRACE: HeaderName = HeaderName::from_static("traceparent");

/// What a function asks a server for.
#[derive(Debug)]
pub struct Request<'a> {
    /// Whose function it is.
    pub tenant: &'a TenantName,
    /// The method.
    pub method: &'a str,
    /// Path and query.
    pub path: &'a str,
    /// Its headers.
    pub headers: Headers<'a>,
    /// Secrets that it carries.
    pub secrets: &'a [ResourceName],
    /// The value of `traceparent`, unless its headers say.
    pub trace: Option<String>,
    /// Its body.
    pub body: Bytes,
}

/// A request that may be sent.
#[derive(Debug)]
pub struct Prepared<'a> {
    resource: &'a ResourceName,
    tenant: &'a TenantName,
    server: &'a Server,
    secrets: &'a [ResourceName],
    method: Method,
    url: Url,
    headers: HeaderMap,
    body: Bytes,
}

/// What the server answered.
#[derive(Debug)]
pub struct Answer {
    /// The HTTP status: 200 to 599.
    pub status: u16,
    /// Names in lower case, and values.
    pub headers: Vec<(String, String)>,
    /// Its body.
    pub body: Bytes,
}

/// Servers and secrets of a site.
#[derive(Debug)]
pub struct Outbound {
    servers: BTreeMap<ResourceName, Server>,
    secrets: BTreeMap<ResourceName, Secret>,
    limit: Duration,
}

impl Outbound {
    /// Those that a file names. The process has a TLS provider by then.
    ///
    /// # Errors
    /// If anything of it cannot be used.
    pub fn open(file: &Path) -> Result<Self, OutboundError> {
        Self::within(file, ANSWER_MAX)
    }

    /// The same, with answers that come within this time.
    fn within(file: &Path, limit: Duration) -> Result<Self, OutboundError> {
        let File { http, secret } = File::read(file)?;
        let server = |(resource, entry): (ResourceName, ServerEntry)| match Server::open(entry) {
            Ok(server) => Ok((resource, server)),
            Err(wrong) => Err(OutboundError::Entry { resource, wrong }),
        };
        let servers = http.into_iter().map(server).collect::<Result<_, _>>()?;
        let secrets = secret.into_iter().map(|(resource, entry)| match Secret::open(entry) {
            Ok(secret) => Ok((resource, secret)),
            Err(wrong) => Err(OutboundError::Entry { resource, wrong }),
        });
        Ok(Self { servers, secrets: secrets.collect::<Result<_, _>>()?, limit })
    }

    /// Looks whether a request may be sent.
    ///
    /// # Errors
    /// If it may not.
    pub fn prepare<'a>(
        &'a self,
        resource: &'a ResourceName,
        request: Request<'a>,
    ) -> Result<Prepared<'a>, SendError> {
        let server = self.servers.get(resource).ok_or_else(|| SendError::Unknown(resource.clone()))?;
        let (url, method) = (server.url(request.path)?, method(request.method)?);
        if is_safe(request.method) && !request.body.is_empty() {
            return Err(SendError::Request(format!("a request with the method {method} has no body")));
        }
        let headers = headers(&request)?;
        let is_part = headers.contains_key(RANGE);
        if is_part && self.allowed_at(resource).next().is_some() {
            let wrong =
                "of a server that has secrets no parts of answers are asked for: they could be parts of one";
            return Err(SendError::Request(wrong.to_owned()));
        }
        let mut carriers = HashSet::new();
        for name in request.secrets {
            let secret = self.secrets.get(name).ok_or_else(|| SendError::Unknown(name.clone()))?;
            if !carriers.insert(&secret.header) {
                return Err(SendError::Request(format!(
                    "`{name}` and another secret are carried by one header"
                )));
            }
            if !secret.servers.contains(resource) {
                return Err(SendError::Elsewhere { secret: name.clone(), server: resource.clone() });
            }
        }
        let Request { tenant, secrets, body, .. } = request;
        Ok(Prepared { resource, tenant, server, secrets, method, url, headers, body })
    }

    /// Sends a request, once, and waits for the whole answer.
    ///
    /// # Errors
    /// If there is none that the function may have. The request may have arrived nevertheless.
    pub async fn send(&self, request: Prepared<'_>) -> Result<Answer, SendError> {
        let (resource, limit) = (request.resource, self.limit);
        let late =
            |_| SendError::Unanswered { server: resource.clone(), why: "it has taken longer than 30 s" };
        tokio::time::timeout(limit, self.exchange(request)).await.map_err(late)?
    }

    async fn exchange(&self, request: Prepared<'_>) -> Result<Answer, SendError> {
        let Prepared { resource, tenant, server, secrets, method, url, mut headers, body } = request;
        // Of all secrets that it may have been sent before, and keep there: their values are looked for in the answer.
        for (name, secret) in self.allowed_at(resource) {
            let value = secret.value(name).await?;
            if secrets.contains(name) {
                let (header, value) = secret.header_of(&value)?;
                headers.insert(header, value);
            }
        }
        let client = server.client(tenant).map_err(|error| {
            tracing::error!(server = %resource, %error, "no client can be made");
            unanswered_for(resource, "the broker cannot ask at the moment")
        })?;
        let sent = client.request(method, url).headers(headers).body(body).send().await;
        let answer = read(resource, sent.map_err(|error| unanswered(resource, error))?).await?;
        let traces: Vec<Trace> = self.allowed_at(resource).flat_map(|(_, secret)| secret.traces()).collect();
        if traces.is_empty() {
            return Ok(answer);
        }
        let (answer, may_show) = if answer.body.len() <= LOOKED_THROUGH_AT_ONCE {
            let may_show = answer.may_show(&traces);
            (answer, may_show)
        } else {
            let look = move || {
                let may_show = answer.may_show(&traces);
                (answer, may_show)
            };
            let looked = tokio::task::spawn_blocking(look).await;
            looked.map_err(|_| SendError::ShowsSecret(resource.clone()))?
        };
        if may_show {
            tracing::warn!(server = %resource, %tenant, "an answer that may show a secret was withheld");
            return Err(SendError::ShowsSecret(resource.clone()));
        }
        Ok(answer)
    }

    /// Secrets that may be sent to a server.
    fn allowed_at(&self, server: &ResourceName) -> impl Iterator<Item = (&ResourceName, &Secret)> {
        self.secrets.iter().filter(move |(_, secret)| secret.servers.contains(server))
    }
}

impl Prepared<'_> {
    /// The method and the path that the server hears, without the query.
    pub fn target(&self) -> String {
        format!("{} {}", self.method, self.url.path())
    }
}

fn method(name: &str) -> Result<Method, SendError> {
    METHODS
        .into_iter()
        .find(|method| method.as_str() == name)
        .ok_or_else(|| SendError::Request(format!("`{name}` is no method that a function may use")))
}

/// What a function sends, without its secrets.
fn headers(request: &Request<'_>) -> Result<HeaderMap, SendError> {
    let mut headers = HeaderMap::new();
    for (name, value) in request.headers.iter() {
        let name = header_name(name)?;
        let value = HeaderValue::from_bytes(value.as_bytes())
            .map_err(|_| SendError::Request(format!("the value of `{name}` cannot be sent")))?;
        headers.append(name, value);
    }
    if let Some(trace) = request.trace.as_deref().and_then(|trace| HeaderValue::from_str(trace).ok())
        && !headers.contains_key(TRACE)
    {
        headers.insert(TRACE, trace);
    }
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    Ok(headers)
}

/// The whole of an answer, within bounds.
async fn read(resource: &ResourceName, mut response: reqwest::Response) -> Result<Answer, SendError> {
    let too_long = |limit| SendError::TooLong { server: resource.clone(), limit };
    let status = response.status().as_u16();
    if !(200..=599).contains(&status) {
        return Err(unanswered_for(resource, "its status is none of 200 to 599"));
    }
    let (mut headers, mut bytes) = (Vec::new(), 0);
    for (name, value) in response.headers() {
        // What is no text a function could not read either.
        let Ok(value) = std::str::from_utf8(value.as_bytes()) else { continue };
        if OF_CONNECTION.contains(&name.as_str()) {
            continue;
        }
        bytes += name.as_str().len() + value.len();
        headers.push((name.as_str().to_owned(), value.to_owned()));
    }
    if headers.len() > HEADERS_MAX || bytes > HEADERS_BYTES_MAX {
        return Err(too_long("64 headers, or 32 KiB of them"));
    }
    let mut body = BytesMut::new();
    while let Some(piece) = response.chunk().await.map_err(|error| unanswered(resource, error))? {
        if body.len() + piece.len() > HTTP_BODY_BYTES_MAX {
            return Err(too_long("1 MiB"));
        }
        body.extend_from_slice(&piece);
    }
    Ok(Answer { status, headers, body: body.freeze() })
}

impl Answer {
    /// Whether it shows a secret, or could hide one: a part of an answer, or a compressed one, although nobody has asked for it.
    fn may_show(&self, traces: &[Trace]) -> bool {
        let hides = |(name, value): &(String, String)| match name.as_str() {
            name if name == CONTENT_ENCODING.as_str() => !value.eq_ignore_ascii_case("identity"),
            name if name == CONTENT_RANGE.as_str() => true,
            _ => value.to_ascii_lowercase().contains("multipart/byteranges"),
        };
        let in_header = |(name, value): &(String, String)| {
            shows(name.as_bytes(), traces) || shows(value.as_bytes(), traces)
        };
        self.status == 206
            || self.headers.iter().any(|header| hides(header) || in_header(header))
            || shows(&self.body, traces)
    }
}

fn unanswered_for(resource: &ResourceName, why: &'static str) -> SendError {
    SendError::Unanswered { server: resource.clone(), why }
}

/// Why there is no answer, in words that say nothing of where the server is; the operator hears more.
fn unanswered(resource: &ResourceName, error: reqwest::Error) -> SendError {
    let error = error.without_url();
    let causes = || std::iter::successors(std::error::Error::source(&error), |error| error.source());
    if causes().any(|cause| cause.is::<Forbidden>()) {
        tracing::warn!(server = %resource, "a request was refused: {Forbidden}");
        return SendError::Forbidden(resource.clone());
    }
    let why = if error.is_connect() {
        "it cannot be connected to"
    } else if error.is_body() || error.is_decode() {
        "its answer has ended early"
    } else {
        "the connection has ended"
    };
    let causes: Vec<String> = causes().map(ToString::to_string).collect();
    tracing::info!(server = %resource, causes = causes.join(": "), "a request has no answer: {error}");
    unanswered_for(resource, why)
}

#[cfg(test)]
mod tests;
