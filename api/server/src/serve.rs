//! Listeners: accept connections under bounds, speak HTTP/1.1 and HTTP/2 over them, with TLS where the listener has it,
//! and end those on which nothing happens. When the server stops, they end in order.
//!
//! axum's own server has neither a bound on connections nor time limits, and does not hand the client's certificate to
//! the routes. No wait for a peer here is without an end.

use std::convert::Infallible;
use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::pin::pin;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use mfaas_rules::codes;
use mfaas_wire::Problem;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tower::ServiceExt as _;

use crate::connections::{Connection, Connections, Full, Place};
use crate::limits::{self, Bounds};
use crate::nodes::Peer;
use crate::state::App;
use crate::tally::About;

/// A listener and what it serves.
pub(crate) struct Listener {
    /// As metrics call it.
    pub(crate) name: &'static str,
    pub(crate) socket: TcpListener,
    pub(crate) bounds: Bounds,
    /// With it, every request carries its connection's [`Peer`].
    pub(crate) tls: Option<TlsAcceptor>,
    pub(crate) router: Router,
}

/// Serves until the server stops, then lets open requests end within [`limits::DRAIN_CONNECTIONS_MAX`].
pub(crate) async fn serve(listener: Listener, app: App) {
    let Listener { name, socket, bounds, tls, router } = listener;
    let places = Connections::new(name, bounds);
    let mut open = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = socket.accept() => accepted,
            () = app.stop.cancelled() => break,
        };
        match accepted {
            Ok((stream, address)) => match places.admit(address.ip()) {
                Ok(place) => {
                    let face = Face { name, tls: tls.clone(), router: router.clone() };
                    open.spawn(converse(stream, place, face, app.clone()));
                }
                Err(full) => {
                    app.tally.count("connection");
                    turn_away(stream, tls.is_some(), full);
                }
            },
            Err(error) => {
                // Out of descriptors, or a peer that left: pause instead of spinning.
                if app.tally.has_line(About::Anybody, "accept") {
                    tracing::warn!(%error, "a connection could not be accepted");
                }
                tokio::time::sleep(limits::ACCEPT_PAUSE).await;
            }
        }
        while open.try_join_next().is_some() {}
    }
    drop(socket);
    let drained = async { while open.join_next().await.is_some() {} };
    if timeout(limits::DRAIN_CONNECTIONS_MAX, drained).await.is_err() {
        tracing::warn!("connections were still open at the end of the drain and are cut");
    }
}

/// Says why, where that can be said before TLS, and closes. Best effort: nothing of the peer was read.
fn turn_away(stream: TcpStream, is_tls: bool, full: Full) {
    if is_tls {
        return;
    }
    let detail = match full {
        Full::Peer => "Connections of this address are as many as may be, and none is idle.",
        Full::All => "Connections are as many as may be, and none is idle.",
    };
    let problem = serde_json::to_string(&Problem::new(codes::MF0912, detail)).unwrap_or_default();
    let head = "HTTP/1.1 429 Too Many Requests\r\ncontent-type: application/problem+json\r\nretry-after: 1\r\n\
                connection: close\r\n";
    let answer = format!("{head}content-length: {}\r\n\r\n{problem}", problem.len());
    // It fits into the kernel's buffer, and nobody waits.
    if let Ok(mut stream) = stream.into_std() {
        let _ = stream.write_all(answer.as_bytes());
        let _ = stream.shutdown(std::net::Shutdown::Write);
    }
}

/// What one connection gets of its listener.
struct Face {
    name: &'static str,
    tls: Option<TlsAcceptor>,
    router: Router,
}

async fn converse(stream: TcpStream, place: Place, face: Face, app: App) {
    // Answers are small and latency counts; failure costs only that.
    let _ = stream.set_nodelay(true);
    // Without it a peer that takes nothing holds its answers until the kernel gives up, many minutes later.
    let _ = rustix::net::sockopt::set_tcp_user_timeout(&stream, limits::UNTAKEN_MS_MAX);
    let connection = place.connection();
    // hyper closes what it is given, without reading what is left.
    let rest = stream.as_fd().try_clone_to_owned();
    match &face.tls {
        None => speak(stream, None, connection, face.router, &app).await,
        Some(tls) => {
            let Some(stream) = shake_hands(stream, tls, connection, face.name, &app).await else { return };
            let peer = Peer::of(stream.get_ref().1);
            connection.touch();
            speak(stream, Some(peer), connection, face.router, &app).await;
        }
    }
    let Ok(rest) = rest.and_then(|socket| TcpStream::from_std(socket.into())) else { return };
    tokio::select! {
        () = linger(rest) => {}
        () = connection.given_up() => {}
    }
}

