//! mfaas itself: the real worker program behind the real ring, the executor in this process, and a
//! running node behind HTTP, for one tenant or for many. All that this benchmark knows of the node runtime is here, in
//! `executor`, `home`, `node` and `site`.
//!
//! It must never reach into the runtime: what it measures is what a node has.

mod callers;
mod data;
mod executor;
mod home;
mod node;
mod site;

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use command_fds::{CommandFdExt as _, FdMapping};
use mfaas_abi::Status;
use mfaas_abi::frame::{ResponseFrame, encode_request};
use mfaas_executor::{SlabGeometry, SlabWriter, Verification, sealed_copy};
use mfaas_ring::clock::{Rate, ticks};
use mfaas_ring::preload::{FD_PRELOAD, FD_REPORT, FD_RING, FD_SLAB, Preload, SpeculationControls, StartLine};
use mfaas_ring::{Completion, Geometry, HostEnd, Submission, WorkerState, create};
use rustix::process::{Pid, Signal, kill_process};

pub use callers::{Callers, Shown};
pub use data::{CALLED, Data, Reached};
pub use executor::{InExecutor, InProcess, Kept, Kill, LOOK_US, Loaded, WaitingInExecutor};
pub use node::{DISPATCHER_THREAD, INGRESS_THREADS, Node, become_program, on_cores};
pub use site::{BulkTarget, More, Pools, Site, Target, Tenant};

use super::{Kit, Side, Timing, scattered};
use crate::function::{Constants, REQUEST_BYTES};
use crate::functions::{Form, Kind, glanced, request, verified};
use crate::sys::{Tsc, pin, stamp};

/// What is on in the worker while a function runs.
const WORKER_PROTECTIONS: &str = "own stack and arena, data reset before and wiped after, budget of CPU time with a \
     watchdog, filter of system calls (seccomp)";
/// What is on in the executor of this process.
pub const EXECUTOR_PROTECTIONS: &str = "own stack and arena, data reset before and wiped after, budget of CPU time with a \
     watchdog on the other core; no filter of system calls, no protection keys";

/// Slots of the ring, all of them used by [`Side::pipelined`].
const SLOTS: u32 = 64;
/// Arena of every function, in bytes.
const MEMORY_BYTES: u64 = 1 << 20;
/// Functions of one worker, at most: what a node's slab can name.
pub const FUNCTIONS_MAX: usize = SlabGeometry::NODE.slots;
/// CPU time of a function that is meant to end by itself, in microseconds.
pub const BUDGET_US: u64 = 50_000;
/// A worker is not signalled again for the same deadline before so many microseconds.
const AGAIN_US: u64 = 20;
/// Looks for an answer between two looks at the deadline: a look fetches a line of memory that the
/// worker writes in every call.
const LOOKS: u32 = 32;

const START_WAIT_MAX: Duration = Duration::from_secs(120);
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(10);
/// Looks between two looks at the clock and at the worker's life.
const SPINS: u32 = 1 << 16;

/// One function of a worker.
#[derive(Debug, Clone, Copy)]
pub struct Served {
    /// What it does and who it is: its id is its slot in the slab.
    pub constants: Constants,
    /// CPU time of one call, in microseconds.
    pub budget_us: u64,
}

/// `count` functions of one kind that end by themselves.
pub fn equal(kind: Kind, count: usize) -> Vec<Served> {
    (0..count as u64).map(|id| Served { constants: kind.constants(id), budget_us: BUDGET_US }).collect()
}

/// The node's worker program behind the node's ring.
pub struct Worker {
    host: HostEnd,
    child: Child,
    /// Kept, as a node keeps it: what it wrote is what the worker runs.
    slab: SlabWriter,
    served: Vec<Served>,
    frame: Vec<u8>,
    answer: Completion,
    /// Whether the worker said that its calls run under protection keys.
    keys: bool,
    number: u64,
    signalled: u64,
    signal_after: u64,
    again: u64,
}

impl Worker {
    /// Starts a worker on the worker's core and waits until it is locked down and ready.
    pub fn start(kit: &Kit, form: Form, served: Vec<Served>) -> anyhow::Result<Self> {
        Self::start_with_most(kit, form, served, Duration::MAX)
    }

    /// As [`Self::start`], with as many of the functions as are loaded in `load_max`, at least one.
    pub fn start_with_most(
        kit: &Kit,
        form: Form,
        mut served: Vec<Served>,
        load_max: Duration,
    ) -> anyhow::Result<Self> {
        let most = FUNCTIONS_MAX;
        ensure!(served.len() <= most, "the worker takes at most {most} functions, not {}", served.len());
        let geometry = Geometry::new(SLOTS)?;
        let (ring, host) = create(geometry)?;
        let (reader, writer) = std::io::pipe().context("a pipe")?;
        let list = sealed_copy(&serde_json::to_vec(&preload())?)?;
        let slab = loaded(kit, form, &mut served, load_max)?;
        let memory = slab.fd().try_clone_to_owned().context("the slab's descriptor")?;
        let report = OwnedFd::from(writer);
        let descriptors = vec![(ring, FD_RING), (list, FD_PRELOAD), (report, FD_REPORT), (memory, FD_SLAB)];
        let child = spawn(kit, descriptors)?;
        let mut worker = Self {
            host,
            child,
            slab,
            served,
            frame: Vec::new(),
            answer: Completion::new(),
            keys: false,
            number: 0,
            signalled: 0,
            signal_after: 0,
            again: Rate::measured().ticks_of_us(AGAIN_US),
        };
        worker.ready(reader)?;
        Ok(worker)
    }

