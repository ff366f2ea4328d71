//! Where and why a sandbox could not be built.

use crate::level::Level;

/// Where building a sandbox failed.
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
    pub(crate) const ALL: [Self; 15] = [
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
            Step::Threads => "counting the threads of the process (only a single thread can be sandboxed)",
            Step::Namespaces => "entering new namespaces",
            Step::IdMap => "mapping the user into the new namespace",
            Step::Fork => "starting a process",
            Step::Supervision => "supervising the sandbox",
            Step::MountSource => "opening a file or directory to mount",
            Step::MountRoot => "making the root of the sandbox",
            Step::MountTarget => "mounting into the sandbox",
            Step::PivotRoot => "changing to the root of the sandbox",
            Step::StandardInput => "closing standard input",
            Step::ResourceLimits => "setting resource limits",
            Step::Capabilities => "dropping capabilities",
            Step::Landlock => "restricting file access with landlock",
            Step::Seccomp => "restricting system calls with seccomp",
            Step::Execute => "executing the program",
        })
    }
}

/// Why there is no sandbox.
#[derive(Debug, thiserror::Error)]
pub enum ConfineError {
    /// The profile does not say everything that it has to.
    #[error("the profile is not complete: {0}")]
    Profile(String),
    /// This machine cannot build a sandbox of the demanded strength.
    #[error("no sandbox of level {minimum} can be built here: {source}")]
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
