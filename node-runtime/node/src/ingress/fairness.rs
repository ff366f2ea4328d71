//! Who runs next on a thread that speaks HTTP: fair queueing of processor time between peers.
//!
//! A runtime polls what is ready in the order in which it became ready, so a peer with many connections, each with a large
//! body, would be served many times before somebody with one. Here each peer has a [`Lane`] on each thread, which is charged
//! for the time that its connections take. A peer within its share is polled at once. One that is over it, while others have
//! connections too, queues: lanes take turns, a quantum of time each, and after each turn the runtime looks at what else is
//! ready. So who takes little waits for one turn of each other peer at most, and no time is left unused.
//!
//! Must never let a connection wait while nothing else runs, nor forget one that waits.

use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

use mfaas_ident::PeerKey;
use mfaas_ring::clock::{Rate, ticks};
use tokio::sync::Notify;

/// What a peer may use at once before it queues, in microseconds.
const BURST_US: u64 = 500;
/// Of the time that passes, a peer is given this part without queueing, whatever others do.
const SHARE_OF_TIME: u64 = 4;
/// What a peer owes at most, in bursts: so much later it is like any other again.
const DEBT_BURSTS_MAX: u64 = 16;
/// What a lane may use in one turn, in microseconds; one poll at least.
const QUANTUM_US: u64 = 100;
/// Polls of one turn, however short they are.
const POLLS_PER_TURN_MAX: u64 = 64;
/// A new figure's part in the mean cost of a poll.
const MEAN_OVER: u64 = 8;

/// The lanes of one thread.
#[derive(Debug)]
pub(super) struct Lanes {
    state: Mutex<State>,
    /// How many peers have a lane.
    peers: AtomicUsize,
    /// Somebody waits.
    wanted: Notify,
    /// In ticks.
    burst: u64,
    quantum: u64,
}

#[derive(Debug, Default)]
struct State {
    lanes: HashMap<PeerKey, Weak<Lane>>,
    /// Those on which somebody waits, the next one first.
    order: VecDeque<Arc<Lane>>,
}

/// One peer on one thread.
#[derive(Debug)]
pub(super) struct Lane {
    key: PeerKey,
    lanes: Arc<Lanes>,
    /// What it used beyond its share, in ticks, and up to when that was reckoned. Only the lane's own thread writes.
    owed: AtomicU64,
    reckoned: AtomicU64,
    /// The mean of what a poll takes, in ticks.
    cost: AtomicU64,
    /// In the order of their coming.
    waiting: Mutex<VecDeque<Arc<Waiter>>>,
}

/// A connection that waits for its turn.
#[derive(Debug)]
struct Waiter {
    is_called: AtomicBool,
    waker: Mutex<Waker>,
}

impl Default for Lanes {
    fn default() -> Self {
        let rate = Rate::measured();
        let (burst, quantum) = (rate.ticks_of_us(BURST_US), rate.ticks_of_us(QUANTUM_US));
        let (state, peers, wanted) = Default::default();
        Self { state, peers, wanted, burst, quantum }
    }
}

impl Lanes {
    /// The lane of that peer, which others of its connections may be on.
    pub(super) fn of(self: &Arc<Self>, key: PeerKey) -> Arc<Lane> {
        let mut state = self.lock();
        if let Some(lane) = state.lanes.get(&key).and_then(Weak::upgrade) {
            return lane;
        }
        let (owed, cost, waiting) = Default::default();
        let (lanes, reckoned) = (Arc::clone(self), AtomicU64::new(ticks()));
        let lane = Arc::new(Lane { key, lanes, owed, reckoned, cost, waiting });
        state.lanes.insert(key, Arc::downgrade(&lane));
        self.peers.store(state.lanes.len(), Ordering::Relaxed);
        lane
    }

    /// Calls those who wait, turn by turn, for ever. Runs on the thread that the lanes belong to.
    pub(super) async fn take_turns(&self) {
        loop {
            self.wanted.notified().await;
            while self.next_turn() {
                // The runtime comes back when it has looked at everything else that is ready.
                tokio::task::yield_now().await;
            }
        }
    }

