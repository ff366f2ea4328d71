//! Runs functions: links images into a slab, calls them on stacks of their own, ends a call when it
//! must, and leaves no trace of it.
//!
//! ```text
//! loader:  SlabWriter::new ── load, unload, at any time
//!                 │ sealed memory
//! worker:  Slab::map ── Executor::new ── protect ── confirm_window ── lock-down ── call, again and again
//! ```
//! A call runs as ordinary code of the worker's thread, with rights of its own where there are
//! protection keys ([`Executor::protect`]). It ends in one of three ways: it returns;
//! it calls a host function that ends it (panic, out of memory, abort); or a signal handler finds
//! that it must end (budget, fault, denied system call). In the last two the function's stack is
//! abandoned where it stands: nothing of it is unwound, dropped or unlocked, since all that it
//! wrote is wiped. A call that returns because it waits is put aside ([`Outcome::waits`]): its memory leaves with its
//! outcome, is wiped as any other's, and comes back with [`Executor::resume`].
//!
//! What is marked `inline(always)` are the steps of every call that have several callers: by way of memory they would give each
//! other what they hold in registers.
//!
//! Invariants:
//! - INV-EXECUTOR-1: one executor in a process, which never leaves its thread; the record in `state` is
//!   that executor's. Kept by `Executor` (not `Send`, one at a time).
//! - INV-EXECUTOR-2: memory between the guards of `memory::CallMemory` is mapped, writable and
//!   the current call's. Kept by `memory`.
//! - INV-EXECUTOR-3: a slab lies where `window` says, its code never writable, its data and what of its code
//!   holds neither code nor traps never executable in a worker, as long as the `Slab`; what its directory says about an image was
//!   written by the loader and lies in the image's slot. Kept by `slab`, `link` and `writer`; noticed
//!   by `no_page_is_ever_writable_and_executable` and `room_that_was_never_readied_holds_no_instructions`.
//! - INV-EXECUTOR-4: a service holds no lock, owns nothing and allocates nothing, so it may be abandoned
//!   wherever it touches the function's memory. Kept by `services`; noticed by
//!   `ten_thousand_kills_leave_no_trace`.
//! - INV-EXECUTOR-5: a call is abandoned only while the stack pointer lies in the window or a service touches
//!   it, so never in the middle of the host's own work. Kept by `signals`; noticed by the same test, and by
//!   `tests/ticks` at every instruction.
//! - INV-EXECUTOR-6: what a function left behind (pointers, lengths, counters) is checked before use.
//!   Kept by `judge`; noticed by `a_lying_function_is_bad_output`.
//! - INV-EXECUTOR-7: a pointer given to the kernel is to a local that lives across the call, or null
//!   where the kernel allows it; a record of the kernel's is read as the kernel's headers define it.
//!   Each is made in the function that uses it.
//! - INV-EXECUTOR-8: no core runs an instruction that it fetched from a slot before the slot's present
//!   image was there: the first call of every image in an executor begins with a serialising
//!   instruction, and no image leaves while a worker may still run it. Kept by `Executor::call` and by
//!   whoever calls `SlabWriter::unload` and `SlabWriter::reclaim`; noticed by
//!   `a_slot_that_changes_hands_runs_what_is_in_it`.
//! - INV-EXECUTOR-9: a slab has one writable mapping, whose owner writes only between the borders of
//!   places that it gave out. Kept by `writer`.
//! - INV-EXECUTOR-10: the word that `state` knows for a watcher lives as long as the call that it is
//!   for. Kept by `Executor::call`, which borrows it.
//! - INV-EXECUTOR-11: under protection keys a function can use what bears the window's key and nothing
//!   else, and what it is bound to without a gate lies in the window itself. Kept by `keys`,
//!   `keyed`, `bind` and `library`; noticed by the tests in `tests/keys`.
//! - INV-EXECUTOR-12: under protection keys no byte of the worker's code outside of the gates begins an
//!   instruction that changes rights. Kept by `text`, which looks and overwrites before lock-down;
//!   afterwards nothing becomes executable but more of the window's code.
//! - INV-EXECUTOR-13: a process that is forked to try something out has nothing of its parent's to
//!   flush, drop or unlock, and ends by `_exit`. Kept by `keys`.
//! - INV-EXECUTOR-14: instructions that not every x86-64 processor has run only where this one says that
//!   it has them, and change no register that is not named beside them or that a callee need not keep.
//!   Kept where they stand.
//! - INV-EXECUTOR-15: whatever a function left in the processor's registers, the host and the next function
//!   meet what they would have met without it: flags, segments, bases, the x87 unit and MXCSR are put back at
//!   the landing, general, vector and mask registers are cleared on the way in. Kept by `gate` and
//!   `keyed`; noticed by `registers_are_the_hosts_again`.
//! - INV-EXECUTOR-16: between the labels of `library` stand instructions and nothing else, which `link`
//!   copies; they pass the verifier. Kept by `library`; demanded by `writer`.
//! - INV-EXECUTOR-17: what was put aside of a call comes back to the image that it is of, into its data and the arena of a
//!   call, and is as long as they are. Kept by `suspended`; noticed by `what_was_put_aside_comes_back_to_its_own_image_alone`.
//!
//! It must never run an image's constructors or destructors, never trust a value that a function
//! wrote, and never return from a call before the call's memory is wiped.

