//! The two protocols that everything rests on, over any atomics: the ones in shared memory, and
//! those of the model that tries every order of their steps (`tests/model.rs`).
//!
//! **Publish and consume.** A record's sequence number says whose turn it is. The writer fills the
//! record, then stores `position + 1` into it with release order; the reader polls with acquire
//! order until it reads that number. The writer of the answer's record writes it for the same
//! position, and only after that answer was consumed does the first writer use the slot again: so
//! one number in each record is enough, and no counter is shared.
//!
//! **Sleep and wake.** A sleeper announces itself, orders memory, looks once more and sleeps on the
//! value that its bell had before the look. A waker publishes, orders memory, and only when it sees a sleeper
//! changes the bell and wakes. One of the two always sees the other. The order between "publish" and
//! "is there a sleeper" costs a fence, so where it stands is the caller's choice ([`crate::barrier`]).
//!
//! It must never depend on what the peer does for anything but when a wait ends.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// A word that both ends reach.
pub(crate) trait Word<V> {
    fn load(&self, order: Ordering) -> V;
    fn store(&self, value: V, order: Ordering);
}

/// A word that changes before somebody is woken.
pub(crate) trait Counter: Word<u32> {
    fn increment(&self, order: Ordering);
}

impl Word<u64> for AtomicU64 {
    fn load(&self, order: Ordering) -> u64 {
        Self::load(self, order)
    }

    fn store(&self, value: u64, order: Ordering) {
        Self::store(self, value, order);
    }
}

impl Word<u32> for AtomicU32 {
    fn load(&self, order: Ordering) -> u32 {
        Self::load(self, order)
    }

    fn store(&self, value: u32, order: Ordering) {
        Self::store(self, value, order);
    }
}

impl Counter for AtomicU32 {
    fn increment(&self, order: Ordering) {
        // Never part of a computation; a hostile peer may set it to anything.
        self.fetch_add(1, order);
    }
}

/// What a record's sequence number says to the reader at `position`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// The record is the reader's.
    Published,
    /// The writer has not come to it yet.
    NotYet,
    /// A number that no benign writer leaves there.
    Alien,
}

/// Gives the record at `position` to the reader; everything written before is seen with it.
pub(crate) fn publish(sequence: &impl Word<u64>, position: u64) {
    sequence.store(position.wrapping_add(1), Ordering::Release);
}

/// Looks whose turn it is at `position` in a ring of `slots`.
pub(crate) fn look(sequence: &impl Word<u64>, position: u64, slots: u32) -> Turn {
    let number = sequence.load(Ordering::Acquire);
    if number == position.wrapping_add(1) {
        return Turn::Published;
    }
    let lap_before = position.wrapping_add(1).saturating_sub(u64::from(slots));
    if number == lap_before { Turn::NotYet } else { Turn::Alien }
}

/// Wakes whoever announced a sleep on `bell`. The caller has published before, and has ordered that
/// against this look where it has to.
pub(crate) fn ring<C: Counter>(bell: &C, sleeps: &impl Word<u32>, wake: impl FnOnce(&C)) -> bool {
    if sleeps.load(Ordering::Relaxed) == 0 {
        return false;
    }
    bell.increment(Ordering::Release);
    wake(bell);
    true
}

/// Says that somebody is about to sleep. Order memory after the last of them, then [`observe`] each bell, then look.
pub(crate) fn announce(sleeps: &impl Word<u32>) {
    sleeps.store(1, Ordering::Relaxed);
}

/// The value of the bell before the last look: what to sleep on.
pub(crate) fn observe(bell: &impl Counter) -> u32 {
    bell.load(Ordering::Acquire)
}

/// Says that nobody sleeps any more.
pub(crate) fn withdraw(sleeps: &impl Word<u32>) {
    sleeps.store(0, Ordering::Relaxed);
}
