//! How the server says no.
//!
//! Handlers return a [`Refusal`]; it carries the problem for the caller and, apart from it, the
//! cause for the operator. It becomes bytes in one place ([`crate::edge`]), which knows the
//! request id, and is logged there once. A cause never reaches the caller.

use std::sync::Arc;

use axum::response::{IntoResponse, Response};
use http::StatusCode;
use mfaas_blobs::BlobError;
use mfaas_catalog::CatalogError;
use mfaas_rules::{Code, codes};
use mfaas_wire::Problem;

use crate::limits;

/// Why a request does not get what it asked for.
#[derive(Debug, Clone)]
pub struct Refusal(Arc<Inner>);

#[derive(Debug, Clone)]
struct Inner {
    problem: Problem,
    cause: Option<String>,
    retry_after_s: Option<u32>,
}

impl Refusal {
    /// A refusal with `code`; `detail` is one sentence for the caller.
    pub fn new(code: Code, detail: impl AsRef<str>) -> Self {
        Self::with(Problem::new(code, detail), None)
    }

    /// Not found, or it belongs to another tenant: the caller cannot tell which.
    pub fn not_found(what: impl std::fmt::Display) -> Self {
        Self::new(codes::MF0903, format!("There is no {what}."))
    }

    /// The request breaks a rule of the interface.
    pub fn invalid(detail: impl AsRef<str>) -> Self {
        Self::new(codes::MF0904, detail)
    }

    /// A fault of ours: the caller gets a fixed sentence, the operator the cause.
    pub fn internal(cause: impl std::fmt::Display) -> Self {
        let problem = Problem::new(codes::MF0909, "The server could not finish the request.");
        Self::with(problem, Some(cause.to_string()))
    }

    /// Something that the server needs is away.
    pub fn unavailable(detail: &str, cause: impl std::fmt::Display) -> Self {
        Self::with(Problem::new(codes::MF0910, detail), Some(cause.to_string())).retry_after(5)
    }

    /// Bytes of the caller came later than they may.
    pub fn slow(detail: &str) -> Self {
        Self::new(codes::MF0915, detail)
    }

    /// More at once than a limit allows.
    pub fn busy(detail: &str) -> Self {
        Self::new(codes::MF0912, detail).retry_after(1)
    }

    /// More than one tenant may have of what all share.
    pub fn share(detail: impl AsRef<str>) -> Self {
        Self::new(codes::MF0917, detail).retry_after(limits::QUEUE_RETRY_AFTER_S)
    }

    /// No certificate for a node, for a reason that passes.
    pub fn no_certificate(detail: &str) -> Self {
        Self::new(codes::MF0721, detail).retry_after(limits::CERTIFICATE_RETRY_AFTER_S)
    }

    fn with(problem: Problem, cause: Option<String>) -> Self {
        Self(Arc::new(Inner { problem, cause, retry_after_s: None }))
    }

    /// The same refusal under another status, where one code covers several (404 and 405).
    #[must_use]
    pub fn status(self, status: StatusCode) -> Self {
        self.map(|inner| inner.problem.status = status.as_u16())
    }

    /// The same refusal with a cause for the operator.
    #[must_use]
    pub fn because(self, cause: impl std::fmt::Display) -> Self {
        let cause = cause.to_string();
        self.map(|inner| inner.cause = Some(cause))
    }

    fn retry_after(self, seconds: u32) -> Self {
        self.map(|inner| inner.retry_after_s = Some(seconds))
    }

    fn map(self, change: impl FnOnce(&mut Inner)) -> Self {
        let mut inner = Arc::unwrap_or_clone(self.0);
        change(&mut inner);
        Self(Arc::new(inner))
    }

    /// What the caller is told.
    pub fn problem(&self) -> &Problem {
        &self.0.problem
    }

    /// What the operator is told.
    pub fn cause(&self) -> Option<&str> {
        self.0.cause.as_deref()
    }

    /// Seconds until another try makes sense.
    pub fn retry_after_s(&self) -> Option<u32> {
        self.0.retry_after_s
    }

    /// The HTTP status of the answer.
    pub fn http_status(&self) -> StatusCode {
        StatusCode::from_u16(self.0.problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.0.problem.code, self.0.problem.detail)
    }
}

/// An empty answer that carries the refusal; the edge writes the body.
impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = self.http_status().into_response();
        response.extensions_mut().insert(self);
        response
    }
}

impl From<CatalogError> for Refusal {
    fn from(error: CatalogError) -> Self {
        match &error {
            CatalogError::NotFound { what } => Self::not_found(what),
            CatalogError::Conflict { reason } => Self::new(codes::MF0908, reason),
            CatalogError::IdempotencyKeyReused => {
                Self::new(codes::MF0905, "The idempotency key was used for another upload.")
            }
            CatalogError::QueueFull { deployments, bytes } => Self::share(format!(
                "The tenant has {deployments} deployments with {bytes} bytes of source in the queue, and no room for this one."
            )),
            CatalogError::TooManyFunctions { functions } => Self::new(
                codes::MF0918,
                format!(
                    "The tenant has {functions} functions, in the queue or admitted, and may have no more."
                ),
            ),
            CatalogError::CallTokensOver => {
                Self::new(codes::MF0921, "What is to be revoked opens nothing any more.")
            }
            CatalogError::TooManyRevocations => Self::new(
                codes::MF0922,
                "As many revocations of call tokens are in force as the tenant, or the site, may have.",
            ),
            CatalogError::Fenced => Self::new(codes::MF0605, error.to_string()),
            CatalogError::Unavailable(cause) => Self::unavailable("The database is not available.", cause),
            CatalogError::Schema { reason } => {
                Self::unavailable("The database schema is not current.", reason)
            }
            CatalogError::Unusable(cause) => Self::unavailable("The database is not available.", cause),
            CatalogError::Denied | CatalogError::Address(_) => Self::internal(error),
            CatalogError::Database(cause) => Self::internal(format!("{error}: {cause}")),
        }
    }
}

impl From<BlobError> for Refusal {
    fn from(error: BlobError) -> Self {
        match error.code() {
            Some(code) if code == codes::MF0601 || code == codes::MF0607 => {
                Self::new(code, "The stored bytes cannot be used.").because(error)
            }
            Some(code) => Self::new(code, error.to_string()),
            None => Self::unavailable("The blob store is not available.", error),
        }
    }
}
