//! axum's extractors with our refusals: what does not parse is MF0904 (or MF0907), never a plain
//! text that the framework made up.

use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Request};
use mfaas_rules::codes;

use crate::limits;
use crate::refusal::Refusal;

/// A JSON body.
#[derive(FromRequest)]
#[from_request(via(axum::Json), rejection(Refusal))]
pub struct Json<T>(pub T);

/// A JSON body of an import, which may be larger than others: [`limits::IMPORT_BYTES_MAX`].
pub struct Import<T>(pub T);

impl<T: serde::de::DeserializeOwned, S: Sync> FromRequest<S> for Import<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, _: &S) -> Result<Self, Refusal> {
        let bytes = axum::body::to_bytes(request.into_body(), limits::IMPORT_BYTES_MAX)
            .await
            .map_err(|error| Refusal::new(codes::MF0907, error.to_string()))?;
        serde_json::from_slice(&bytes).map(Self).map_err(|error| Refusal::invalid(error.to_string()))
    }
}

/// The variables of the path. A name that cannot exist is a thing that does not exist, and since
/// the types parse, such a name never reaches a query.
#[derive(FromRequestParts)]
#[from_request(via(axum::extract::Path), rejection(Refusal))]
pub struct Path<T>(pub T);

/// The query string.
#[derive(FromRequestParts)]
#[from_request(via(axum::extract::Query), rejection(Refusal))]
pub struct Query<T>(pub T);

impl From<JsonRejection> for Refusal {
    fn from(rejection: JsonRejection) -> Self {
        let code = match rejection.status() {
            http::StatusCode::PAYLOAD_TOO_LARGE => codes::MF0907,
            _ => codes::MF0904,
        };
        Self::new(code, rejection.body_text())
    }
}

impl From<PathRejection> for Refusal {
    fn from(rejection: PathRejection) -> Self {
        Self::new(codes::MF0903, rejection.body_text())
    }
}

impl From<QueryRejection> for Refusal {
    fn from(rejection: QueryRejection) -> Self {
        Self::new(codes::MF0904, rejection.body_text())
    }
}

/// A form of the console.
#[derive(FromRequest)]
#[from_request(via(axum::Form), rejection(Refusal))]
pub struct Form<T>(pub T);

impl From<axum::extract::rejection::FormRejection> for Refusal {
    fn from(rejection: axum::extract::rejection::FormRejection) -> Self {
        Self::new(codes::MF0904, rejection.body_text())
    }
}
