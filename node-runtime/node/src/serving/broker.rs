//! The way to the broker of this node: one connection for each engine, kept up by a thread of its own.
//!
//! The engine never waits for it. What it asks it writes itself, and what has no room at once is queued, within a bound, for a thread
//! that waits. What comes back it reads itself while it looks ([`incoming`]), else it comes by the engine's queue. All that was
//! asked over a connection is over with it: the engine hears that as well. Must never send over one connection what was
//! meant for another: the broker would know nothing of the calls.

mod incoming;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io::{self, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mfaas_broker_protocol::{
    FromBroker, HEAD_BYTES, Hello, PROTOCOL, ProtocolError, ToBroker, decode, encode, message_bytes,
};
use mfaas_ident::TenantName;
use mfaas_ring::clock::ticks;
use rustix::net::{SendFlags, send};
use serde::de::DeserializeOwned;

use super::call::ConnectionNumber;
use super::intake::{Event, Intake};
use incoming::Incoming;

/// What waits to be written, of all tenants and of one, in bytes; the next operations are refused.
const QUEUED_BYTES_MAX: usize = 64 << 20;
const TENANT_QUEUED_BYTES_MAX: usize = QUEUED_BYTES_MAX / 4;
/// Tenants that are remembered before it is looked of whom nothing waits.
const REMEMBERED_TENANTS: usize = 1_024;
/// Written at once, in bytes, unless there is less.
const WRITTEN_BYTES: usize = 64 << 10;
/// How often it is looked whether the connection still is one, and how long is waited before there is another.
const LOOK: Duration = Duration::from_millis(100);
/// The same where the broker is of another release: nothing changes soon.
const OTHER_PROTOCOL_PAUSE: Duration = Duration::from_secs(5);
/// How long a broker may take to say hello, or to read what is written.
const EXCHANGE_MAX: Duration = Duration::from_secs(10);

/// There is no connection, or too much waits for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Away;

/// What is to be written, and over which connection; over the next one if it is 0.
#[derive(Debug)]
struct Outgoing {
    connection: ConnectionNumber,
    frame: Vec<u8>,
    /// What waits of its tenant.
    of_tenant: Arc<AtomicUsize>,
}

/// What the engine and the threads share.
#[derive(Debug, Default)]
struct State {
    /// The connection; 0 if there is none.
    connection: AtomicU64,
    /// Where the engine writes and reads.
    open: Mutex<Option<Open>>,
    /// Frames that are queued, or in the hands of the thread that writes: until all of them are written nobody else writes.
    unwritten: AtomicUsize,
    queued_bytes: AtomicUsize,
}

/// A connection in the hands of the engine.
#[derive(Debug)]
struct Open {
    number: ConnectionNumber,
    writer: UnixStream,
    incoming: Arc<Incoming>,
}

impl State {
    /// Writes as much as there is room for, if nothing has to be written before: how many bytes.
    fn write_at_once(&self, connection: ConnectionNumber, frame: &[u8]) -> usize {
        if self.unwritten.load(Ordering::Acquire) > 0 {
            return 0;
        }
        match &*self.open() {
            Some(Open { number, writer, .. }) if *number == connection => {
                // Where the connection is over its reader says so.
                send(writer, frame, SendFlags::DONTWAIT | SendFlags::NOSIGNAL).unwrap_or(0)
            }
            Some(_) | None => 0,
        }
    }

    /// So many frames are written, or never will be.
    fn done_with(&self, frames: usize) {
        self.unwritten.fetch_sub(frames, Ordering::Release);
    }

    fn open(&self) -> MutexGuard<'_, Option<Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The engine's end. The thread ends with it.
#[derive(Debug)]
pub(super) struct BrokerLink {
    state: Arc<State>,
    /// Nothing where the node has no broker.
    queue: Option<Sender<Outgoing>>,
    intake: Intake,
    /// What waits of whom, in bytes.
    tenants: RefCell<HashMap<TenantName, Arc<AtomicUsize>>>,
    /// When something was asked last that is answered, in ticks.
    asked_at: Cell<u64>,
}

impl BrokerLink {
    /// Begins to connect. What comes is told to `intake`.
    pub(super) fn start(socket: Option<&Path>, intake: Intake) -> io::Result<Self> {
        let state = Arc::<State>::default();
        let tenants = RefCell::default();
        let mut this = Self { state, queue: None, intake, tenants, asked_at: Cell::default() };
        let Some(socket) = socket else { return Ok(this) };
        let (queue, outgoing) = mpsc::channel();
        let (state, intake) = (Arc::clone(&this.state), this.intake.clone());
        let link = Link { socket: socket.to_owned(), state, intake, outgoing };
        std::thread::Builder::new().name("broker-link".to_owned()).spawn(move || link.run())?;
        this.queue = Some(queue);
        Ok(this)
    }

