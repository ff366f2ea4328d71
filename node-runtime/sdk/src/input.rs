//! What a handler may take.

use std::fmt::Display;

use mfaas_abi::frame::RequestFrame;
use serde::de::DeserializeOwned;

use crate::binding::{Declared, Manifest};
use crate::{Json, Request, Response};

/// A parameter of a handler: made of the request, or data that the function binds.
#[diagnostic::on_unimplemented(
    message = "a handler cannot take `{Self}`",
    note = "its parameters are `mfaas::Request`, `mfaas::Json<T>`, `Vec<u8>`, `String`, `mfaas::Kv<B>` and `mfaas::Call<F>`"
)]
pub trait FromRequest: Sized {
    /// The data that it reaches, if it does.
    #[doc(hidden)]
    const BINDING: Option<Declared> = None;

    /// The value, or the response to a request that has none.
    #[doc(hidden)]
    fn from_request<M: Manifest>(request: &RequestFrame<'_>) -> Result<Self, Response>;
}

/// Method, path, headers and body.
impl FromRequest for Request {
    fn from_request<M: Manifest>(request: &RequestFrame<'_>) -> Result<Self, Response> {
        Ok(Self::from_frame(request))
    }
}

/// The body, parsed. What is no JSON, or not of this type, is answered with status 400.
impl<T: DeserializeOwned> FromRequest for Json<T> {
    fn from_request<M: Manifest>(request: &RequestFrame<'_>) -> Result<Self, Response> {
        serde_json::from_slice(request.body).map(Json).map_err(bad_request)
    }
}

/// The body.
impl FromRequest for Vec<u8> {
    fn from_request<M: Manifest>(request: &RequestFrame<'_>) -> Result<Self, Response> {
        Ok(request.body.to_vec())
    }
}

/// The body as text. What is not UTF-8 is answered with status 400.
impl FromRequest for String {
    fn from_request<M: Manifest>(request: &RequestFrame<'_>) -> Result<Self, Response> {
        std::str::from_utf8(request.body).map(str::to_owned).map_err(bad_request)
    }
}

fn bad_request(error: impl Display) -> Response {
    Response::text(error.to_string()).with_status(400)
}
