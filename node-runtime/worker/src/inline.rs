//! Functions that the call which runs calls where it is: the node is asked once who answers them, and then they are called without it.
//!
//! Nothing is decided here: where the node says nothing, or a function does more than answer, the call is put aside, and
//! the node has it called by itself.

use mfaas_abi::frame::ResponseFrame;
use mfaas_abi::limits::{OUTCOME_BYTES_MAX, records_bytes_max};
use mfaas_abi::{DONE, OperationKind, Record, Records, split_binding};
use mfaas_executor::{Inline, Limits, NoAnswer};
use mfaas_ring::{INLINE_CALLEES_MAX, INLINE_CODE, INLINE_HEAD_BYTES_MAX, InlineCallee, InlineUse};

use crate::limits;

/// What is known of them. Nothing in it grows.
pub(crate) struct Callees {
    known: Vec<Callee>,
    body_bytes_max: usize,
    /// What [`Self::uses`] gives.
    uses: [u8; INLINE_CALLEES_MAX * InlineUse::BYTES],
}

#[derive(Clone, Copy)]
struct Callee {
    slot: u32,
    limits: Limits,
    head: [u8; INLINE_HEAD_BYTES_MAX],
    head_bytes: usize,
    used: InlineUse,
}

/// An outcome that is being written.
struct Told<'a> {
    place: &'a mut [u8],
    bytes: usize,
}

impl Callees {
    /// None, for frames with bodies of at most so many bytes.
    pub(crate) fn new(body_bytes_max: usize) -> Self {
        let known = Vec::with_capacity(INLINE_CALLEES_MAX);
        Self { known, body_bytes_max, uses: [0; INLINE_CALLEES_MAX * InlineUse::BYTES] }
    }

    /// Answers what a call asks for. What is no call of a function is the node's to answer, and who is called. `ask` asks it.
    pub(crate) fn answer(
        &mut self,
        asked: &[u8],
        place: &mut [u8],
        inline: &mut Inline<'_>,
        mut ask: impl FnMut(&mut [u8]) -> Option<usize>,
    ) -> Option<usize> {
        let operations = Records::decode(asked)?;
        if !{ operations }.all(|operation| operation.code == OperationKind::Call as u32) {
            return ask(place);
        }
        let binding = |operation: Record<'_>| Some(split_binding(operation.bytes)?.0);
        if { operations }.any(|operation| binding(operation).is_none_or(|at| self.find(at).is_none())) {
            let told = ask(place)?;
            let is_learnt = self.learn(operations, &place[..told]);
            place[..told].fill(0);
            is_learnt?;
        }
        // What a part of them did counts with all of them, or is done again by the node.
        let before: [InlineUse; INLINE_CALLEES_MAX] = std::array::from_fn(|at| self.used(at));
        let mut told = Told { place, bytes: 0 };
        match { operations }.try_for_each(|operation| self.call(operation, inline, &mut told)) {
            Ok(()) => Some(told.bytes),
            Err(_) => {
                told.place[..told.bytes].fill(0);
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
        self.known.iter_mut().for_each(|callee| callee.head[..callee.head_bytes].fill(0));
        self.known.clear();
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
            let limits = limits::of(budget_us, memory_bytes)?;
            let used = InlineUse { binding, ..InlineUse::default() };
            let mut callee =
                Callee { slot, limits, head: [0; INLINE_HEAD_BYTES_MAX], head_bytes: head.len(), used };
            callee.head[..head.len()].copy_from_slice(head);
            self.known.push(callee);
        }
        Some(())
    }

    /// Calls the function of one operation, and appends its outcome.
    fn call(
        &mut self,
        operation: Record<'_>,
        inline: &mut Inline<'_>,
        told: &mut Told<'_>,
    ) -> Result<(), NoAnswer> {
        let (binding, body) = split_binding(operation.bytes).ok_or(NoAnswer::Declined)?;
        let callee = self.find(binding).ok_or(NoAnswer::Declined)?;
        let Callee { slot, limits, head, head_bytes, used } = &mut self.known[callee];
        let frame_bytes = *head_bytes + size_of::<u32>() + body.len();
        let frame = inline.request().get_mut(..frame_bytes).ok_or(NoAnswer::Declined)?;
        let (start, rest) = frame.split_at_mut(*head_bytes);
        start.copy_from_slice(&head[..*head_bytes]);
        let (length, place) = rest.split_at_mut(size_of::<u32>());
        length.copy_from_slice(&(body.len() as u32).to_le_bytes());
        place.copy_from_slice(body);
        let answer = inline.call(*slot, frame_bytes, *limits).inspect_err(|why| {
            used.is_apart |= *why == NoAnswer::Apart;
        })?;
        let response = ResponseFrame::decode_within(answer.response, self.body_bytes_max);
        let response = response.map_err(|_| NoAnswer::Declined)?;
        told.append(operation.id, response, self.body_bytes_max).ok_or(NoAnswer::Declined)?;
        used.calls = used.calls.saturating_add(1);
        used.wall_ns = used.wall_ns.saturating_add(answer.wall_ns);
        used.memory_bytes = used.memory_bytes.max(answer.memory_bytes);
        Ok(())
    }
}

impl Told<'_> {
    /// Writes what a function answered as the outcome of an operation, if it has room: a record of a `mfaas_abi::CalleeReply`.
    fn append(&mut self, id: u32, response: ResponseFrame<'_>, body_bytes_max: usize) -> Option<()> {
        let reply_bytes = size_of::<u16>() + response.body.len();
        let end = self.bytes + Record::HEAD_BYTES + reply_bytes;
        if reply_bytes > OUTCOME_BYTES_MAX || end > records_bytes_max(body_bytes_max) {
            return None;
        }
        let (head, reply) = self.place.get_mut(self.bytes..end)?.split_at_mut(Record::HEAD_BYTES);
        let words = [id, DONE, reply_bytes as u32].map(u32::to_le_bytes);
        head.copy_from_slice(words.as_flattened());
        let (status, body) = reply.split_at_mut(size_of::<u16>());
        status.copy_from_slice(&response.status.to_le_bytes());
        body.copy_from_slice(response.body);
        self.bytes = end;
        Some(())
    }
}
