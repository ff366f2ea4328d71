//! Who turns the engine: its own thread, or for a moment a caller.
//!
//! A call that finds the engine at rest is moved by the thread that brought it: it submits the call, looks for the answer for
//! a few microseconds, and nobody has to be woken for it twice. Whatever is not over by then, and whatever comes
//! meanwhile, is the dispatcher thread's. So a lock is taken on the way of every call, but nobody ever
//! waits for it on that way: who does not get it at once uses the queue.
//!
//! Must never leave something in flight, queued or due while the dispatcher thread sleeps over it.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mfaas_dispatch::JobId;
use mfaas_ring::wait_any;
use rustix::thread::set_current_timer_slack;
use tokio::sync::watch;

use super::engine::Engine;
use super::intake::{Call, Intake};

/// Misses in a row that count: after the last of them 14 calls go by the thread.
const MISSES_MAX: u32 = 4;

/// Whether callers had their answers while they looked.
#[derive(Debug, Default)]
struct Looks {
    /// How often in a row the last ones had none.
    misses: u32,
    /// Calls that go by the thread before a caller looks again.
    skipped: u32,
}

impl Looks {
    /// Whether a caller may take a call through by itself. After several misses in a row some calls go by the thread: twice
    /// as many after each further one.
    fn is_worthwhile(&mut self) -> bool {
        let worthwhile = self.skipped == 0;
        self.skipped = self.skipped.saturating_sub(1);
        worthwhile
    }

    fn record(&mut self, answered: bool) {
        if answered {
            self.misses = 0;
            return;
        }
        self.misses = (self.misses + 1).min(MISSES_MAX);
        // One alone says nothing: its worker may have been without its core for a moment.
        self.skipped = (1 << self.misses) - 2;
    }
}

/// What the lock protects.
#[derive(Debug)]
struct Turned {
    engine: Engine,
    looks: Looks,
}

/// The engine behind its lock.
#[derive(Debug)]
pub(super) struct SharedEngine {
    /// Nothing once the thread ended.
    turned: Mutex<Option<Turned>>,
    intake: Intake,
    /// A caller left something behind: the thread must look.
    left: AtomicBool,
    /// When the thread looks again by itself, in ticks. Written under the lock.
    looks_at: AtomicU64,
}

impl SharedEngine {
    /// `intake` leads into the engine.
    pub(super) fn new(engine: Engine, intake: Intake) -> Self {
        let (left, looks_at) = Default::default();
        let turned = Turned { engine, looks: Looks::default() };
        Self { turned: Mutex::new(Some(turned)), intake, left, looks_at }
    }

    /// The dispatcher thread. `lives` goes with it, whatever its end.
    pub(super) fn run(&self, lives: watch::Sender<()>) {
        let end = End { shared: self, _lives: lives };
        sharpen_sleeps();
        while let Some(timeout) = end.shared.turn_until_rest() {
            let wanted = || self.left.load(Ordering::Acquire) || self.intake.has_some();
            if let Err(error) = wait_any(&[self.intake.bell()], timeout, wanted) {
                // Nothing is lost, but without sleep it would use up a core.
                tracing::error!(%error, "the dispatcher cannot sleep");
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    /// Turns the engine until it is at rest, and says for how long; nothing when it is over.
    fn turn_until_rest(&self) -> Option<Duration> {
        // A caller that panicked in the engine left it in pieces: the thread ends, and the node with it.
        let mut held = self.turned.lock().ok()?;
        self.left.store(false, Ordering::Release);
        let engine = &mut held.as_mut()?.engine;
        let timeout = engine.run()?;
        self.looks_at.store(engine.after(timeout), Ordering::Release);
        Some(timeout)
    }

    /// The engine, if it is at rest and nothing waits for its thread.
    pub(super) fn hold(&self) -> Option<Hold<'_>> {
        if self.left.load(Ordering::Acquire) || self.intake.has_some() {
            return None;
        }
        let mut held = self.turned.try_lock().ok()?;
        held.as_mut()?.looks.is_worthwhile().then_some(Hold { shared: self, held: Some(held) })
    }
}

/// The engine in the hands of a caller.
pub(super) struct Hold<'a> {
    shared: &'a SharedEngine,
    /// Taken when it is let go of.
    held: Option<MutexGuard<'a, Option<Turned>>>,
}

impl Hold<'_> {
    /// Hands the call in; its job if it was accepted. A refusal is answered.
    pub(super) fn submit(&mut self, call: Call) -> Option<JobId> {
        self.turned()?.engine.submit_here(call)
    }

    /// Looks for the answer for a moment.
    pub(super) fn look(mut self, job: Option<JobId>) {
        if let Some((Turned { engine, looks }, job)) = self.turned().zip(job) {
            looks.record(engine.look_for(job));
        }
    }

    fn turned(&mut self) -> Option<&mut Turned> {
        self.held.as_mut()?.as_mut()
    }
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        let looks_at = self.shared.looks_at.load(Ordering::Acquire);
        let rests = self.turned().is_some_and(|turned| turned.engine.rests_until(looks_at));
        let leaves = !rests || std::thread::panicking();
        if leaves {
            // Before the lock is given back: from here on no caller takes it before the thread did.
            self.shared.left.store(true, Ordering::Release);
        }
        drop(self.held.take());
        // What came while this held the engine rang for itself.
        if leaves {
            self.shared.intake.ring();
        }
    }
}

/// Lets go of the engine with the thread, and of every ticket in it: its callers hear that it is gone.
struct End<'a> {
    shared: &'a SharedEngine,
    _lives: watch::Sender<()>,
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        let turned = self.shared.turned.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(turned);
    }
}

/// Lets this thread's sleeps end on time: the kernel may otherwise let them last 50 µs longer, to save wake-ups.
fn sharpen_sleeps() {
    if let Err(error) = set_current_timer_slack(NonZeroU64::new(1)) {
        tracing::warn!(%error, "deadlines are looked at a little late");
    }
}

#[cfg(test)]
mod tests;
