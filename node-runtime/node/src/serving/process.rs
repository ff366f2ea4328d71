//! One worker process: spawned, listened to while it starts, waited for, and never left behind.
//!
//! Must be used from one thread that lives as long as the process: the kernel's "kill me when my
//! parent dies" follows the thread that spawned, not the process.

use std::io::{PipeReader, Read as _};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use command_fds::{CommandFdExt as _, FdMapping};
use mfaas_ident::{Class, MemoryLimit};
use mfaas_ring::preload::{
    CONTROL_BYTES_MAX, ERROR_BYTES_MAX, FD_PRELOAD, FD_REPORT, FD_RING, FD_SLAB, PRELOAD_BYTES_MAX, Preload,
    SpeculationControls, StartLine,
};
use mfaas_ring::{Geometry, HostEnd, WorkerState};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::protection::Started;
use crate::image::sealed_memory;

/// Mapping the slab and lock-down.
const START_WAIT_MAX: Duration = Duration::from_secs(30);
/// How long one wait for the worker's state lasts before it is looked whether it still lives.
const LOOK: Duration = Duration::from_millis(50);
/// Calls that one worker may hold; the scheduler's limit is not above it.
pub(crate) const RING_SLOTS: u32 = 8;
/// Everything that a worker may say while it starts.
const REPORT_BYTES_MAX: usize = (ERROR_BYTES_MAX + 3 * CONTROL_BYTES_MAX) * 6 + 300;

/// What kind of calls a worker is made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WorkerKind {
    /// Of the functions that it runs.
    pub(crate) class: Class,
    /// The largest arena that a call may have.
    pub(crate) memory_max: MemoryLimit,
}

impl WorkerKind {
    /// For functions of class `micro`.
    pub(crate) const MICRO: Self = Self { class: Class::Micro, memory_max: MemoryLimit::MICRO_MAX };

    fn geometry(self) -> Result<Geometry, StartError> {
        match self.class {
            Class::Micro => Geometry::new(RING_SLOTS).map_err(|e| failed("the ring's size", e)),
            Class::Bulk => Ok(Geometry::BULK),
        }
    }
}

/// Why a process did not become ready.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum StartError {
    /// One sentence.
    #[error("{0}")]
    Worker(String),
}

/// Asks a worker that serves nobody what would hold calls on this machine.
pub(crate) fn ask_protection(
    program: &Path,
    speculation: SpeculationControls,
) -> Result<Started, StartError> {
    let controls = serde_json::to_string(&speculation).map_err(|e| failed("encoding the controls", e))?;
    let mut command = Command::new(program);
    command.args(["--protection", &controls]).env_clear().stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = command.output().map_err(|e| failed(&format!("starting {}", program.display()), e))?;
    if !output.status.success() || output.stdout.len() > REPORT_BYTES_MAX {
        return Err(failed("asking a worker what holds calls", output.status));
    }
    what_holds(&output.stdout)
}

/// What a worker says of itself.
fn what_holds(line: &[u8]) -> Result<Started, StartError> {
    match serde_json::from_slice(line).map_err(|e| failed("reading the worker's report", e))? {
        StartLine::Mapped { slots: _, keys, speculation } => Ok(Started { keys, speculation }),
        StartLine::Failed { error } => {
            Err(failed("the worker cannot serve", mfaas_ident::sanitise_line(&error, ERROR_BYTES_MAX)))
        }
    }
}

fn failed(action: &str, cause: impl std::fmt::Display) -> StartError {
    StartError::Worker(format!("{action}: {cause}"))
}

/// A living worker.
#[derive(Debug)]
pub(crate) struct WorkerProcess {
    child: Child,
}

impl WorkerProcess {
    /// Spawns `program` over this slab and waits until it is locked down and ready.
    pub(crate) fn start(
        program: &Path,
        slab: BorrowedFd<'_>,
        speculation: SpeculationControls,
        kind: WorkerKind,
    ) -> Result<(Self, HostEnd, Started), StartError> {
        let (ring_fd, mut ring) =
            mfaas_ring::create(kind.geometry()?).map_err(|e| failed("making the ring", e))?;
        let (mut report, report_fd) = std::io::pipe().map_err(|e| failed("making a pipe", e))?;
        let slab = slab.try_clone_to_owned().map_err(|e| failed("sharing the slab", e))?;
        let mappings = vec![
            FdMapping { parent_fd: ring_fd, child_fd: FD_RING },
            FdMapping { parent_fd: settings(speculation, kind)?, child_fd: FD_PRELOAD },
            FdMapping { parent_fd: OwnedFd::from(report_fd), child_fd: FD_REPORT },
            FdMapping { parent_fd: slab, child_fd: FD_SLAB },
        ];
        let mut worker = Self { child: spawn(program, mappings)? };
        let started = worker.listen(&mut report)?;
        worker.wait_ready(&mut ring)?;
        Ok((worker, ring, started))
    }

