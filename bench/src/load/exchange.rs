//! One call on one connection that never blocks.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with, sockopt};

/// Of an answer this much is read: beyond it, it is no answer of the benchmark's functions.
const ANSWER_BYTES_MAX: usize = 64 << 10;
/// Headers of an answer, at most.
const HEADERS_MAX: usize = 64;
const READ_BYTES: usize = 4 << 10;

/// What became of a call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum End {
    /// The function answered so long after the planned time.
    Answered { latency_us: f64 },
    /// Another status than 200.
    Refused,
    /// No answer.
    Lost,
}

/// A connection; closed at once where it is dropped.
#[derive(Debug)]
pub(super) struct Connection(TcpStream);

impl Connection {
    /// Begins to connect to `server` from `source`.
    pub(super) fn open(server: SocketAddr, source: Ipv4Addr) -> std::io::Result<Self> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
        // Closing resets: ports that wait for a minute would run out.
        sockopt::set_socket_linger(&socket, Some(Duration::ZERO))?;
        sockopt::set_tcp_nodelay(&socket, true)?;
        bind(&socket, &SocketAddrV4::new(source, 0))?;
        match connect(&socket, &server) {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(Self(TcpStream::from(socket))),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether the other side has not closed it.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.0.peek(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock)
    }

    pub(super) fn stream(&mut self) -> &mut TcpStream {
        &mut self.0
    }
}

/// A call that has begun.
#[derive(Debug)]
pub(super) struct Exchange {
    connection: Connection,
    message: Vec<u8>,
    sent: usize,
    received: Vec<u8>,
    /// When it should have begun.
    pub(super) planned: Instant,
    /// Whom it calls.
    pub(super) target: usize,
    /// Which call it is.
    pub(super) number: u64,
}

/// How far a call has come.
#[derive(Debug)]
pub(super) enum Progress {
    /// Not to its end.
    Open,
    /// The whole answer is there; whether the connection may be used again.
    Answered { status: u16, body: Vec<u8>, keeps: bool },
    /// The connection ended, or what came is no answer.
    Broken,
}

impl Exchange {
    pub(super) fn new(
        connection: Connection,
        message: Vec<u8>,
        (planned, target, number): (Instant, usize, u64),
    ) -> Self {
        let mut exchange = Self { connection, message, sent: 0, received: vec![], planned, target, number };
        // A connection that is not there yet, or breaks, is looked at in the next turn.
        let _ = exchange.send();
        exchange
    }

    pub(super) fn connection(&self) -> BorrowedFd<'_> {
        self.connection.0.as_fd()
    }

    pub(super) fn into_connection(self) -> Connection {
        self.connection
    }

    pub(super) fn is_sent(&self) -> bool {
        self.sent == self.message.len()
    }

    /// Sends and reads what it can.
    pub(super) fn advance(&mut self) -> Progress {
        let sent = self.send();
        match self.receive() {
            // A node that refuses may do so before it has read all.
            Ok(Progress::Open) if sent.is_err() => Progress::Broken,
            Ok(progress) => progress,
            Err(_) => Progress::Broken,
        }
    }

    fn send(&mut self) -> std::io::Result<()> {
        while !self.is_sent() {
            match self.connection.0.write(&self.message[self.sent..]) {
                Ok(bytes) => self.sent += bytes,
                Err(error) if is_early(&error) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn receive(&mut self) -> std::io::Result<Progress> {
        let mut bytes = [0; READ_BYTES];
        loop {
            match self.connection.0.read(&mut bytes) {
                Ok(0) => return Ok(Progress::Broken),
                Ok(read) => self.received.extend_from_slice(&bytes[..read]),
                Err(error) if is_early(&error) => return Ok(Progress::Open),
                Err(error) => return Err(error),
            }
            match answer(&self.received, self.is_sent()) {
                Progress::Open if self.received.len() > ANSWER_BYTES_MAX => return Ok(Progress::Broken),
                Progress::Open => {}
                done => return Ok(done),
            }
        }
    }
}

/// Whether it works later: nothing is there, or the connection is not.
pub(super) fn is_early(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::NotConnected | ErrorKind::Interrupted)
}

/// What `bytes` are, if the request was `sent` whole.
pub(super) fn answer(bytes: &[u8], sent: bool) -> Progress {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut response = httparse::Response::new(&mut headers);
    let head = match response.parse(bytes) {
        Ok(httparse::Status::Complete(head)) => head,
        Ok(httparse::Status::Partial) => return Progress::Open,
        Err(_) => return Progress::Broken,
    };
    let header = |name: &str| {
        let found = response.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name));
        found.and_then(|header| std::str::from_utf8(header.value).ok())
    };
    let length = header("content-length").and_then(|length| length.parse::<usize>().ok());
    let (Some(length), Some(status)) = (length, response.code) else { return Progress::Broken };
    let closes = header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
    match bytes[head..].get(..length) {
        Some(body) => Progress::Answered { status, body: body.to_vec(), keeps: sent && !closes },
        None => Progress::Open,
    }
}
