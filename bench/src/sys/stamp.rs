//! The time stamp counter.

/// The time stamp counter of this core, in cycles, read after everything before it has run.
#[inline(always)]
pub fn stamp() -> u64 {
    let mut core = 0;
    // SAFETY: INV-BENCH-6. Every x86-64 processor that the node supports has the instruction.
    unsafe { core::arch::x86_64::__rdtscp(&mut core) }
}
