//! What comes over a connection to the broker: read by a thread that sleeps until there is something, or by the engine while it
//! looks.
//!
//! What the thread hears of wakes two, itself and then the engine. So an engine that has asked for something reads for itself as long as
//! it looks, and nothing that comes wakes the thread meanwhile. Must never be left so by an engine that looks no longer: it says so
//! ([`Incoming::watch`]) before it rests.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use mfaas_broker_protocol::{FromBroker, HEAD_BYTES, ProtocolError, decode, message_bytes};
use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use crate::serving::intake::{Event, Intake};

/// Read at once, in bytes.
const READ_BYTES: usize = 64 << 10;

/// Why nothing more comes.
#[derive(Debug, thiserror::Error)]
pub(super) enum IncomingError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
}

/// The reading end of a connection.
#[derive(Debug)]
pub(super) struct Incoming {
    /// What the thread sleeps on.
    epoll: OwnedFd,
    reading: Mutex<Reading>,
    /// What comes wakes the thread.
    is_watched: AtomicBool,
}

#[derive(Debug)]
struct Reading {
    stream: UnixStream,
    /// Where it is read to.
    buffer: Box<[u8]>,
    /// What was read and is no whole message yet, from `told` on.
    bytes: Vec<u8>,
    told: usize,
}

impl Incoming {
    pub(super) fn new(stream: UnixStream) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &stream, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
        let reading =
            Mutex::new(Reading { stream, buffer: vec![0; READ_BYTES].into(), bytes: Vec::new(), told: 0 });
        Ok(Self { epoll, reading, is_watched: AtomicBool::new(true) })
    }

    /// The next message for an engine that looks, if one has come. What the thread has told comes first.
    pub(super) fn next(&self, told: &Intake) -> Option<FromBroker> {
        let mut reading = self.try_lock()?;
        if told.has_of_broker() {
            return None;
        }
        if self.is_watched.load(Ordering::Relaxed) {
            // Before it is marked: where this fails the thread goes on hearing of everything.
            set_interest(&self.epoll, &reading.stream, epoll::EventFlags::empty()).ok()?;
            self.is_watched.store(false, Ordering::Relaxed);
        }
        // What is wrong the thread meets as well: it is woken when the connection is over.
        reading.next().unwrap_or_else(|_| {
            reading.end();
            None
        })
    }

    /// Whether what comes wakes the thread.
    pub(super) fn is_watched(&self) -> bool {
        self.is_watched.load(Ordering::Relaxed)
    }

    /// From now on what comes wakes the thread, and what has come. `false`, and nothing is changed, where the engine has something to
    /// take: it has read it, or the thread tells it.
    pub(super) fn watch(&self) -> bool {
        if self.is_watched() {
            return true;
        }
        // The thread holds it while it waits for room in the intake, which the engine makes.
        let Some(reading) = self.try_lock() else { return false };
        if reading.has_whole() {
            return false;
        }
        self.is_watched.store(true, Ordering::Relaxed);
        if let Err(error) = set_interest(&self.epoll, &reading.stream, epoll::EventFlags::IN) {
            tracing::error!(%error, "the broker cannot be listened to");
            reading.end();
        }
        true
    }

    /// The thread: tells everything that comes, until nothing more does, and then `over`.
    pub(super) fn tell_all(&self, to: &Intake, over: impl FnOnce(IncomingError)) {
        let mut events = [const { std::mem::MaybeUninit::uninit() }; 1];
        loop {
            if let Err(errno) = epoll::wait(&self.epoll, &mut events, None).map(drop)
                && errno != Errno::INTR
            {
                return over(io::Error::from(errno).into());
            }
            let mut reading = self.lock();
            loop {
                match reading.next() {
                    Ok(Some(message)) => to.send(Event::Broker(message)),
                    Ok(None) => break,
                    Err(error) => return over(error),
                }
            }
        }
    }
}

impl Incoming {
    fn lock(&self) -> MutexGuard<'_, Reading> {
        self.reading.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nothing while the other one has it.
    fn try_lock(&self) -> Option<MutexGuard<'_, Reading>> {
        match self.reading.try_lock() {
            Ok(reading) => Some(reading),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

impl Reading {
    /// The next whole message, if it has come.
    fn next(&mut self) -> Result<Option<FromBroker>, IncomingError> {
        loop {
            if let Some(message) = self.whole()? {
                return Ok(Some(message));
            }
            if !self.receive()? {
                return Ok(None);
            }
        }
    }

    /// The first message of what was read, if it is whole.
    fn whole(&mut self) -> Result<Option<FromBroker>, IncomingError> {
        let unread = &self.bytes[self.told..];
        let Some(head) = unread.first_chunk::<HEAD_BYTES>() else { return Ok(None) };
        let end = HEAD_BYTES + message_bytes(*head)?;
        let Some(message) = unread.get(HEAD_BYTES..end) else { return Ok(None) };
        let message = decode(message)?;
        self.told += end;
        Ok(Some(message))
    }

    /// Whether a whole message was read, or something that is none.
    fn has_whole(&self) -> bool {
        let unread = &self.bytes[self.told..];
        let head = unread.first_chunk::<HEAD_BYTES>();
        head.is_some_and(|head| message_bytes(*head).map_or(true, |bytes| unread.len() - HEAD_BYTES >= bytes))
    }

    /// Reads what there is, without waiting; whether there was something.
    fn receive(&mut self) -> Result<bool, IncomingError> {
        match recv(&self.stream, &mut self.buffer[..], RecvFlags::DONTWAIT) {
            Ok((0, _)) => Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            Ok((bytes, _)) => {
                self.bytes.drain(..std::mem::take(&mut self.told));
                self.bytes.extend_from_slice(&self.buffer[..bytes]);
                Ok(true)
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(false),
            Err(errno) => Err(io::Error::from(errno).into()),
        }
    }

    /// The connection is over, which wakes the thread.
    fn end(&self) {
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }
}

fn set_interest(epoll: &OwnedFd, stream: &UnixStream, interest: epoll::EventFlags) -> Result<(), Errno> {
    epoll::modify(epoll, stream, epoll::EventData::new_u64(0), interest)
}

#[cfg(test)]
mod tests;
