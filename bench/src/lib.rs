//! The benchmark of the node runtime: every row alternates mfaas with the sides that it is
//! compared to, in one run on one machine, and reports ratios of rounds. `admission` is a benchmark of its own,
//! of what comes before a node.
//!
//! ```text
//! functions ── built once, patched into many ──┐
//! sides ── bare, dlopen, processes, wasmtime, hyper, mfaas ──┤ rows ── report ── text, JSON, figure
//! load, machine, stats, sys ─────────────────────────┘
//! ```
//! Everything that speaks to mfaas is in `sides/mfaas.rs`; the other sides know nothing of it.
//! Each answer of each side is verified, so that no side is fast by being wrong.
//!
//! Invariants of what is unsafe here, all of it for the sides that mfaas is compared to:
//! - INV-BENCH-1: a shared mapping lives as long as every reference into it, and is reached as
//!   atomics alone. Kept by `sys::shared`.
//! - INV-BENCH-2: a pointer given to the kernel or to the C library is to a live local or static of
//!   the type that its manual page names, or null where the page allows it. Kept where it is made.
//! - INV-BENCH-3: a library's function is called only while the library is open, with the signature
//!   that all of them are built with and with buffers of the sizes that it is told. Kept by
//!   `sys::library`; noticed by `every_side_answers_right`.
//! - INV-BENCH-4: a signal handler touches atomics and calls nothing but `setitimer`, which signals may
//!   interrupt. Kept by `sys::timer`.
//! - INV-BENCH-6: the processor is an x86-64 one with `rdtscp`. Kept by `Machine::read`, which
//!   refuses any other before a row runs.
//! - INV-BENCH-7: the executor hands a function a call whose request and arena are mapped and the
//!   call's alone, as it promises the shim. Noticed by `every_side_answers_right`.
//!
//! It must never judge a figure of one run by a figure of another, never run with one core, and
//! never leave a process behind.

#[path = "../functions/function.rs"]
pub mod function;

pub mod admission;
pub mod figure;
pub mod functions;
pub mod load;
pub mod machine;
pub mod report;
pub mod rows;
pub mod secondary;

pub mod serve;
pub mod sides;
pub mod stats;
pub mod sys;
