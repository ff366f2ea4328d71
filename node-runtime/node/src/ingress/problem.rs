//! Errors of an invocation as `application/problem+json` (RFC 9457) with a stable code.

use bytes::Bytes;
use http::{HeaderName, HeaderValue, StatusCode, header};
use mfaas_rules::Code;

use super::response::{Answer, Response};

/// An error to show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Problem {
    status: StatusCode,
    code: Code,
    detail: Option<String>,
    retry_after_s: Option<u32>,
    header: Option<(HeaderName, &'static str)>,
}

/// Left on the response for whoever counts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shown(pub(super) Code);

impl Problem {
    pub(super) fn of(status: StatusCode, code: Code) -> Self {
        Self { status, code, detail: None, retry_after_s: None, header: None }
    }

    /// One sentence about this occurrence; sanitised here.
    pub(super) fn detail(mut self, text: &str) -> Self {
        self.detail = Some(mfaas_ident::sanitise_line(text, 200));
        self
    }

    pub(super) fn retry_after(mut self, seconds: u32) -> Self {
        self.retry_after_s = Some(seconds);
        self
    }

    /// What the status demands besides.
    pub(super) fn with(mut self, name: HeaderName, value: &'static str) -> Self {
        self.header = Some((name, value));
        self
    }

    /// The body alone.
    pub(super) fn to_json(&self) -> String {
        let mut body = serde_json::json!({
            "type": format!("https://mfaas.dev/errors/{}", self.code.id()),
            "title": self.code.title(),
            "status": self.status.as_u16(),
            "code": self.code.id(),
            "hint": self.code.hint(),
            "diagnostics": [],
        });
        if let Some(detail) = &self.detail {
            body["detail"] = detail.as_str().into();
        }
        body.to_string()
    }

    /// The problem as a response, marked with its code.
    pub(super) fn into_response(self) -> Response {
        let mut response = Response::new(Answer::from(Bytes::from(self.to_json())));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(seconds) = self.retry_after_s {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if let Some((name, value)) = self.header {
            headers.insert(name, HeaderValue::from_static(value));
        }
        response.extensions_mut().insert(Shown(self.code));
        response
    }
}