    /// How many functions it has.
    pub fn functions(&self) -> usize {
        self.served.len()
    }

    fn ready(&mut self, mut report: impl std::io::Read) -> anyhow::Result<()> {
        let mut text = String::new();
        report.read_to_string(&mut text).context("read the worker's report")?;
        for line in text.lines() {
            match serde_json::from_str(line).context("a line of the report")? {
                StartLine::Failed { error } => bail!("the worker does not start: {error}"),
                StartLine::Mapped { keys, .. } => self.keys = keys.on,
            }
        }
        let state = self.host.wait_started(START_WAIT_MAX)?;
        ensure!(state == WorkerState::Ready, "the worker is not ready");
        Ok(())
    }

    fn submit(&mut self, call_id: u64, function: u64, body: &[u8; REQUEST_BYTES]) -> anyhow::Result<()> {
        self.frame.clear();
        encode_request(&mut self.frame, "POST", "/", [], body).map_err(|e| anyhow::anyhow!("{e}"))?;
        let served = self.served.get(function as usize).context("no such function")?;
        let budget_us = u32::try_from(served.budget_us).context("a long budget")?;
        let (function, memory_bytes) = (function as u32, MEMORY_BYTES);
        let frame = &self.frame;
        Ok(self.host.submit(Submission {
            call_id,
            function,
            budget_us,
            memory_bytes,
            frame,
            resumes: false,
            may_ask: false,
            yields: false,
        })?)
    }

    /// Spins until the next completion, which is in `answer` then, and watches its deadline.
    fn completion(&mut self) -> anyhow::Result<()> {
        let deadline = Instant::now() + ANSWER_WAIT_MAX;
        loop {
            for spin in 1..=SPINS {
                if self.host.collect(&mut self.answer)? {
                    return Ok(());
                }
                if spin.is_multiple_of(LOOKS) {
                    self.watch()?;
                }
                std::hint::spin_loop();
            }
            if let Some(status) = self.child.try_wait().context("look after the worker")? {
                bail!("the worker ended with {status}");
            }
            ensure!(Instant::now() < deadline, "the worker does not answer");
        }
    }

    /// What a dispatcher does for a call whose budget may be used up: the worker is signalled and
    /// looks itself.
    fn watch(&mut self) -> anyhow::Result<()> {
        let deadline = self.host.watch_deadline();
        if deadline == 0 {
            return Ok(());
        }
        let now = ticks();
        if deadline <= now && (deadline != self.signalled || self.signal_after <= now) {
            (self.signalled, self.signal_after) = (deadline, now.saturating_add(self.again));
            kill_process(Pid::from_child(&self.child), Signal::ALARM).context("signal the worker")?;
        }
        Ok(())
    }

    /// Verifies the last answer as [`glanced`] does.
    fn glance(&self, number: u64, function: u64) -> anyhow::Result<()> {
        let done = &self.answer;
        let served = self.served.get(function as usize).context("no such function")?;
        ensure!(done.status == Status::Ok, "function {function} ended as {:?}", done.status);
        let frame = ResponseFrame::decode(&done.response).map_err(|e| anyhow::anyhow!("{e}"))?;
        glanced(number, &served.constants, &request(number), frame.body)
    }

    fn verify(&self, function: u64, body: &[u8; REQUEST_BYTES]) -> anyhow::Result<()> {
        let done = &self.answer;
        let served = self.served.get(function as usize).context("no such function")?;
        ensure!(done.status == Status::Ok, "function {function} ended as {:?}", done.status);
        let frame = ResponseFrame::decode(&done.response).map_err(|e| anyhow::anyhow!("{e}"))?;
        verified(&served.constants, body, frame.body)
    }

