//! The way into the dispatcher thread: one bounded queue for everything, in order, with a bell.
//!
//! The order is a promise: what a caller put in before a table was swapped is looked at before what
//! the swap puts in, so a call that was named by the old table finds its function still there.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};

use mfaas_broker_protocol::FromBroker;
use mfaas_dispatch::{FunctionId, Loaded, SlabId, WorkerId};
use mfaas_ring::{Bell, HostEnd, WakeWord};
use tokio::sync::{oneshot, watch};

use super::call::{ConnectionNumber, Earlier, Reply};
use super::table::Served;
use crate::image::VerifiedImage;

/// What fits into the queue; callers beyond it are refused since the node is busy.
const INTAKE_MAX: usize = 4_096;

/// One call on its way to the scheduler.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) served: Arc<Served>,
    /// An encoded request.
    pub(crate) frame: Vec<u8>,
    /// When the caller came, in ticks.
    pub(crate) since: u64,
    /// How long the call may wait, in microseconds, if its caller has a limit of its own.
    pub(crate) wait_us_max: Option<u64>,
    pub(crate) reply: Reply,
    /// How often it ran and others had changed what it saw, and what that took.
    pub(crate) reruns: u32,
    pub(crate) earlier: Earlier,
}

/// A function that becomes known.
#[derive(Debug)]
pub(crate) struct Definition {
    pub(crate) served: Arc<Served>,
    pub(crate) image: Arc<VerifiedImage>,
    pub(crate) terms: Loaded,
    /// Hears when the image is resident, or cold because there is no room; the error is a sentence.
    pub(crate) done: oneshot::Sender<Result<(), String>>,
}

/// A worker that is locked down and waits for calls.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub(crate) id: WorkerId,
    pub(crate) slab: SlabId,
    pub(crate) ring: HostEnd,
    /// Names the process even after another one got its number.
    pub(crate) process: OwnedFd,
}

/// Every event of the dispatcher thread.
#[derive(Debug)]
pub(crate) enum Event {
    Call(Call),
    Define(Box<Definition>),
    /// No longer served: what was accepted still runs.
    Retire(FunctionId),
    /// Revoked: what did not start does not.
    Withdraw(FunctionId),
    Arrived(Box<Arrival>),
    /// The process is gone and was waited for, or never came.
    Died(WorkerId),
    Loaded {
        function: FunctionId,
        slab: SlabId,
        slot: u32,
        bytes: u64,
    },
    LoadFailed {
        function: FunctionId,
        slab: SlabId,
        reason: String,
    },
    NoRoom {
        function: FunctionId,
        slab: SlabId,
    },
    /// Traps stand in the place of what was in the slot.
    Unloaded {
        slab: SlabId,
        slot: u32,
    },
    /// The loader was replaced, and its slabs with it.
    Renewed,
    /// The bans in force are other ones now.
    HoldBans,
    /// The broker of the node says something of a call.
    Broker(FromBroker),
    /// A connection to it is over, and nothing that was asked over it is answered any more.
    BrokerLost(ConnectionNumber),
    /// Accept nothing more; report when everything is answered.
    Stop(oneshot::Sender<()>),
    /// Every worker ends now, whatever it runs.
    KillWorkers,
    /// Every worker is let go.
    Dismiss,
    /// The thread ends.
    End,
}

impl Event {
    fn is_of_broker(&self) -> bool {
        matches!(self, Self::Broker(_) | Self::BrokerLost(_))
    }
}

/// What is in the queue, or about to be. Counted before it can be read, so that no count ever falls short.
#[derive(Debug, Default)]
struct Queued {
    events: AtomicUsize,
    /// Those among them that were heard of the broker.
    of_broker: AtomicUsize,
}

impl Queued {
    fn count(&self, is_of_broker: bool) {
        self.events.fetch_add(1, Ordering::SeqCst);
        if is_of_broker {
            self.of_broker.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn discount(&self, is_of_broker: bool) {
        self.events.fetch_sub(1, Ordering::SeqCst);
        if is_of_broker {
            self.of_broker.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// The writing end. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Intake {
    queue: SyncSender<Event>,
    queued: Arc<Queued>,
    wake: Arc<WakeWord>,
    /// Closes with the reading end.
    reader: watch::Receiver<()>,
}

impl Intake {
    /// Resolves when nobody reads any more.
    pub(crate) async fn closed(&self) {
        let mut reader = self.reader.clone();
        while reader.changed().await.is_ok() {}
    }

    /// Whether there is something to read, or will be in a moment.
    pub(crate) fn has_some(&self) -> bool {
        self.queued.events.load(Ordering::SeqCst) > 0
    }

    /// The same of what was heard of the broker.
    pub(crate) fn has_of_broker(&self) -> bool {
        self.queued.of_broker.load(Ordering::SeqCst) > 0
    }

    /// What the reader sleeps on while it lets go of its end.
    pub(crate) fn bell(&self) -> Bell<'_> {
        self.wake.bell()
    }

    /// Wakes the reader.
    pub(crate) fn ring(&self) {
        self.wake.ring();
    }

    /// Offers a call; gives it back when the queue is full or nobody reads it.
    pub(crate) fn offer(&self, call: Call) -> Result<(), Call> {
        self.queued.count(false);
        let offered = self.queue.try_send(Event::Call(call));
        if offered.is_err() {
            self.queued.discount(false);
        }
        match offered {
            Ok(()) => {
                self.wake.ring();
                Ok(())
            }
            Err(
                mpsc::TrySendError::Full(Event::Call(call))
                | mpsc::TrySendError::Disconnected(Event::Call(call)),
            ) => Err(call),
            Err(_) => Ok(()),
        }
    }

    /// Sends an event that must not be lost; waits while the queue is full. Without a reader it
    /// means nothing any more.
    pub(crate) fn send(&self, event: Event) {
        let is_of_broker = event.is_of_broker();
        self.queued.count(is_of_broker);
        match self.queue.send(event) {
            Ok(()) => self.wake.ring(),
            Err(_) => self.queued.discount(is_of_broker),
        }
    }
}

/// The reading end.
#[derive(Debug)]
pub(crate) struct Outlet {
    queue: Receiver<Event>,
    queued: Arc<Queued>,
    wake: Arc<WakeWord>,
    /// Taken while looking whether there is anything.
    first: Option<Event>,
}

impl Outlet {
    pub(crate) fn next(&mut self) -> Option<Event> {
        let next = self.first.take().or_else(|| self.queue.try_recv().ok())?;
        self.queued.discount(next.is_of_broker());
        Some(next)
    }

    /// What to sleep on until there is something, and a look whether there is.
    pub(crate) fn parts(&mut self) -> (Bell<'_>, impl FnMut() -> bool + '_) {
        let Self { queue, wake, first, .. } = self;
        let look = move || {
            if first.is_none() {
                *first = queue.try_recv().ok();
            }
            first.is_some()
        };
        (wake.bell(), look)
    }
}

/// A queue with its two ends, and what shows that it is read: never sent to, its end is the news.
pub(crate) fn intake() -> (Intake, Outlet, watch::Sender<()>) {
    let (sender, queue) = mpsc::sync_channel(INTAKE_MAX);
    let (queued, wake) = (Arc::default(), Arc::new(WakeWord::new()));
    let (lives, reader) = watch::channel(());
    let intake = Intake { queue: sender, queued: Arc::clone(&queued), wake: Arc::clone(&wake), reader };
    (intake, Outlet { queue, queued, wake, first: None }, lives)
}
