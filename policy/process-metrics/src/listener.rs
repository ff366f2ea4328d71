//! The listener of programs that serve nothing else over HTTP: `GET /metrics`, in plain HTTP, and nothing besides.
//!
//! It runs on a thread of its own, so that a scrape waits for no build, signature or call, and none of them for a scrape. It reads a
//! head of bounded size and no body, and takes nothing that changes anything. On a loopback address it answers only to an address or
//! `localhost` as host: a page of a stranger in somebody's browser must not read it under its own name.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use metrics_exporter_prometheus::{BuildError, PrometheusHandle};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// Connections at once; further ones wait in the kernel.
const CONNECTIONS_MAX: usize = 16;
/// Bytes of a request's head; hyper demands as many at least.
const HEAD_BYTES_MAX: usize = 8_192;
/// How long a head may take.
const HEAD_TIME_MAX: Duration = Duration::from_secs(5);
/// How long a connection may last: one request and its answer.
const CONNECTION_TIME_MAX: Duration = Duration::from_secs(15);
/// Before a connection is taken again after one could not be: out of descriptors, mostly.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// Why a program has no listener for its metrics.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The address cannot be listened on.
    #[error("MFAAS_METRICS_LISTEN: listening on {address}: {source}")]
    Address {
        /// What was asked for.
        address: SocketAddr,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// There are metrics of this process already, or its buckets are no buckets.
    #[error("metrics cannot be recorded: {0}")]
    Recorder(#[from] BuildError),
    /// There is no thread for it.
    #[error("the listener for metrics cannot be started: {0}")]
    Thread(#[source] io::Error),
}

/// A socket that is listened on, and shows nothing yet.
#[derive(Debug)]
pub struct MetricsListener {
    socket: std::net::TcpListener,
    address: SocketAddr,
}

/// What is shown: looked at anew for each scrape.
struct Shown {
    prometheus: PrometheusHandle,
    /// Brings values up to date, and returns what the program writes of its own in the text format.
    collect: Box<dyn Fn() -> String + Send + Sync>,
    is_loopback: bool,
}

impl MetricsListener {
    /// Listens on the address.
    pub fn bind(address: SocketAddr) -> Result<Self, ListenError> {
        let failed = |source| ListenError::Address { address, source };
        let socket = std::net::TcpListener::bind(address).map_err(failed)?;
        socket.set_nonblocking(true).map_err(failed)?;
        let address = socket.local_addr().map_err(failed)?;
        Ok(Self { socket, address })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Shows what the recorder of `prometheus` has, to the end of the process. `collect` is called before each scrape to bring values up
    /// to date; what it returns stands behind the rest.
    pub fn show(
        self,
        prometheus: PrometheusHandle,
        collect: impl Fn() -> String + Send + Sync + 'static,
    ) -> Result<(), ListenError> {
        let is_loopback = self.address.ip().is_loopback();
        let shown = Arc::new(Shown { prometheus, collect: Box::new(collect), is_loopback });
        let runtime = runtime().map_err(ListenError::Thread)?;
        let serve = move || runtime.block_on(serve(self.socket, shown));
        std::thread::Builder::new().name("metrics".to_owned()).spawn(serve).map_err(ListenError::Thread)?;
        Ok(())
    }

    /// The whole of it for a program that has no metrics without a listener: a recorder with these buckets, what is said of every
    /// process, and [`Self::show`].
    pub fn start(
        self,
        (program, version): (&'static str, &'static str),
        buckets: &[(&str, &[f64])],
        collect: impl Fn() -> String + Send + Sync + 'static,
    ) -> Result<(), ListenError> {
        let prometheus = crate::install_recorder(buckets)?;
        let runtime = runtime().map_err(ListenError::Thread)?;
        let watch = crate::watch(program, version, prometheus.clone());
        let watch = move || runtime.block_on(watch);
        std::thread::Builder::new().name("process".to_owned()).spawn(watch).map_err(ListenError::Thread)?;
        self.show(prometheus, collect)
    }
}

/// Shows what a program counts that has no metrics without a listener, if there is an address for it, and describes it; where it is
/// shown then.
pub fn show_at(
    address: Option<SocketAddr>,
    names: (&'static str, &'static str),
    describe: impl FnOnce(),
) -> Result<Option<SocketAddr>, ListenError> {
    let Some(address) = address else { return Ok(None) };
    let listener = MetricsListener::bind(address)?;
    let address = listener.address();
    listener.start(names, &[], String::new)?;
    describe();
    tracing::info!(%address, "metrics are shown");
    Ok(Some(address))
}

fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

/// Never ends but with the process.
async fn serve(socket: std::net::TcpListener, shown: Arc<Shown>) {
    let listener = match TcpListener::from_std(socket) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "metrics are not shown: the listener cannot be used"),
    };
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        match listener.accept().await {
            Ok((stream, _)) => {
                let shown = Arc::clone(&shown);
                tokio::spawn(async move {
                    // A connection that breaks or is slow is the peer's business.
                    let _ = tokio::time::timeout(CONNECTION_TIME_MAX, converse(stream, shown)).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::debug!(%error, "a connection to the metrics could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn converse(stream: TcpStream, shown: Arc<Shown>) -> Result<(), hyper::Error> {
    let service = hyper::service::service_fn(move |request: Request<Incoming>| {
        let answer = answer(&shown, request.method(), request.uri().path(), request.headers());
        async move { Ok::<_, Infallible>(answer) }
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME_MAX)
        .max_buf_size(HEAD_BYTES_MAX)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service)
        .await
}

fn answer(shown: &Shown, method: &Method, path: &str, headers: &HeaderMap) -> Response<Full<Bytes>> {
    if shown.is_loopback && !names_this_machine(headers) {
        return text(StatusCode::MISDIRECTED_REQUEST, "ask by address, or for localhost\n");
    }
    match (path, method) {
        ("/metrics", &Method::GET) => {
            let own = (shown.collect)();
            let mut answer = text(StatusCode::OK, shown.prometheus.render() + &own);
            let content_type = HeaderValue::from_static("text/plain; version=0.0.4");
            answer.headers_mut().insert(CONTENT_TYPE, content_type);
            answer
        }
        ("/metrics", _) => text(StatusCode::METHOD_NOT_ALLOWED, "only GET\n"),
        _ => text(StatusCode::NOT_FOUND, "only /metrics is here\n"),
    }
}

/// Whether the request names an address or `localhost`, once.
fn names_this_machine(headers: &HeaderMap) -> bool {
    let mut hosts = headers.get_all(HOST).iter();
    let (Some(host), None) = (hosts.next().and_then(|host| host.to_str().ok()), hosts.next()) else {
        return false;
    };
    let without_port = |host: &str| match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name.to_owned(),
        _ => host.to_owned(),
    };
    let name = without_port(host);
    name == "localhost"
        || host.parse::<SocketAddr>().is_ok()
        || name.trim_matches(['[', ']']).parse::<IpAddr>().is_ok()
}

fn text(status: StatusCode, text: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(text.into()));
    *response.status_mut() = status;
    response
}

#[cfg(test)]
mod tests;
