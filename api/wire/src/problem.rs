//! The problem document (RFC 9457): the only shape in which the API says no.

use mfaas_ident::{DeploymentId, sanitise};
use mfaas_rules::{Code, Finding};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

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
    pub status: u16,
    /// What happened this time, one sentence, sanitised.
    pub detail: String,
    /// The stable code, for example `MF0301`.
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
    pub crate_name: Option<String>,
    /// Where a reviewer decides about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review_url: Option<String>,
    /// The deployment that the problem is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<uuid::Uuid>)]
    pub deployment: Option<DeploymentId>,
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
            deployment: None,
        }
    }

    /// A problem that carries findings: the first one names the code, all are drawn.
    /// `None` when there is no finding, since then nothing was refused.
    pub fn of_findings(findings: &[Finding]) -> Option<Self> {
        let first = findings.first()?;
        let mut problem = Self::new(first.code, &first.message);
        problem.hint.clone_from(&first.hint);
        problem.diagnostics = findings.iter().map(Diagnostic::from).collect();
        Some(problem)
    }

    /// The same problem, naming the request.
    #[must_use]
    pub fn with_request_id(mut self, request_id: impl Into<String>) -> Self {
        self.request_id = Some(request_id.into());
        self
    }

    /// The same problem with another hint than the code's own.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }
}