    /// Lets the next lane run. False when nobody waits.
    fn next_turn(&self) -> bool {
        // Not held any longer: whoever drops the last of a lane takes it.
        let next = self.lock().order.pop_front();
        let Some(lane) = next else { return false };
        let polls = (self.quantum / lane.cost.load(Ordering::Relaxed).max(1)).clamp(1, POLLS_PER_TURN_MAX);
        let mut waiting = lane.waiting();
        for _ in 0..polls {
            let Some(waiter) = waiting.pop_front() else { break };
            waiter.call();
        }
        let more = !waiting.is_empty();
        drop(waiting);
        if more {
            self.lock().order.push_back(lane);
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lane {
    /// `future`, polled when it is this lane's turn.
    pub(super) async fn queued<F: Future>(self: Arc<Self>, future: F) -> F::Output {
        let mut future = pin!(future);
        let mut waiter = None;
        poll_fn(|context| self.poll(&mut waiter, future.as_mut(), context)).await
    }

    fn poll<F: Future>(
        self: &Arc<Self>,
        waiter: &mut Option<Arc<Waiter>>,
        future: Pin<&mut F>,
        context: &mut Context<'_>,
    ) -> Poll<F::Output> {
        let began = ticks();
        match waiter {
            Some(waits) if waits.waits_on(context.waker()) => return Poll::Pending,
            Some(_) => *waiter = None,
            None if self.must_queue(began) => {
                *waiter = Some(self.queue_up(context.waker()));
                return Poll::Pending;
            }
            None => {}
        }
        let polled = future.poll(context);
        self.charge(began, ticks());
        polled
    }

    fn must_queue(&self, now: u64) -> bool {
        self.lanes.peers.load(Ordering::Relaxed) > 1 && self.owed_at(now) > self.lanes.burst
    }

    fn owed_at(&self, now: u64) -> u64 {
        let passed = now.saturating_sub(self.reckoned.load(Ordering::Relaxed));
        self.owed.load(Ordering::Relaxed).saturating_sub(passed / SHARE_OF_TIME)
    }

    fn charge(&self, began: u64, ended: u64) {
        let used = ended.saturating_sub(began);
        let owed = self.owed_at(ended).saturating_add(used).min(self.lanes.burst * DEBT_BURSTS_MAX);
        self.owed.store(owed, Ordering::Relaxed);
        self.reckoned.store(ended, Ordering::Relaxed);
        let mean = self.cost.load(Ordering::Relaxed);
        self.cost.store((mean * (MEAN_OVER - 1) + used) / MEAN_OVER, Ordering::Relaxed);
    }

    fn queue_up(self: &Arc<Self>, waker: &Waker) -> Arc<Waiter> {
        let waiter = Arc::new(Waiter { is_called: AtomicBool::new(false), waker: Mutex::new(waker.clone()) });
        let mut waiting = self.waiting();
        waiting.push_back(Arc::clone(&waiter));
        if waiting.len() == 1 {
            drop(waiting);
            self.lanes.lock().order.push_back(Arc::clone(self));
        }
        self.lanes.wanted.notify_one();
        waiter
    }

    fn waiting(&self) -> MutexGuard<'_, VecDeque<Arc<Waiter>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        let mut state = self.lanes.lock();
        // Another one of the same peer may have begun meanwhile.
        if state.lanes.get(&self.key).is_some_and(|lane| lane.strong_count() == 0) {
            state.lanes.remove(&self.key);
        }
        self.lanes.peers.store(state.lanes.len(), Ordering::Relaxed);
    }
}

impl Waiter {
    fn call(&self) {
        self.is_called.store(true, Ordering::Release);
        self.waker.lock().unwrap_or_else(PoisonError::into_inner).wake_by_ref();
    }

    /// Whether its turn has not come; then it is woken.
    fn waits_on(&self, waker: &Waker) -> bool {
        self.waker.lock().unwrap_or_else(PoisonError::into_inner).clone_from(waker);
        !self.is_called.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests;
