//! One call of a function for a person who is signed in, made by the server at a node.
//!
//! The call token is issued as for anybody who asks for one, names this function alone and never reaches the page.

use std::time::Instant;

use http::Method;
use http::header::{self, AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use mfaas_ident::{FunctionName, Selector, sanitise};

use super::form::SignedForm;
use super::rows::line;
use crate::caller::Caller;
use crate::refusal::Refusal;
use crate::state::App;
use crate::{calling, limits, routes};

/// What a node takes.
pub(super) const METHODS: [&str; 7] = ["POST", "GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS"];

/// Headers that are not the person's to say: the token is the server's, the rest belongs to the connection.
const NOT_THEIRS: [HeaderName; 11] = [
    header::AUTHORIZATION,
    header::HOST,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::CONNECTION,
    header::UPGRADE,
    header::TE,
    header::TRAILER,
    header::EXPECT,
    header::PROXY_AUTHORIZATION,
    header::PROXY_AUTHENTICATE,
];

/// The fields of the form, as they were sent.
#[derive(Default)]
pub(super) struct Asked {
    pub(super) method: String,
    /// A version or an alias; empty for what is live.
    pub(super) version: String,
    pub(super) query: String,
    /// `Name: value`, one a line.
    pub(super) headers: String,
    pub(super) body: String,
}

impl Asked {
    pub(super) fn of(form: &SignedForm) -> Result<Self, Refusal> {
        // Browsers send CRLF, whatever was typed.
        let lines = |name| Ok::<_, Refusal>(form.one(name)?.replace("\r\n", "\n"));
        Ok(Self {
            method: form.one("method")?.to_owned(),
            version: form.one("version")?.trim().to_owned(),
            query: form.one("query")?.trim().to_owned(),
            headers: lines("headers")?,
            body: lines("body")?,
        })
    }

    fn method(&self) -> Result<Method, Refusal> {
        let known = METHODS.contains(&self.method.as_str());
        let method = Method::from_bytes(self.method.as_bytes()).ok().filter(|_| known);
        method.ok_or_else(|| Refusal::invalid("Choose one of the methods."))
    }

    fn selector(&self) -> Result<Option<Selector>, Refusal> {
        let given = Some(&self.version).filter(|text| !text.is_empty());
        given
            .map(|text| Selector::parse(text))
            .transpose()
            .map_err(|error| Refusal::invalid(error.to_string()))
    }

    fn query(&self) -> Result<Option<&str>, Refusal> {
        if self.query.len() > limits::CONSOLE_CALL_QUERY_BYTES_MAX {
            return Err(Refusal::invalid("The query has 2048 bytes at most."));
        }
        Ok(Some(self.query.as_str()).filter(|query| !query.is_empty()))
    }

    fn headers(&self) -> Result<HeaderMap, Refusal> {
        let mut headers = HeaderMap::new();
        for text in self.headers.lines().filter(|text| !text.trim().is_empty()) {
            let bad = |why: &str| Refusal::invalid(format!("`{}`: {why}.", line(text)));
            let (name, value) = text.split_once(':').ok_or_else(|| bad("write it as `Name: value`"))?;
            let name: HeaderName = name.trim().parse().map_err(|_| bad("that is no header name"))?;
            let value = HeaderValue::from_str(value.trim()).map_err(|_| bad("that is no header value"))?;
            if NOT_THEIRS.contains(&name) {
                return Err(bad("this header is set by the server"));
            }
            headers.append(name, value);
        }
        if headers.len() > limits::CONSOLE_CALL_HEADERS_MAX {
            return Err(Refusal::invalid("A call has 16 headers at most."));
        }
        Ok(headers)
    }
}

/// What came back, as the page shows it.
pub(super) struct Answered {
    pub(super) node: String,
    pub(super) status: String,
    pub(super) version: String,
    pub(super) start: String,
    /// What the node says of its own times.
    pub(super) timing: String,
    /// From sending to the last byte that was read.
    pub(super) took_ms: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Body,
}

/// The body of an answer.
pub(super) struct Body {
    pub(super) shown: String,
    /// What is shown, in a few words.
    pub(super) what: String,
}

/// Calls the function once.
pub(super) async fn send(
    app: &App,
    caller: &Caller,
    name: &FunctionName,
    asked: &Asked,
) -> Result<Answered, Refusal> {
    let (method, mut headers) = (asked.method()?, asked.headers()?);
    let (query, selector) = (asked.query()?, asked.selector()?);
    let (node, mut url) = calling::node_for(app, &caller.tenant, name, selector.as_ref()).await?;
    if let Some(selector) = selector {
        url.set_path(&format!("{}@{selector}", url.path()));
    }
    url.set_query(query);
    let named = (&caller.tenant, routes::caller_name(caller));
    let life = limits::CONSOLE_CALL_TOKEN_LIFE;
    headers.insert(AUTHORIZATION, calling::bearer(app, &caller.actor(), named, name, life).await?);
    let http = calling::http(limits::CONSOLE_CALL_TIME_MAX)?;
    let away = |error: reqwest::Error| {
        Refusal::unavailable("The node did not answer in time, or not at all.", error.without_url())
    };
    let begin = Instant::now();
    let request = http.request(method, url).headers(headers);
    let request = if asked.body.is_empty() { request } else { request.body(asked.body.clone()) };
    let mut response = request.send().await.map_err(away)?;
    let (mut bytes, mut is_cut) = (Vec::new(), false);
    while let Some(piece) = response.chunk().await.map_err(away)? {
        let room = limits::CONSOLE_CALL_ANSWER_BYTES_MAX - bytes.len();
        bytes.extend_from_slice(&piece[..piece.len().min(room)]);
        if piece.len() > room {
            is_cut = true;
            break;
        }
    }
    let took_ms = format!("{:.2}", begin.elapsed().as_secs_f64() * 1e3);
    let shown = |name: &str| response.headers().get(name).map_or_else(|| "–".to_owned(), text_of);
    let listed = response.headers().iter().take(limits::CONSOLE_CALL_ANSWER_HEADERS_MAX);
    Ok(Answered {
        node,
        status: response.status().to_string(),
        version: shown("mfaas-version"),
        start: shown("mfaas-start"),
        timing: shown("server-timing"),
        took_ms,
        headers: listed.map(|(name, value)| (name.to_string(), text_of(value))).collect(),
        body: drawn(&bytes, is_cut),
    })
}

fn text_of(value: &HeaderValue) -> String {
    line(&String::from_utf8_lossy(value.as_bytes()))
}

/// Text as text, anything else as hexadecimal digits.
fn drawn(bytes: &[u8], is_cut: bool) -> Body {
    let cut = if is_cut { ", the rest is left out" } else { "" };
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => Some(text),
        // A character that the limit has cut is no sign of another kind.
        Err(error) if is_cut && error.error_len().is_none() => {
            std::str::from_utf8(&bytes[..error.valid_up_to()]).ok()
        }
        Err(_) => None,
    };
    if let Some(text) = text {
        // What the sanitiser makes visible takes more room than it had.
        let shown = sanitise(text, 8 * limits::CONSOLE_CALL_ANSWER_BYTES_MAX);
        return Body { shown, what: format!("{} bytes of text{cut}", text.len()) };
    }
    let head = &bytes[..bytes.len().min(limits::CONSOLE_CALL_HEX_BYTES_MAX)];
    let rows: Vec<_> = head.chunks(32).map(hex::encode).collect();
    let what =
        format!("{} bytes that are no text{cut}; the first {} in hexadecimal", bytes.len(), head.len());
    Body { shown: rows.join("\n"), what }
}

#[cfg(test)]
mod tests;
