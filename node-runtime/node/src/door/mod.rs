//! The door: programs of this machine that call functions through a ring instead of HTTP.
//!
//! It is a Unix socket that only this node's user opens, off unless configured. A client names functions, gets a ring
//! ([`mfaas_ring::door`]), and one thread turns what all clients submit into calls of the dispatcher. A name is resolved for each
//! call, so it follows its alias; answers go back in the order of submission.
//!
//! Whoever opens the socket is a caller of its own, `local`: it calls what is public, and what the operator grants it by name
//! ([`DoorGrants`]). Nothing else is there for it.
//!
//! A client is as hostile as a worker: its frames are decoded before a function sees them, its ring is given up at the first
//! breach, and what it may hold is bounded ([`CLIENTS_MAX`], [`SLOTS`]). The thread must never wait for one client.

mod guest;
mod refusal;
mod socket;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use mfaas_ring::{RingError, SPIN_ROUNDS, WakeWord, wait_any};
use tokio::sync::watch;

pub(crate) use socket::DoorSocket;

use crate::grant::DoorGrants;
use crate::serving::Dispatcher;
use guest::Guest;

/// Clients at once. One more is told so and gets no ring.
const CLIENTS_MAX: usize = 16;
/// Calls of one client that are on their way. With requests and answers of a mebibyte each a client holds 34 MiB.
const SLOTS: u32 = 16;
/// How often it is looked whether clients still live.
const LOOK: Duration = Duration::from_millis(200);
/// How long the thread sleeps without any client.
const IDLE: Duration = Duration::from_secs(5);
/// Calls on their way get this long when the node stops: longer than the dispatcher gives accepted calls.
const DRAIN_WAIT_MAX: Duration = Duration::from_millis(6_500);

/// What others tell the thread.
enum Event {
    /// A client was let in.
    Enters(Box<Guest>),
    /// The node stops.
    Stop,
}

/// Where they leave it.
struct Inbox {
    /// Nothing once the thread ended: what comes then is dropped, a client with its socket.
    events: Mutex<Option<Vec<Event>>>,
    filled: AtomicBool,
    word: WakeWord,
}

impl Inbox {
    fn new() -> Self {
        let events = Mutex::new(Some(Vec::new()));
        Self { events, filled: AtomicBool::new(false), word: WakeWord::new() }
    }

    fn post(&self, event: Event) {
        if let Some(events) = &mut *self.events.lock().unwrap_or_else(PoisonError::into_inner) {
            events.push(event);
        }
        self.filled.store(true, Ordering::Release);
        self.ring();
    }

    /// Wakes the thread.
    fn ring(&self) {
        self.word.ring();
    }

    fn has_some(&self) -> bool {
        self.filled.load(Ordering::Acquire)
    }

    /// Moves what there is to `into`, which keeps its memory.
    fn take(&self, into: &mut Vec<Event>) {
        if self.filled.swap(false, Ordering::AcqRel) {
            let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
            events.iter_mut().for_each(|events| into.append(events));
        }
    }

    /// Takes nothing any more. A guest holds this inbox, so one that lay in it would keep both for ever.
    fn close(&self) {
        let last = self.events.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(last);
    }
}

/// Whom clients call, and what they may.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) dispatcher: Arc<Dispatcher>,
    pub(crate) grants: DoorGrants,
}

/// Serves until `stop` turns true, then lets what is on its way finish.
pub(crate) async fn serve(socket: DoorSocket, host: Host, stop: watch::Receiver<bool>) -> anyhow::Result<()> {
    let inbox = Arc::new(Inbox::new());
    let hall = Hall { inbox: Arc::clone(&inbox), host };
    let thread = std::thread::Builder::new()
        .name("door".to_owned())
        .spawn(move || hall.run())
        .context("starting the door's thread")?;
    let mut ended = tokio::task::spawn_blocking(move || thread.join());
    tokio::select! {
        () = socket.receive(&inbox, stop) => inbox.post(Event::Stop),
        _ = &mut ended => anyhow::bail!("the door's thread ended by itself"),
    }
    anyhow::ensure!(matches!(ended.await, Ok(Ok(()))), "the door's thread did not end well");
    Ok(())
}

/// The thread's own.
struct Hall {
    inbox: Arc<Inbox>,
    host: Host,
}

impl Hall {
    fn run(self) {
        self.serve();
        self.inbox.close();
    }

    fn serve(&self) {
        let (mut guests, mut events): (Vec<Guest>, _) = (Vec::new(), Vec::new());
        let mut looked = Instant::now();
        let mut stop_by = None;
        loop {
            self.inbox.take(&mut events);
            for event in events.drain(..) {
                match event {
                    Event::Enters(guest) => guests.push(*guest),
                    Event::Stop => stop_by = Some(Instant::now() + DRAIN_WAIT_MAX),
                }
            }
            guests.iter_mut().for_each(|guest| self.attend(guest));
            if looked.elapsed() >= LOOK {
                guests.iter_mut().for_each(Guest::look);
                metrics::gauge!("mfaas_door_clients").set(guests.len() as f64);
                looked = Instant::now();
            }
            guests.retain(|guest| !guest.has_left());
            let busy = guests.iter().any(Guest::is_waiting);
            if stop_by.is_some_and(|end| !busy || Instant::now() >= end) {
                return;
            }
            if let Err(error) = self.rest(&guests, busy) {
                // Without a wait the thread still looks, only more seldom.
                tracing::error!(%error, "the door cannot wait");
                std::thread::sleep(LOOK);
            }
        }
    }

    fn attend(&self, guest: &mut Guest) {
        if let Err(error) = guest.attend(&self.host) {
            tracing::warn!(client = guest.number(), %error, "a client of the door is put out");
            metrics::counter!("mfaas_door_violations_total").increment(1);
        }
    }

    /// Waits until there is something to do: looks for a while if an answer is expected, then sleeps.
    fn rest(&self, guests: &[Guest], busy: bool) -> Result<(), RingError> {
        let ready = || self.inbox.has_some() || guests.iter().any(Guest::wants_something);
        for _ in 0..if busy { SPIN_ROUNDS } else { 1 } {
            if ready() {
                return Ok(());
            }
            std::hint::spin_loop();
        }
        let mut bells = vec![self.inbox.word.bell()];
        bells.extend(guests.iter().map(Guest::bell));
        wait_any(&bells, if guests.is_empty() { IDLE } else { LOOK }, ready)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
