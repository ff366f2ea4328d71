//! What functions are written against.
//!
//! A function is a crate with one public handler, for example one of these:
//!
//! ```
//! pub fn bytes(body: &[u8]) -> Vec<u8> {
//!     body.to_ascii_uppercase()
//! }
//!
//! pub fn http(request: mfaas::Request) -> mfaas::Response {
//!     mfaas::Response::text(format!("{} {}", request.method(), request.path()))
//! }
//!
//! pub fn json(mfaas::Json(names): mfaas::Json<Vec<String>>) -> Result<mfaas::Json<usize>, mfaas::Error> {
//!     Ok(mfaas::Json(names.len()))
//! }
//!
//! pub async fn later(text: String) -> String {
//!     mfaas::sleep(std::time::Duration::from_millis(5)).await;
//!     text.to_uppercase()
//! }
//! ```
//!
//! Parameters are what implements [`FromRequest`], up to eight: parts of the request, and what the function binds: data ([`Kv`],
//! [`Cache`], [`Objects`], [`Volume`], [`Asset`]), servers ([`Http`], with a [`Secret`]) and other functions ([`Call`]). What is returned implements [`IntoResponse`]. A handler that is
//! `async` may wait with [`sleep`], [`join`], [`join_all`] and [`timeout`]; nothing that it holds need be `Send`.
//!
//! Nothing survives a call: statics and thread-locals are as they were at the start, each time.
//! A function reaches its request, its arena, what it binds, [`now`], [`random`] and [`log!`], and nothing else.
//!
//! It must never hold unsafe code, and never depend on more than serde.

#![forbid(unsafe_code)]

mod asset;
mod binding;
mod cache;
mod call;
mod error;
mod handler;
mod http;
mod input;
mod json;
mod kv;
mod log;
mod objects;
mod output;
mod request;
mod response;
pub mod testing;
mod volume;
mod waiting;

pub use asset::Asset;
pub use binding::{Access, Binding, DataError, Read, Write};
pub use cache::Cache;
pub use call::{Call, CallError, Callee};
pub use error::Error;
pub use handler::Handler;
pub use http::{Http, HttpRequest, HttpResponse, Secret};
pub use input::FromRequest;
pub use json::Json;
pub use kv::{Kv, Page};
pub use mfaas_abi::Level;
pub use objects::{Listing, Objects};
pub use output::IntoResponse;
pub use request::Request;
pub use response::Response;
pub use volume::{Entries, Entry, File, Volume};
pub use waiting::{TimedOut, join, join_all, sleep, timeout};

/// The time, as the node's clock has it.
pub fn now() -> std::time::SystemTime {
    std::time::UNIX_EPOCH + std::time::Duration::from_nanos(mfaas_shim::host::now())
}

/// Random bytes that are fit for keys.
pub fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    mfaas_shim::host::random(&mut bytes);
    bytes
}

/// For generated code and macros of this crate. Not part of what functions are written against.
#[doc(hidden)]
pub mod __private {
    pub use crate::binding::{Declared, Manifest, check};
    pub use crate::handler::{invoke, taken};
    pub use crate::log::log;
}

#[cfg(test)]
mod tests;
