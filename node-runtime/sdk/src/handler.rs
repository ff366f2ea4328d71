//! From a request through a handler of any accepted shape to a reply.

use std::fmt::Display;

use mfaas_abi::frame::RequestFrame;
use mfaas_abi::{Reply, Status};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Json, Request, Response};

/// A function that can answer requests. `Shape` tells the three accepted shapes apart; nobody
/// names or implements it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a handler",
    label = "this function has none of the accepted shapes",
    note = "a handler is `fn(&[u8]) -> Vec<u8>`, `fn(mfaas::Request) -> mfaas::Response`, or `fn(mfaas::Json<T>) -> Result<mfaas::Json<R>, E>`",
    note = "with `T: serde::de::DeserializeOwned`, `R: serde::Serialize` and `E: std::fmt::Display`"
)]
pub trait Handler<Shape>: sealed::Sealed<Shape> {
    /// Answers one request.
    #[doc(hidden)]
    fn answer(self, request: &RequestFrame<'_>) -> (Status, Response);
}

mod sealed {
    /// Keeps the shapes to those of this crate.
    pub trait Sealed<Shape> {}
}

/// The three shapes, as types without values.
mod shape {
    use std::marker::PhantomData;

    #[derive(Debug)]
    pub enum Bytes {}
    #[derive(Debug)]
    pub enum Http {}
    #[derive(Debug)]
    pub struct Json<T, R, E>(PhantomData<(T, R, E)>);
}

impl<F> sealed::Sealed<shape::Bytes> for F where F: FnOnce(&[u8]) -> Vec<u8> {}

impl<F> Handler<shape::Bytes> for F
where
    F: FnOnce(&[u8]) -> Vec<u8>,
{
    fn answer(self, request: &RequestFrame<'_>) -> (Status, Response) {
        (Status::Ok, Response::bytes(self(request.body)))
    }
}

impl<F> sealed::Sealed<shape::Http> for F where F: FnOnce(Request) -> Response {}

impl<F> Handler<shape::Http> for F
where
    F: FnOnce(Request) -> Response,
{
    fn answer(self, request: &RequestFrame<'_>) -> (Status, Response) {
        (Status::Ok, self(Request::from_frame(request)))
    }
}

impl<F, T, R, E> sealed::Sealed<shape::Json<T, R, E>> for F where F: FnOnce(Json<T>) -> Result<Json<R>, E> {}

impl<F, T, R, E> Handler<shape::Json<T, R, E>> for F
where
    F: FnOnce(Json<T>) -> Result<Json<R>, E>,
    T: DeserializeOwned,
    R: Serialize,
    E: Display,
{
    fn answer(self, request: &RequestFrame<'_>) -> (Status, Response) {
        let value = match serde_json::from_slice(request.body) {
            Ok(value) => value,
            // The caller's mistake, not the function's.
            Err(error) => return (Status::Ok, sentence(400, &error)),
        };
        match self(Json(value)) {
            Ok(Json(result)) => match Response::json(&result) {
                Ok(response) => (Status::Ok, response),
                Err(error) => (Status::HandlerError, sentence(500, &error)),
            },
            Err(error) => (Status::HandlerError, sentence(500, &error)),
        }
    }
}

fn sentence(status: u16, error: &impl Display) -> Response {
    Response::text(error.to_string()).with_status(status)
}

/// Runs the handler. Headers that cannot be sent end as [`Status::BadOutput`]; the host looks at the
/// rest.
pub fn invoke<Shape, H: Handler<Shape>>(handler: H, request: &RequestFrame<'_>) -> Reply {
    let (status, response) = handler.answer(request);
    match response.into_reply(status) {
        Ok(reply) => reply,
        Err(error) => {
            crate::log!(crate::Level::Error, "the response cannot be sent: {error}");
            Reply::without_response(Status::BadOutput)
        }
    }
}
