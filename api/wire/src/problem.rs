//! The problem document (RFC 9457): the only shape in which the API says no.

use mfaas_ident::{CrateName, sanitise};
use mfaas_rules::Code;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::schema;
use crate::{Diagnostic, status_of};

/// The media type of a [`Problem`].
pub const PROBLEM_MEDIA_TYPE: &str = "application/problem+json";

/// The longest `detail`, in bytes: it may quote what a caller sent.
const DETAIL_BYTES_MAX: usize = 2_000;

/// One refusal or failure, for people and for machines.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// `urn:mfaas:error:MF0301`, a name and not an address; `mfaas explain MF0301` tells the rest.
    #[serde(rename = "type")]
    pub kind: String,
    /// The code's sentence, the same for every occurrence.
    pub title: String,
    /// The HTTP status, repeated in the body so that a saved document stands alone.
    #[schema(minimum = 400, maximum = 599)]
    pub status: u16,
    /// What happened this time, one sentence, sanitised.
    pub detail: String,
    /// The stable code, for example `MF0301`.
    #[schema(value_type = schema::ErrorCode)]
    pub code: String,
    /// What to do about it.
    pub hint: String,
    /// Names the request in the server's log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// The places in the caller's own files, where there are any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub diagnostics: Vec<Diagnostic>,
    /// The dependency that waits for a decision.
    #[serde(rename = "crate", default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::CrateName>)]
    pub crate_name: Option<CrateName>,
    /// Where a reviewer decides about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review_url: Option<String>,
}

impl Problem {
    /// A problem of `code` with this time's `detail`; status, title and hint come from the tables.
    pub fn new(code: Code, detail: impl AsRef<str>) -> Self {
        Self {
            kind: format!("urn:mfaas:error:{}", code.id()),
            title: code.title().to_owned(),
            status: status_of(code),
            detail: sanitise(detail.as_ref(), DETAIL_BYTES_MAX),
            code: code.id().to_owned(),
            hint: code.hint().to_owned(),
            request_id: None,
            diagnostics: Vec::new(),
            crate_name: None,
            review_url: None,
        }
    }

    /// The same problem, naming the request.
    #[must_use]
    pub fn with_request_id(mut self, request_id: impl Into<String>) -> Self {
        self.request_id = Some(request_id.into());
        self
    }

    /// The same problem with a hint for this occurrence; an empty one keeps the code's own.
    #[must_use]
    pub fn with_hint(mut self, hint: &str) -> Self {
        if !hint.is_empty() {
            self.hint = sanitise(hint, DETAIL_BYTES_MAX);
        }
        self
    }

    /// The same problem, naming who is waited for: the dependency, if it is known, and where a
    /// reviewer decides.
    #[must_use]
    pub fn with_review(mut self, crate_name: Option<CrateName>, review_url: impl Into<String>) -> Self {
        self.crate_name = crate_name;
        self.review_url = Some(review_url.into());
        self
    }
}
