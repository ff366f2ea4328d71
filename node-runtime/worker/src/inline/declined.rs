//! What the node has declined to answer where a call is: it is asked that more and more rarely, for each question in vain keeps
//! the call from being put aside.
//!
//! Nothing but time depends on it. What a question asks for is told apart roughly, so that a call's own bytes are not kept.

use mfaas_abi::{OperationKind, Records, split_binding};

/// Kinds of questions that are remembered.
const PLACES: usize = 64;
/// Of so many of a kind that is always declined one is asked.
const ASKED_OF_MAX: u8 = 16;

/// What a call asks for, as far as it is told apart.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Kind {
    /// Of the image that asks.
    slot: u32,
    /// How many operations, and of which kind the first is.
    operations: u32,
    first: u32,
    binding: u32,
    /// What it asks of the binding: the first byte of an operation on data.
    operation: u8,
}

impl Kind {
    /// Of the operations that the image in `slot` has begun.
    pub(super) fn of(slot: u32, asked: Records<'_>) -> Self {
        let operations = { asked }.count() as u32;
        let Some(record) = { asked }.next() else { return Self { slot, ..Self::default() } };
        let (binding, request) = split_binding(record.bytes).unwrap_or_default();
        // What a function is asked begins with anything.
        let is_call = record.code == OperationKind::Call as u32;
        let operation = request.first().filter(|_| !is_call).copied().unwrap_or_default();
        Self { slot, operations, first: record.code, binding, operation }
    }

    fn place(self) -> usize {
        let Self { slot, operations, first, binding, operation } = self;
        let words = [slot, operations, first, binding, u32::from(operation)];
        words.iter().fold(0, |sum: u32, word| sum.wrapping_mul(31).wrapping_add(*word)) as usize % PLACES
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Entry {
    kind: Kind,
    /// Of so many one is asked.
    asked_of: u8,
    /// So many are not asked from now on.
    skips: u8,
}

/// The kinds of questions that were declined last.
#[derive(Debug)]
pub(super) struct Declined([Entry; PLACES]);

impl Declined {
    pub(super) fn none() -> Self {
        Self([Entry::default(); PLACES])
    }

    /// Whether the node is not to be asked this once.
    pub(super) fn skips(&mut self, kind: Kind) -> bool {
        let entry = &mut self.0[kind.place()];
        let is_skipped = entry.kind == kind && entry.skips > 0;
        entry.skips -= u8::from(is_skipped);
        is_skipped
    }

    /// The node was asked, and has answered or declined to.
    pub(super) fn note(&mut self, kind: Kind, is_declined: bool) {
        let entry = &mut self.0[kind.place()];
        if is_declined {
            // Once says little: what is declined may be only as much as is answered in a row.
            let asked_of = if entry.kind == kind { (entry.asked_of * 2).clamp(1, ASKED_OF_MAX) } else { 1 };
            *entry = Entry { kind, asked_of, skips: asked_of - 1 };
        } else if entry.kind == kind {
            *entry = Entry::default();
        }
    }
}

#[cfg(test)]
mod tests;
