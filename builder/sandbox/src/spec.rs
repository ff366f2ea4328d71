//! What is to run, and what came of it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use mfaas_confine::{ConfineError, Level, Limits, Mount, Profile};
use mfaas_rules::limits::CompileLimits;
use mfaas_rules::profiles::seccomp::{COMPILER, DEPENDENCY_BUILD, SeccompRow, THROWAWAY_LOAD, with};
use serde::{Deserialize, Serialize};

use crate::exit::Exit;

/// A command and everything it may touch. There is no default for any of it.
///
/// All paths but a mount's source are paths inside the sandbox. Inside there are the mounts,
/// `/dev/null`, `/dev/zero`, `/dev/urandom` and a private `/tmp` (level full only); there is no
/// `/proc`, so a program that finds its libraries by `$ORIGIN` needs `LD_LIBRARY_PATH`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxSpec {
    /// The executable.
    pub program: PathBuf,
    /// Its arguments, without the program's name.
    pub arguments: Vec<String>,
    /// Its whole environment.
    pub environment: Vec<(String, String)>,
    /// Where it starts.
    pub directory: PathBuf,
    /// Files and directories of the host; at least one is to be executed.
    pub mounts: Vec<Mount>,
    /// The system calls that it may make.
    pub filter: Filter,
    /// Its limits.
    pub limits: CompileLimits,
    /// The strength of the sandbox: this one, or none.
    pub level: Level,
}

/// What a program maps read-only or reserves without using: rustc with LLVM maps 350 MB of code
/// and more than 100 MB of metadata.
const MAPPED_BYTES: u64 = 4 << 30;
/// The main thread's stack. rustc gives its own threads what they need.
const STACK_BYTES: u64 = 8 << 20;

impl SandboxSpec {
    pub(crate) fn profile(&self) -> Result<Profile, ConfineError> {
        let limits = Limits {
            cpu_seconds: self.limits.cpu_seconds_max,
            data_bytes: self.limits.memory_bytes_max,
            address_space_bytes: self.limits.memory_bytes_max.saturating_add(MAPPED_BYTES),
            file_bytes: self.limits.file_bytes_max,
            descriptors: self.limits.descriptors_max,
            processes: self.limits.processes_max,
            stack_bytes: STACK_BYTES,
            scratch_bytes: self.limits.file_bytes_max,
        };
        Profile::new(self.mounts.clone(), limits, self.filter.rows())
    }
}

/// Which system calls a command may make.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Filter {
    /// Those of rustc and rust-lld.
    Compiler,
    /// These, and what a worker makes until it has locked itself down.
    ThrowawayLoad,
    /// These, and what cargo, gcc and build scripts make. For trusted sources alone.
    DependencyBuild,
}

impl Filter {
    fn rows(self) -> Vec<SeccompRow> {
        match self {
            Self::Compiler => COMPILER.to_vec(),
            Self::ThrowawayLoad => with(COMPILER, THROWAWAY_LOAD),
            Self::DependencyBuild => with(COMPILER, DEPENDENCY_BUILD),
        }
    }
}

/// Where host paths stand inside sandboxes on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// Level full: at the same fixed place on every machine.
    Fixed,
    /// Level landlock: where they stand on the host.
    InPlace,
}

impl Placement {
    /// The placement that sandboxes of this level have.
    pub fn at(level: Level) -> Self {
        match level {
            Level::Full => Self::Fixed,
            Level::Landlock => Self::InPlace,
        }
    }

    /// The path inside of `host`, which stands at `fixed` where that is possible.
    pub fn inside(self, host: &Path, fixed: &Path) -> PathBuf {
        match self {
            Self::Fixed => fixed.to_owned(),
            Self::InPlace => host.to_owned(),
        }
    }
}

/// How a command ended and what it left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// How it ended.
    pub exit: Exit,
    /// Its standard output, cut where the limit was reached.
    pub stdout: Vec<u8>,
    /// Its standard error, likewise.
    pub stderr: Vec<u8>,
    /// User and system time of all its processes, the sandbox's own included.
    pub cpu: Duration,
    /// From the start of the helper to the end of the last process.
    pub wall: Duration,
    /// The largest resident set of one process, in bytes.
    pub max_rss_bytes: u64,
    /// The strength of the sandbox it ran in.
    pub level: Level,
    /// How the limits of all its processes together were kept.
    pub tree: TreeLimits,
}

/// How the limits on memory, processes and CPU time of all processes of a sandbox together are kept.
/// Each process has the same limits from the kernel besides, whatever this says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TreeLimits {
    /// By the kernel, in a control group.
    Kernel,
    /// By measuring, some twenty times a second: a sandbox may be above them for that long.
    Measured,
    /// Not at all: a sandbox of many processes can use as much as each of them may.
    PerProcess,
}

impl std::fmt::Display for TreeLimits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            TreeLimits::Kernel => "per tree, kept by a control group",
            TreeLimits::Measured => "per tree, measured every 50 ms",
            TreeLimits::PerProcess => "per process",
        })
    }
}
