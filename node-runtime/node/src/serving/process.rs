//! One worker process: spawned, listened to while it loads, stopped, and never left behind.
//!
//! Must be used from one thread that lives as long as the process: the kernel's "kill me when my
//! parent dies" follows the thread that spawned, not the process.

use std::io::{PipeReader, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use command_fds::{CommandFdExt as _, FdMapping};
use mfaas_ring::preload::{
    ERROR_BYTES_MAX, FD_PRELOAD, FD_REPORT, FD_RING, ITEMS_MAX, PRELOAD_BYTES_MAX, Preload, PreloadItem,
    StartLine,
};
use mfaas_ring::{Geometry, HostEnd, WorkerState};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::agent::{VerifiedImage, sealed_memory};

/// Descriptors of images start here; the numbers below are taken by the contract.
const FD_IMAGES: i32 = 10;
/// Loading a whole generation, lock-down included.
const START_WAIT_MAX: Duration = Duration::from_secs(60);
/// A worker that was asked to leave gets this long.
const STOP_WAIT_MAX: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(5);
/// One call is in flight at a time, so that a crash names its function; the second slot lets the
/// next submission follow a collection at once.
const RING_SLOTS: u32 = 2;
/// Everything that a worker may say while it loads.
const REPORT_BYTES_MAX: usize = ITEMS_MAX * (ERROR_BYTES_MAX * 6 + 100);

/// Why a worker did not become ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StartError {
    /// These functions cannot be loaded: index and sentence. The others can.
    Functions(Vec<(usize, String)>),
    /// The worker as a whole did not start.
    Worker(String),
}

impl StartError {
    fn worker(action: &str, error: impl std::fmt::Display) -> Self {
        Self::Worker(format!("{action}: {error}"))
    }
}

/// A living worker and the node's end of its ring.
#[derive(Debug)]
pub(crate) struct WorkerProcess {
    child: Child,
    pub(crate) ring: HostEnd,
}

impl WorkerProcess {
    /// Spawns `program` with these images and waits until it is locked down and ready.
    pub(crate) fn start(program: &Path, images: &[Arc<VerifiedImage>]) -> Result<Self, StartError> {
        let geometry = Geometry::new(RING_SLOTS).map_err(|e| StartError::worker("the ring's size", e))?;
        let (ring_fd, ring) =
            mfaas_ring::create(geometry).map_err(|e| StartError::worker("making the ring", e))?;
        let preload = preload_memory(images)?;
        let (mut report, report_fd) = std::io::pipe().map_err(|e| StartError::worker("making a pipe", e))?;

        let mut mappings = vec![
            FdMapping { parent_fd: ring_fd, child_fd: FD_RING },
            FdMapping { parent_fd: preload, child_fd: FD_PRELOAD },
            FdMapping { parent_fd: OwnedFd::from(report_fd), child_fd: FD_REPORT },
        ];
        for (child_fd, image) in (FD_IMAGES..).zip(images) {
            let parent_fd =
                image.memory().try_clone_to_owned().map_err(|e| StartError::worker("sharing an image", e))?;
            mappings.push(FdMapping { parent_fd, child_fd });
        }
        let child = spawn(program, mappings)?;
        let mut worker = Self { child, ring };
        worker.listen(&mut report, images.len())?;
        worker.wait_ready()?;
        Ok(worker)
    }

    /// Process id, for logs.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How the process ended, if it has.
    pub(crate) fn exited(&mut self) -> Option<ExitStatus> {
        // An error means that it was reaped already; either way it is not ours any more.
        self.child.try_wait().unwrap_or(Some(ExitStatus::default()))
    }

    /// Asks the worker to leave, and ends it if it does not.
    pub(crate) fn stop(mut self) {
        self.ring.stop();
        let deadline = Instant::now() + STOP_WAIT_MAX;
        while self.exited().is_none() && Instant::now() < deadline {
            std::thread::sleep(LOOK);
        }
    }

