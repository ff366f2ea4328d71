//! HTTP requests of functions.
//!
//! A file of the operator says which servers there are, each with its origin, and which secrets, each with the servers that it may be
//! sent to. A function chooses a path, a method and headers, and is hostile: it reaches no other origin, no address that is not public
//! unless the operator names its network, and no secret. What a name leads to is looked up for each connection, and the connection goes
//! there: a name that leads elsewhere a moment later changes nothing.
//!
//! Nothing is sent twice: redirects are answers, and a request that is lost is not sent again.

mod addresses;
mod error;
mod file;
mod resolver;
mod secret;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use mfaas_abi::SecretHeader;
use mfaas_abi::frame::Headers;
use mfaas_abi::limits::{HEADERS_BYTES_MAX, HEADERS_MAX, HTTP_BODY_BYTES_MAX};
use mfaas_ident::ResourceName;
use reqwest::header::{ACCEPT_ENCODING, CONTENT_ENCODING, HeaderMap, HeaderName, HeaderValue, RANGE};
use reqwest::{Certificate, Client, Method, redirect, retry};
use url::{Host, Url};
use zeroize::Zeroizing;

pub use crate::error::{OutboundError, SendError};

use crate::addresses::Addresses;
use crate::file::{File, ServerEntry};
use crate::resolver::{Forbidden, Resolver};
use crate::secret::{Secret, shows};

/// How long a connection may take, its name's lookup included, and all of a request.
const CONNECT_MAX: Duration = Duration::from_secs(5);
const ANSWER_MAX: Duration = Duration::from_secs(30);
/// Connections to a server that wait for the next request, and how long they do.
const IDLE_MAX: usize = 32;
const IDLE_TIME_MAX: Duration = Duration::from_secs(30);

/// Methods that a function may use.
const METHODS: [Method; 7] =
    [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::OPTIONS];
/// Headers that say how a request is sent, which is not for functions to say.
const RESERVED: [&str; 13] = [
    "accept-encoding",
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];
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
    /// The method.
    pub method: &'a str,
    /// Path and query.
    pub path: &'a str,
    /// Its headers.
    pub headers: Headers<'a>,
    /// Headers that are made of secrets, and these.
    pub secrets: Vec<(SecretHeader<'a>, ResourceName)>,
    /// Which trace it is part of, unless its headers say.
    pub trace: Option<&'a str>,
    /// Its body.
    pub body: Bytes,
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
}

#[derive(Debug)]
struct Server {
    origin: Url,
    client: Client,
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
        let server = |(resource, entry): (ResourceName, ServerEntry)| match Server::open(entry, limit) {
            Ok(server) => Ok((resource, server)),
            Err(wrong) => Err(OutboundError::Entry { resource, wrong }),
        };
        let servers = http.into_iter().map(server).collect::<Result<_, _>>()?;
        let secrets = secret.into_iter().map(|(resource, entry)| {
            let path = entry.file.clone();
            let secret = Secret::open(entry).map_err(|error| OutboundError::File { path, error })?;
            Ok((resource, secret))
        });
        Ok(Self { servers, secrets: secrets.collect::<Result<_, _>>()? })
    }

    /// Sends a request, once, and waits for the whole answer.
    ///
    /// # Errors
    /// If there is none that the function may have. The request may have arrived nevertheless, unless the error is about what was to be
    /// sent.
    pub async fn send(&self, resource: &ResourceName, request: Request<'_>) -> Result<Answer, SendError> {
        let server = self.servers.get(resource).ok_or_else(|| SendError::Unknown(resource.clone()))?;
        let (url, method) = (server.url(request.path)?, method(request.method)?);
        let mut headers = headers(&request)?;
        let mut traces = Vec::new();
        for (header, name) in &request.secrets {
            let secret = self.secrets.get(name).ok_or_else(|| SendError::Unknown(name.clone()))?;
            let value = secret.value_for(name, resource).await?;
            headers.insert(header_name(header.name)?, value.header(header.form)?);
            traces.extend(value.traces());
        }
        let sent = server.client.request(method, url).headers(headers).body(request.body).send().await;
        let response = sent.map_err(|error| unanswered(resource, &error))?;
        let answer = read(resource, response).await?;
        if !traces.is_empty() && answer.may_show(&traces) {
            tracing::warn!(server = %resource, "an answer that may show a secret was withheld");
            return Err(SendError::ShowsSecret(resource.clone()));
        }
        Ok(answer)
    }
}

