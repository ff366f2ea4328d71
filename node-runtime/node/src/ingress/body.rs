//! Bodies, in and out: bounded one by one, for each peer, and all together.
//!
//! What a large body holds is reserved as its bytes arrive, not when they are announced: a thousand requests that
//! say they will send a mebibyte, and do not, hold nothing. Requests and answers have budgets of their own
//! ([`super::bounds`]), so nobody can keep answers from leaving by sending bodies; and those of bulk functions have others
//! than those of all the rest.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use http_body_util::BodyExt as _;
use hyper::body::{Body, Incoming};
use mfaas_abi::frame::{FrameError, GrowingRequest};
use mfaas_abi::limits;
use mfaas_ident::Class;
use mfaas_rules::codes;

use super::bounds::TURN_BYTES;
use super::peers::{Budget, Full, Pass, Share};
use super::problem::Problem;
use super::response::SMALL_BYTES_MAX;

/// A whole request body must arrive within this.
const BODY_WAIT_MAX: Duration = Duration::from_secs(15);
/// The same for a bulk function: half a megabyte a second for the largest.
const BULK_BODY_WAIT_MAX: Duration = Duration::from_secs(120);
/// When a caller may try again whose body found no room, in seconds.
const RETRY_AFTER_S: u32 = 1;

/// A request's body with its share of the budget.
#[derive(Debug)]
pub(super) struct Received {
    pub(super) bytes: Bytes,
    /// As much as `bytes` takes, until the call is answered.
    pub(super) share: Option<Share>,
}

/// Reads a request's body to its end.
pub(super) async fn read(body: Incoming, pass: Option<&Pass>) -> Result<Received, Problem> {
    if body.is_end_stream() {
        return Ok(Received { bytes: Bytes::new(), share: None });
    }
    if body.size_hint().lower() > limits::BODY_BYTES_MAX as u64 {
        return Err(too_large());
    }
    let mut gathered = pin!(gather(body, pass));
    // A small body mostly came with its head: then it needs no timer.
    let first = poll_fn(|context| Poll::Ready(gathered.as_mut().poll(context))).await;
    if let Poll::Ready(read) = first {
        return read;
    }
    tokio::time::timeout(BODY_WAIT_MAX, gathered).await.unwrap_or_else(|_| Err(too_slow()))
}

/// A bulk function's request with its share of the budget.
#[derive(Debug)]
pub(super) struct ReceivedFrame {
    pub(super) frame: Vec<u8>,
    pub(super) share: Option<Share>,
}

/// Reads a body to its end into the request that it is of: a large one is not to be there twice, nor copied at once.
pub(super) async fn read_into(
    request: GrowingRequest,
    body: Incoming,
    pass: Option<&Pass>,
) -> Result<ReceivedFrame, Problem> {
    if body.size_hint().lower() > limits::BULK_BODY_BYTES_MAX as u64 {
        return Err(too_large());
    }
    tokio::time::timeout(BULK_BODY_WAIT_MAX, gather_into(request, body, pass))
        .await
        .unwrap_or_else(|_| Err(too_slow()))
}

async fn gather_into<E>(
    mut request: GrowingRequest,
    mut body: impl Body<Data = Bytes, Error = E> + Unpin,
    pass: Option<&Pass>,
) -> Result<ReceivedFrame, Problem> {
    let announced = body.size_hint().exact().and_then(|bytes| usize::try_from(bytes).ok());
    let mut share = None;
    let mut in_this_turn = 0;
    while let Some(piece) = body.frame().await {
        let Ok(piece) = piece.map_err(broken)?.into_data() else { continue };
        reserve(&mut share, request.body_bytes() + piece.len(), Class::Bulk, pass)?;
        request.extend(&piece).map_err(|_: FrameError| too_large())?;
        in_this_turn += piece.len();
        if in_this_turn >= TURN_BYTES {
            in_this_turn = 0;
            // Now that so much has come there are addresses for the rest, which cost nothing: without them what is there is copied
            // now and then, in one go.
            request.expect(announced.unwrap_or(limits::BULK_BODY_BYTES_MAX));
            let_others().await;
        }
    }
    Ok(ReceivedFrame { frame: request.finish(), share })
}

/// Lets threads of this one's real-time priority run, which wait for it to rest, and then its other connections, those among
/// them that something has come on meanwhile.
async fn let_others() {
    std::thread::yield_now();
    // Who reads a body polls again and again before it gives the thread up, so a yield of its own would be none.
    let turn = tokio::spawn(tokio::task::yield_now());
    // It is never aborted, and does not panic.
    let _ = turn.await;
}

fn broken<E>(_: E) -> Problem {
    Problem::of(StatusCode::BAD_REQUEST, codes::MF0809).detail("the body broke off")
}

fn too_slow() -> Problem {
    Problem::of(StatusCode::REQUEST_TIMEOUT, codes::MF0809).detail("the body came too slowly")
}

fn too_large() -> Problem {
    Problem::of(StatusCode::PAYLOAD_TOO_LARGE, codes::MF0809)
}

/// Why there is no room for a body, or for a request at all.
pub(super) fn no_room(full: Full, what: &str) -> Problem {
    let (code, whose) = match full {
        Full::Peer => (codes::MF0824, "of this address"),
        Full::Node => (codes::MF0811, "of all callers"),
    };
    Problem::of(StatusCode::TOO_MANY_REQUESTS, code)
        .detail(&format!("{what} {whose} are as many as may be"))
        .retry_after(RETRY_AFTER_S)
}

/// All pieces; the one piece itself where there is one. Trailers mean nothing to a function.
async fn gather(mut body: Incoming, pass: Option<&Pass>) -> Result<Received, Problem> {
    let mut first = Bytes::new();
    let mut all = Vec::new();
    let mut share = None;
    while let Some(piece) = body.frame().await {
        let Ok(piece) = piece.map_err(broken)?.into_data() else { continue };
        let length = first.len() + all.len() + piece.len();
        if length > limits::BODY_BYTES_MAX {
            return Err(too_large());
        }
        if first.is_empty() && all.is_empty() {
            reserve(&mut share, piece.len(), Class::Micro, pass)?;
            first = piece;
            continue;
        }
        if all.capacity() < length {
            // Twice as much each time, so that many small pieces are not copied over and over.
            let capacity = length.next_power_of_two().min(limits::BODY_BYTES_MAX);
            reserve(&mut share, capacity, Class::Micro, pass)?;
            all.reserve_exact(capacity - all.len());
        }
        if all.is_empty() {
            all.extend_from_slice(&std::mem::take(&mut first));
        }
        all.extend_from_slice(&piece);
    }
    Ok(Received { bytes: if all.is_empty() { first } else { all.into() }, share })
}

fn reserve(
    share: &mut Option<Share>,
    bytes: usize,
    class: Class,
    pass: Option<&Pass>,
) -> Result<(), Problem> {
    if bytes <= SMALL_BYTES_MAX {
        return Ok(());
    }
    // Every request has one until its answer is made.
    let Some(pass) = pass else { return Err(no_room(Full::Node, "large bodies")) };
    let share = share.get_or_insert_with(|| pass.share(Budget::of_requests(class)));
    share.grow_to(bytes).map_err(|full| no_room(full, "large bodies"))
}

#[cfg(test)]
mod tests;