    /// Reads what the worker says about loading until it closes the pipe.
    fn listen(&mut self, report: &mut PipeReader, images: usize) -> Result<(), StartError> {
        let said = read_report(report)?;
        let mut failed = Vec::new();
        let mut loaded = None;
        for line in said.lines() {
            match serde_json::from_str(line)
                .map_err(|e| StartError::worker("reading the worker's report", e))?
            {
                StartLine::Failed { function, error } if (function as usize) < images => {
                    let error = mfaas_ident::sanitise_line(&error, ERROR_BYTES_MAX);
                    failed.push((function as usize, error));
                }
                StartLine::Failed { .. } => {
                    return Err(StartError::Worker(
                        "the worker names an image that it was not given".to_owned(),
                    ));
                }
                StartLine::Loaded { functions } => loaded = Some(functions as usize),
            }
        }
        if !failed.is_empty() {
            return Err(StartError::Functions(failed));
        }
        match loaded {
            Some(count) if count == images => Ok(()),
            Some(_) | None => Err(StartError::Worker(self.last_words())),
        }
    }

    fn wait_ready(&mut self) -> Result<(), StartError> {
        let deadline = Instant::now() + START_WAIT_MAX;
        loop {
            match self.ring.worker_state().map_err(|e| StartError::worker("the worker's state", e))? {
                WorkerState::Ready => return Ok(()),
                WorkerState::Stopped => return Err(StartError::Worker(self.last_words())),
                WorkerState::Starting if self.exited().is_some() || Instant::now() > deadline => {
                    return Err(StartError::Worker(self.last_words()));
                }
                WorkerState::Starting => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    }

    fn last_words(&mut self) -> String {
        match self.exited() {
            Some(status) => format!("the worker ended while it loaded: {status}"),
            None => "the worker did not become ready".to_owned(),
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
    command.fd_mappings(mappings).map_err(|e| StartError::worker("passing descriptors", e))?;
    command.spawn().map_err(|e| StartError::worker(&format!("starting {}", program.display()), e))
}

/// A sealed list of what to load. Made for each worker: readers would share one file position.
fn preload_memory(images: &[Arc<VerifiedImage>]) -> Result<OwnedFd, StartError> {
    let items = (FD_IMAGES..).zip(images).map(|(fd, image)| {
        let key = image.key();
        PreloadItem {
            fd,
            digest: key.digest.to_string(),
            label: key.to_string(),
            budget_us: key.budget.as_micros(),
            memory_bytes: key.memory.as_bytes(),
        }
    });
    let preload =
        Preload { abi_version: mfaas_abi::ABI_VERSION, node_pid: std::process::id(), items: items.collect() };
    let json =
        serde_json::to_vec(&preload).map_err(|e| StartError::worker("encoding the preload list", e))?;
    if json.len() > PRELOAD_BYTES_MAX || preload.items.len() > ITEMS_MAX {
        return Err(StartError::Worker(format!("a worker loads at most {ITEMS_MAX} functions")));
    }
    sealed_memory(&json).map_err(|e| StartError::worker("memory for the preload list", e))
}

fn read_report(report: &mut PipeReader) -> Result<String, StartError> {
    let deadline = Instant::now() + START_WAIT_MAX;
    let mut said = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        let mut fds = [PollFd::new(report, PollFlags::IN)];
        let ready =
            poll(&mut fds, Some(&timeout)).map_err(|e| StartError::worker("waiting for the worker", e))?;
        if ready == 0 {
            return Err(StartError::Worker("the worker did not finish loading in time".to_owned()));
        }
        match report.read(&mut piece).map_err(|e| StartError::worker("reading the worker's report", e))? {
            0 => break,
            bytes => said.extend_from_slice(&piece[..bytes]),
        }
        if said.len() > REPORT_BYTES_MAX {
            return Err(StartError::Worker("the worker says too much".to_owned()));
        }
    }
    String::from_utf8(said).map_err(|e| StartError::worker("reading the worker's report", e))
}
