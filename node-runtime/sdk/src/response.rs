//! A response as a handler makes it.

use mfaas_abi::frame::{FrameError, encode_headers};
use mfaas_abi::{ContentType, Reply, Status};

use crate::Error;

/// Status, headers and body.
///
/// What HTTP does not allow (a status outside 200..=599, a line break in a header, a body over
/// 1 MiB) ends the call with the status `bad_output`.
#[derive(Debug, Clone)]
pub struct Response {
    status: u16,
    /// The first header, if it is a usual one.
    content_type: ContentType,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Response {
    /// An empty response with this status.
    pub fn new(status: u16) -> Self {
        Self::typed(status, ContentType::Unsaid, Vec::new())
    }

    fn typed(status: u16, content_type: ContentType, body: Vec<u8>) -> Self {
        Self { status, content_type, headers: Vec::new(), body }
    }

    /// Status 200 with plain text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::typed(200, ContentType::Text, text.into().into_bytes())
    }

    /// Status 200 with a page.
    pub fn html(page: impl Into<String>) -> Self {
        Self::typed(200, ContentType::Html, page.into().into_bytes())
    }

    /// Status 200 with bytes of no particular type.
    pub fn bytes(bytes: impl Into<Vec<u8>>) -> Self {
        Self::typed(200, ContentType::Bytes, bytes.into())
    }

    /// Status 200 with `value` as JSON; an error if it cannot be JSON.
    pub fn json<T: serde::Serialize>(value: &T) -> Result<Self, Error> {
        Ok(Self::typed(200, ContentType::Json, serde_json::to_vec(value)?))
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
        let others = self.headers.iter().map(|(name, value)| (&**name, &**value));
        self.content_type.header().into_iter().chain(others)
    }

    /// The body.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// What the host takes. Fails for headers that no response can have.
    pub(crate) fn into_reply(self, status: Status) -> Result<Reply, FrameError> {
        let mut headers = Vec::new();
        let others = self.headers.iter().map(|(name, value)| (&**name, &**value));
        let header_count = encode_headers(&mut headers, others)?;
        let Self { status: http_status, content_type, body, .. } = self;
        Ok(Reply { status, http_status, content_type, headers, header_count, body })
    }
}

/// Equal is what a caller could not tell apart.
impl PartialEq for Response {
    fn eq(&self, other: &Self) -> bool {
        self.status == other.status && self.body == other.body && self.headers().eq(other.headers())
    }
}

impl Eq for Response {}
