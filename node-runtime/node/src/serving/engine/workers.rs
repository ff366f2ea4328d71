//! The workers that are there, by their place, and which of them are looked at.
//!
//! Looked at is a worker that has calls or is to leave, and no other: thousands may sleep. A ring that broke its protocol
//! is never read again.

mod slot;

use std::sync::Arc;
use std::time::Duration;

use mfaas_dispatch::{JobId, WorkerId};
use mfaas_ring::clock::{Rate, ticks};
use mfaas_ring::{Bell, Completion, RingError, Submission};
use rustix::process::Signal;

use super::clock::Pace;
use crate::serving::intake::Arrival;
use crate::serving::supervisor::{Wanted, WorkerSupervisor};
use slot::WorkerSlot;

/// Workers' deadlines are looked at this often, in microseconds: the word lies on a line that the
/// worker writes with every call, and each look takes it away from there.
const WATCH_US: u64 = 2;
/// A worker that was let go has this long to leave, in microseconds.
const LEAVE_US: u64 = 2_000_000;

/// Every worker.
#[derive(Debug)]
pub(super) struct Workers {
    supervisor: Arc<WorkerSupervisor>,
    slots: Vec<Option<WorkerSlot>>,
    /// Places of those that are looked at, each once.
    active: Vec<usize>,
    /// Who comes now is let go at once: the node stops.
    is_dismissed: bool,
    rate: Rate,
    watch: Pace,
}

impl Workers {
    pub(super) fn new(supervisor: Arc<WorkerSupervisor>, rate: Rate) -> Self {
        let (slots, active, is_dismissed) = Default::default();
        Self { supervisor, slots, active, is_dismissed, rate, watch: Pace::new(rate, WATCH_US) }
    }

    /// Has a worker started; `false` if it never will be.
    pub(super) fn spawn(&self, wanted: Wanted) -> bool {
        self.supervisor.spawn(wanted)
    }

    /// A worker is ready. Calls may be submitted to it, unless the node stops.
    pub(super) fn insert(&mut self, arrival: Arrival) {
        let worker = arrival.id;
        let place = usize::from(worker.place);
        if self.slots.len() <= place {
            self.slots.resize_with(place + 1, || None);
        }
        self.slots[place] = Some(WorkerSlot::new(arrival));
        if self.is_dismissed {
            self.let_go(worker);
        }
    }

    /// Whether that life of a worker is there.
    pub(super) fn contains(&self, worker: WorkerId) -> bool {
        self.slot(worker).is_some()
    }

    /// The worker's process is gone.
    pub(super) fn remove(&mut self, worker: WorkerId) {
        if self.contains(worker) {
            let place = usize::from(worker.place);
            self.slots[place] = None;
            self.active.retain(|active| *active != place);
        }
    }

    /// Ends the process of a worker, if that life of it is not over.
    pub(super) fn kill(&self, worker: WorkerId) {
        if let Some(slot) = self.slot(worker) {
            slot.signal(Signal::KILL);
        }
    }

    /// Ends the processes of all workers.
    pub(super) fn kill_all(&self) {
        self.slots.iter().flatten().for_each(|slot| slot.signal(Signal::KILL));
    }

    /// Asks the worker to leave after its calls.
    pub(super) fn let_go(&mut self, worker: WorkerId) {
        let leave_by = ticks().saturating_add(self.rate.ticks_of_us(LEAVE_US));
        let place = usize::from(worker.place);
        if let Some(slot) = self.slots.get_mut(place).and_then(Option::as_mut) {
            slot.let_go(leave_by);
            if slot.activate() {
                self.active.push(place);
            }
        }
    }

    /// Asks all workers to leave after their calls, and those that come from now on.
    pub(super) fn dismiss(&mut self) {
        self.is_dismissed = true;
        let all: Vec<_> = self.slots.iter().flatten().map(WorkerSlot::id).collect();
        all.into_iter().for_each(|worker| self.let_go(worker));
    }

