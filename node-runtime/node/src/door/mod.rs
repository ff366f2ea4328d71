//! The door: programs of this machine that call functions through a ring instead of HTTP.
//!
//! It is a Unix socket that only this node's user opens, off unless configured. A client names functions, gets a ring
//! ([`mfaas_ring::door`]), and one thread turns what all clients submit into calls of the dispatcher. A name is resolved for each
//! call, so it follows its alias; answers go back in the order of submission.
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
use tokio::runtime::Handle;
use tokio::sync::watch;

pub(crate) use socket::DoorSocket;

use crate::serving::Dispatcher;
use guest::{Guest, Reply};

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
    /// A call of a guest, by its number and the call's, has its answer.
    Answered { guest: u64, call: u64, reply: Reply },
    /// The node stops.
    Stop,
}

/// Where they leave it.
#[derive(Default)]
struct Inbox {
    events: Mutex<Vec<Event>>,
    filled: AtomicBool,
    word: WakeWord,
}

impl Inbox {
    fn post(&self, event: Event) {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).push(event);
        self.filled.store(true, Ordering::Release);
        self.word.ring();
    }

    fn has_some(&self) -> bool {
        self.filled.load(Ordering::Acquire)
    }

    /// Moves what there is to `into`, which keeps its memory.
    fn take(&self, into: &mut Vec<Event>) {
        if self.filled.swap(false, Ordering::AcqRel) {
            into.append(&mut self.events.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }
}

/// Serves until `stop` turns true, then lets what is on its way finish.
pub(crate) async fn serve(
    socket: DoorSocket,
    dispatcher: Arc<Dispatcher>,
    stop: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    let inbox = Arc::new(Inbox::default());
    let hall = Hall { inbox: Arc::clone(&inbox), dispatcher, runtime: Handle::current() };
    let thread = std::thread::Builder::new()
        .name("door".to_owned())
        .spawn(move || hall.run())
        .context("starting the door's thread")?;
    socket.receive(&inbox, stop).await;
    inbox.post(Event::Stop);
    let ended = tokio::task::spawn_blocking(move || thread.join()).await;
    anyhow::ensure!(matches!(ended, Ok(Ok(()))), "the door's thread did not end well");
    Ok(())
}

/// The thread's own.
struct Hall {
    inbox: Arc<Inbox>,
    dispatcher: Arc<Dispatcher>,
    runtime: Handle,
}

impl Hall {
    fn run(self) {
        let (mut guests, mut events) = (Vec::new(), Vec::new());
        let mut looked = Instant::now();
        let mut stop_by = None;
        loop {
            self.inbox.take(&mut events);
            for event in events.drain(..) {
                match event {
                    Event::Enters(guest) => guests.push(*guest),
                    Event::Answered { guest, call, reply } => answer(&mut guests, guest, call, reply),
                    Event::Stop => stop_by = Some(Instant::now() + DRAIN_WAIT_MAX),
                }
            }
            guests.retain_mut(|guest| self.attend(guest));
            if looked.elapsed() >= LOOK {
                guests.retain(|guest| !guest.is_gone());
                metrics::gauge!("mfaas_door_clients").set(guests.len() as f64);
                looked = Instant::now();
            }
            let busy = guests.iter().any(|guest| guest.is_waiting());
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

    /// Takes what a guest submitted. `false`: it broke the protocol and is put out.
    fn attend(&self, guest: &mut Guest) -> bool {
        match guest.take_calls(&self.dispatcher, &self.runtime, &self.inbox) {
            Ok(()) => true,
            Err(error) => {
                tracing::warn!(client = guest.number(), %error, "a client of the door is put out");
                metrics::counter!("mfaas_door_violations_total").increment(1);
                false
            }
        }
    }

    /// Waits until there is something to do: looks for a while if an answer is expected, then sleeps.
    fn rest(&self, guests: &[Guest], busy: bool) -> Result<(), RingError> {
        let ready = || self.inbox.has_some() || guests.iter().any(Guest::has_call);
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

/// Hands an answer to its guest. One that left meanwhile gets none.
fn answer(guests: &mut Vec<Guest>, number: u64, call: u64, reply: Reply) {
    let Some(index) = guests.iter().position(|guest| guest.number() == number) else { return };
    if let Err(error) = guests[index].answer(call, reply) {
        tracing::warn!(client = number, %error, "a client's ring does not take an answer");
        guests.swap_remove(index);
    }
}

#[cfg(test)]
mod tests;
