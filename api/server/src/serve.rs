//! Listeners: accepts connections under a limit, speaks HTTP/1.1 and HTTP/2 over them, with TLS
//! on the node side, and ends them in order when the server stops.
//!
//! axum's own server has neither a limit on connections nor a time limit on headers, and does not
//! hand the client's certificate to the routes.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use crate::limits;
use crate::nodes::Peer;

/// Serves `router` on `listener` until `stop`, then lets open requests end within
/// [`limits::DRAIN_CONNECTIONS_MAX`]. With `tls`, every request carries its connection's [`Peer`].
pub(crate) async fn serve(
    listener: TcpListener,
    connections_max: usize,
    tls: Option<TlsAcceptor>,
    router: Router,
    stop: CancellationToken,
) {
    let permits = Arc::new(Semaphore::new(connections_max));
    let open = GracefulShutdown::new();
    while let Some((stream, permit)) = next(&listener, &permits, &stop).await {
        let (router, tls, watcher) = (router.clone(), tls.clone(), open.watcher());
        tokio::spawn(async move {
            connection(stream, tls, router, watcher).await;
            drop(permit);
        });
    }
    drop(listener);
    if timeout(limits::DRAIN_CONNECTIONS_MAX, open.shutdown()).await.is_err() {
        tracing::warn!("connections were still open at the end of the drain and are cut");
    }
}

/// The next connection with its permit; `None` when the server stops.
async fn next(
    listener: &TcpListener,
    permits: &Arc<Semaphore>,
    stop: &CancellationToken,
) -> Option<(TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    loop {
        let permit = tokio::select! {
            permit = permits.clone().acquire_owned() => permit.ok()?,
            () = stop.cancelled() => return None,
        };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.cancelled() => return None,
        };
        match accepted {
            Ok((stream, _)) => return Some((stream, permit)),
            Err(error) => {
                // Out of descriptors, or a peer that left: pause instead of spinning.
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
        }
    }
}

async fn connection(stream: TcpStream, tls: Option<TlsAcceptor>, router: Router, watcher: Watcher) {
    // Answers are small and latency counts; failure costs only that.
    let _ = stream.set_nodelay(true);
    let Some(tls) = tls else { return speak(stream, None, router, watcher).await };
    match timeout(limits::HANDSHAKE_TIME_MAX, tls.accept(stream)).await {
        Ok(Ok(stream)) => {
            let peer = Peer::of(stream.get_ref().1);
            speak(stream, Some(peer), router, watcher).await;
        }
        Ok(Err(error)) => tracing::info!(%error, "a node's TLS handshake failed"),
        Err(_) => tracing::info!("a node's TLS handshake took too long"),
    }
}

async fn speak<S>(stream: S, peer: Option<Peer>, router: Router, watcher: Watcher)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = hyper::service::service_fn(move |request: hyper::Request<Incoming>| {
        let (router, peer) = (router.clone(), peer.clone());
        async move {
            let mut request = request.map(Body::new);
            if let Some(peer) = peer {
                request.extensions_mut().insert(peer);
            }
            Ok::<_, Infallible>(router.oneshot(request).await.unwrap_or_else(|never| match never {}))
        }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(limits::HEADER_TIME_MAX);
    builder.http2().timer(TokioTimer::new()).max_concurrent_streams(100);
    let connection = builder.serve_connection(TokioIo::new(stream), service).into_owned();
    // A connection that breaks is the peer's business; the requests on it were logged.
    if let Err(error) = watcher.watch(connection).await {
        tracing::debug!(%error, "a connection ended with an error");
    }
}
