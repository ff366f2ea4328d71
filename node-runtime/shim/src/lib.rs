//! The trusted half inside a function's shared object: entry, arena allocator, end by panic.
//!
//! With the feature `hosted` the crate binds to the host's symbols and installs the allocator;
//! without it the same functions have local stand-ins, so that a developer's `cargo test` runs
//! handlers on the developer's machine.
//!
//! Nothing here survives a call: the allocator keeps its state in the arena, everything else lies
//! in writable segments, and the host restores both. So nothing is ever freed, closed or unset at
//! the end, and nothing catches a panic: every panic ends the call in the host. A call that waits is put aside by the host with the arena
//! and those segments, and goes on where it was ([`Answer`]).
//!
//! Invariants:
//! - INV-SHIM-1: the host hands over a `Call` whose request and arena are mapped, do not overlap,
//!   and stay as they are until the call ends; the request's parts are those of a decoded frame, its
//!   texts UTF-8, and none of their addresses is null. Its table of assets and what that names are readable
//!   and do not change either. Kept by the executor; noticed by its tests.
//! - INV-SHIM-2: one thread, and no call begins before the last one ended. So statics of this
//!   crate are never used twice at once. Kept by the executor (there is no `pthread_create` to bind to).
//! - INV-SHIM-3: a block handed out lies inside the arena, behind the header, and overlaps no
//!   other, nor the grain before a large one; the link in a freed block is written and read only while it is
//!   on a list. Kept by `arena`; noticed by `blocks_never_overlap`.
//! - INV-SHIM-4: of the arena nothing is read that this call did not write: it may hold what another
//!   tenant's hostile call left there. Kept by `arena`; noticed by `an_arena_may_hold_any_bytes`, and
//!   by the executor's `what_a_hostile_call_leaves_in_other_arenas_reaches_no_neighbour`.
//! - INV-SHIM-5: the symbols of std that the linker replaces by `entry`'s (`REPLACED` of the image
//!   layout) are called as ours are declared, and the shim is one unit, which every image links
//!   whole. Kept by pinning the toolchain; noticed by the executor's tests of panics and of the ways out,
//!   and by the builder's test that looks for the symbols.

#![allow(
    unsafe_code,
    reason = "entry from the host, global allocator, host symbols; see the invariants above"
)]

pub mod host;

mod arena;
mod assets;
mod block_on;
#[cfg(any(feature = "hosted", test))]
mod bounded;
mod call;
#[cfg(feature = "hosted")]
mod entry;
mod waiting;

pub use arena::Arena;
pub use assets::asset;
pub use block_on::block_on;
pub use mfaas_abi::{Call, Reply};
pub use waiting::{Answer, Handling, Operation, Outcome, ask_together};

#[cfg(feature = "hosted")]
pub use entry::enter;

#[cfg(test)]
mod tests;
