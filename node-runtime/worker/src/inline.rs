//! Functions that the call which runs calls where it is: the node is asked once who answers them, and then they are called without it.
//!
//! Nothing is decided here: where the node says nothing, or a function does more than answer, the call is put aside, and
//! the node has it called by itself.

mod declined;

use mfaas_abi::limits::{OUTCOME_BYTES_MAX, records_bytes_max};
use mfaas_abi::{DONE, OperationKind, Record, Records, split_binding};
use mfaas_executor::{Inline, InlineAnswer, Limits, NoAnswer, RequestHead};
use mfaas_ring::{INLINE_CALLEES_MAX, INLINE_CODE, INLINE_HEAD_BYTES_MAX, InlineCallee, InlineUse, Told};

use crate::limits;
use declined::{Declined, Kind};

/// No head that a node sends is too long.
const _: () = assert!(INLINE_HEAD_BYTES_MAX <= RequestHead::BYTES_MAX);

/// What is known of them. Nothing in it grows.
pub(crate) struct Callees {
    known: Vec<Callee>,
    declined: Declined,
    body_bytes_max: usize,
    /// What [`Self::uses`] gives.
    uses: [u8; INLINE_CALLEES_MAX * InlineUse::BYTES],
}

#[derive(Clone, Copy)]
struct Callee {
    slot: u32,
    limits: Limits,
    head: RequestHead,
    used: InlineUse,
}

/// Outcomes that are being written.
struct Outcomes<'a> {
    place: &'a mut [u8],
    bytes: usize,
}

impl Callees {
    /// None, for frames with bodies of at most so many bytes.
    pub(crate) fn new(body_bytes_max: usize) -> Self {
        let known = Vec::with_capacity(INLINE_CALLEES_MAX);
        let (declined, uses) = (Declined::none(), [0; INLINE_CALLEES_MAX * InlineUse::BYTES]);
        Self { known, declined, body_bytes_max, uses }
    }

    /// Answers what a call of the image in `slot` asks for. What is no call of a function is the node's to answer, and who is called.
    /// `ask` asks it.
    pub(crate) fn answer(
        &mut self,
        (slot, asked): (u32, &[u8]),
        place: &mut [u8],
        inline: &mut Inline<'_>,
        ask: impl FnOnce(&mut [u8]) -> Told,
    ) -> Option<usize> {
        let operations = Records::decode(asked)?;
        let kind = Kind::of(slot, operations);
        if !{ operations }.all(|operation| operation.code == OperationKind::Call as u32) {
            return self.ask(kind, || ask(place));
        }
        let binding = |operation: Record<'_>| Some(split_binding(operation.bytes)?.0);
        if { operations }.any(|operation| binding(operation).is_none_or(|at| self.find(at).is_none())) {
            let told = self.ask(kind, || ask(place))?;
            let is_learnt = self.learn(operations, &place[..told]);
            place[..told].fill(0);
            is_learnt?;
        }
        // What a part of them did counts with all of them, or is done again by the node.
        let before: [InlineUse; INLINE_CALLEES_MAX] = std::array::from_fn(|at| self.used(at));
        let mut outcomes = Outcomes { place, bytes: 0 };
        match { operations }.try_for_each(|operation| self.call(operation, inline, &mut outcomes)) {
            Ok(()) => Some(outcomes.bytes),
            Err(_) => {
                outcomes.place[..outcomes.bytes].fill(0);
                for (callee, before) in self.known.iter_mut().zip(before) {
                    callee.used = InlineUse { is_apart: callee.used.is_apart, ..before };
                }
                None
            }
        }
    }

    /// What came of those that were called, for the node.
    pub(crate) fn uses(&mut self) -> &[u8] {
        let used = self.known.iter().map(|callee| callee.used).filter(|used| used.calls > 0 || used.is_apart);
        let mut bytes = 0;
        for (place, used) in self.uses.as_chunks_mut::<{ InlineUse::BYTES }>().0.iter_mut().zip(used) {
            *place = used.encode();
            bytes += InlineUse::BYTES;
        }
        &self.uses[..bytes]
    }

