//! The three protocols that everything rests on, over any atomics: the ones in shared memory, and
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
//! **Ask and tell.** The worker of a call that is not answered may ask the host for something, and wait a moment. One word says whose
//! the question is: the host takes it over before it reads it, and the worker withdraws it only if the host has not. So a
//! question is answered or withdrawn, and what it carries is never written by both.
//!
//! It must never depend on what the peer does for anything but when a wait ends.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::layout::{pack, unpack};

/// A word that both ends reach.
pub(crate) trait Word<V> {
    fn load(&self, order: Ordering) -> V;
    fn store(&self, value: V, order: Ordering);
}

/// A word that changes before somebody is woken.
pub(crate) trait Counter: Word<u32> {
    fn increment(&self, order: Ordering);
}

/// A word that both ends change.
pub(crate) trait Exchange: Word<u64> {
    /// Whether it was `from`, and is `to` now.
    fn exchange(&self, from: u64, to: u64) -> bool;
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

impl Exchange for AtomicU64 {
    fn exchange(&self, from: u64, to: u64) -> bool {
        self.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
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

/// How far a question is, in the low half of its word; the high half says how many bytes there are of it, or of what is told.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asking {
    /// There is none.
    Nothing = 0,
    /// The worker waits.
    Asked = 1,
    /// The host reads it, and tells something next.
    Taken = 2,
    /// The worker may read what it is told.
    Told = 3,
    /// There is nothing to be told.
    Declined = 4,
}

impl Asking {
    fn word(self, bytes: u32) -> u64 {
        pack(self as u32, bytes)
    }
}

/// What a worker sees that has asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Heard {
    NotYet,
    /// So many bytes.
    Told(u32),
    Declined,
}

/// Asks something of so many bytes, which are written.
pub(crate) fn ask(question: &impl Word<u64>, bytes: u32) {
    question.store(Asking::Asked.word(bytes), Ordering::Release);
}

/// Looks whether the host has said something.
pub(crate) fn hear(question: &impl Word<u64>) -> Heard {
    let (asking, bytes) = unpack(question.load(Ordering::Acquire));
    match asking {
        told if told == Asking::Told as u32 => Heard::Told(bytes),
        declined if declined == Asking::Declined as u32 => Heard::Declined,
        _ => Heard::NotYet,
    }
}

/// Withdraws a question of so many bytes; not if the host has taken it.
pub(crate) fn withdraw_question(question: &impl Exchange, bytes: u32) -> bool {
    question.exchange(Asking::Asked.word(bytes), Asking::Nothing.word(0))
}

/// The worker has read what it was told, or that it is told nothing.
pub(crate) fn forget(question: &impl Word<u64>) {
    question.store(Asking::Nothing.word(0), Ordering::Release);
}

/// How many bytes there are of a question, if there is one; it is the host's from here on.
pub(crate) fn take_question(question: &impl Exchange) -> Option<u32> {
    let word = question.load(Ordering::Relaxed);
    let (asking, bytes) = unpack(word);
    let is_asked = asking == Asking::Asked as u32;
    (is_asked && question.exchange(word, Asking::Taken.word(bytes))).then_some(bytes)
}

/// Tells the worker so many bytes, which are written; or nothing.
pub(crate) fn tell(question: &impl Word<u64>, bytes: Option<u32>) {
    let word = bytes.map_or(Asking::Declined.word(0), |bytes| Asking::Told.word(bytes));
    question.store(word, Ordering::Release);
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
