//! Connections: HTTP/1.1 and HTTP/2 (cleartext, with prior knowledge) on one port; bounded in number, in what each may
//! hold, and in how long it may do nothing; ended gracefully.
//!
//! The first bytes say which of the two it is. hyper-util's own way to tell waits for them without an end, so they are
//! looked at here.

use std::io::Write as _;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::rt::Executor;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::body::no_room;
use super::fairness::Lane;
use super::peers::{Connection, Full, Peers, Place};
use super::{Face, Hosts, connection_meters};

/// Between a connection's start, or the last answer on it, and the end of the next request's head (HTTP/1.1). Not hyper's
/// own limit: that one starts and ends a timer with each request.
const HEAD_WAIT_MAX: Duration = Duration::from_secs(30);
/// Names and values of one request's head. HTTP/1.1 may pass it by what one read brings.
pub(super) const HEAD_BYTES_MAX: u32 = 64 << 10;
/// hyper's default, and not set: where it is, hyper clears the room for all of them with each request.
#[cfg(test)]
pub(super) const HEADERS_MAX: usize = 100;
/// Requests at once on one connection (HTTP/2). Clients send up to 100 before they have heard of any limit (RFC 9113 6.5.2
/// recommends no less); those beyond it would be reset, and resets end a connection.
pub(super) const STREAMS_MAX: u32 = 128;
/// Streams that a client reset before we took them, after which the connection ends: what answers CVE-2023-44487.
const RESETS_MAX: usize = 32;
/// Streams that we reset for what was wrong with them, after which the connection ends: the same attack the other way round,
/// CVE-2025-8671.
const OWN_RESETS_MAX: usize = 64;
/// What a client may send before we read it: on one stream, and on a connection.
const STREAM_WINDOW_BYTES: u32 = 64 << 10;
const CONNECTION_WINDOW_BYTES: u32 = 1 << 20;
/// What hyper keeps of one answer beyond what the client takes.
const SEND_BYTES_MAX: usize = 64 << 10;
/// How often a quiet peer is asked whether it lives, and how long it may take to say so (HTTP/2).
const PING_INTERVAL: Duration = Duration::from_secs(20);
const PING_WAIT_MAX: Duration = Duration::from_secs(10);
/// A connection on which no request began or ended for this long is closed: calls take seconds at most, so either nobody asks or
/// nobody takes the answers. Not while a bulk call is on its way, which may take minutes.
const QUIET_MAX: Duration = Duration::from_secs(60);
/// How often connections are looked at: what is to end after a time ends up to so much earlier or later.
const LOOK: Duration = Duration::from_secs(10);
/// What such a connection still gets to finish.
const PARTING_MAX: Duration = Duration::from_secs(5);
/// What a caller may still send after the last answer, so that the answer arrives, and for how long. More than the CLI's
/// largest request.
const LINGER_BYTES_MAX: u64 = 65 << 20;
const LINGER_MAX: Duration = Duration::from_secs(2);
/// Sent bytes that the peer does not take in this time end the connection, in milliseconds.
const UNTAKEN_MS_MAX: u32 = 30_000;
/// After a failed accept, which mostly means that descriptors ran out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Between two looks at a beginning that is too short to tell.
const PEEK_PAUSE: Duration = Duration::from_millis(5);
/// Open connections get this long to finish when the node stops: longer than accepted calls get.
const DRAIN_WAIT_MAX: Duration = Duration::from_millis(6_500);

/// The beginning of a connection that speaks HTTP/2 (RFC 9113 3.4). No method of HTTP/1.1 begins with its first three bytes.
const PREFACE: &[u8; 3] = b"PRI";