    /// The call has left: another one knows nothing of them.
    pub(crate) fn forget(&mut self) {
        self.known.iter_mut().for_each(|callee| callee.head.wipe());
        self.known.clear();
    }

    /// Asks the node, unless it has declined to answer such a question lately.
    fn ask(&mut self, kind: Kind, ask: impl FnOnce() -> Told) -> Option<usize> {
        if self.declined.skips(kind) {
            return None;
        }
        match ask() {
            Told::Bytes(told) => {
                self.declined.note(kind, false);
                Some(told)
            }
            Told::Declined => {
                self.declined.note(kind, true);
                None
            }
            Told::Nothing => None,
        }
    }

    fn find(&self, binding: u32) -> Option<usize> {
        self.known.iter().position(|callee| callee.used.binding == binding)
    }

    fn used(&self, at: usize) -> InlineUse {
        self.known.get(at).map(|callee| callee.used).unwrap_or_default()
    }

    /// Takes over who the node says answers each of the operations.
    fn learn(&mut self, operations: Records<'_>, told: &[u8]) -> Option<()> {
        for outcome in Records::decode(told)?.filter(|outcome| outcome.code == INLINE_CODE) {
            let operation = { operations }.find(|operation| operation.id == outcome.id)?;
            let (binding, _) = split_binding(operation.bytes)?;
            let InlineCallee { slot, budget_us, memory_bytes, head } = InlineCallee::decode(outcome.bytes)?;
            if self.find(binding).is_some() || self.known.len() >= INLINE_CALLEES_MAX {
                continue;
            }
            let (limits, head) = (limits::of(budget_us, memory_bytes)?, RequestHead::read(head)?);
            let used = InlineUse { binding, ..InlineUse::default() };
            self.known.push(Callee { slot, limits, head, used });
        }
        Some(())
    }

    /// Calls the function of one operation, and appends its outcome.
    fn call(
        &mut self,
        operation: Record<'_>,
        inline: &mut Inline<'_>,
        outcomes: &mut Outcomes<'_>,
    ) -> Result<(), NoAnswer> {
        let (binding, body) = split_binding(operation.bytes).ok_or(NoAnswer::Declined)?;
        let callee = self.find(binding).ok_or(NoAnswer::Declined)?;
        let Callee { slot, limits, head, used } = &mut self.known[callee];
        let answer = inline.call(*slot, head, body, *limits).inspect_err(|why| {
            used.is_apart |= *why == NoAnswer::Apart;
        })?;
        outcomes.append(operation.id, answer, self.body_bytes_max).ok_or(NoAnswer::Declined)?;
        used.calls = used.calls.saturating_add(1);
        used.wall_ns = used.wall_ns.saturating_add(answer.wall_ns);
        used.memory_bytes = used.memory_bytes.max(answer.memory_bytes);
        Ok(())
    }
}

impl Outcomes<'_> {
    /// Writes what a function answered as the outcome of an operation, if it has room: a record of a `mfaas_abi::CalleeReply`.
    fn append(&mut self, id: u32, answer: InlineAnswer<'_>, body_bytes_max: usize) -> Option<()> {
        let reply_bytes = size_of::<u16>() + answer.body.len();
        let end = self.bytes + Record::HEAD_BYTES + reply_bytes;
        if reply_bytes > OUTCOME_BYTES_MAX || end > records_bytes_max(body_bytes_max) {
            return None;
        }
        let (head, reply) = self.place.get_mut(self.bytes..end)?.split_at_mut(Record::HEAD_BYTES);
        let words = [id, DONE, reply_bytes as u32].map(u32::to_le_bytes);
        head.copy_from_slice(words.as_flattened());
        let (status, body) = reply.split_at_mut(size_of::<u16>());
        status.copy_from_slice(&answer.http_status.to_le_bytes());
        body.copy_from_slice(answer.body);
        self.bytes = end;
        Some(())
    }
}
