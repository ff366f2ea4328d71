//! HTTP: a plain hyper server that calls the function in place, and a client that speaks to any
//! server over one connection that is kept open.
//!
//! The plain server is hyper with its defaults on one thread: HTTP/1.1 on one port and HTTP/2 on another, connections kept,
//! TCP_NODELAY as the node has it, and no limit of size or time. It sends as many bytes as the node does.

use std::convert::Infallible;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpListener;

use super::load::Target;
use super::{Kit, Side, Timing};
use crate::function::{ANSWER_BYTES, work};
use crate::functions::{Kind, request, verified};
use crate::sys::{pin, stamp};

/// How long an answer may take; of a bulk function as long as a call of one waits.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(10);
const BULK_ANSWER_WAIT_MAX: Duration = Duration::from_mins(10);
/// Longest line of an answer's head, and most bytes of its body.
const LINE_BYTES_MAX: u64 = 8 << 10;
const BODY_BYTES_MAX: usize = 64 << 20;

/// Serves HTTP/1.1 and HTTP/2 on a free port each, which it prints in this order, until its standard input ends.
pub fn serve() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().context("a runtime")?;
    std::thread::spawn(|| {
        // Whatever comes, it is the end.
        let _ = std::io::stdin().read(&mut [0]);
        #[expect(clippy::disallowed_methods, reason = "nothing of this process outlives it")]
        std::process::exit(0);
    });
    runtime.block_on(async {
        let one = TcpListener::bind(("127.0.0.1", 0)).await.context("listen")?;
        let two = TcpListener::bind(("127.0.0.1", 0)).await.context("listen")?;
        writeln!(std::io::stdout(), "{} {}", one.local_addr()?, two.local_addr()?)
            .context("say the addresses")?;
        let over_http1 = accept(one, |io| async {
            let service = hyper::service::service_fn(respond);
            // How a connection ends is the client's matter.
            let _ = hyper::server::conn::http1::Builder::new().serve_connection(io, service).await;
        });
        let over_http2 = accept(two, |io| async {
            let service = hyper::service::service_fn(respond);
            let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            let _ = builder.serve_connection(io, service).await;
        });
        tokio::try_join!(over_http1, over_http2).map(|_| ())
    })
}

async fn accept<C>(
    listener: TcpListener,
    converse: fn(TokioIo<tokio::net::TcpStream>) -> C,
) -> anyhow::Result<()>
where
    C: Future<Output = ()> + Send + 'static,
{
    loop {
        let (stream, _) = listener.accept().await.context("accept")?;
        stream.set_nodelay(true)?;
        tokio::spawn(converse(TokioIo::new(stream)));
    }
}

async fn respond(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let body =
        request.into_body().collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let mut answer = [0; ANSWER_BYTES];
    let mut response = Response::new(Full::default());
    match (&*body).try_into() {
        Ok(request) => {
            let bytes = work(&Kind::EMPTY.constants(0), request, &mut answer);
            *response.body_mut() = Full::new(Bytes::copy_from_slice(&answer[..bytes]));
            add_headers(response.headers_mut());
        }
        Err(_) => *response.status_mut() = StatusCode::BAD_REQUEST,
    }
    Ok(response)
}