    /// Process id, for logs.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// A descriptor that means this process and no other.
    pub(crate) fn descriptor(&self) -> Result<OwnedFd, StartError> {
        pidfd_open(Pid::from_child(&self.child), PidfdFlags::empty())
            .map_err(|e| failed("naming the worker", e))
    }

    /// Waits for the end of the process, however long it lives.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        // An error means that it was reaped already; either way it is not ours any more.
        self.child.wait().unwrap_or_default()
    }

    fn exited(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap_or(Some(ExitStatus::default()))
    }

    /// Reads what the worker says about its start until it closes the pipe.
    fn listen(&mut self, report: &mut PipeReader) -> Result<Started, StartError> {
        let report = read_report(report)?;
        let Some(line) = report.lines().next() else { return Err(self.last_words()) };
        what_holds(line.as_bytes())
    }

    fn wait_ready(&mut self, ring: &mut HostEnd) -> Result<(), StartError> {
        let deadline = Instant::now() + START_WAIT_MAX;
        loop {
            match ring.wait_started(LOOK).map_err(|e| failed("the worker's state", e))? {
                WorkerState::Ready => return Ok(()),
                WorkerState::Stopped => return Err(self.last_words()),
                WorkerState::Starting if self.exited().is_some() || Instant::now() > deadline => {
                    return Err(self.last_words());
                }
                WorkerState::Starting => {}
            }
        }
    }

    fn last_words(&mut self) -> StartError {
        match self.exited() {
            Some(status) => failed("the worker ended while it started", status),
            None => failed("the worker did not become ready", "no reason given"),
        }
    }
}

/// No worker outlives its handle, whatever the way out.
impl Drop for WorkerProcess {
    fn drop(&mut self) {
        if self.exited().is_none() {
            // Both fail only for a process that is gone.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

fn spawn(program: &Path, mappings: Vec<FdMapping>) -> Result<Child, StartError> {
    let mut command = Command::new(program);
    command.env_clear().stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::inherit());
    // A signal for the node's terminal or process group is the node's to handle: workers end after
    // their calls are answered.
    command.process_group(0);
    command.fd_mappings(mappings).map_err(|e| failed("passing descriptors", e))?;
    command.spawn().map_err(|e| failed(&format!("starting {}", program.display()), e))
}

/// Sealed settings. Made for each worker: readers would share one file position.
fn settings(speculation: SpeculationControls, kind: WorkerKind) -> Result<OwnedFd, StartError> {
    let preload = Preload::new(kind.memory_max.as_bytes(), speculation);
    let json = serde_json::to_vec(&preload).map_err(|e| failed("encoding the worker's settings", e))?;
    if json.len() > PRELOAD_BYTES_MAX {
        return Err(failed("encoding the worker's settings", "they are too long"));
    }
    sealed_memory(&json).map_err(|e| failed("memory for the worker's settings", e))
}

fn read_report(report: &mut PipeReader) -> Result<String, StartError> {
    let deadline = Instant::now() + START_WAIT_MAX;
    let mut text = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        let mut fds = [PollFd::new(report, PollFlags::IN)];
        let ready = poll(&mut fds, Some(&timeout)).map_err(|e| failed("waiting for the worker", e))?;
        if ready == 0 {
            return Err(failed("waiting for the worker", "it did not start in time"));
        }
        match report.read(&mut piece).map_err(|e| failed("reading the worker's report", e))? {
            0 => break,
            bytes => text.extend_from_slice(&piece[..bytes]),
        }
        if text.len() > REPORT_BYTES_MAX {
            return Err(failed("reading the worker's report", "the report is too long"));
        }
    }
    String::from_utf8(text).map_err(|e| failed("reading the worker's report", e))
}
