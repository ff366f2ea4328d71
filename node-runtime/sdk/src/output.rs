//! What a handler may return.

use std::fmt::Display;

use mfaas_abi::Status;
use serde::Serialize;

use crate::{Json, Response};

/// What a handler returns, as a response.
#[diagnostic::on_unimplemented(
    message = "a handler cannot return `{Self}`",
    note = "it returns one of `mfaas::Response`, `mfaas::Json<R>`, `Vec<u8>` and `String`, or a `Result` of it"
)]
pub trait IntoResponse {
    /// The response, and whether the handler failed.
    #[doc(hidden)]
    fn into_response(self) -> (Status, Response);
}

/// As it is.
impl IntoResponse for Response {
    fn into_response(self) -> (Status, Response) {
        (Status::Ok, self)
    }
}

/// Status 200 with the value as JSON. One that cannot be JSON is an error of the handler.
impl<R: Serialize> IntoResponse for Json<R> {
    fn into_response(self) -> (Status, Response) {
        match Response::json(&self.0) {
            Ok(response) => (Status::Ok, response),
            Err(error) => failed(error),
        }
    }
}

/// Status 200 with bytes of no particular type.
impl IntoResponse for Vec<u8> {
    fn into_response(self) -> (Status, Response) {
        (Status::Ok, Response::bytes(self))
    }
}

/// Status 200 with plain text.
impl IntoResponse for String {
    fn into_response(self) -> (Status, Response) {
        (Status::Ok, Response::text(self))
    }
}

/// An error is status 500 with its text, and the call is told as one whose handler failed.
impl<T: IntoResponse, E: Display> IntoResponse for Result<T, E> {
    fn into_response(self) -> (Status, Response) {
        match self {
            Ok(value) => value.into_response(),
            Err(error) => failed(error),
        }
    }
}

fn failed(error: impl Display) -> (Status, Response) {
    (Status::HandlerError, Response::text(error.to_string()).with_status(500))
}
