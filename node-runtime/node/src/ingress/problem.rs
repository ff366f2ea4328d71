//! Errors of an invocation as `application/problem+json` (RFC 9457) with a stable code.

use http::{HeaderValue, StatusCode, header};
use http_body_util::Full;
use mfaas_rules::Code;

use super::body::Response;

/// An error to show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Problem {
    status: StatusCode,
    code: Code,
    detail: Option<String>,
    retry_after_s: Option<u32>,
    challenge: Option<&'static str>,
}

/// Left on the response for whoever counts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shown(pub(super) Code);

impl Problem {
    pub(super) fn of(status: StatusCode, code: Code) -> Self {
        Self { status, code, detail: None, retry_after_s: None, challenge: None }
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

    /// What the caller is to show (RFC 9110 11.6.1).
    pub(super) fn challenge(mut self, challenge: &'static str) -> Self {
        self.challenge = Some(challenge);
        self
    }

    /// The problem as a response, marked with its code.
    pub(super) fn into_response(self) -> Response {
        let mut body = serde_json::json!({
            "type": format!("https://mfaas.dev/errors/{}", self.code.id()),
            "title": self.code.title(),
            "status": self.status.as_u16(),
            "code": self.code.id(),
            "hint": self.code.hint(),
            "diagnostics": [],
        });
        if let Some(detail) = self.detail {
            body["detail"] = detail.into();
        }
        let mut response = Response::new(Full::new(body.to_string().into()));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(seconds) = self.retry_after_s {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if let Some(challenge) = self.challenge {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
        }
        response.extensions_mut().insert(Shown(self.code));
        response
    }
}
