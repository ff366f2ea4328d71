//! A profile becomes a sandbox: namespaces, mounts, landlock, seccomp, resource limits.
//!
//! [`supervise()`] runs one program in a sandbox and tells how it ended; [`lock_down`] takes system
//! calls away from a running process; a [`SchedulingClass`] is where the kernel lets a thread run. What
//! this kernel allows is found out by doing it.
//!
//! Nothing here decides what a profile contains, starts a thread, or weakens a profile silently:
//! a layer that cannot be had is an error, or a lower [`Level`] that the caller has allowed. An
//! empty profile is an error.
//!
//! Programs give up uid 0 before they sandbox anything. A sandboxed process of uid 0 works too, but
//! the kernel does not apply RLIMIT_NPROC to it.
//!
//! # Invariants
//!
//! - INV-CONFINE-1: a process forks here only while it has one thread, so that the child may
//!   allocate. Kept by the kernel: `unshare(CLONE_NEWUSER)` fails in a process with more, and
//!   [`supervise()`] counts them where there is no namespace. Test: `a_second_thread_is_refused`.
//! - INV-CONFINE-2: a pointer given to a system call points to memory that lives across it and
//!   has the size that the call is told. Each is made from a reference in the same function.
//! - INV-CONFINE-3: a descriptor returned by a system call is owned once. Each is wrapped as it
//!   is returned.
#![allow(unsafe_code, reason = "namespaces, seccomp and fork have no safe interface")]

mod error;
mod filter;
mod layers;
mod level;
mod mounts;
mod profile;
mod scheduling;
mod speculation;
mod supervise;
mod sys;
mod syscalls;

pub use error::{ConfineError, Step};
pub use filter::lock_down;
pub use layers::{reach_only_below, write_only_below};
pub use level::Level;
#[cfg(feature = "testing")]
pub use profile::AblationToken;
pub use profile::{Access, Layer, Limits, Mount, Profile};
pub use scheduling::SchedulingClass;
pub use speculation::SpeculationControl;
pub use supervise::{Ended, supervise};

/// The number of a system call that rows may name, for tests that watch a program's calls.
#[cfg(feature = "testing")]
pub fn system_call_number(name: &str) -> Option<u32> {
    syscalls::number(name)
}

#[cfg(not(target_arch = "x86_64"))]
compile_error!("the filters are written for the x86-64 system call table");

#[cfg(test)]
mod tests;