    /// The connection there is.
    pub(super) fn connection(&self) -> Option<ConnectionNumber> {
        Some(self.state.connection.load(Ordering::Acquire)).filter(|connection| *connection != 0)
    }

    /// Sends over that connection, if it still is one and not too much waits, of this tenant or of all. What ends a call is always sent:
    /// there is one for each.
    pub(super) fn send(
        &self,
        connection: ConnectionNumber,
        tenant: &TenantName,
        message: &ToBroker,
    ) -> Result<(), Away> {
        let is_end = matches!(message, ToBroker::Commit { .. } | ToBroker::Forget { .. });
        let of_tenant = self.queued_of(tenant);
        let is_full = self.state.queued_bytes.load(Ordering::Relaxed) > QUEUED_BYTES_MAX
            || of_tenant.load(Ordering::Relaxed) > TENANT_QUEUED_BYTES_MAX;
        if self.connection() != Some(connection) || (is_full && !is_end) {
            return Err(Away);
        }
        self.queue(connection, of_tenant, message)
    }

    /// Sends over the next connection there is.
    pub(super) fn send_when_connected(&self, tenant: &TenantName, message: &ToBroker) -> Result<(), Away> {
        self.queue(0, self.queued_of(tenant), message)
    }

    /// When something was asked last, in ticks.
    pub(super) fn asked_at(&self) -> u64 {
        self.asked_at.get()
    }

    /// The next thing that the broker says, for an engine that looks.
    pub(super) fn next(&self) -> Option<FromBroker> {
        self.state.open().as_ref()?.incoming.next(&self.intake)
    }

    /// Whether the engine hears of what comes though it does not look.
    pub(super) fn is_watched(&self) -> bool {
        self.state.open().as_ref().is_none_or(|open| open.incoming.is_watched())
    }

    /// The engine looks no longer. `false` where it must.
    pub(super) fn watch(&self) -> bool {
        self.state.open().as_ref().is_none_or(|open| open.incoming.watch())
    }

    fn queue(
        &self,
        connection: ConnectionNumber,
        of_tenant: Arc<AtomicUsize>,
        message: &ToBroker,
    ) -> Result<(), Away> {
        let queue = self.queue.as_ref().ok_or(Away)?;
        let mut frame = encode(message).map_err(|_| Away)?;
        if is_answered(message) {
            self.asked_at.set(ticks());
        }
        if connection != 0 {
            let written = self.state.write_at_once(connection, &frame);
            frame.drain(..written);
            if frame.is_empty() {
                return Ok(());
            }
        }
        self.state.unwritten.fetch_add(1, Ordering::Relaxed);
        self.state.queued_bytes.fetch_add(frame.len(), Ordering::Relaxed);
        of_tenant.fetch_add(frame.len(), Ordering::Relaxed);
        queue.send(Outgoing { connection, frame, of_tenant }).map_err(|_| Away)
    }

