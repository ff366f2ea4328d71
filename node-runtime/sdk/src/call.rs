//! Other functions.

use std::fmt;
use std::marker::PhantomData;

use mfaas_abi::frame::RequestFrame;
use mfaas_abi::{CalleeReply, DONE, OperationKind, with_binding};
use mfaas_shim::{Operation, Outcome};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Response;
use crate::binding::{Declared, Manifest, place_of};
use crate::input::FromRequest;

/// A name of `[package.metadata.mfaas.bindings]`, and the function behind it: what it takes and answers, both as JSON.
pub trait Callee {
    /// The name in Cargo.toml.
    const NAME: &'static str;
    /// What it takes.
    type Request: Serialize;
    /// What it answers.
    type Response: DeserializeOwned;
}

/// Another function that the function binds: a parameter of a handler.
///
/// ```
/// use mfaas::{Call, Callee, Error, Json};
///
/// struct Rank;
///
/// impl Callee for Rank {
///     const NAME: &'static str = "rank";
///     type Request = Vec<String>;
///     type Response = Vec<u32>;
/// }
///
/// pub async fn handle(Json(hotels): Json<Vec<String>>, rank: Call<Rank>) -> Result<Json<Option<String>>, Error> {
///     let scores = rank.call(&hotels).await?;
///     let best = scores.iter().zip(&hotels).max_by_key(|(score, _)| **score);
///     Ok(Json(best.map(|(_, hotel)| hotel.clone())))
/// }
/// # let rank = mfaas::testing::call(|Json(hotels): Json<Vec<String>>| Json(vec![7_u32; hotels.len()]));
/// # let answer = mfaas::testing::block_on(handle(Json(vec!["a".to_owned()]), rank)).unwrap();
/// # assert_eq!(answer.0.as_deref(), Some("a"));
/// ```
///
/// With Cargo.toml:
/// ```toml
/// [package.metadata.mfaas.bindings.rank]
/// kind = "function"
/// ```
///
/// It runs in memory of its own, on its own budget and on that of this call. What it changes is part of this call: it takes effect
/// with it, or not at all. If it fails, nothing of it does, and this call hears of it and goes on. What a function of another tenant
/// (`function = "travel/rank"`) changes takes effect before this call hears of it, and stays if this one fails.
pub struct Call<F> {
    place: u32,
    marker: PhantomData<fn() -> F>,
}

impl<F> Call<F> {
    pub(crate) fn at(place: u32) -> Self {
        Self { place, marker: PhantomData }
    }
}

impl<F: Callee> fmt::Debug for Call<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Call").field(&F::NAME).finish()
    }
}

/// Takes nothing of the request.
impl<F: Callee> FromRequest for Call<F> {
    const BINDING: Option<Declared> = Some(Declared { name: F::NAME, kind: "function", access: "call" });

    fn from_request<M: Manifest>(_: &RequestFrame<'_>) -> Result<Self, Response> {
        let place =
            const { place_of(&Declared { name: F::NAME, kind: "function", access: "call" }, M::BINDINGS) };
        Ok(Self::at(place))
    }
}

impl<F: Callee> Call<F> {
    /// Calls the function, and gives what it answers with a status of 200 to 299.
    pub async fn call(&self, request: &F::Request) -> Result<F::Response, CallError> {
        let body = serde_json::to_vec(request)
            .map_err(|error| CallError::here(format!("the request cannot be written as JSON: {error}")))?;
        let operation = Operation::new(OperationKind::Call, with_binding(self.place, &body));
        let Outcome { code, bytes } = operation.await;
        if code != DONE {
            let message = String::from_utf8_lossy(&bytes).into_owned();
            return Err(CallError { code: Some(code), status: None, message });
        }
        let not_understood = "the node gave an answer that this function does not understand";
        let CalleeReply { http_status, body } =
            CalleeReply::decode(&bytes).ok_or_else(|| CallError::here(not_understood.to_owned()))?;
        if !(200..300).contains(&http_status) {
            let message = String::from_utf8_lossy(body).into_owned();
            return Err(CallError { code: None, status: Some(http_status), message });
        }
        serde_json::from_slice(body).map_err(|error| {
            let message = format!("the answer of `{}` is not of its type: {error}", F::NAME);
            CallError { code: None, status: Some(http_status), message }
        })
    }
}

/// Why a call of another function gave nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallError {
    code: Option<u32>,
    status: Option<u16>,
    message: String,
}

impl CallError {
    fn here(message: String) -> Self {
        Self { code: None, status: None, message }
    }

    /// The number in its code, 1210 of `MF1210`, if the function did not answer.
    pub fn code(&self) -> Option<u32> {
        self.code
    }

    /// The HTTP status of its answer, if it did.
    pub fn status(&self) -> Option<u16> {
        self.status
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.code, self.status) {
            (Some(code), _) => write!(f, "MF{code:04}: {}", self.message),
            (None, Some(status)) => write!(f, "status {status}: {}", self.message),
            (None, None) => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for CallError {}