/// Serves until `stop` turns true, then lets what is open finish.
pub(crate) async fn serve(
    listener: TcpListener,
    mut hosts: Hosts,
    (face, peers): (Arc<Face>, Arc<Peers>),
    mut stop: watch::Receiver<bool>,
) {
    connection_meters::bounds(peers.bounds());
    let mut connections = JoinSet::new();
    let pace = watch::Sender::new(Pace::default());
    let mut looks = tokio::time::interval(LOOK);
    let mut refusals = Refusals::default();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stop.changed() => break,
            _ = looks.tick() => {
                pace.send_modify(Pace::look);
                refusals.log();
                continue;
            }
        };
        match accepted.and_then(|(stream, address)| Ok((stream.into_std()?, address))) {
            Ok((stream, address)) => match peers.admit(address.ip()) {
                Ok(place) => {
                    connection_meters::accepted();
                    let connection = Arc::clone(place.connection());
                    let (host, lanes) = hosts.next();
                    let lane = lanes.of(connection.peer());
                    let parts = (Arc::clone(&face), Arc::clone(&lane));
                    let conversation = lane.queued(converse(stream, place, parts, pace.subscribe()));
                    connection.ends_by(connections.spawn_on(conversation, host));
                }
                Err(full) => {
                    refusals.note(full);
                    turn_away(stream, full);
                }
            },
            Err(error) => {
                refusals.not_accepted(error);
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
        while connections.try_join_next().is_some() {}
    }
    drop(listener);
    pace.send_modify(|pace| pace.stops = true);
    let drained = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(DRAIN_WAIT_MAX, drained).await.is_err() {
        tracing::warn!("connections that did not end are dropped");
    }
}

/// Connections that came to nothing since the last log line about it: one line for a flood of them.
#[derive(Debug, Default)]
struct Refusals {
    by_peer_bound: u64,
    by_bound_of_all: u64,
    not_accepted: u64,
    error: Option<std::io::Error>,
}

impl Refusals {
    fn note(&mut self, full: Full) {
        match full {
            Full::Peer => {
                self.by_peer_bound += 1;
                connection_meters::turned_away("peer");
            }
            Full::Node => {
                self.by_bound_of_all += 1;
                connection_meters::turned_away("all");
            }
        }
    }

    /// Callers can cause it, by connections that use up all descriptors.
    fn not_accepted(&mut self, error: std::io::Error) {
        self.not_accepted += 1;
        self.error = Some(error);
    }

    fn log(&mut self) {
        let Self { by_peer_bound, by_bound_of_all, not_accepted, error } = std::mem::take(self);
        if by_peer_bound + by_bound_of_all > 0 {
            tracing::warn!(by_peer_bound, by_bound_of_all, "connections were turned away: none was idle");
        }
        if let Some(error) = error {
            tracing::warn!(%error, times = not_accepted, "connections could not be accepted");
        }
    }
}

/// Says why and closes. Best effort, and in HTTP/1.1 whatever the peer speaks: nothing of it was read.
fn turn_away(mut stream: std::net::TcpStream, full: Full) {
    let problem = no_room(full, "connections").to_json();
    let head = "HTTP/1.1 429 Too Many Requests\r\ncontent-type: application/problem+json\r\nretry-after: 1\r\n\
                connection: close\r\n";
    let answer = format!("{head}content-length: {}\r\n\r\n{problem}", problem.len());
    // It fits into the kernel's buffer, and nobody waits.
    let _ = stream.write_all(answer.as_bytes());
    let _ = stream.shutdown(std::net::Shutdown::Write);
}

/// What all connections follow. None has a timer of its own while it waits: a thread that sleeps until a time costs each
/// request more than one that sleeps until something comes.
#[derive(Debug, Clone, Copy, Default)]
struct Pace {
    /// Counts looks, one every [`LOOK`].
    looks: u64,
    /// The node stops.
    stops: bool,
}

impl Pace {
    fn look(&mut self) {
        self.looks += 1;
    }
}

/// Resolves when the node stops.
async fn stopping(pace: &mut watch::Receiver<Pace>) {
    // Without a sender nobody serves any more.
    let _ = pace.wait_for(|pace| pace.stops).await;
}