    /// What waits of a tenant.
    fn queued_of(&self, tenant: &TenantName) -> Arc<AtomicUsize> {
        let mut tenants = self.tenants.borrow_mut();
        if let Some(queued) = tenants.get(tenant) {
            return Arc::clone(queued);
        }
        if tenants.len() >= REMEMBERED_TENANTS {
            tenants.retain(|_, queued| queued.load(Ordering::Relaxed) > 0);
        }
        Arc::clone(tenants.entry(tenant.clone()).or_default())
    }
}

/// Whether the broker says something of it.
fn is_answered(message: &ToBroker) -> bool {
    match message {
        ToBroker::Operate { .. } | ToBroker::Commit { .. } | ToBroker::Settle { .. } => true,
        ToBroker::Begin { .. } | ToBroker::Forget { .. } => false,
    }
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
enum LinkError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    #[error("it speaks protocol {0}, this node {PROTOCOL}: update the older of the two")]
    OtherProtocol(u32),
}

/// The engine is gone.
struct Over;

/// What the thread has.
struct Link {
    socket: PathBuf,
    state: Arc<State>,
    intake: Intake,
    outgoing: Receiver<Outgoing>,
}

impl Link {
    fn run(self) {
        let (mut last, mut waiting, mut is_told) = (0, Vec::new(), false);
        loop {
            let pause = match self.connect() {
                Ok(stream) => {
                    last += 1;
                    is_told = false;
                    tracing::info!(socket = %self.socket.display(), "connected to the broker");
                    if self.serve(last, &stream, &mut waiting).is_err() {
                        return;
                    }
                    LOOK
                }
                Err(error) => {
                    // Once, until there is news.
                    if !std::mem::replace(&mut is_told, true) {
                        tracing::warn!(socket = %self.socket.display(), %error, "the broker cannot be reached; functions reach no data");
                    }
                    if matches!(error, LinkError::OtherProtocol(_)) { OTHER_PROTOCOL_PAUSE } else { LOOK }
                }
            };
            match self.outgoing.recv_timeout(pause) {
                Ok(outgoing) => self.state.done_with(usize::from(!self.keep(outgoing, &mut waiting))),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn connect(&self) -> Result<UnixStream, LinkError> {
        let mut stream = UnixStream::connect(&self.socket)?;
        stream.set_write_timeout(Some(EXCHANGE_MAX))?;
        stream.set_read_timeout(Some(EXCHANGE_MAX))?;
        stream.write_all(&encode(&Hello { protocol: PROTOCOL })?)?;
        let Hello { protocol } = read(&mut stream)?;
        if protocol != PROTOCOL {
            return Err(LinkError::OtherProtocol(protocol));
        }
        stream.set_read_timeout(None)?;
        Ok(stream)
    }

    /// Writes and reads until the connection ends.
    fn serve(
        &self,
        number: ConnectionNumber,
        stream: &UnixStream,
        waiting: &mut Vec<Vec<u8>>,
    ) -> Result<(), Over> {
        let reader = stream.try_clone().and_then(|writer| {
            let (state, intake) = (Arc::clone(&self.state), self.intake.clone());
            let incoming = Arc::new(Incoming::new(stream.try_clone()?)?);
            *self.state.open() = Some(Open { number, writer, incoming: Arc::clone(&incoming) });
            self.state.connection.store(number, Ordering::Release);
            let name = "broker-reader".to_owned();
            std::thread::Builder::new().name(name).spawn(move || read_all(number, &incoming, &state, &intake))
        });
        let written = match &reader {
            Ok(_) => self.write_all(number, stream, waiting),
            Err(error) => {
                tracing::error!(%error, "the broker cannot be listened to");
                self.state.connection.store(0, Ordering::Release);
                // Something may have been sent already.
                self.intake.send(Event::BrokerLost(number));
                Ok(())
            }
        };
        *self.state.open() = None;
        // The reader hears of it, and tells the engine.
        let _ = stream.shutdown(Shutdown::Both);
        if let Ok(reader) = reader {
            let _ = reader.join();
        }
        written
    }

    /// Writes until the connection ends. What is meant for whichever connection there is, and may not have been written, waits for
    /// the next one.
    fn write_all(
        &self,
        number: ConnectionNumber,
        mut stream: &UnixStream,
        waiting: &mut Vec<Vec<u8>>,
    ) -> Result<(), Over> {
        let (mut frames, mut taken) = (waiting.concat(), waiting.len());
        while self.state.connection.load(Ordering::Acquire) == number {
            if !frames.is_empty() && stream.write_all(&frames).is_err() {
                break;
            }
            self.state.done_with(std::mem::take(&mut taken));
            frames.clear();
            waiting.clear();
            let mut next = self.outgoing.recv_timeout(LOOK);
            loop {
                let outgoing = match next {
                    Ok(outgoing) => outgoing,
                    Err(RecvTimeoutError::Timeout) => break,
                    Err(RecvTimeoutError::Disconnected) => return Err(Over),
                };
                // What was meant for an earlier connection means nothing any more.
                if outgoing.connection == number || outgoing.connection == 0 {
                    frames.extend_from_slice(&outgoing.frame);
                }
                self.keep(outgoing, waiting);
                taken += 1;
                if frames.len() >= WRITTEN_BYTES {
                    break;
                }
                next = self.outgoing.recv_timeout(Duration::ZERO);
            }
        }
        self.state.done_with(taken - waiting.len());
        Ok(())
    }

    /// What is meant for whichever connection there is waits, until it is known to be written; whether it is.
    fn keep(&self, outgoing: Outgoing, waiting: &mut Vec<Vec<u8>>) -> bool {
        self.state.queued_bytes.fetch_sub(outgoing.frame.len(), Ordering::Relaxed);
        outgoing.of_tenant.fetch_sub(outgoing.frame.len(), Ordering::Relaxed);
        let waits = outgoing.connection == 0;
        if waits {
            waiting.push(outgoing.frame);
        }
        waits
    }
}

/// Tells the engine what comes, and then that nothing more does.
fn read_all(number: ConnectionNumber, incoming: &Incoming, state: &State, intake: &Intake) {
    incoming.tell_all(intake, |error| {
        tracing::warn!(%error, "the connection to the broker ended");
        // First: nothing is sent over it any more that would not be told of.
        let _ = state.connection.compare_exchange(number, 0, Ordering::AcqRel, Ordering::Acquire);
        intake.send(Event::BrokerLost(number));
    });
}

fn read<M: DeserializeOwned>(reader: &mut impl io::Read) -> Result<M, LinkError> {
    let mut head = [0; HEAD_BYTES];
    reader.read_exact(&mut head)?;
    let mut message = vec![0; message_bytes(head)?];
    reader.read_exact(&mut message)?;
    Ok(decode(&message)?)
}

#[cfg(test)]
mod tests;
