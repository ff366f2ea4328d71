//! `mfaas invoke`: calls a function at a node, directly. The server says where, and gives a call token for this one function.

use std::io::{IsTerminal as _, Read as _};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use mfaas_ident::{CallScope, FunctionName, FunctionRef, Selector};
use mfaas_supervisor::innermost;
use mfaas_wire::{CallTokenCreated, CreateCallToken, Endpoint, PROBLEM_MEDIA_TYPE, Page, Problem};
use reqwest::Method;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};

use mfaas_rules::codes;

use crate::client::{bounded, trusting};
use crate::failure::{Exit, Failure};
use crate::settings::Context;

/// The largest request body that is read, in bytes: one more than any function takes, so that what is too large is refused by a
/// node and not cut.
pub(crate) const BODY_BYTES_MAX: u64 = (64 << 20) + 1;

/// How long a call may take, queueing included, unless the user says otherwise, and at most, in seconds.
const CALL_LIMIT_S: u64 = 60;
const CALL_LIMIT_S_MAX: u64 = 86_400;

/// Call a function; its answer goes to standard output as it is.
///
/// For example: `mfaas invoke hello --data world`
#[derive(Debug, clap::Args)]
pub(crate) struct Invoke {
    /// The function, with a version or alias if it is not `live`: NAME, NAME@3, NAME@next.
    #[arg(value_name = "NAME[@VERSION|ALIAS]")]
    function: FunctionRef,
    /// The request body.
    #[arg(long, short, value_name = "TEXT", conflicts_with = "file")]
    data: Option<String>,
    /// Read the request body from a file; `-` is standard input.
    #[arg(long, short, value_name = "FILE")]
    file: Option<PathBuf>,
    /// A request header, `Name: value`; may be given more than once.
    #[arg(long, short = 'H', value_name = "NAME: VALUE", value_parser = parse_header)]
    header: Vec<(HeaderName, HeaderValue)>,
    /// How long to wait for the answer, in seconds; a bulk function may take minutes.
    #[arg(long, value_name = "SECONDS", default_value_t = CALL_LIMIT_S,
          value_parser = clap::value_parser!(u64).range(1..=CALL_LIMIT_S_MAX))]
    timeout: u64,
}

/// How long the token of one call is good for: it is made for this call, and the clocks of two machines differ.
const TOKEN_LIFE: Duration = Duration::from_secs(120);

/// One answered call.
pub(crate) struct Answer {
    /// The HTTP status.
    pub(crate) status: u16,
    /// All headers.
    pub(crate) headers: HeaderMap,
    /// The body.
    pub(crate) body: Vec<u8>,
    /// From sending to the last byte.
    pub(crate) took: Duration,
}

impl Invoke {
    /// Finds a node, calls, shows.
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let body = self.body()?;
        let url = find_endpoint(context, &self.function).await?;
        let mut headers: HeaderMap = self.header.into_iter().collect();
        // A caller that brings its own is that caller.
        if !headers.contains_key(AUTHORIZATION)
            && let Some(bearer) =
                call_token(context, std::slice::from_ref(&self.function.name), TOKEN_LIFE).await?
        {
            headers.insert(AUTHORIZATION, bearer);
        }
        let limit = Duration::from_secs(self.timeout);
        let answer = call(context, &url, headers, body, limit).await?;
        context.screen.detail(&timing(&answer));
        if let Some(problem) = problem_of(&answer) {
            return Err(Failure::Problem(Box::new(problem)));
        }
        if context.screen.is_json() {
            context.screen.result(&document(&url, &answer), String::new)?;
        } else {
            context.screen.answer(&answer.body)?;
        }
        Ok(if answer.status < 400 { Exit::Ok } else { Exit::FunctionFailed })
    }

    /// The body from the argument, a file or standard input; nothing when a person sits there.
    fn body(&self) -> Result<Vec<u8>, Failure> {
        let stdin = std::io::stdin();
        let mut body = Vec::new();
        match (&self.data, &self.file) {
            (Some(text), _) => body.extend_from_slice(text.as_bytes()),
            (None, Some(path)) if path.as_os_str() != "-" => {
                let file = std::fs::File::open(path).map_err(Failure::io("cannot open", path))?;
                file.take(BODY_BYTES_MAX).read_to_end(&mut body).map_err(Failure::io("cannot read", path))?;
            }
            (None, None) if stdin.is_terminal() => {}
            (None, _) => {
                stdin
                    .lock()
                    .take(BODY_BYTES_MAX)
                    .read_to_end(&mut body)
                    .map_err(Failure::io("cannot read", "standard input"))?;
            }
        }
        Ok(body)
    }
}

/// The address of a node that is ready for this function, with the selector attached.
pub(crate) async fn find_endpoint(context: &Context, function: &FunctionRef) -> Result<String, Failure> {
    let path = format!("/v1/functions/{}/endpoints", function.name);
    let page: Page<Endpoint> = context.client()?.get(&path).await?;
    let wanted = |endpoint: &&Endpoint| match &function.selector {
        Some(Selector::Version(version)) => endpoint.loaded_versions.contains(version),
        Some(Selector::Alias(_)) | None => endpoint.live_version.is_some(),
    };
    // A node that has not reported the version may still have it by now: better ask than give up.
    let best = page.items.iter().filter(|endpoint| endpoint.url.is_some());
    let endpoint = best
        .clone()
        .find(|e| e.ready && wanted(e))
        .or_else(|| best.clone().find(wanted))
        .or_else(|| best.clone().next());
    let url = endpoint.and_then(|endpoint| endpoint.url.clone()).ok_or_else(|| Failure::Unreachable {
        what: function.name.to_string(),
        cause: "no node has reported an address".to_owned(),
    })?;
    Ok(match &function.selector {
        Some(selector) => format!("{url}@{selector}"),
        None => url,
    })
}

