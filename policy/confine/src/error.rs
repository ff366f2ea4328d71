//! Where and why a sandbox could not be built.

use crate::level::Level;

/// Where building a sandbox failed. What a container's seccomp profile may deny is named by its system call, so that
/// whoever writes the profile finds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
#[allow(missing_docs, reason = "the sentences of Display say it")]
pub enum Step {
    Threads,
    Namespaces,
    IdMap,
    Fork,
    Supervision,
    MountPropagation,
    MountSource,
    MountFlags,
    MountContext,
    MountSettings,
    MountNew,
    MountTarget,
    MountMove,
    PivotRoot,
    UnmountRoot,
    StandardInput,
    ResourceLimits,
    Capabilities,
    Landlock,
    Seccomp,
    Execute,
}

impl Step {
    pub(crate) const ALL: [Self; 21] = [
        Self::Threads,
        Self::Namespaces,
        Self::IdMap,
        Self::Fork,
        Self::Supervision,
        Self::MountPropagation,
        Self::MountSource,
        Self::MountFlags,
        Self::MountContext,
        Self::MountSettings,
        Self::MountNew,
        Self::MountTarget,
        Self::MountMove,
        Self::PivotRoot,
        Self::UnmountRoot,
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
            Step::Namespaces => "entering new namespaces (unshare)",
            Step::IdMap => "mapping the user into the new namespace",
            Step::Fork => "starting a process",
            Step::Supervision => "supervising the sandbox",
            Step::MountPropagation => "keeping mounts to the sandbox (mount)",
            Step::MountSource => "opening a file or directory to mount (open_tree)",
            Step::MountFlags => "restricting a mount of the sandbox (mount_setattr)",
            Step::MountContext => "making a file system for the sandbox (fsopen)",
            Step::MountSettings => "setting up a file system for the sandbox (fsconfig)",
            Step::MountNew => "making a mount for the sandbox (fsmount)",
            Step::MountTarget => "making a place to mount at in the sandbox",
            Step::MountMove => "mounting into the sandbox (move_mount)",
            Step::PivotRoot => "changing to the root of the sandbox (pivot_root)",
            Step::UnmountRoot => "letting go of the old root (umount2)",
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
    #[error("no sandbox of level {level} can be built here: {source}")]
    NotReached {
        /// What was demanded.
        level: Level,
        /// What failed.
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
