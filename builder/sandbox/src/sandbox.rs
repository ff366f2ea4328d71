//! Running a command: start the helper, feed it the spec, gather output, keep the limits that the
//! kernel does not keep (wall time, output, bytes written together, and what all processes use).

use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mfaas_confine::Layer;
use mfaas_rules::limits::STOPPABLE_WALL_FACTOR;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::Signal;

use crate::courtesy::Courtesy;
use crate::error::SandboxError;
use crate::exit::{Exit, Used, classify};
use crate::helper::{Reply, Request, SANDBOX_EXEC};
use crate::monitor::Monitor;
use crate::spec::{Filter, Outcome, SandboxSpec};
use crate::written::written;

/// How often the bytes written and the use of all processes are counted.
const COUNT_EVERY: Duration = Duration::from_millis(50);
/// How long a sandbox that has been told to end may take, before its helper is killed. Gigabytes of
/// memory are given back by processes that have stepped back behind all others.
const END_GRACE: Duration = Duration::from_secs(30);
/// Size of a reply; it holds a few numbers and a sentence.
const REPLY_BYTES_MAX: usize = 64 << 10;

/// A command that is ready to run, any number of times.
#[derive(Debug, Clone)]
pub struct Sandbox {
    spec: SandboxSpec,
    helper: PathBuf,
    without: Option<Layer>,
    is_trial: bool,
    /// Where the isolation controller of this machine listens, if it is to place each command.
    isolation: Option<PathBuf>,
}

/// Ends running sandboxes from another thread: all that were given a clone of it, and those that are
/// started with one afterwards.
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Nothing is cancelled yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Kills everything in the sandboxes, within some 50 ms. [`Sandbox::run`] then returns
    /// [`Exit::Cancelled`], unless the command ended before.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Sandbox {
    /// Checks the spec. `helper` is an executable that calls [`crate::sandbox_exec_main`] when its
    /// first argument is [`SANDBOX_EXEC`]: the calling program's own.
    pub fn new(spec: SandboxSpec, helper: impl Into<PathBuf>) -> Result<Self, SandboxError> {
        spec.profile().map_err(|error| SandboxError::Refused { reason: error.to_string() })?;
        Ok(Self { spec, helper: helper.into(), without: None, is_trial: false, isolation: None })
    }

    /// The same, which ends where it would execute the program.
    pub(crate) fn of_trial(spec: SandboxSpec, helper: impl Into<PathBuf>) -> Result<Self, SandboxError> {
        Ok(Self { is_trial: true, ..Self::new(spec, helper)? })
    }

    /// The same, whose command is part of this machine's secondary: the isolation controller at this socket may let it stand still for
    /// a while, for which it has more wall time, and end it when memory runs low, which is our fault and not the command's.
    #[must_use]
    pub fn placed_by(mut self, isolation: Option<PathBuf>) -> Self {
        self.isolation = isolation;
        self
    }

    fn wall_max(&self) -> Duration {
        let seconds = self.spec.limits.wall_seconds_max;
        let factor = if self.isolation.is_some() { STOPPABLE_WALL_FACTOR } else { 1 };
        Duration::from_secs(seconds.saturating_mul(factor))
    }

    /// Nothing of the command has started yet, and its groups will lie below those that it is placed in.
    fn place(&self, child: &Child) -> Result<(), SandboxError> {
        let Some(socket) = &self.isolation else { return Ok(()) };
        mfaas_isolation_client::place_stoppable_child(socket, child.id())
            .map_err(|error| SandboxError::GaveWay(error.to_string()))
    }

    /// Whoever is lost may have been ended by the isolation controller, which says so.
    fn explained(&self, error: SandboxError, pid: u32) -> SandboxError {
        let asked = self.isolation.as_ref().filter(|_| matches!(error, SandboxError::Lost(_)));
        match asked.map(|socket| mfaas_isolation_client::has_ended(socket, pid)) {
            Some(Ok(true)) => {
                SandboxError::GaveWay("memory was low, and the isolation controller ended it".to_owned())
            }
            Some(Ok(false) | Err(_)) | None => error,
        }
    }

    /// The same sandbox without one layer, if its helper is a test's.
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn without(mut self, _token: &mfaas_confine::AblationToken, layer: Layer) -> Self {
        self.without = Some(layer);
        self
    }

    /// Runs the command to its end. Blocks; returns when nothing of it is left.
    pub fn run(&self, cancel: &Cancel) -> Result<Outcome, SandboxError> {
        let start = Instant::now();
        let (ours, theirs) = UnixStream::pair().map_err(|error| SandboxError::Lost(error.to_string()))?;
        let request = self.request()?;
        let child = self.start(theirs)?;
        let pid = child.id();
        let mut running = Running::new(self, child, ours, start)?;
        let gathered = running.send(&request).and_then(|()| running.gather(cancel));
        let reaped = running.finish();
        let outcome = gathered.and(reaped).and_then(|()| running.outcome(self));
        outcome.map_err(|error| self.explained(error, pid))
    }

    fn start(&self, theirs: UnixStream) -> Result<Child, SandboxError> {
        Command::new(&self.helper)
            .arg(SANDBOX_EXEC)
            .env_clear()
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|source| SandboxError::Helper { helper: self.helper.display().to_string(), source })
    }

    /// What the helper is to know.
    fn request(&self) -> Result<Vec<u8>, SandboxError> {
        let request = Request { spec: self.spec.clone(), without: self.without, is_trial: self.is_trial };
        let mut line = serde_json::to_vec(&request).map_err(|error| SandboxError::Refused {
            reason: format!("the spec cannot be written: {error}"),
        })?;
        line.push(b'\n');
        Ok(line)
    }

    fn writable(&self) -> Vec<PathBuf> {
        let mounts = self.spec.mounts.iter();
        mounts.filter(|mount| mount.access.writable()).map(|mount| mount.source.clone()).collect()
    }
}

