//! The way into the dispatcher thread: one bounded queue for everything, in order, with a bell.
//!
//! The order is a promise: what a caller put in before a table was swapped is looked at before what
//! the swap puts in, so a call that was named by the old table finds its function still there.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, SyncSender};

use mfaas_dispatch::{CordonId, FunctionId, Loaded, SlabId, WorkerId};
use mfaas_ring::{Bell, HostEnd, WakeWord};
use tokio::sync::{oneshot, watch};

use super::dispatcher::{Answered, CallError};
use super::table::Served;
use crate::agent::VerifiedImage;

/// What fits into the queue; callers beyond it are told that the node is busy.
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
    pub(crate) reply: oneshot::Sender<Result<Answered, CallError>>,
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
    pub(crate) cordon: CordonId,
    pub(crate) slab: SlabId,
    pub(crate) ring: HostEnd,
    /// Names the process even after another one got its number.
    pub(crate) process: OwnedFd,
}

/// Everything that the dispatcher thread hears.
#[derive(Debug)]
pub(crate) enum Event {
    Call(Call),
    Define(Box<Definition>),
    /// No longer served: what was accepted still runs.
    Retire(FunctionId),
    /// Revoked: what did not start does not.
    Withdraw(FunctionId),
    Arrived(Box<Arrival>),
    /// The process is gone and was waited for.
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
    /// The loader was replaced, and its slab with it.
    Renewed(SlabId),
    /// The bans in force are other ones now.
    HoldBans,
    /// Accept nothing more; say when everything is answered.
    Stop(oneshot::Sender<()>),
    /// Every worker ends now, whatever it runs.
    KillWorkers,
    /// Every worker is let go.
    Dismiss,
    /// The thread ends.
    End,
}

/// The writing end. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Intake {
    queue: SyncSender<Event>,
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

    /// Offers a call; gives it back when the queue is full or nobody reads it.
    pub(crate) fn offer(&self, call: Call) -> Result<(), Call> {
        match self.queue.try_send(Event::Call(call)) {
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

    /// Says something that must not be lost; waits while the queue is full. Without a reader it
    /// means nothing any more.
    pub(crate) fn say(&self, event: Event) {
        if self.queue.send(event).is_ok() {
            self.wake.ring();
        }
    }
}

/// The reading end.
#[derive(Debug)]
pub(crate) struct Outlet {
    queue: Receiver<Event>,
    wake: Arc<WakeWord>,
    /// Taken while looking whether there is anything.
    first: Option<Event>,
    /// Never sent to: its end is the news.
    _lives: watch::Sender<()>,
}

impl Outlet {
    pub(crate) fn next(&mut self) -> Option<Event> {
        self.first.take().or_else(|| self.queue.try_recv().ok())
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

/// A queue with its two ends.
pub(crate) fn intake() -> (Intake, Outlet) {
    let (sender, queue) = mpsc::sync_channel(INTAKE_MAX);
    let wake = Arc::new(WakeWord::new());
    let (lives, reader) = watch::channel(());
    (
        Intake { queue: sender, wake: Arc::clone(&wake), reader },
        Outlet { queue, wake, first: None, _lives: lives },
    )
}