async fn converse(
    stream: std::net::TcpStream,
    place: Place,
    (face, lane): (Arc<Face>, Arc<Lane>),
    mut pace: watch::Receiver<Pace>,
) {
    // On this runtime: it was accepted on another one.
    let Ok(stream) = TcpStream::from_std(stream) else { return };
    // Answers are small and complete: waiting to gather more only adds delay.
    let _ = stream.set_nodelay(true);
    // Without it a peer that takes nothing holds its answers until the kernel gives up, many minutes later.
    let _ = rustix::net::sockopt::set_tcp_user_timeout(&stream, UNTAKEN_MS_MAX);
    let version = tokio::select! {
        version = tokio::time::timeout(HEAD_WAIT_MAX, version(&stream)) => version,
        () = stopping(&mut pace) => return,
    };
    let Ok(Some(version)) = version else { return };
    let asked = Arc::clone(place.connection());
    let service = service_fn(move |request: Request<Incoming>| Arc::clone(&face).answer(request, &asked));
    let io = TokioIo::new(stream);
    // How a caller's connection breaks is the caller's matter.
    match version {
        Version::One => {
            let mut connection = http1_limits().serve_connection(io, service);
            let goodbye = |connection: Pin<&mut &mut http1::Connection<_, _>>| {
                Pin::new(&mut **connection.get_mut()).graceful_shutdown();
            };
            run(&mut connection, goodbye, (place.connection(), version), pace).await;
            linger(connection.into_parts().io.into_inner()).await;
        }
        Version::Two => {
            let connection = http2_limits(lane).serve_connection(io, service);
            run(connection, http2::Connection::graceful_shutdown, (place.connection(), version), pace).await;
        }
    }
}

/// Reads and forgets what a caller still sends whose request was refused before its body had come. To close with bytes
/// unread resets the connection, and the caller may never see the answer (RFC 9112 9.6).
async fn linger(mut stream: TcpStream) {
    let _ = stream.shutdown().await;
    let mut rest = stream.take(LINGER_BYTES_MAX);
    let _ = tokio::time::timeout(LINGER_MAX, tokio::io::copy(&mut rest, &mut tokio::io::sink())).await;
}

#[derive(Debug, Clone, Copy)]
enum Version {
    One,
    Two,
}

/// What the first bytes say; nothing when the peer left without any.
async fn version(stream: &TcpStream) -> Option<Version> {
    let mut start = [0; PREFACE.len()];
    loop {
        let seen = stream.peek(&mut start).await.ok().filter(|seen| *seen > 0)?;
        if start[..seen] != PREFACE[..seen] {
            return Some(Version::One);
        }
        if seen == PREFACE.len() {
            return Some(Version::Two);
        }
        // What was seen stays readable, so another peek would not wait.
        tokio::time::sleep(PEEK_PAUSE).await;
    }
}

fn http1_limits() -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder.max_buf_size(HEAD_BYTES_MAX as usize);
    builder
}

/// Where the requests of a connection in HTTP/2 run, each in a task of its own.
#[derive(Debug, Clone)]
struct OnLane(Arc<Lane>);

impl<F: Future<Output: Send> + Send + 'static> Executor<F> for OnLane {
    fn execute(&self, request: F) {
        tokio::spawn(Arc::clone(&self.0).queued(request));
    }
}

fn http2_limits(lane: Arc<Lane>) -> http2::Builder<OnLane> {
    let mut builder = http2::Builder::new(OnLane(lane));
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_pending_accept_reset_streams(RESETS_MAX)
        .max_local_error_reset_streams(OWN_RESETS_MAX)
        .max_header_list_size(HEAD_BYTES_MAX)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_send_buf_size(SEND_BYTES_MAX)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_WAIT_MAX);
    builder
}

/// Drives a connection to its end, and ends it when the node stops or nothing happens on it.
async fn run<C: Future>(
    connection: C,
    say_goodbye: fn(Pin<&mut C>),
    (asked, version): (&Connection, Version),
    mut pace: watch::Receiver<Pace>,
) {
    let mut connection = pin!(connection);
    let (mut beats, mut quiet) = (asked.beats(), Duration::ZERO);
    loop {
        tokio::select! {
            biased;
            _ = connection.as_mut() => return,
            changed = pace.changed() => if changed.is_err() || pace.borrow_and_update().stops {
                say_goodbye(connection.as_mut());
                connection.await;
                return;
            }
        }
        let now = asked.beats();
        quiet = if now == beats && !asked.has_long_call() { quiet + LOOK } else { Duration::ZERO };
        beats = now;
        // Nothing was asked, so there is nothing to finish.
        if matches!(version, Version::One) && asked.is_idle() && quiet >= HEAD_WAIT_MAX {
            return;
        }
        if quiet >= QUIET_MAX {
            say_goodbye(connection.as_mut());
            let _ = tokio::time::timeout(PARTING_MAX, connection).await;
            return;
        }
    }
}

#[cfg(test)]
mod tests;
