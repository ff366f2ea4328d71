//! The queue between a node and one of its workers: calls one way, completions the other, through
//! one piece of shared memory that neither end trusts.
//!
//! The memory is a memfd whose size is sealed. It holds a header page and a fixed number of slots
//! (see `layout`). A slot has a 64-byte submission, written by the host alone, and a 64-byte completion,
//! written by the worker alone; each carries its own sequence number, which is written last and polled, so the two ends share no counter.
//! Small payloads lie beside the records, large ones, log lines and messages in an area of their own. Calls
//! are answered in the order of their submission. A call that may do so asks its host while it runs, by one more word of its
//! completion, which both write.
//!
//! Invariants:
//! - INV-RING-1: a mapping lives as long as any end that refers to it, and the memfd behind it can
//!   neither shrink nor grow, so every view stays inside mapped memory. Kept by `map`; noticed
//!   by `a_worker_refuses_memory_of_another_size`.
//! - INV-RING-2: shared memory is reached only as atomics, so that a peer that writes at any moment
//!   can change values but not meaning. Kept by `map`, the only module that sees addresses;
//!   noticed by `random_bytes_from_a_worker_never_panic_the_host`.
//! - INV-RING-3: each value from the peer is loaded once into private memory, checked, and only
//!   the private copy is used. Kept by `host` and `worker`; noticed by the same test.
//! - INV-RING-4: a descriptor that a program was started with has one owner. Kept by `inherit`,
//!   which a program calls before it opens anything; noticed by `a_descriptor_is_taken_once`.
//! - INV-RING-5: the instructions that `clock` and `map` name exist on every processor that they are
//!   compiled for, or do nothing there. Kept by both, where they stand behind their architecture; noticed by
//!   `ticks_go_on_at_the_measured_rate` and `a_look_ahead_changes_nothing`.
//!
//! It must never panic on what the peer wrote, never wait without an end, and never leave payload
//! behind: whoever reads a payload wipes it, so that the next tenant's call finds zeros.

#![allow(unsafe_code, reason = "maps shared memory and views it as atomics; see the invariants above")]

mod barrier;
pub mod client;
pub mod clock;
mod host;
mod inherit;
mod inline;
mod layout;
pub mod loading;
pub mod local_api;
mod map;
pub mod preload;
mod protocol;
mod wait;
mod worker;

pub use host::{Collector, Completion, HostEnd, Submission, Submitter, create};
pub use inherit::take_inherited;
pub use inline::{INLINE_CALLEES_MAX, INLINE_CODE, INLINE_HEAD_BYTES_MAX, InlineCallee, InlineUse};
pub use layout::{Geometry, SMALL_BYTES_MAX, WorkerState};
pub use wait::{BELLS_MAX, BLIND_SLEEP_MAX, Bell, SPIN_ROUNDS, WakeWord, wait_any};
pub use worker::{ASK_US, Answer, Job, Next, Told, WorkerEnd};

/// Why an end of the ring stopped working.
#[derive(Debug, thiserror::Error)]
pub enum RingError {
    /// The kernel refused memory, a mapping or a wait.
    #[error("shared memory: {step}")]
    System {
        /// What was being done.
        step: &'static str,
        /// The kernel's answer.
        #[source]
        source: std::io::Error,
    },
    /// The number of slots is not a power of two from 1 to 64.
    #[error("a ring cannot have {0} slots: it must be a power of two from 1 to 64")]
    Geometry(u32),
    /// A frame is larger than a slot's area.
    #[error("{bytes} bytes do not fit into the {limit} bytes of a slot")]
    TooLarge {
        /// What was offered, in bytes.
        bytes: usize,
        /// What fits, in bytes.
        limit: usize,
    },
    /// All slots hold calls that were not collected; collect first.
    #[error("every slot of the ring is taken")]
    Full,
    /// The caller broke the order of calls; nothing was done.
    #[error("the ring is misused: {0}")]
    Misuse(&'static str),
    /// The peer wrote what it must not. The ring is poisoned: end the worker.
    #[error("the peer broke the protocol: {0}")]
    Violation(&'static str),
}

#[cfg(test)]
mod tests;
