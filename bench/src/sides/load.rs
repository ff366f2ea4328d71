//! Many requests at once to any HTTP server: over connections of HTTP/1.1 with one request each on its way, or over one of HTTP/2
//! with many.
//!
//! The client shares a core with whatever it asks, on both sides alike, so it does as little as it can: requests are bytes
//! that were made before, and of an answer it reads where it ends.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::task::JoinSet;

use crate::function::{Constants, REQUEST_BYTES};
use crate::functions::{glanced, request};

/// How long an answer may take.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(10);
/// Longest answer, head and body, in bytes.
const ANSWER_BYTES_MAX: usize = 4 << 10;
/// Requests on their way over the one connection of HTTP/2: what clients send before they have heard of any limit.
pub const STREAMS: usize = 100;

/// What is asked: where, and whose answers are verified.
#[derive(Debug, Clone)]
pub struct Target {
    /// Where the server listens for HTTP/1.1.
    pub address: SocketAddr,
    /// Where it listens for HTTP/2 with prior knowledge.
    pub address_http2: SocketAddr,
    /// Begins with a slash.
    pub path: String,
    /// The function there, unless somebody else deployed it.
    pub function: Option<Constants>,
}

impl Target {
    fn check(&self, number: u64, answer: &[u8]) -> anyhow::Result<()> {
        if let Some(constants) = &self.function {
            glanced(number, constants, &request(number), answer)?;
        }
        Ok(())
    }
}

/// `calls` requests over `connections` of HTTP/1.1, each of which has one on its way; requests a second.
pub fn http1(target: &Target, connections: usize, calls: u64) -> anyhow::Result<f64> {
    let head = format!(
        "POST {} HTTP/1.1\r\nhost: {}\r\ncontent-length: {REQUEST_BYTES}\r\n\r\n",
        target.path, target.address
    );
    let mut open =
        (0..connections).map(|_| Connection::open(target.address)).collect::<Result<Vec<_>, _>>()?;
    // Ahead of the clock, so that neither connecting nor the first look at each counts.
    exchange(target, &mut open, &head, connections as u64)?;
    let begin = Instant::now();
    exchange(target, &mut open, &head, calls)?;
    Ok(calls as f64 / begin.elapsed().as_secs_f64())
}

/// Asks on each connection in turn, and hears the answers in the same order.
fn exchange(target: &Target, open: &mut [Connection], head: &str, calls: u64) -> anyhow::Result<()> {
    let count = open.len() as u64;
    let at = |number: u64| (number % count) as usize;
    for number in 0..count.min(calls) {
        open[at(number)].ask(head, number)?;
    }
    for number in 0..calls {
        let connection = &mut open[at(number)];
        target.check(number, connection.answer()?)?;
        if number + count < calls {
            connection.ask(head, number + count)?;
        }
    }
    Ok(())
}

#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    asked: Vec<u8>,
    answer: Vec<u8>,
}

impl Connection {
    fn open(address: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address).with_context(|| format!("connect to {address}"))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_WAIT_MAX))?;
        Ok(Self { stream, asked: Vec::new(), answer: vec![0; ANSWER_BYTES_MAX] })
    }

    fn ask(&mut self, head: &str, number: u64) -> anyhow::Result<()> {
        self.asked.clear();
        self.asked.extend_from_slice(head.as_bytes());
        self.asked.extend_from_slice(&request(number));
        self.stream.write_all(&self.asked).context("send")
    }

    /// The body of the next answer, which must be of status 200.
    fn answer(&mut self) -> anyhow::Result<&[u8]> {
        let mut filled = 0;
        loop {
            let read = self.stream.read(&mut self.answer[filled..]).context("read an answer")?;
            ensure!(read > 0, "the server closed the connection, or answers with more than is read");
            filled += read;
            if let Some((start, end)) = body_of(&self.answer[..filled])? {
                return Ok(&self.answer[start..end]);
            }
        }
    }
}

/// Where the body begins and ends, if all of it is there.
fn body_of(answer: &[u8]) -> anyhow::Result<Option<(usize, usize)>> {
    let Some(end) = answer.windows(4).position(|four| four == b"\r\n\r\n") else { return Ok(None) };
    let head = std::str::from_utf8(&answer[..end]).context("a head that is no text")?;
    let mut lines = head.split("\r\n");
    let status = lines.next().unwrap_or_default();
    ensure!(status.starts_with("HTTP/1.1 200"), "the server answers {status:?}");
    let length = lines.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    let length = length.context("an answer without a length")?;
    let start = end + 4;
    match answer.len() {
        more if more > start + length => bail!("more than one answer to one request"),
        all if all == start + length => Ok(Some((start, all))),
        _ => Ok(None),
    }
}

/// `calls` requests over one connection of HTTP/2 with [`STREAMS`] on their way; requests a second.
pub fn http2(target: &Target, calls: u64) -> anyhow::Result<f64> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()
        .context("a runtime")?;
    runtime.block_on(async {
        let stream = tokio::net::TcpStream::connect(target.address_http2).await.context("connect")?;
        stream.set_nodelay(true)?;
        let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
        let (sender, connection) = handshake.await.context("begin HTTP/2")?;
        let driver = tokio::spawn(connection);
        streams(target, &sender, STREAMS as u64).await?;
        let begin = Instant::now();
        streams(target, &sender, calls).await?;
        let rate = calls as f64 / begin.elapsed().as_secs_f64();
        driver.abort();
        Ok(rate)
    })
}

type Sender = hyper::client::conn::http2::SendRequest<Full<Bytes>>;

async fn streams(target: &Target, sender: &Sender, calls: u64) -> anyhow::Result<()> {
    let mut lanes = JoinSet::new();
    for lane in 0..STREAMS as u64 {
        let (target, mut sender) = (target.clone(), sender.clone());
        lanes.spawn(async move {
            for number in (lane..calls).step_by(STREAMS) {
                let uri = format!("http://{}{}", target.address_http2, target.path);
                let body = Full::new(Bytes::copy_from_slice(&request(number)));
                let asked = hyper::Request::post(uri).body(body).context("a request")?;
                let answer = tokio::time::timeout(ANSWER_WAIT_MAX, sender.send_request(asked)).await??;
                ensure!(answer.status() == 200, "the server answers {}", answer.status());
                let body = answer.into_body().collect().await.context("read an answer")?.to_bytes();
                target.check(number, &body)?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(ended) = lanes.join_next().await {
        ended.context("a lane")??;
    }
    Ok(())
}
