//! Events on their way to the thread of the local API.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use mfaas_ring::WakeWord;

use super::client::Client;

/// Events of the thread.
pub(super) enum Event {
    /// A client was let in.
    Enters(Box<Client>),
    /// The node stops.
    Stop,
}

/// Its events, until it takes them.
pub(super) struct Inbox {
    /// Nothing once the thread ended: what comes then is dropped, a client with its socket.
    events: Mutex<Option<Vec<Event>>>,
    filled: AtomicBool,
    pub(super) word: Arc<WakeWord>,
}

impl Inbox {
    pub(super) fn new() -> Self {
        let events = Mutex::new(Some(Vec::new()));
        Self { events, filled: AtomicBool::new(false), word: Arc::new(WakeWord::new()) }
    }

    pub(super) fn post(&self, event: Event) {
        if let Some(events) = &mut *self.events.lock().unwrap_or_else(PoisonError::into_inner) {
            events.push(event);
        }
        self.filled.store(true, Ordering::Release);
        self.ring();
    }

    /// Wakes the thread.
    pub(super) fn ring(&self) {
        self.word.ring();
    }

    pub(super) fn has_some(&self) -> bool {
        self.filled.load(Ordering::Acquire)
    }

    /// Moves what there is to `into`, which keeps its memory.
    pub(super) fn take(&self, into: &mut Vec<Event>) {
        if self.filled.swap(false, Ordering::AcqRel) {
            let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
            events.iter_mut().for_each(|events| into.append(events));
        }
    }

    /// Takes nothing any more. A client that lies in it still goes with its socket.
    pub(super) fn close(&self) {
        let last = self.events.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(last);
    }
}
