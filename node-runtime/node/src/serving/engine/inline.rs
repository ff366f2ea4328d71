//! Functions that a call calls where it is, without the scheduler: their workers are told who answers them, and say what came of it.
//!
//! Such a function does nothing but answer: it reaches no data, calls nobody, and is of the same tenant, class and pool. All else, and
//! what fails, is called by itself.

use std::time::Duration;

use mfaas_abi::{OperationKind, Record, Records};
use mfaas_dispatch::{FunctionId, JobId};
use mfaas_ident::{Binding, Class, ResourceKind};
use mfaas_ring::clock::ticks;
use mfaas_ring::{Completion, INLINE_CODE, INLINE_HEAD_BYTES_MAX, InlineCallee, InlineUse};

use super::calls::{PendingCalls, part_of, ticket_of};
use super::clock::Clock;
use crate::serving::table::Served;

/// No call takes less, in nanoseconds: what a worker says is believed as far as there was time for it.
const CALL_NS_MIN: u64 = 50;

/// Whether a call of this version may be one within another call.
fn only_answers(served: &Served) -> bool {
    let is_asset = |binding: &Binding| binding.resource().is_some_and(|it| it.kind == ResourceKind::Asset);
    served.terms.class == Class::Micro && served.bindings.iter().all(is_asset)
}

impl PendingCalls {
    /// Who answers the functions that a call has called which stays in its worker, each once, as records; nothing if one of them is to be
    /// called by itself. `lend` says where a function's image is, if it may be called there.
    pub(super) fn tell_callees(
        &mut self,
        job: JobId,
        asked: Records<'_>,
        lend: &mut dyn FnMut(FunctionId) -> Option<u32>,
    ) -> Option<Vec<u8>> {
        let Self { tickets, apart, data, .. } = self;
        let (call, kept) = ticket_of(tickets, job)?;
        let kept = kept.get_or_insert_default();
        if !kept.hears_only(asked, |kind| kind == OperationKind::Call) {
            return None;
        }
        let known = kept.data.get_or_insert_default();
        let (mut told, mut found) = (Vec::new(), Vec::new());
        for Record { id, bytes, .. } in asked {
            let (place, served) = data.callee(call, bytes)?;
            if known.told.iter().chain(&found).any(|(told, _)| *told == place) {
                continue;
            }
            if !only_answers(&served) || apart.contains(&served.id) {
                return None;
            }
            let head = known.request_head(call).ok().filter(|head| head.len() <= INLINE_HEAD_BYTES_MAX)?;
            let callee = InlineCallee {
                slot: lend(served.id)?,
                budget_us: u32::try_from(served.terms.budget.as_micros()).ok()?,
                memory_bytes: served.terms.memory.as_bytes(),
                head,
            };
            Record { id, code: INLINE_CODE, bytes: &callee.encode() }.append_to(&mut told);
            found.push((place, served));
        }
        known.told.append(&mut found);
        Some(told)
    }

    /// Counts what was called within the call whose worker reported last and was on its core for `cpu_us`: as calls of those
    /// functions, and no more as that one's time.
    pub(super) fn count_inline(&mut self, job: JobId, cpu_us: u64, clock: &Clock) {
        let Self { tickets, completion, apart, usage, .. } = self;
        let Completion { inline, cpu_ns, wall_ns, .. } = completion;
        if inline.is_empty() {
            return;
        }
        let uses = std::mem::take(inline);
        let Some(part) = part_of(tickets, job) else { return };
        let data = ticket_of(tickets, job).and_then(|(_, kept)| kept.as_ref()?.data.as_ref());
        let Some(data) = data else { return };
        let passed: Duration = clock.between(part, ticks());
        let passed_ns = u64::try_from(passed.as_nanos()).unwrap_or(u64::MAX);
        let mut left_ns = cpu_us.saturating_mul(1_000).saturating_add(999).min(passed_ns);
        for InlineUse { binding, calls, wall_ns: used_ns, memory_bytes, is_apart } in
            InlineUse::decode_all(&uses)
        {
            let told = data.told.iter().find(|(place, _)| *place == binding);
            let Some((_, served)) = told else { continue };
            if is_apart {
                apart.insert(served.id);
            }
            let used_ns = used_ns.min(left_ns);
            let calls = u64::from(calls).min(left_ns / CALL_NS_MIN + 1);
            left_ns -= used_ns;
            *cpu_ns = cpu_ns.saturating_sub(used_ns);
            *wall_ns = wall_ns.saturating_sub(used_ns);
            usage.record_inline(served, calls, used_ns, memory_bytes);
        }
    }
}
