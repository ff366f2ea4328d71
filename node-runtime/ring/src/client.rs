//! Calling functions from a program on the node's machine, through a ring instead of HTTP.
//!
//! A node that was given a path for it listens on a Unix socket that only its own user opens. A client names the
//! functions that it will call, gets a ring, and submits calls; no system call is made for a call as long as both
//! sides are awake. A name is resolved anew for each call, so `hello@live` follows its alias.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use mfaas_abi::Status;
//! use mfaas_abi::frame::{ResponseFrame, encode_request};
//! use mfaas_ring::Completion;
//! use mfaas_ring::client::Client;
//!
//! let mut client = Client::connect("/run/mfaas/local.sock", &["acme/hello", "acme/hello@3"])?;
//! let mut frame = Vec::new();
//! encode_request(&mut frame, "POST", "/", [], b"hello")?;
//!
//! // One call, and its answer. Function 0 is the first name.
//! let mut done = Completion::new();
//! client.call(0, &frame, &mut done, Duration::from_secs(1))?;
//! match (done.refusal, done.status) {
//!     (0, Status::Ok) => assert_eq!(ResponseFrame::decode(&done.response)?.body, b"HELLO"),
//!     (0, other) => println!("the function ended otherwise: {other}"),
//!     (code, _) => println!("MF{code:04}: {}", String::from_utf8_lossy(&done.message)),
//! }
//!
//! // Several on their way at once; answers come in the order of submission.
//! for call_id in 0..4 {
//!     client.submit(call_id, 1, &frame)?;
//! }
//! for _ in 0..4 {
//!     while !client.collect(&mut done)? {
//!         client.wait(Duration::from_millis(100))?;
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Calls of one client are answered in the order of submission, so a slow function holds back the answers behind it: open one
//! client for each stream of calls. A response is the function's own, headers included; nothing is filtered as it is for
//! browsers.

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::local_api::{FUNCTIONS_MAX, LOCAL_API_VERSION, NAME_BYTES_MAX, OpenRequest, ask, is_gone};
use crate::wait::Bell;
use crate::{Completion, HostEnd, RingError, Submission};

/// How often a waiting client looks whether the node still lives.
const LOOK: Duration = Duration::from_millis(100);

/// Why a client cannot call.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody listens there, or this user may not connect.
    #[error("connecting to the node's local socket")]
    Connect(#[source] std::io::Error),
    /// The node gives no ring: a name that is none, or too many clients.
    #[error("the node refuses: {0}")]
    Refused(String),
    /// More names than a client may have, or one that is too long.
    #[error("a client names 1 to {FUNCTIONS_MAX} functions of at most {NAME_BYTES_MAX} bytes each")]
    Names,
    /// A function's number that no name stands for.
    #[error("no function has the number {0}")]
    Function(u32),
    /// The node is gone; calls on their way are lost. Connect again.
    #[error("the node is gone")]
    Gone,
    /// Nothing came within the time that was given. The call is still on its way.
    #[error("no answer came in time")]
    TimedOut,
    /// The ring itself.
    #[error(transparent)]
    Ring(#[from] RingError),
}

/// A caller's end of a ring to the node of its machine. For one thread.
#[derive(Debug)]
pub struct Client {
    /// Open as long as the client lives: its end tells the node.
    stream: UnixStream,
    ring: HostEnd,
    functions: u32,
    last_call: u64,
}

impl Client {
    /// Connects to the local socket at `path` and names the functions to call, `tenant/function[@selector]` each.
    pub fn connect(path: impl AsRef<Path>, functions: &[&str]) -> Result<Self, ClientError> {
        Self::over(UnixStream::connect(path).map_err(ClientError::Connect)?, functions)
    }

    /// The conversation over a connected socket.
    pub(crate) fn over(mut stream: UnixStream, functions: &[&str]) -> Result<Self, ClientError> {
        let counted = (1..=FUNCTIONS_MAX).contains(&functions.len());
        if !counted || functions.iter().any(|name| name.len() > NAME_BYTES_MAX) {
            return Err(ClientError::Names);
        }
        let names = functions.iter().map(|name| (*name).to_owned()).collect();
        let fd = ask(&mut stream, &OpenRequest { version: LOCAL_API_VERSION, functions: names })?
            .map_err(ClientError::Refused)?;
        let ring = HostEnd::attach(&fd)?;
        Ok(Self { stream, ring, functions: functions.len() as u32, last_call: 0 })
    }

    /// Submits one call. [`RingError::Full`] when as many are on their way as the ring holds: collect first.
    ///
    /// `call_id` comes back with the answer; `function` is a position in the list of names; `frame` is an encoded
    /// request ([`mfaas_abi::frame::encode_request`]).
    pub fn submit(&mut self, call_id: u64, function: u32, frame: &[u8]) -> Result<(), ClientError> {
        if function >= self.functions {
            return Err(ClientError::Function(function));
        }
        // Budget and memory are the function's own; the node reads neither.
        let call = Submission {
            call_id,
            function,
            budget_us: 0,
            memory_bytes: 0,
            frame,
            resumes: false,
            may_ask: false,
            yields: false,
        };
        Ok(self.ring.submit(call)?)
    }

    /// Fills `into` with the next answer, in the order of submission, and says `true` if there is one.
    pub fn collect(&mut self, into: &mut Completion) -> Result<bool, ClientError> {
        Ok(self.ring.collect(into)?)
    }

    /// Sleeps until there is something to collect (`true`) or `timeout` is over (`false`). [`ClientError::Gone`] when the node is.
    pub fn wait(&mut self, timeout: Duration) -> Result<bool, ClientError> {
        let end = Instant::now() + timeout;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if self.ring.wait(left.min(LOOK))? {
                return Ok(true);
            }
            if is_gone(&self.stream) {
                return if self.ring.is_ready() { Ok(true) } else { Err(ClientError::Gone) };
            }
            if left.is_zero() {
                return Ok(false);
            }
        }
    }

    /// Calls and waits for the answer, for a client that has nothing else on its way ([`RingError::Misuse`] otherwise).
    /// After [`ClientError::TimedOut`] the call is still on its way: collect it, or drop the client.
    pub fn call(
        &mut self,
        function: u32,
        frame: &[u8],
        into: &mut Completion,
        timeout: Duration,
    ) -> Result<(), ClientError> {
        if self.in_flight() > 0 {
            return Err(RingError::Misuse("other calls are on their way").into());
        }
        self.last_call += 1;
        self.submit(self.last_call, function, frame)?;
        let end = Instant::now() + timeout;
        while !self.collect(into)? {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(ClientError::TimedOut);
            }
            self.wait(left)?;
        }
        Ok(())
    }

    /// Calls submitted and not collected.
    pub fn in_flight(&self) -> u32 {
        self.ring.in_flight()
    }

    /// What to sleep on with [`crate::wait_any`], for a caller with more than one ring.
    pub fn bell(&self) -> Bell<'_> {
        self.ring.bell()
    }
}