/// What a node adds to an answer, so that both sides send the same bytes; here they are constants.
fn add_headers(headers: &mut HeaderMap) {
    const HEADERS: [(&str, &str); 6] = [
        ("content-type", "application/octet-stream"),
        ("content-security-policy", "sandbox"),
        ("x-content-type-options", "nosniff"),
        ("mfaas-version", "1"),
        ("mfaas-start", "warm"),
        ("server-timing", "queue;dur=0.004, run;dur=0.0012"),
    ];
    for (name, value) in HEADERS {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
}

/// One connection to one address.
#[derive(Debug)]
pub struct Client {
    stream: BufReader<TcpStream>,
    beginning: String,
    head: String,
}

impl Client {
    /// Connects. `path` begins with a slash.
    pub fn connect(address: SocketAddr, path: &str) -> anyhow::Result<Self> {
        let client = Self::connect_with(address, path, 64)?;
        client.stream.get_ref().set_read_timeout(Some(ANSWER_WAIT_MAX))?;
        Ok(client)
    }

    /// The same for requests of so many bytes to a bulk function.
    pub fn connect_with(address: SocketAddr, path: &str, bytes: usize) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address).with_context(|| format!("connect to {address}"))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(BULK_ANSWER_WAIT_MAX))?;
        let beginning = format!("POST {path} HTTP/1.1\r\nhost: {address}\r\ncontent-length: {bytes}\r\n");
        let head = format!("{beginning}\r\n");
        Ok(Self { stream: BufReader::new(stream), beginning, head })
    }

    /// From now on requests show this call token, or none.
    pub fn show(&mut self, token: Option<&str>) {
        let credentials = token.map(|token| format!("authorization: Bearer {token}\r\n")).unwrap_or_default();
        self.head = format!("{}{credentials}\r\n", self.beginning);
    }

    /// Sends 64 bytes and returns the body of the answer, which must be of status 200.
    pub fn post(&mut self, body: &[u8; 64]) -> anyhow::Result<Vec<u8>> {
        self.exchange(body)
    }

    /// The same with as many bytes as it was connected for.
    pub fn exchange(&mut self, body: &[u8]) -> anyhow::Result<Vec<u8>> {
        let message = [self.head.as_bytes(), body].concat();
        self.stream.get_mut().write_all(&message).context("send")?;
        let status = self.line()?;
        ensure!(status.starts_with("HTTP/1.1 200"), "the server answers {status:?}");
        let mut length = None;
        loop {
            let line = self.line()?;
            if line.is_empty() {
                break;
            }
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().ok();
            }
        }
        let length =
            length.filter(|length| *length <= BODY_BYTES_MAX).context("an answer without a length")?;
        let mut answer = vec![0; length];
        self.stream.read_exact(&mut answer).context("read the answer")?;
        Ok(answer)
    }

    fn line(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        let read = self.stream.by_ref().take(LINE_BYTES_MAX).read_line(&mut line).context("read a line")?;
        ensure!(read > 0, "the server closed the connection");
        Ok(line.trim_end().to_owned())
    }
}

/// The plain hyper server in a process of its own, with its client.
#[derive(Debug)]
pub struct Hyper {
    child: Child,
    _bell: Option<ChildStdin>,
    client: Client,
    target: Target,
    number: u64,
}

impl Hyper {
    /// Starts the server on the caller's core: there a node has the threads that speak HTTP, too.
    pub fn start(kit: &Kit) -> anyhow::Result<Self> {
        let mut child = Command::new(kit.programs.bench()?)
            .args(["serve", "http", "--core", &kit.cores.caller.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("start a server")?;
        let (bell, output) = (child.stdin.take(), child.stdout.take().context("a pipe")?);
        let mut said = String::new();
        BufReader::new(output).read_line(&mut said).context("read the addresses")?;
        pin(kit.cores.caller)?;
        let (one, two) = said.trim().split_once(' ').context("two addresses")?;
        let target = Target {
            address: one.parse().context("an address")?,
            address_http2: two.parse().context("an address")?,
            path: "/".to_owned(),
            function: Some(Kind::EMPTY.constants(0)),
        };
        let client = Client::connect(target.address, &target.path)?;
        Ok(Self { child, _bell: bell, client, target, number: 0 })
    }
}

impl Side for Hyper {
    fn protections(&self) -> String {
        "none: the function is called inside of the server".to_owned()
    }

    fn call(&mut self, _function: u64) -> anyhow::Result<Timing> {
        self.number += 1;
        let request = request(self.number);
        let sent = stamp();
        let answer = self.client.post(&request)?;
        let answered = stamp();
        verified(&Kind::EMPTY.constants(0), &request, &answer)?;
        Ok(Timing { sent, answered })
    }

    fn process(&self) -> Option<u32> {
        Some(self.child.id())
    }

    fn target(&self) -> Option<&Target> {
        Some(&self.target)
    }
}

impl Drop for Hyper {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
