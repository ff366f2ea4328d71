//! axum's extractors with our refusals: what does not parse is MF0904, what is of another type MF0916, never a plain
//! text that the framework made up. How large a body may be was decided before (`pools`).

use axum::extract::rejection::{JsonRejection, PathRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Request};
use http::StatusCode;
use mfaas_rules::{Code, codes};
use mfaas_wire::Object;
use serde::de::DeserializeOwned;

use crate::refusal::Refusal;

/// A JSON body that is an object.
pub(crate) struct Json<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Json<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refusal> {
        let axum::Json(Object(body)) = axum::Json::from_request(request, state).await?;
        Ok(Self(body))
    }
}

/// A JSON body that is a list.
#[derive(FromRequest)]
#[from_request(via(axum::Json), rejection(Refusal))]
pub(crate) struct JsonList<T>(pub T);

/// The variables of the path. A name that cannot exist is a thing that does not exist, and since
/// the types parse, such a name never reaches a query.
#[derive(FromRequestParts)]
#[from_request(via(axum::extract::Path), rejection(Refusal))]
pub(crate) struct Path<T>(pub T);

/// The query string.
#[derive(FromRequestParts)]
#[from_request(via(axum::extract::Query), rejection(Refusal))]
pub(crate) struct Query<T>(pub T);

impl From<JsonRejection> for Refusal {
    fn from(rejection: JsonRejection) -> Self {
        Self::new(code_of_body(rejection.status()), rejection.body_text())
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
pub(crate) struct Form<T>(pub T);

impl From<axum::extract::rejection::FormRejection> for Refusal {
    fn from(rejection: axum::extract::rejection::FormRejection) -> Self {
        Self::new(code_of_body(rejection.status()), rejection.body_text())
    }
}

/// The code for a body that an extractor of the framework does not take.
fn code_of_body(status: StatusCode) -> Code {
    if status == StatusCode::UNSUPPORTED_MEDIA_TYPE { codes::MF0916 } else { codes::MF0904 }
}