#![allow(unsafe_code, reason = "loads and runs native code; see the invariants above")]

mod assets;
mod bind;
mod budget;
mod call;
mod clock;
mod directory;
mod exit;
mod gate;
mod inline;
mod judge;
mod keyed;
mod keys;
mod libm;
mod library;
mod limits;
mod link;
mod logs;
mod maps;
mod memory;
mod message;
mod pages;
mod prepare;
mod request_head;
mod room;
mod run;
mod sealed;
mod services;
mod signals;
mod slab;
mod slot_cache;
mod state;
mod suspended;
mod text;
mod trial;
mod window;
mod writer;
mod zeros;

pub use assets::NamedAsset;
pub use call::{ASK_NOBODY, AskHost, CallError, Ended, Executor, Outcome, Start};
pub use clock::Clock;
pub use directory::{SlabGeometry, Verification};
pub use exit::exit_now;
pub use inline::{Answer as InlineAnswer, Inline, NoAnswer};
pub use keys::Keys;
pub use limits::Limits;
pub use request_head::RequestHead;
pub use sealed::sealed_copy;
pub use signals::TICK_SIGNAL;
pub use slab::Slab;
pub use writer::{Loaded, SlabWriter};

/// Size of a function's stack, in bytes.
pub const STACK_BYTES: usize = 512 << 10;

/// Why an executor could not be made or an image not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum ExecutorError {
    /// The kernel refused something.
    #[error("{step}")]
    System {
        /// What was being done.
        step: &'static str,
        /// The kernel's answer.
        #[source]
        source: std::io::Error,
    },
    /// This process has an executor already.
    #[error("this process has an executor already")]
    SecondExecutor,
    /// The bytes behind the descriptor could still change.
    #[error("the memory is not sealed against writing")]
    NotSealed,
    /// The bytes are not those of the digest.
    #[error("the image is not the one that was named")]
    OtherImage,
    /// The bytes are not those of the digest, or are no asset's at all.
    #[error("an asset is not the one that was named")]
    OtherAsset,
    /// The descriptor is not of a slab that this release made, or a slot is not in use.
    #[error("no such slab or slot")]
    NoSlab,
    /// No bank has room for the image or for its assets, or every slot is taken.
    #[error("the slab has no room for the image or its assets")]
    Full,
    /// Something is mapped where only the window may be, or the window is not as it should be.
    #[error("the window of functions is not as it should be: {0}")]
    NotTheWindow(String),
    /// The image's code could leave the window.
    #[error("the image does not verify: {0}")]
    NotVerified(#[from] mfaas_inspect::verify::Violation),
    /// The image cannot be read.
    #[error(transparent)]
    Unreadable(#[from] mfaas_inspect::InspectError),
    /// The image wants a symbol that no row of the import profile offers.
    #[error("the image imports `{0}`, which is not offered")]
    UnknownImport(String),
    /// The image has no entry symbol in executable memory.
    #[error("the image does not export `mfaas_entry_v1` as code")]
    NoEntry,
    /// A segment that no benign linker makes.
    #[error("the image cannot be mapped: {0}")]
    Unmappable(&'static str),
}

impl ExecutorError {
    /// The last error of a libc call.
    fn last(step: &'static str) -> Self {
        Self::System { step, source: std::io::Error::last_os_error() }
    }
}

fn system(step: &'static str) -> impl Fn(rustix::io::Errno) -> ExecutorError {
    move |errno| ExecutorError::System { step, source: errno.into() }
}

#[cfg(test)]
mod tests;
