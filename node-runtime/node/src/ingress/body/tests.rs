#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http_body_util::StreamBody;
use hyper::body::Frame;

use super::*;
use crate::ingress::bounds::Bounds;
use crate::ingress::peers::Peers;

/// A sender as fast as memory: every piece is there when it is asked for.
#[tokio::test]
async fn others_have_their_turns_while_a_large_body_comes() {
    const PIECES: usize = 64;
    const PIECE_BYTES: usize = 64 << 10;
    let turns = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&turns);
    let other = tokio::spawn(async move {
        loop {
            counted.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
        }
    });
    let place = Peers::new(Bounds::node()).admit(IpAddr::V4(Ipv4Addr::LOCALHOST)).unwrap();
    let pass = place.connection().ask().unwrap();
    let piece = Bytes::from(vec![7; PIECE_BYTES]);
    let pieces = (0..PIECES).map(|_| Ok::<_, Infallible>(Frame::data(piece.clone())));
    let body = StreamBody::new(futures::stream::iter(pieces));
    let request = GrowingRequest::new("POST", "/", [], limits::BULK_BODY_BYTES_MAX).unwrap();
    let mut gathered = pin!(gather_into(request, body, Some(&pass)));
    // As hyper does: a task that is not ready is asked again before it gives the thread up.
    let received = poll_fn(|context| {
        let mut polls = (0..16).map(|_| gathered.as_mut().poll(context));
        polls.find(Poll::is_ready).unwrap_or(Poll::Pending)
    });
    let received = received.await.unwrap();
    assert!(received.frame.len() > PIECES * PIECE_BYTES);
    let expected = PIECES * PIECE_BYTES / TURN_BYTES;
    assert!(turns.load(Ordering::Relaxed) >= expected - 1, "{turns:?} of {expected}");
    other.abort();
}