/// A started helper and what it has said so far.
struct Running<'sandbox> {
    sandbox: &'sandbox Sandbox,
    monitor: Monitor,
    child: Child,
    socket: UnixStream,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    out: Vec<u8>,
    err: Vec<u8>,
    reply: Vec<u8>,
    reply_ended: bool,
    writable: Vec<PathBuf>,
    courtesy: Courtesy,
    start: Instant,
    /// Why it was told to end, and when.
    ended: Option<(Exit, Instant)>,
}

fn lost(what: &'static str) -> impl Fn(std::io::Error) -> SandboxError {
    move |error| SandboxError::Lost(format!("{what}: {error}"))
}

impl<'sandbox> Running<'sandbox> {
    fn new(
        sandbox: &'sandbox Sandbox,
        mut child: Child,
        socket: UnixStream,
        start: Instant,
    ) -> Result<Self, SandboxError> {
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let monitor =
            sandbox.place(&child).and_then(|()| Monitor::new(child.id(), &sandbox.spec, sandbox.without));
        let monitor = monitor.inspect_err(|_| {
            let _ = child.kill();
            let _ = child.wait();
        })?;
        Ok(Self {
            courtesy: Courtesy::new(child.id()),
            sandbox,
            monitor,
            child,
            socket,
            stdout,
            stderr,
            out: Vec::new(),
            err: Vec::new(),
            reply: Vec::new(),
            reply_ended: false,
            writable: sandbox.writable(),
            start,
            ended: None,
        })
    }

    fn send(&mut self, request: &[u8]) -> Result<(), SandboxError> {
        self.socket.write_all(request).map_err(lost("the helper takes no request"))
    }

    /// Reads until all three ends are closed, and ends the sandbox when a limit is reached.
    fn gather(&mut self, cancel: &Cancel) -> Result<(), SandboxError> {
        let mut counted = Instant::now();
        while self.stdout.is_some() || self.stderr.is_some() || !self.reply_ended {
            self.wait_and_read()?;
            if self.ended.is_none() && counted.elapsed() >= COUNT_EVERY {
                counted = Instant::now();
                // Somebody waits for the trusted job, and nobody hostile can make it long.
                if self.sandbox.spec.filter != Filter::DependencyBuild {
                    self.courtesy.keep(self.start.elapsed());
                }
                if written(&self.writable).total_bytes > self.sandbox.spec.limits.file_bytes_max {
                    self.end(Exit::FileLimit);
                } else if let Some(exit) = self.monitor.broken(self.child.id(), &self.sandbox.spec.limits) {
                    self.end(exit);
                }
            }
            let limits = &self.sandbox.spec.limits;
            if self.ended.is_none() && cancel.cancelled() {
                self.end(Exit::Cancelled);
            } else if self.ended.is_none() && self.start.elapsed() >= self.sandbox.wall_max() {
                self.end(Exit::WallLimit);
            } else if self.output_bytes() > limits.output_bytes_max {
                self.end(Exit::OutputLimit);
            }
            if self.ended.is_some_and(|(_, since)| since.elapsed() > END_GRACE) {
                return Err(SandboxError::Lost("the sandbox did not end after it was killed".to_owned()));
            }
        }
        Ok(())
    }

    fn output_bytes(&self) -> u64 {
        (self.out.len() + self.err.len()) as u64
    }

    /// Tells the helper to kill everything. The first reason counts.
    fn end(&mut self, exit: Exit) {
        if self.ended.is_none() {
            self.ended = Some((exit, Instant::now()));
            self.courtesy.end();
            // An error means that the helper has ended.
            let _ = self.socket.shutdown(Shutdown::Write);
        }
    }