impl Server {
    fn open(entry: ServerEntry, limit: Duration) -> Result<Self, String> {
        let ServerEntry { origin, cleartext, networks, ca_file } = entry;
        let url = Url::parse(&origin).map_err(|error| format!("the origin `{origin}` is no URL: {error}"))?;
        let is_origin = url.username().is_empty()
            && url.password().is_none()
            && url.path() == "/"
            && url.query().is_none()
            && url.fragment().is_none();
        match url.scheme() {
            "https" | "http" if !is_origin => {
                return Err(format!("the origin `{origin}` has more than a scheme, a host and a port"));
            }
            "http" if !cleartext => {
                return Err(format!(
                    "`{origin}` is plain HTTP: say `cleartext = true` if the network is trusted"
                ));
            }
            "https" | "http" => {}
            other => return Err(format!("`{other}:` is no scheme of a server: use https")),
        }
        let addresses = Arc::new(Addresses::with(networks));
        // It is connected to without looking it up.
        let literal = match url.host() {
            Some(Host::Ipv4(address)) => Some(address.into()),
            Some(Host::Ipv6(address)) => Some(address.into()),
            Some(Host::Domain(_)) | None => None,
        };
        if literal.is_some_and(|address| !addresses.may_be_reached(address)) {
            return Err(format!("`{origin}` is no public address: name its network in `networks`"));
        }
        let mut client = Client::builder()
            .dns_resolver(Arc::new(Resolver(addresses)))
            .redirect(redirect::Policy::none())
            .retry(retry::never())
            .no_proxy()
            .referer(false)
            .user_agent("mfaas")
            .connect_timeout(CONNECT_MAX)
            .timeout(limit)
            .pool_max_idle_per_host(IDLE_MAX)
            .pool_idle_timeout(IDLE_TIME_MAX);
        if let Some(file) = ca_file {
            let authorities = std::fs::read(&file)
                .map_err(|error| error.to_string())
                .and_then(|pem| Certificate::from_pem_bundle(&pem).map_err(|error| error.to_string()))
                .map_err(|error| format!("the authorities in {}: {error}", file.display()))?;
            if authorities.is_empty() {
                return Err(format!("{} holds no certificate", file.display()));
            }
            client = client.tls_certs_only(authorities);
        }
        let client = client.build().map_err(|error| format!("no client can be made: {error}"))?;
        Ok(Self { origin: url, client })
    }

    /// A path of this origin, and of no other.
    fn url(&self, path: &str) -> Result<Url, SendError> {
        let wrong = || SendError::Request("the path is no path of a URL, with its query".to_owned());
        if !path.starts_with('/') || path.contains(['#', '\\']) {
            return Err(wrong());
        }
        let url = Url::parse(&format!("{}{path}", self.origin.origin().ascii_serialization()));
        let url = url.map_err(|_| wrong())?;
        if url.origin() == self.origin.origin() { Ok(url) } else { Err(wrong()) }
    }
}

fn method(name: &str) -> Result<Method, SendError> {
    METHODS
        .into_iter()
        .find(|method| method.as_str() == name)
        .ok_or_else(|| SendError::Request(format!("`{name}` is no method that a function may use")))
}

fn header_name(name: &str) -> Result<HeaderName, SendError> {
    if RESERVED.contains(&name) {
        return Err(SendError::Request(format!("the header `{name}` is not for a function to set")));
    }
    HeaderName::from_bytes(name.as_bytes())
        .map_err(|_| SendError::Request(format!("`{name}` names no header")))
}

/// What a function sends, without its secrets.
fn headers(request: &Request<'_>) -> Result<HeaderMap, SendError> {
    let mut headers = HeaderMap::new();
    for (name, value) in request.headers.iter() {
        let name = header_name(name)?;
        if !request.secrets.is_empty() && name == RANGE {
            let wrong =
                "with a secret no part of an answer can be asked for: it could be a part of the secret";
            return Err(SendError::Request(wrong.to_owned()));
        }
        let value = HeaderValue::from_bytes(value.as_bytes())
            .map_err(|_| SendError::Request(format!("the value of `{name}` cannot be sent")))?;
        headers.append(name, value);
    }
    if let Some(trace) = request.trace.and_then(|trace| HeaderValue::from_str(trace).ok())
        && !headers.contains_key(TRACE)
    {
        headers.insert(TRACE, trace);
    }
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    Ok(headers)
}

/// The whole of an answer, within bounds.
async fn read(resource: &ResourceName, mut response: reqwest::Response) -> Result<Answer, SendError> {
    let unanswered = |why| SendError::Unanswered { server: resource.clone(), why };
    let too_long = |limit| SendError::TooLong { server: resource.clone(), limit };
    let status = response.status().as_u16();
    if !(200..=599).contains(&status) {
        return Err(unanswered("its status is none of 200 to 599"));
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
    while let Some(piece) = response.chunk().await.map_err(|error| crate::unanswered(resource, &error))? {
        if body.len() + piece.len() > HTTP_BODY_BYTES_MAX {
            return Err(too_long("1 MiB"));
        }
        body.extend_from_slice(&piece);
    }
    Ok(Answer { status, headers, body: body.freeze() })
}

impl Answer {
    fn may_show(&self, traces: &[Zeroizing<Vec<u8>>]) -> bool {
        let is_compressed = |(name, value): &(String, String)| {
            *name == CONTENT_ENCODING.as_str() && !value.eq_ignore_ascii_case("identity")
        };
        let in_header = |(name, value): &(String, String)| {
            shows(name.as_bytes(), traces) || shows(value.as_bytes(), traces)
        };
        self.headers.iter().any(|header| is_compressed(header) || in_header(header))
            || shows(&self.body, traces)
    }
}

/// Why there is no answer, in words that say nothing of where the server is.
fn unanswered(resource: &ResourceName, error: &reqwest::Error) -> SendError {
    let mut causes = std::iter::successors(std::error::Error::source(error), |error| error.source());
    if causes.any(|cause| cause.is::<Forbidden>()) {
        tracing::warn!(server = %resource, "a request was refused: {Forbidden}");
        return SendError::Forbidden(resource.clone());
    }
    let why = if error.is_connect() {
        "it cannot be connected to"
    } else if error.is_timeout() {
        "it has taken longer than 30 s"
    } else if error.is_body() || error.is_decode() {
        "its answer has ended early"
    } else {
        "the connection has ended"
    };
    tracing::info!(server = %resource, %error, "a request has no answer");
    SendError::Unanswered { server: resource.clone(), why }
}

#[cfg(test)]
mod tests;
