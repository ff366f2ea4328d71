//! A request as a handler sees it.

use std::borrow::Cow;

use mfaas_abi::frame::RequestFrame;

use crate::Error;

/// Method, path, headers and body of one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    method: Cow<'static, str>,
    target: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Request {
    /// A request without headers and body, for tests of handlers. `target` is a path with an
    /// optional query.
    pub fn new(method: &str, target: &str) -> Self {
        Self { method: method_name(method), target: target.to_owned(), headers: Vec::new(), body: Vec::new() }
    }

    /// The same request with one more header.
    #[must_use]
    pub fn with_header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_ascii_lowercase(), value.to_owned()));
        self
    }

    /// The same request with this body.
    #[must_use]
    pub fn with_body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// `GET`, `POST`, ….
    pub fn method(&self) -> &str {
        &self.method
    }

    /// The path behind the function's name, beginning with `/`, without the query. Still
    /// percent-encoded.
    pub fn path(&self) -> &str {
        self.target.split_once('?').map_or(&*self.target, |(path, _)| path)
    }

    /// What stands behind the first `?`, still percent-encoded.
    pub fn query(&self) -> Option<&str> {
        self.target.split_once('?').map(|(_, query)| query)
    }

    /// The first header of this name, in any case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers().find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// Names (in lower case) and values, in the order sent.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.headers.iter().map(|(name, value)| (&**name, &**value))
    }

    /// Who calls, as the node found out: `tenant/name` of a call token, `local` for a program of the node's own machine, and nothing
    /// for a caller of a public function that showed no token. No caller can say it itself.
    pub fn caller(&self) -> Option<&str> {
        self.header("mfaas-caller")
    }

    /// The body, at most 1 MiB.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// The body, without a copy.
    pub fn into_body(self) -> Vec<u8> {
        self.body
    }

    /// The body as text; an error if it is not UTF-8.
    pub fn text(&self) -> Result<&str, Error> {
        Ok(std::str::from_utf8(&self.body)?)
    }

    /// The body as JSON.
    pub fn json<T: serde::de::DeserializeOwned>(&self) -> Result<T, Error> {
        Ok(serde_json::from_slice(&self.body)?)
    }

    pub(crate) fn from_frame(frame: &RequestFrame<'_>) -> Self {
        let headers = frame.headers.iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
        Self {
            method: method_name(frame.method),
            target: frame.path.to_owned(),
            headers: headers.collect(),
            body: frame.body.to_vec(),
        }
    }
}

/// The usual methods need no allocation.
fn method_name(method: &str) -> Cow<'static, str> {
    match method {
        "GET" => Cow::Borrowed("GET"),
        "POST" => Cow::Borrowed("POST"),
        other => Cow::Owned(other.to_owned()),
    }
}
