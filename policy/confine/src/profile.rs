//! What a sandbox contains and allows. Nothing has a default.

use std::path::{Component, Path, PathBuf};

use mfaas_rules::profiles::seccomp::SeccompRow;

use crate::error::ConfineError;

/// What a sandboxed process may do with a mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Read.
    Read,
    /// Read, and map as code (a proc macro), but not execute.
    Load,
    /// Read, map as code and execute.
    Execute,
    /// Read and write; never map as code.
    Write,
    /// Read, write and map as code: for a job that builds proc macros and then loads them.
    WriteAndLoad,
    /// Read, write, map as code and execute: for a trusted job that builds programs and runs them.
    WriteAndExecute,
}

impl Access {
    /// Whether it may be changed.
    pub fn writable(self) -> bool {
        match self {
            Access::Write | Access::WriteAndLoad | Access::WriteAndExecute => true,
            Access::Read | Access::Load | Access::Execute => false,
        }
    }

    pub(crate) fn loadable(self) -> bool {
        match self {
            Access::Load | Access::Execute | Access::WriteAndLoad | Access::WriteAndExecute => true,
            Access::Read | Access::Write => false,
        }
    }
}

/// A file or directory of the host inside the sandbox.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Mount {
    /// Absolute path on the host; must exist.
    pub source: PathBuf,
    /// Absolute path in the sandbox. At level landlock it has to be the same as `source`.
    pub target: PathBuf,
    /// What may be done with it.
    pub access: Access,
}

/// Resource limits. All are demanded; 0 is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// CPU seconds of each process (RLIMIT_CPU).
    pub cpu_seconds: u64,
    /// Private writable memory of each process, in bytes (RLIMIT_DATA).
    pub data_bytes: u64,
    /// Address space of each process, in bytes (RLIMIT_AS): above `data_bytes` by what a program
    /// maps read-only.
    pub address_space_bytes: u64,
    /// Size of one file written, in bytes (RLIMIT_FSIZE).
    pub file_bytes: u64,
    /// Open descriptors of each process (RLIMIT_NOFILE).
    pub descriptors: u64,
    /// Processes and threads in the sandbox (RLIMIT_NPROC). The kernel does not apply it to uid 0;
    /// from Linux 6.14 on the ids of the pid namespace are bounded too, some 300 above it.
    pub processes: u64,
    /// Stack of a main thread, in bytes (RLIMIT_STACK).
    pub stack_bytes: u64,
    /// Size of the sandbox's own `/tmp`, in bytes. Level landlock has none.
    pub scratch_bytes: u64,
}

/// One layer of a sandbox, to be named by a test that takes it off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// Namespaces and the private root; the level is then landlock.
    Namespaces,
    /// landlock.
    Landlock,
    /// seccomp.
    Seccomp,
    /// Resource limits.
    Limits,
    /// No capabilities, and none by execution.
    Privileges,
    /// No descriptor but the three of a program, and standard input is empty.
    Descriptors,
    /// Limits of all processes together are kept by a control group. (It is made by whoever
    /// starts the process that calls [`crate::supervise()`].)
    ControlGroup,
}

/// Only a test can make one (feature `testing`): it lets a layer be taken off a profile.
#[cfg(feature = "testing")]
#[derive(Debug)]
pub struct AblationToken(());

#[cfg(feature = "testing")]
impl AblationToken {
    /// For tests that show which layer stops an attack.
    pub fn for_tests() -> Self {
        Self(())
    }
}

/// A complete description of a sandbox.
#[derive(Debug, Clone)]
pub struct Profile {
    pub(crate) mounts: Vec<Mount>,
    pub(crate) limits: Limits,
    pub(crate) rows: Vec<SeccompRow>,
    without: Vec<Layer>,
}

impl Profile {
    /// Checks that the profile is complete: something to execute, every limit, every path
    /// absolute and plain, no target above or equal to an earlier one, rows that allow something.
    pub fn new(mounts: Vec<Mount>, limits: Limits, rows: Vec<SeccompRow>) -> Result<Self, ConfineError> {
        if !mounts.iter().any(|mount| mount.access == Access::Execute) {
            return Err(ConfineError::Profile("nothing in it may be executed".to_owned()));
        }
        check_limits(&limits)?;
        if rows.is_empty() {
            return Err(ConfineError::Profile("it allows no system call".to_owned()));
        }
        for (number, mount) in mounts.iter().enumerate() {
            check_path(&mount.source)?;
            check_path(&mount.target)?;
            check_target(mount, &mounts[..number])?;
        }
        Ok(Self { mounts, limits, rows, without: Vec::new() })
    }

    /// The same profile without one more layer.
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn without(mut self, _token: &AblationToken, layer: Layer) -> Self {
        self.without.push(layer);
        self
    }

    pub(crate) fn has(&self, layer: Layer) -> bool {
        !self.without.contains(&layer)
    }

    /// Every mount stands where it stands on the host, so the sandbox needs no root of its own.
    pub fn in_place(&self) -> bool {
        self.mounts.iter().all(|mount| mount.source == mount.target)
    }
}

fn check_limits(limits: &Limits) -> Result<(), ConfineError> {
    let Limits {
        cpu_seconds,
        data_bytes,
        address_space_bytes,
        file_bytes,
        descriptors,
        processes,
        stack_bytes,
        scratch_bytes,
    } = *limits;
    let all = [
        cpu_seconds,
        data_bytes,
        address_space_bytes,
        file_bytes,
        descriptors,
        processes,
        stack_bytes,
        scratch_bytes,
    ];
    // The upper half is how the kernel spells "unlimited" and what adds up to it.
    if all.iter().any(|limit| *limit == 0 || *limit > u64::MAX / 2) {
        return Err(ConfineError::Profile("a limit is 0 or unlimited".to_owned()));
    }
    Ok(())
}

fn check_path(path: &Path) -> Result<(), ConfineError> {
    let plain = path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    // `components` drops `.` and doubled slashes, so a path that spells them is not itself again.
    let same = path.components().collect::<PathBuf>().as_os_str() == path.as_os_str();
    if path.is_absolute() && plain && same && path != Path::new("/") {
        Ok(())
    } else {
        Err(ConfineError::Profile(format!("{} is not a plain absolute path", path.display())))
    }
}

/// `/tmp` and `/dev` are the sandbox's own. A target over an earlier one would hide it.
fn check_target(mount: &Mount, earlier: &[Mount]) -> Result<(), ConfineError> {
    let target = &mount.target;
    let own = *target != mount.source && (target == Path::new("/tmp") || target.starts_with("/dev"));
    let hides = earlier.iter().any(|other| other.target.starts_with(target));
    if own || hides {
        Err(ConfineError::Profile(format!("{} cannot be mounted upon", target.display())))
    } else {
        Ok(())
    }
}