/// A call token for these functions alone, as a node wants to see it. Nothing for a user whose own token may not issue any:
/// what is public is open to them all the same, and the node says what is not.
pub(crate) async fn call_token(
    context: &Context,
    functions: &[FunctionName],
    life: Duration,
) -> Result<Option<HeaderValue>, Failure> {
    let wanted = CreateCallToken {
        functions: CallScope::parse(functions).map_err(|error| Failure::Usage(error.to_string()))?,
        caller: None,
        ttl_s: u32::try_from(life.as_secs()).ok(),
        rate: None,
        concurrency: None,
    };
    let created: CallTokenCreated = match context.client()?.post("/v1/call-tokens", &wanted).await {
        Ok(created) => created,
        Err(Failure::Problem(problem)) if problem.code == codes::MF0902.id() => {
            context.screen.note("your token issues no call tokens (it lacks `deploy`): calling as nobody");
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    let mut bearer = HeaderValue::try_from(format!("Bearer {}", created.token))
        .map_err(|_| Failure::Local("the server gave a call token that is none".to_owned()))?;
    bearer.set_sensitive(true);
    Ok(Some(bearer))
}

/// One call at a node. The token of `headers` is for the node alone: functions do not see it.
pub(crate) async fn call(
    context: &Context,
    url: &str,
    headers: HeaderMap,
    body: Vec<u8>,
    limit: Duration,
) -> Result<Answer, Failure> {
    send(&http(context, limit)?, Method::POST, url, headers, body).await
}

/// Connections to nodes, for calls that each take this long at most.
pub(crate) fn http(context: &Context, limit: Duration) -> Result<reqwest::Client, Failure> {
    trusting(reqwest::Client::builder(), context.ca_file())?
        .timeout(limit)
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .build()
        .map_err(|e| Failure::Local(innermost(&e)))
}

/// One request to a node, and what it answers.
pub(crate) async fn send(
    http: &reqwest::Client,
    method: Method,
    url: &str,
    headers: HeaderMap,
    body: Vec<u8>,
) -> Result<Answer, Failure> {
    let unreachable =
        |error: &reqwest::Error| Failure::Unreachable { what: url.to_owned(), cause: innermost(error) };
    let begin = Instant::now();
    let request = http.request(method, url).headers(headers).body(body);
    let response = request.send().await.map_err(|e| unreachable(&e))?;
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let body = bounded(response, url).await?;
    Ok(Answer { status, headers, body, took: begin.elapsed() })
}

/// The node's problem document, when the call did not reach an answer of the function. A function
/// may answer with that media type, too; only a code of ours makes it a problem.
pub(crate) fn problem_of(answer: &Answer) -> Option<Problem> {
    if answer.status < 400 || !header(answer, "content-type").starts_with(PROBLEM_MEDIA_TYPE) {
        return None;
    }
    let mut document: serde_json::Value = serde_json::from_slice(&answer.body).ok()?;
    let members = document.as_object_mut()?;
    if !members.get("code")?.as_str()?.starts_with("MF") {
        return None;
    }
    // RFC 9457 makes every member optional; the sentence of the code stands in for a detail.
    let title = members.get("title").cloned().unwrap_or_default();
    members.entry("detail").or_insert(title);
    serde_json::from_value(document).ok()
}

fn document(url: &str, answer: &Answer) -> serde_json::Value {
    let mut document = serde_json::json!({
        "url": url,
        "status": answer.status,
        "version": header(answer, "mfaas-version"),
        "start": header(answer, "mfaas-start"),
        "server_timing": header(answer, "server-timing"),
        "took_ms": answer.took.as_secs_f64() * 1e3,
    });
    match std::str::from_utf8(&answer.body) {
        Ok(text) => document["body"] = text.into(),
        Err(_) => document["body_hex"] = hex::encode(&answer.body).into(),
    }
    document
}

/// How a call went.
pub(crate) fn timing(answer: &Answer) -> String {
    format!(
        "status {} · version {} · {} start · {} · {:.2} ms with the way there and back",
        answer.status,
        header(answer, "mfaas-version"),
        header(answer, "mfaas-start"),
        header(answer, "server-timing"),
        answer.took.as_secs_f64() * 1e3
    )
}

/// A header's text, sanitised; empty when it is missing or no text.
pub(crate) fn header(answer: &Answer, name: &str) -> String {
    let text = answer.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("");
    mfaas_ident::sanitise_line(text, 200)
}

fn parse_header(text: &str) -> Result<(HeaderName, HeaderValue), String> {
    let (name, value) = text.split_once(':').ok_or("write it as `Name: value`")?;
    let name = name.trim().parse().map_err(|_| "that is no header name")?;
    let value = HeaderValue::from_str(value.trim()).map_err(|_| "that is no header value")?;
    Ok((name, value))
}

#[cfg(test)]
mod tests;
