//! One run of a function's code: onto its stack and back, however it ends.

use std::sync::atomic::Ordering;

use mfaas_abi::Call;

use crate::memory::{CallMemory, Sizes};
use crate::state::{self, End};
use crate::{gate, keyed};

/// Runs an entry on a stack of the call memory, with a function's rights, and comes back when it has
/// ended, however it ended. Its budget has begun.
#[inline(always)]
pub(crate) fn run_on_stack(call_memory: &CallMemory, sizes: Sizes, entry: usize, call: *mut Call) -> Ran {
    let (stack, guard) = (call_memory.stack(sizes.stack), call_memory.stack_guard(sizes.stack));
    state::with(|state| {
        state.stack.set(&stack, &guard);
        state.end.set(End::Aborted);
        gate::clear_vectors();
        state.running.store(true, Ordering::Relaxed);
        let enter = if state.keys.on.get() { keyed::enter } else { gate::enter };
        // SAFETY: INV-EXECUTOR-1, 2, 3 and 11.
        unsafe { enter(entry, call, stack.end, state.host_stack.as_ptr()) };
        state.running.store(false, Ordering::Relaxed);
        Ran { end: state.end.get(), sizes }
    })
}

/// How one run of an image went.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ran {
    pub(crate) end: End,
    pub(crate) sizes: Sizes,
}
