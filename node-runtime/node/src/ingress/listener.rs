//! Connections: bounded in number, bounded in how long their heads may take, ended gracefully.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

/// Connections at once. One more waits in the kernel's queue.
const CONNECTIONS_MAX: usize = 2_048;
/// Between a connection's start, or the last answer on it, and the end of the next request's head.
const HEAD_WAIT_MAX: Duration = Duration::from_secs(30);
const HEAD_BYTES_MAX: usize = 64 << 10;
const HEADERS_MAX: usize = 100;
/// After a failed accept, which mostly means that descriptors ran out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Open connections get this long to finish when the node stops: longer than accepted calls get.
const DRAIN_WAIT_MAX: Duration = Duration::from_millis(6_500);

/// Serves until `stop` turns true, then lets what is open finish.
pub(crate) async fn serve(listener: TcpListener, router: Router, mut stop: watch::Receiver<bool>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            // The semaphore is never closed.
            Ok(place) = Arc::clone(&places).acquire_owned() => tokio::select! {
                accepted = listener.accept() => accepted.map(|(stream, _)| (stream, place)),
                _ = stop.changed() => break,
            },
            _ = stop.changed() => break,
        };
        match accepted {
            Ok((stream, place)) => {
                let (router, stop) = (router.clone(), stop.clone());
                connections.spawn(async move {
                    converse(stream, router, stop).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a connection cannot be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
        while connections.try_join_next().is_some() {}
    }
    drop(listener);
    let drained = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(DRAIN_WAIT_MAX, drained).await.is_err() {
        tracing::warn!("connections that did not end are dropped");
    }
}

async fn converse(stream: TcpStream, router: Router, mut stop: watch::Receiver<bool>) {
    // Answers are small and complete: waiting to gather more only adds delay.
    let _ = stream.set_nodelay(true);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WAIT_MAX)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    tokio::pin!(connection);
    // How a caller's connection breaks is the caller's matter.
    tokio::select! {
        _ = connection.as_mut() => return,
        _ = stop.changed() => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}