    /// Makes each call of `plan` at its time, whether or not earlier ones were answered, and waits
    /// for all. Latency counts from the planned time, so that a queue is part of it.
    pub fn open_loop(&mut self, plan: &[Planned], tsc: Tsc) -> anyhow::Result<OpenLoop> {
        let mut outcome = OpenLoop::default();
        let mut waiting: VecDeque<&Planned> = VecDeque::new();
        let mut next = plan.iter().peekable();
        let begin = stamp();
        let last = Instant::now() + ANSWER_WAIT_MAX + Duration::from_micros(plan.len() as u64 * 200);
        let mut looks = 0_u32;
        while (next.peek().is_some() || !waiting.is_empty()) && Instant::now() < last {
            let now = stamp().wrapping_sub(begin);
            if let Some(due) = next.next_if(|due| due.at <= now && self.host.has_room()) {
                self.submit(due.number, due.function, &request(due.number))?;
                waiting.push_back(due);
            }
            if self.host.collect(&mut self.answer)? {
                let answered = stamp().wrapping_sub(begin);
                let planned = waiting.pop_front().context("an answer to no call")?;
                ensure!(self.answer.call_id == planned.number, "an answer out of order");
                if planned.endless {
                    let status = self.answer.status;
                    ensure!(status == Status::OverBudget, "an endless call ended as {status:?}");
                    outcome.ended += 1;
                } else {
                    self.glance(planned.number, planned.function)?;
                    outcome.benign_us.push(tsc.micros(answered.saturating_sub(planned.at)));
                }
                continue;
            }
            looks = looks.wrapping_add(1);
            if looks.is_multiple_of(LOOKS) {
                self.watch()?;
            }
        }
        outcome.lost = waiting.len() + next.count();
        Ok(outcome)
    }
}

/// One call of [`Worker::open_loop`].
#[derive(Debug, Clone, Copy)]
pub struct Planned {
    /// When, in cycles after the start.
    pub at: u64,
    /// Which function.
    pub function: u64,
    /// The call's name and the number of its request.
    pub number: u64,
    /// Whether the function never answers.
    pub endless: bool,
}

/// What came of an open loop.
#[derive(Debug, Default)]
pub struct OpenLoop {
    /// Planned time until answered, of each benign call, in µs.
    pub benign_us: Vec<f64>,
    /// Endless calls that were ended.
    pub ended: usize,
    /// Calls without an answer.
    pub lost: usize,
}

impl Side for Worker {
    fn protections(&self) -> String {
        let keys = if self.keys { "protection keys" } else { "no protection keys" };
        format!("{WORKER_PROTECTIONS}; {keys}")
    }

    fn call(&mut self, function: u64) -> anyhow::Result<Timing> {
        self.number += 1;
        let (number, body) = (self.number, request(self.number));
        let sent = stamp();
        self.submit(number, function, &body)?;
        self.completion()?;
        let answered = stamp();
        self.verify(function, &body)?;
        Ok(Timing { sent, answered })
    }

    fn pipelined(&mut self, calls: u64, functions: u64) -> anyhow::Result<Duration> {
        let begin = Instant::now();
        let (mut sent, mut received) = (0, 0);
        while received < calls {
            while sent < calls && self.host.has_room() {
                self.submit(sent, scattered(sent, functions), &request(sent))?;
                sent += 1;
            }
            self.completion()?;
            self.glance(received, scattered(received, functions))?;
            received += 1;
        }
        Ok(begin.elapsed())
    }

    fn process(&self) -> Option<u32> {
        Some(self.child.id())
    }

    /// What the kernel gave the slab; each page counts once, whoever maps it.
    fn common_kib(&self) -> Option<f64> {
        let allocated = rustix::fs::fstat(self.slab.fd()).ok()?.st_blocks;
        // In 512 bytes, as POSIX has it for every file.
        Some(allocated as f64 / 2.0)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.host.stop();
        let deadline = Instant::now() + Duration::from_secs(5);
        while matches!(self.child.try_wait(), Ok(None)) {
            if Instant::now() > deadline {
                let _ = self.child.kill();
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// A slab with these functions, each in the slot of its place. What was not loaded in `load_max`
/// is left out of `served`, too.
fn loaded(kit: &Kit, form: Form, served: &mut Vec<Served>, load_max: Duration) -> anyhow::Result<SlabWriter> {
    let verification = match form {
        Form::AsLinked => Verification::Waived,
        Form::Hosted | Form::Smallest | Form::Waiting | Form::Data | Form::Library => Verification::Required,
    };
    let mut slab = SlabWriter::new(SlabGeometry::NODE, verification)?;
    let begin = Instant::now();
    for (place, function) in served.iter().enumerate() {
        if place > 0 && begin.elapsed() > load_max {
            served.truncate(place);
            break;
        }
        let image = sealed_copy(&kit.functions.file(form, &function.constants))?;
        let slot = slab.load(image).with_context(|| format!("load function {place}"))?.slot;
        ensure!(slot as usize == place, "function {place} is in slot {slot}");
        // As the loader does when it has answered.
        slab.ready_ahead();
    }
    Ok(slab)
}

fn preload() -> Preload {
    Preload::new(MEMORY_BYTES, SpeculationControls::ALL)
}

/// A child stays on the cores of the thread that starts it.
fn spawn(kit: &Kit, descriptors: Vec<(OwnedFd, i32)>) -> anyhow::Result<Child> {
    let mappings = descriptors.into_iter().map(|(parent_fd, child_fd)| FdMapping { parent_fd, child_fd });
    let mut command = Command::new(kit.programs.worker()?);
    command
        .env_clear()
        .stdin(Stdio::null())
        .fd_mappings(mappings.collect())
        .context("distinct descriptors")?;
    pin(kit.cores.worker)?;
    let child = command.spawn().context("start the worker");
    pin(kit.cores.caller)?;
    child
}
