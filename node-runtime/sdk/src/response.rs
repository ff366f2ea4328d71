//! A response as a handler makes it.

use crate::Error;

/// Status, headers and body.
///
/// What HTTP does not allow (a status outside 200..=599, a line break in a header, a body over
/// 1 MiB) ends the call with the status `bad_output`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Response {
    /// An empty response with this status.
    pub fn new(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: Vec::new() }
    }

    /// Status 200 with plain text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::new(200).with_header("content-type", "text/plain; charset=utf-8").with_body(text.into())
    }

    /// Status 200 with a page.
    pub fn html(page: impl Into<String>) -> Self {
        Self::new(200).with_header("content-type", "text/html; charset=utf-8").with_body(page.into())
    }

    /// Status 200 with bytes of no particular type.
    pub fn bytes(bytes: impl Into<Vec<u8>>) -> Self {
        Self::new(200).with_header("content-type", "application/octet-stream").with_body(bytes)
    }

    /// Status 200 with `value` as JSON; an error if it cannot be JSON.
    pub fn json<T: serde::Serialize>(value: &T) -> Result<Self, Error> {
        let body = serde_json::to_vec(value)?;
        Ok(Self::new(200).with_header("content-type", "application/json").with_body(body))
    }

    /// The same response with this status.
    #[must_use]
    pub fn with_status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    /// The same response with one more header.
    #[must_use]
    pub fn with_header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_ascii_lowercase(), value.to_owned()));
        self
    }

    /// The same response with this body.
    #[must_use]
    pub fn with_body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// The status.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// Names (in lower case) and values, in the order set.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.headers.iter().map(|(name, value)| (&**name, &**value))
    }

    /// The body.
    pub fn body(&self) -> &[u8] {
        &self.body
    }
}