    /// Puts a call into the worker's ring at `now`, in ticks.
    #[inline]
    pub(super) fn submit(
        &mut self,
        worker: WorkerId,
        now: u64,
        submission: Submission<'_>,
    ) -> Result<(), RingError> {
        let place = usize::from(worker.place);
        let Some(slot) = self.slots.get_mut(place).and_then(Option::as_mut) else { return Ok(()) };
        if slot.activate() {
            self.active.push(place);
        }
        slot.submit(now, submission)
    }

    /// The worker at a place, and the next call that it has completed, if there is one.
    #[inline]
    pub(super) fn collect(
        &mut self,
        place: usize,
        completion: &mut Completion,
    ) -> Result<Option<WorkerId>, RingError> {
        let Some(slot) = &mut self.slots[place] else { return Ok(None) };
        Ok(slot.collect(completion)?.then(|| slot.id()))
    }

    /// The worker at a place.
    pub(super) fn at(&self, place: usize) -> Option<WorkerId> {
        self.slots.get(place)?.as_ref().map(WorkerSlot::id)
    }

    /// What the worker at a place asks for the call that it runs, if it asks something: it is to be told next.
    #[inline]
    pub(super) fn question(&mut self, place: usize, into: &mut Vec<u8>) -> Result<Option<JobId>, RingError> {
        let Some(slot) = &mut self.slots[place] else { return Ok(None) };
        slot.question(into)
    }

    /// Tells the worker at a place what it has asked; if nothing, it puts its call aside.
    pub(super) fn tell(&mut self, place: usize, told: Option<&[u8]>) {
        if let Some(slot) = &mut self.slots[place] {
            slot.tell(told);
        }
    }

    /// The ring of the worker at a place broke the protocol: it is not read again.
    pub(super) fn poison(&mut self, place: usize) -> Option<WorkerId> {
        let slot = self.slots.get_mut(place)?.as_mut()?;
        slot.poison();
        Some(slot.id())
    }

    /// The place of one of those that are looked at, from 0 on.
    #[inline]
    pub(super) fn active(&self, at: usize) -> Option<usize> {
        self.active.get(at).copied()
    }

    /// Whether that one is to be looked at again; if not, another takes its turn there.
    #[inline]
    pub(super) fn stays_active(&mut self, at: usize) -> bool {
        let stays = self.slots[self.active[at]].as_mut().is_some_and(WorkerSlot::stays_active);
        if !stays {
            self.active.swap_remove(at);
        }
        stays
    }

    /// Whether a worker has a call.
    pub(super) fn is_busy(&self) -> bool {
        self.busy().next().is_some()
    }

    /// What rings when one of the workers has completed a call.
    pub(super) fn bells(&self) -> impl Iterator<Item = Bell<'_>> {
        self.busy().map(WorkerSlot::bell)
    }

    /// Whether one of them has completed a call.
    pub(super) fn is_ready(&self) -> bool {
        self.busy().any(WorkerSlot::is_ready)
    }

    /// Signals workers whose call's wall deadline has passed, once for each deadline, and ends those
    /// that did not leave; at `now`, in ticks, if it is time for it.
    #[inline]
    pub(super) fn watch(&mut self, now: u64) {
        if self.watch.is_due(now) {
            for place in &self.active {
                if let Some(slot) = &mut self.slots[*place] {
                    slot.watch(now, self.rate);
                }
            }
        }
    }

    /// How long no worker has to be looked at from `now` on, in ticks.
    pub(super) fn next_look(&self, now: u64) -> Option<Duration> {
        let next = self.active_slots().filter_map(|slot| slot.next_look(now, self.rate)).min();
        next.map(|ticks| Duration::from_nanos(self.rate.ns_of(ticks)))
    }

    fn active_slots(&self) -> impl Iterator<Item = &WorkerSlot> {
        self.active.iter().filter_map(|place| self.slots[*place].as_ref())
    }

    fn busy(&self) -> impl Iterator<Item = &WorkerSlot> {
        self.active_slots().filter(|slot| slot.is_busy())
    }

    fn slot(&self, worker: WorkerId) -> Option<&WorkerSlot> {
        self.slots.get(usize::from(worker.place))?.as_ref().filter(|slot| slot.id() == worker)
    }
}
