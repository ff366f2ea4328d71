//! Bodies that become blobs: received as a stream, under a budget of bytes and time. Nothing here looks into them.

use std::io;

use axum::body::{Body, Bytes};
use futures::{Stream, StreamExt as _};
use http::HeaderMap;
use mfaas_blobs::{BlobError, Incoming};
use tokio::time::{Instant, timeout, timeout_at};

use crate::limits;
use crate::limits::Deadlines;
use crate::refusal::Refusal;
use crate::state::App;

/// What a caller is told of a blob store that fails.
const STORE_AWAY: &str = "The blob store is not available.";

/// Gives an upload its name, for good.
pub(super) async fn publish(app: &App, incoming: &Incoming) -> Result<(), Refusal> {
    let unavailable = |cause: &dyn std::fmt::Display| Refusal::unavailable(STORE_AWAY, cause);
    match timeout(limits::PUBLISH_TIME_MAX, app.blobs.publish(incoming)).await {
        Ok(published) => published.map_err(|error| unavailable(&error)),
        Err(elapsed) => Err(unavailable(&elapsed)),
    }
}

/// Streams the body into the blob store under a budget of bytes, and what is said of a body that has more.
pub(super) async fn receive(
    app: &App,
    headers: &HeaderMap,
    body: Body,
    (bytes_max, too_large): (u64, fn() -> Refusal),
) -> Result<Incoming, Refusal> {
    let mut stream = Box::pin(in_time(body, &app.config.deadlines));
    let announced = headers
        .get(http::header::CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok())
        .and_then(|text| text.parse::<u64>().ok());
    if announced.is_some_and(|bytes| bytes > bytes_max) {
        drain(&mut stream).await;
        return Err(too_large());
    }
    match app.blobs.receive(&mut stream, bytes_max).await {
        Ok(incoming) if incoming.bytes() == 0 => {
            // An error leaves it to the sweep.
            let _ = app.blobs.discard(&incoming).await;
            Err(Refusal::invalid("The upload is empty."))
        }
        Ok(incoming) => Ok(incoming),
        Err(BlobError::TooLarge { .. }) => {
            drain(&mut stream).await;
            Err(too_large())
        }
        Err(BlobError::Source(cause)) if is_late(&*cause) => {
            Err(Refusal::slow("The upload came too slowly."))
        }
        Err(BlobError::Source(cause)) => Err(Refusal::invalid("The upload broke off.").because(cause)),
        Err(error) => Err(Refusal::unavailable(STORE_AWAY, error)),
    }
}

/// What [`in_time`] says of a sender.
fn is_late(cause: &(dyn std::error::Error + 'static)) -> bool {
    cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::TimedOut)
}

/// The body's pieces; a sender that pauses too long, or takes too long in all, has had its time.
fn in_time(body: Body, deadlines: &Deadlines) -> impl Stream<Item = io::Result<Bytes>> + use<> {
    let (ends_at, pause_max) = (Instant::now() + deadlines.upload, deadlines.body_pause);
    let mut stream = body.into_data_stream();
    async_stream::stream! {
        loop {
            match timeout_at(ends_at.min(Instant::now() + pause_max), stream.next()).await {
                Ok(None) => return,
                Ok(Some(piece)) => yield piece.map_err(io::Error::other),
                Err(_) => {
                    yield Err(io::Error::from(io::ErrorKind::TimedOut));
                    return;
                }
            }
        }
    }
}

/// Reads on for a while and throws it away: a client that is still sending does not read the
/// answer, and a connection that is closed on it looks like a fault of the network.
async fn drain(stream: &mut (impl Stream<Item = io::Result<Bytes>> + Unpin)) {
    let reading = async {
        let mut bytes_left = limits::DRAIN_BYTES_MAX;
        while let Some(Ok(piece)) = stream.next().await {
            bytes_left = bytes_left.saturating_sub(piece.len() as u64);
            if bytes_left == 0 {
                return;
            }
        }
    };
    // Being done and being out of time are the same here.
    let _ = timeout(limits::DRAIN_TIME_MAX, reading).await;
}
