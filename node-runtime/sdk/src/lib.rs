//! What functions are written against.
//!
//! A function is a crate with one public handler, in one of three shapes:
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
//! ```
//!
//! Nothing survives a call: statics and thread-locals are as they were at the start, each time.
//! A function reaches its request, its arena, [`now`], [`random`] and [`log!`], and nothing else.
//!
//! It must never hold unsafe code, and never depend on more than serde.

#![forbid(unsafe_code)]

mod error;
mod handler;
mod json;
mod log;
mod request;
mod response;

pub use error::Error;
pub use handler::Handler;
pub use json::Json;
pub use mfaas_abi::Level;
pub use request::Request;
pub use response::Response;

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
    pub use crate::handler::invoke;
    pub use crate::log::log;
}

#[cfg(test)]
mod tests;
