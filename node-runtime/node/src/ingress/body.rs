//! Bodies, in and out: bounded one by one and all together.
//!
//! A connection of HTTP/2 carries many requests at once, so a bound for each of them bounds nothing. What large bodies hold comes out
//! of one budget, and goes back to it when the last byte has left.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body as _, Incoming};
use mfaas_abi::limits;
use mfaas_rules::codes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::problem::Problem;

/// The body of every answer: whole, in one piece.
pub(super) type Response = http::Response<Full<Bytes>>;

/// A whole request body must arrive within this.
const BODY_WAIT_MAX: Duration = Duration::from_secs(15);
/// What large bodies hold at once in KiB: 1 GiB.
const HELD_KIB_MAX: usize = 1 << 20;
/// Up to here a body is covered by the bound on connections and streams: 2 GiB if all of them carry one.
const SMALL_BYTES_MAX: usize = 16 << 10;

/// The budget of large bodies.
#[derive(Debug, Clone)]
pub(crate) struct Bodies(Arc<Semaphore>);

impl Default for Bodies {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(HELD_KIB_MAX)))
    }
}

/// A request's body with its share of the budget.
#[derive(Debug)]
pub(super) struct Received {
    pub(super) bytes: Bytes,
    _share: Option<OwnedSemaphorePermit>,
}

impl Bodies {
    /// Reads a request's body to its end.
    pub(super) async fn read(&self, body: Incoming) -> Result<Received, Problem> {
        if body.is_end_stream() {
            return Ok(Received { bytes: Bytes::new(), _share: None });
        }
        let expected = body.size_hint();
        if expected.lower() > limits::BODY_BYTES_MAX as u64 {
            return Err(Problem::of(StatusCode::PAYLOAD_TOO_LARGE, codes::MF0809));
        }
        // Whoever does not say how much comes may send everything.
        let announced = expected.upper().and_then(|bytes| usize::try_from(bytes).ok());
        let share = self.share(announced.unwrap_or(limits::BODY_BYTES_MAX))?;
        match tokio::time::timeout(BODY_WAIT_MAX, gather(body)).await {
            Ok(read) => Ok(Received { bytes: read?, _share: share }),
            Err(_) => {
                Err(Problem::of(StatusCode::REQUEST_TIMEOUT, codes::MF0809)
                    .detail("the body came too slowly"))
            }
        }
    }

    /// A body to send that gives its share back once it is sent. Without room it is not sent.
    pub(super) fn send(&self, body: &[u8]) -> Result<Full<Bytes>, Problem> {
        Ok(match self.share(body.len())? {
            Some(share) => Full::new(Bytes::from_owner(Held { bytes: body.to_vec(), _share: share })),
            None => Full::new(Bytes::copy_from_slice(body)),
        })
    }

    /// A share for a body of at most `bytes`, if it needs one. Nobody waits for a share: who sends slowly
    /// would hold up who does not.
    fn share(&self, bytes: usize) -> Result<Option<OwnedSemaphorePermit>, Problem> {
        if bytes <= SMALL_BYTES_MAX {
            return Ok(None);
        }
        let kib = bytes.min(limits::BODY_BYTES_MAX).div_ceil(1 << 10) as u32;
        let share = Arc::clone(&self.0).try_acquire_many_owned(kib);
        share.map(Some).map_err(|_| {
            Problem::of(StatusCode::TOO_MANY_REQUESTS, codes::MF0811)
                .detail("too many large bodies are on their way")
                .retry_after(1)
        })
    }
}

/// A body on its way out.
struct Held {
    bytes: Vec<u8>,
    _share: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// All pieces; the one piece itself where there is one. Trailers mean nothing to a function.
async fn gather(mut body: Incoming) -> Result<Bytes, Problem> {
    let mut first = Bytes::new();
    let mut all = BytesMut::new();
    while let Some(piece) = body.frame().await {
        let broken = |_| Problem::of(StatusCode::BAD_REQUEST, codes::MF0809).detail("the body broke off");
        let Ok(piece) = piece.map_err(broken)?.into_data() else { continue };
        if first.len() + all.len() + piece.len() > limits::BODY_BYTES_MAX {
            return Err(Problem::of(StatusCode::PAYLOAD_TOO_LARGE, codes::MF0809));
        }
        if first.is_empty() && all.is_empty() {
            first = piece;
            continue;
        }
        if all.is_empty() {
            all.extend_from_slice(&std::mem::take(&mut first));
        }
        all.extend_from_slice(&piece);
    }
    Ok(if all.is_empty() { first } else { all.freeze() })
}