    /// One round of poll and read.
    fn wait_and_read(&mut self) -> Result<(), SandboxError> {
        let mut ends = Vec::new();
        let mut kinds = Vec::new();
        let named = [
            (End::Out, self.stdout.as_ref().map(AsFd::as_fd)),
            (End::Err, self.stderr.as_ref().map(AsFd::as_fd)),
            (End::Reply, (!self.reply_ended).then(|| self.socket.as_fd())),
        ];
        for (kind, descriptor) in named {
            if let Some(descriptor) = descriptor {
                ends.push(PollFd::from_borrowed_fd(descriptor, PollFlags::IN));
                kinds.push(kind);
            }
        }
        let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(COUNT_EVERY.subsec_nanos()) };
        match rustix::event::poll(&mut ends, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(lost("waiting for the sandbox")(errno.into())),
        }
        let ready: Vec<End> = ends
            .iter()
            .zip(&kinds)
            .filter(|(end, _)| !end.revents().is_empty())
            .map(|(_, kind)| *kind)
            .collect();
        ready.into_iter().try_for_each(|kind| self.read(kind))
    }

    fn read(&mut self, kind: End) -> Result<(), SandboxError> {
        let mut chunk = [0; 64 << 10];
        let result = match kind {
            End::Out => self.stdout.as_mut().map_or(Ok(0), |pipe| pipe.read(&mut chunk)),
            End::Err => self.stderr.as_mut().map_or(Ok(0), |pipe| pipe.read(&mut chunk)),
            End::Reply => self.socket.read(&mut chunk),
        };
        match (kind, result) {
            (End::Out, Ok(0)) => self.stdout = None,
            (End::Err, Ok(0)) => self.stderr = None,
            // A helper that dies with the request unread resets the connection.
            (End::Reply, Ok(0) | Err(_)) => self.reply_ended = true,
            (End::Out, Ok(length)) => keep(&mut self.out, &chunk[..length], self.ended.is_none()),
            (End::Err, Ok(length)) => keep(&mut self.err, &chunk[..length], self.ended.is_none()),
            (End::Reply, Ok(length)) if self.reply.len() + length <= REPLY_BYTES_MAX => {
                self.reply.extend_from_slice(&chunk[..length]);
            }
            (End::Reply, Ok(_)) => self.reply_ended = true,
            (End::Out | End::Err, Err(error)) if error.kind() == ErrorKind::Interrupted => {}
            (End::Out | End::Err, Err(error)) => return Err(lost("reading the sandbox's output")(error)),
        }
        Ok(())
    }

    /// Leaves no helper behind, whatever happened before.
    fn finish(&mut self) -> Result<(), SandboxError> {
        let _ = self.socket.shutdown(Shutdown::Both);
        let deadline = Instant::now() + END_GRACE;
        while Instant::now() < deadline {
            match self.child.try_wait() {
                Ok(Some(_)) => return Ok(()),
                Ok(None) => std::thread::sleep(Duration::from_micros(200)),
                Err(error) => return Err(lost("waiting for the helper")(error)),
            }
        }
        let _ = self.child.kill();
        self.child.wait().map(|_| ()).map_err(lost("waiting for the helper"))
    }

    fn outcome(self, sandbox: &Sandbox) -> Result<Outcome, SandboxError> {
        let wall = self.start.elapsed();
        let reply: Reply =
            serde_json::from_slice(&self.reply).map_err(|_| SandboxError::Lost(self.last_output()))?;
        let (level, wait_status, cpu, max_rss_bytes) = match reply {
            Reply::Refused { reason } => return Err(SandboxError::Refused { reason }),
            Reply::Ended { level, wait_status, cpu, max_rss_bytes } => {
                (level, wait_status, cpu, max_rss_bytes)
            }
        };
        let cpu = cpu.max(self.courtesy.used());
        let limits = &sandbox.spec.limits;
        let cpu = self.monitor.cpu().unwrap_or(cpu);
        let left = written(&self.writable);
        let used = Used { cpu, max_rss_bytes, file_full: left.longest_bytes >= limits.file_bytes_max };
        let exit = match (self.ended, wait_status) {
            (Some((exit, _)), _) => exit,
            (None, status) if status != Some(0) && self.monitor.out_of_memory() => Exit::MemoryLimit,
            (None, None) => return Err(SandboxError::Lost("it was killed from outside".to_owned())),
            (None, Some(_)) if left.total_bytes > limits.file_bytes_max => Exit::FileLimit,
            (None, Some(status)) => classify(status, used, &self.err, limits),
        };
        // The kernel, when memory of the machine or of all builds together ran out: no verdict about what was built.
        if exit == Exit::Signal(Signal::KILL.as_raw()) {
            return Err(SandboxError::Lost("its command was killed from outside".to_owned()));
        }
        let tree = self.monitor.kept();
        Ok(Outcome { exit, stdout: self.out, stderr: self.err, cpu, wall, max_rss_bytes, level, tree })
    }

    /// What a helper that sent no reply has printed instead.
    fn last_output(&self) -> String {
        let text = String::from_utf8_lossy(&self.err);
        format!("the helper sent no reply: {}", text.chars().take(500).collect::<String>())
    }
}

/// One of the descriptors that are read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Out,
    Err,
    Reply,
}

/// Output of a sandbox that has been told to end is read, so that it can end, and dropped.
fn keep(buffer: &mut Vec<u8>, bytes: &[u8], wanted: bool) {
    if wanted {
        buffer.extend_from_slice(bytes);
    }
}
