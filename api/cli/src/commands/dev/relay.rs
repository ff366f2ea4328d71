//! Where functions are called while they are worked on: the paths of a node's ingress on this machine. Each request goes to the
//! node as it is, with a call token if it brings none, and a line tells how it went.
//!
//! It lends the developer's right to call, so it is for the developer's programs alone: it listens on the loopback, and refuses
//! requests that a page of another site made a browser send.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use mfaas_ident::{FunctionName, FunctionRef, sanitise_line};
use reqwest::Url;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use tokio::net::TcpListener;

use crate::client::is_loopback;
use crate::commands::invoke::{self, Answer, BODY_BYTES_MAX};
use crate::failure::{Exit, Failure};
use crate::settings::Context;

/// How long a call may take: as long as a node gives one.
const CALL_LIMIT: Duration = Duration::from_secs(86_400);

/// What a call token is good for, and after which it is replaced.
const TOKEN_LIFE: Duration = Duration::from_secs(7_200);
const TOKEN_RENEWAL: Duration = Duration::from_secs(3_600);

/// The longest request line that is shown, in bytes.
const SHOWN_BYTES_MAX: usize = 200;

/// Headers about one connection, which the next one has of its own.
const OF_ONE_CONNECTION: [HeaderName; 7] = [
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::HOST,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// A socket that is listened at.
pub(super) struct Relay {
    listener: TcpListener,
    port: u16,
}

/// What all requests share.
struct Shared {
    context: Context,
    http: reqwest::Client,
    functions: Vec<FunctionName>,
    token: tokio::sync::Mutex<Option<(Instant, Option<HeaderValue>)>>,
    /// The node of each function, as far as it is known.
    nodes: Mutex<BTreeMap<FunctionName, Url>>,
}

impl Relay {
    /// Listens on the loopback.
    pub(super) async fn bind(port: u16) -> Result<Self, Failure> {
        let failed = |error: std::io::Error| {
            Failure::Local(format!("cannot listen on 127.0.0.1, port {port}: {error}; --port names another"))
        };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.map_err(failed)?;
        let port = listener.local_addr().map_err(failed)?.port();
        Ok(Self { listener, port })
    }

    /// Where a function is called.
    pub(super) fn url(&self, context: &Context, function: &FunctionName) -> String {
        let tenant = context.tenant().map_or("TENANT", |tenant| tenant.as_str());
        format!("http://127.0.0.1:{}/f/{tenant}/{function}", self.port)
    }

    /// Answers until it is dropped.
    pub(super) async fn serve(
        self,
        context: &Context,
        functions: Vec<FunctionName>,
    ) -> Result<Exit, Failure> {
        let shared = Shared {
            context: context.clone(),
            http: invoke::http(context, CALL_LIMIT)?,
            functions,
            token: tokio::sync::Mutex::new(None),
            nodes: Mutex::new(BTreeMap::new()),
        };
        let router = Router::new().fallback(answer).with_state(Arc::new(shared));
        axum::serve(self.listener, router)
            .await
            .map_err(|error| Failure::Local(format!("cannot answer calls: {error}")))?;
        Ok(Exit::Ok)
    }
}

async fn answer(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let what = format!("{} {}", request.method(), request.uri());
    let what = sanitise_line(&what, SHOWN_BYTES_MAX);
    let result = match demand_own_program(request.headers()) {
        Ok(()) => shared.pass_on(request).await,
        Err(failure) => Err((StatusCode::FORBIDDEN, failure)),
    };
    match result {
        Ok(answer) => {
            shared.tell(&what, &answer);
            response(answer)
        }
        Err((status, failure)) => {
            shared.context.screen.note(&format!("{what}: {failure}"));
            (status, format!("{failure}\n")).into_response()
        }
    }
}

impl Shared {
    async fn pass_on(&self, request: Request) -> Result<Answer, (StatusCode, Failure)> {
        let not_found = |failure| (StatusCode::NOT_FOUND, failure);
        let gateway = |failure| (StatusCode::BAD_GATEWAY, failure);
        let (parts, body) = request.into_parts();
        let function = function_of(parts.uri.path()).map_err(not_found)?;
        let limit = usize::try_from(BODY_BYTES_MAX).unwrap_or(usize::MAX);
        let body = to_bytes(body, limit).await.map_err(|error| {
            (StatusCode::PAYLOAD_TOO_LARGE, Failure::Local(format!("the request's body: {error}")))
        })?;
        let mut headers = parts.headers;
        remove_of_one_connection(&mut headers);
        if !headers.contains_key(AUTHORIZATION)
            && let Some(bearer) = self.token().await.map_err(gateway)?
        {
            headers.insert(AUTHORIZATION, bearer);
        }
        let mut url = self.node(&function).await.map_err(gateway)?;
        url.set_path(parts.uri.path());
        url.set_query(parts.uri.query());
        let answer = invoke::send(&self.http, parts.method, url.as_str(), headers, body.into()).await;
        match &answer {
            // It may be another one by now.
            Err(_) => drop(self.nodes.lock().unwrap_or_else(PoisonError::into_inner).remove(&function)),
            // It may have been revoked: the next call brings another one.
            Ok(answer) if answer.status == StatusCode::UNAUTHORIZED => *self.token.lock().await = None,
            Ok(_) => {}
        }
        answer.map_err(gateway)
    }

    /// The address of a node that has the function.
    async fn node(&self, function: &FunctionName) -> Result<Url, Failure> {
        let known = self.nodes.lock().unwrap_or_else(PoisonError::into_inner).get(function).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let of_live = FunctionRef { name: function.clone(), selector: None };
        let text = invoke::find_endpoint(&self.context, &of_live).await?;
        let url = Url::parse(&text).map_err(|error| Failure::Protocol {
            what: "the address of a node".to_owned(),
            cause: error.to_string(),
        })?;
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner).insert(function.clone(), url.clone());
        Ok(url)
    }

    /// A token for calls of the packages' functions; none where the developer's own token issues none.
    async fn token(&self) -> Result<Option<HeaderValue>, Failure> {
        let mut kept = self.token.lock().await;
        match &*kept {
            Some((made, token)) if made.elapsed() < TOKEN_RENEWAL => Ok(token.clone()),
            Some(_) | None => {
                let token = invoke::call_token(&self.context, &self.functions, TOKEN_LIFE).await?;
                *kept = Some((Instant::now(), token.clone()));
                Ok(token)
            }
        }
    }

    /// One call, for the developer.
    fn tell(&self, what: &str, answer: &Answer) {
        let screen = &self.context.screen;
        screen.note(&format!("{what}: {}", invoke::timing(answer)));
        if let Some(problem) = invoke::problem_of(answer) {
            screen.failure(&Failure::Problem(Box::new(problem)));
        }
    }
}

