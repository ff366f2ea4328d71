//! How a sandboxed command ended.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use mfaas_rules::limits::CompileLimits;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// By itself, with this code.
    Code(i32),
    /// By a signal that no limit explains: it crashed. `SIGKILL` comes from outside, and then the sandbox was lost.
    Signal(i32),
    /// By a system call that only an attack makes.
    Denied,
    /// It used its CPU time up.
    CpuLimit,
    /// It took too long.
    WallLimit,
    /// It asked for more memory than it may have.
    MemoryLimit,
    /// It had too many processes and threads at once.
    ProcessLimit,
    /// It printed too much.
    OutputLimit,
    /// It wrote too much, into one file or together.
    FileLimit,
    /// It was cancelled.
    Cancelled,
}

impl Exit {
    /// It ended by itself and says that all is well.
    pub fn success(self) -> bool {
        self == Exit::Code(0)
    }
}

/// What an ended command has used.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Used {
    pub(crate) cpu: Duration,
    pub(crate) max_rss_bytes: u64,
    /// A file in a writable mount has reached the limit of one file.
    pub(crate) file_full: bool,
}

/// Reads a wait status in the light of the limits: programs report the death of their children, a
/// failed allocation or a full file in many ways.
///
/// The kernel counts CPU time for its limit by ticks and for its report exactly, so a tenth less
/// than the limit is the limit.
pub(crate) fn classify(wait_status: i32, used: Used, stderr: &[u8], limits: &CompileLimits) -> Exit {
    let status = ExitStatus::from_raw(wait_status);
    let ended = match (status.code(), status.signal()) {
        (Some(0), _) => return Exit::Code(0),
        (Some(code), _) => Exit::Code(code),
        (None, Some(signal)) => Exit::Signal(signal),
        (None, None) => Exit::Signal(0),
    };
    let signal = status.signal().and_then(rustix::process::Signal::from_named_raw);
    if signal == Some(rustix::process::Signal::SYS) {
        Exit::Denied
    } else if signal == Some(rustix::process::Signal::XCPU)
        || used.cpu * 10 >= Duration::from_secs(limits.cpu_seconds_max) * 9
    {
        Exit::CpuLimit
    } else if signal == Some(rustix::process::Signal::XFSZ) || used.file_full {
        Exit::FileLimit
    } else if out_of_memory(used, stderr, limits) {
        Exit::MemoryLimit
    } else {
        ended
    }
}

/// How std, LLVM, lld and ld.so begin the line about memory that they did not get.
const MEMORY_LINES: [&[u8]; 5] = [
    b"memory allocation of ",
    b"LLVM ERROR: out of memory",
    b"rustc-LLVM ERROR: out of memory",
    b"terminate called after throwing an instance of 'std::bad_alloc'",
    b"error: failed to allocate memory",
];

fn out_of_memory(used: Used, stderr: &[u8], limits: &CompileLimits) -> bool {
    let nearly_full = limits.memory_bytes_max / 10 * 9;
    let is_reported = stderr
        .split(|byte| *byte == b'\n')
        .any(|line| MEMORY_LINES.iter().any(|beginning| line.starts_with(beginning)));
    is_reported || used.max_rss_bytes >= nearly_full
}
