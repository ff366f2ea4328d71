//! A profile becomes a cage: namespaces, mounts, landlock, seccomp, resource limits.
//!
//! [`supervise()`] runs one program in a cage and tells how it ended; [`lock_down`] takes system
//! calls away from a running process; [`probe()`] tells what this kernel allows.
//!
//! Nothing here decides what a profile contains, starts a thread, or weakens a profile silently:
//! a layer that cannot be had is an error, or a lower [`Level`] that the caller has allowed. An
//! empty profile is an error.
//!
//! Programs give up uid 0 before they cage anything. A caged process of uid 0 works too, but
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

mod filter;
mod layers;
mod mounts;
mod probe;
mod profile;
mod speculation;
mod supervise;
mod sys;
mod syscalls;

pub use filter::lock_down;
pub use probe::{Support, probe};
#[cfg(feature = "testing")]
pub use profile::AblationToken;
pub use profile::{Access, Layer, Limits, Mount, Profile};
pub use speculation::SpeculationControl;
pub use supervise::{Ended, supervise};

/// The number of a system call that rows may name, for tests that watch a program's calls.
#[cfg(feature = "testing")]
pub fn system_call_number(name: &str) -> Option<u32> {
    syscalls::number(name)
}

/// How strong a cage is. Ordered: what `Landlock` has, `Full` has too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// landlock, seccomp, resource limits. The host's process ids and file names stay visible.
    Landlock,
    /// The same in its own user, mount, pid, network, IPC, UTS and cgroup namespaces, on a root
    /// that contains nothing but the profile's mounts.
    Full,
}

impl std::fmt::Display for Level {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Level::Landlock => "landlock",
            Level::Full => "full",
        })
    }
}

/// Where building a cage failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
#[allow(missing_docs, reason = "the sentences of Display say it")]
pub enum Step {
    Threads,
    Namespaces,
    IdMap,
    Fork,
    Supervision,
    MountSource,
    MountRoot,
    MountTarget,
    PivotRoot,
    StandardInput,
    ResourceLimits,
    Capabilities,
    Landlock,
    Seccomp,
    Execute,
}

impl Step {
    const ALL: [Self; 15] = [
        Self::Threads,
        Self::Namespaces,
        Self::IdMap,
        Self::Fork,
        Self::Supervision,
        Self::MountSource,
        Self::MountRoot,
        Self::MountTarget,
        Self::PivotRoot,
        Self::StandardInput,
        Self::ResourceLimits,
        Self::Capabilities,
        Self::Landlock,
        Self::Seccomp,
        Self::Execute,
    ];
}

impl std::fmt::Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Step::Threads => "counting the threads of the process (only a single thread can be caged)",
            Step::Namespaces => "entering new namespaces",
            Step::IdMap => "mapping the user into the new namespace",
            Step::Fork => "starting a process",
            Step::Supervision => "supervising the cage",
            Step::MountSource => "opening a file or directory to mount",
            Step::MountRoot => "making the root of the cage",
            Step::MountTarget => "mounting into the cage",
            Step::PivotRoot => "changing to the root of the cage",
            Step::StandardInput => "closing standard input",
            Step::ResourceLimits => "setting resource limits",
            Step::Capabilities => "dropping capabilities",
            Step::Landlock => "restricting file access with landlock",
            Step::Seccomp => "restricting system calls with seccomp",
            Step::Execute => "executing the program",
        })
    }
}

/// Why there is no cage.
#[derive(Debug, thiserror::Error)]
pub enum ConfineError {
    /// The profile does not say everything that it has to.
    #[error("the profile is not complete: {0}")]
    Profile(String),
    /// This machine cannot build a cage of the demanded strength.
    #[error("no cage of level {minimum} can be built here: {source}")]
    BelowMinimum {
        /// What was demanded.
        minimum: Level,
        /// What failed at the weakest level tried.
        source: Box<ConfineError>,
    },
    /// One step failed.
    #[error("{step} failed: {source}")]
    Step {
        /// Which one.
        step: Step,
        /// The kernel's answer.
        source: std::io::Error,
    },
}

impl ConfineError {
    pub(crate) fn at(step: Step) -> impl FnOnce(rustix::io::Errno) -> Self {
        move |errno| Self::Step { step, source: errno.into() }
    }
}

#[cfg(not(target_arch = "x86_64"))]
compile_error!("the filters are written for the x86-64 system call table");

#[cfg(test)]
mod tests;