/// The function of `/f/TENANT/NAME`, which a version or an alias may follow.
fn function_of(path: &str) -> Result<FunctionName, Failure> {
    let mut parts = path.split('/').skip(1);
    let (Some("f"), Some(_), Some(name)) = (parts.next(), parts.next(), parts.next()) else {
        return Err(Failure::Usage("functions are called at /f/TENANT/NAME".to_owned()));
    };
    let name = name.split('@').next().unwrap_or(name);
    FunctionName::parse(name).map_err(|error| Failure::Usage(error.to_string()))
}

/// A browser says where a request comes from; nobody else's page may use what this lends. A name of another site that leads to
/// this machine is in `Host`.
fn demand_own_program(headers: &HeaderMap) -> Result<(), Failure> {
    let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let host = text(header::HOST).unwrap_or("?");
    let is_of_another = |origin: &str| Url::parse(origin).map_or(true, |origin| !is_loopback(&origin));
    if is_of_another(&format!("http://{host}"))
        || text(header::ORIGIN).is_some_and(is_of_another)
        || text(HeaderName::from_static("sec-fetch-site")) == Some("cross-site")
    {
        return Err(Failure::Usage("calls of other sites' pages are refused here".to_owned()));
    }
    Ok(())
}

fn remove_of_one_connection(headers: &mut HeaderMap) {
    OF_ONE_CONNECTION.iter().for_each(|name| {
        headers.remove(name);
    });
}

fn response(answer: Answer) -> Response {
    let mut headers = answer.headers;
    remove_of_one_connection(&mut headers);
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::BAD_GATEWAY);
    let mut response = Response::new(Body::from(answer.body));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

#[cfg(test)]
mod tests;