/// TLS over the connection, unless that fails or takes too long.
async fn shake_hands(
    stream: TcpStream,
    tls: &TlsAcceptor,
    connection: &Connection,
    listener: &'static str,
    app: &App,
) -> Option<TlsStream<TcpStream>> {
    let handshake = timeout(app.config.deadlines.handshake, tls.accept(stream));
    let shaken = tokio::select! {
        shaken = handshake => shaken,
        () = connection.given_up() => return None,
        () = app.stop.cancelled() => return None,
    };
    match shaken {
        Ok(Ok(stream)) => return Some(stream),
        Ok(Err(error)) if app.tally.has_line(About::Anybody, "handshake") => {
            tracing::info!(listener, %error, "a TLS handshake failed");
        }
        Err(_) if app.tally.has_line(About::Anybody, "handshake") => {
            tracing::info!(listener, "a TLS handshake took too long");
        }
        Ok(Err(_)) | Err(_) => {}
    }
    None
}

/// Reads and forgets what a client still sends whose request was refused before its body had come. To close with bytes
/// unread resets the connection, and the client may never see the answer (RFC 9112 9.6).
async fn linger(mut stream: TcpStream) {
    let _ = stream.shutdown().await;
    let mut rest = stream.take(limits::LINGER_BYTES_MAX);
    let _ = timeout(limits::LINGER_MAX, tokio::io::copy(&mut rest, &mut tokio::io::sink())).await;
}

async fn speak<S>(stream: S, peer: Option<Peer>, state: &Arc<Connection>, router: Router, app: &App)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let asked = Arc::clone(state);
    let service = hyper::service::service_fn(move |request: hyper::Request<Incoming>| {
        asked.asked();
        let (router, peer) = (router.clone(), peer.clone());
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(Arc::clone(&asked));
        async move {
            if let Some(peer) = peer {
                request.extensions_mut().insert(peer);
            }
            Ok::<_, Infallible>(router.oneshot(request).await.unwrap_or_else(|never| match never {}))
        }
    });
    let builder = protocol(app);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    loop {
        // Looked at again meanwhile: the end of a request brings it nearer.
        let ends_at = Instant::from_std(state.ends_at(&app.config.deadlines));
        let look_at = ends_at.min(Instant::now() + limits::CONNECTION_LOOK);
        tokio::select! {
            biased;
            // A connection that breaks is the peer's business; the requests on it were logged.
            outcome = connection.as_mut() => {
                if let Err(error) = outcome {
                    tracing::debug!(%error, "a connection ended with an error");
                }
                return;
            }
            () = state.given_up() => return,
            () = app.stop.cancelled() => break,
            () = sleep_until(look_at) => {
                if state.ends_at(&app.config.deadlines) <= std::time::Instant::now() {
                    break;
                }
            }
        }
    }
    connection.as_mut().graceful_shutdown();
    let parting =
        if app.stop.is_cancelled() { limits::DRAIN_CONNECTIONS_MAX } else { limits::PARTING_TIME_MAX };
    let _ = timeout(parting, connection).await;
}

/// HTTP/1.1 and HTTP/2 with what a peer may hold before its requests are known.
fn protocol(app: &App) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(app.config.deadlines.head)
        .max_buf_size(limits::HEAD_BYTES_MAX);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits::STREAMS_PER_CONNECTION_MAX)
        .initial_stream_window_size(limits::STREAM_WINDOW_BYTES)
        .initial_connection_window_size(limits::CONNECTION_WINDOW_BYTES)
        .keep_alive_interval(limits::PING_INTERVAL)
        .keep_alive_timeout(limits::PING_WAIT_MAX);
    builder
}
