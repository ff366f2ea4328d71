//! mfaas itself: the real worker program behind the real ring, the cage in this process, and a
//! running node behind HTTP. All that this benchmark knows of the node runtime is in this file.
//!
//! It must never reach into the runtime: what it measures is what a node has.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use command_fds::{CommandFdExt as _, FdMapping};
use mfaas_abi::Status;
use mfaas_abi::frame::{ResponseFrame, encode_request};
use mfaas_cage::{Cage, Image, Limits, Outcome, sealed_copy};
use mfaas_ident::{Budget, MemoryLimit};
use mfaas_ring::preload::{FD_PRELOAD, FD_REPORT, FD_RING, ITEMS_MAX, Preload, PreloadItem, StartLine};
use mfaas_ring::{Completion, Geometry, HostEnd, Submission, WorkerState, create};

use super::http::Client;
use super::{Kit, Side, Timing, scattered};
use crate::function::{ANSWER_BYTES, Constants, REQUEST_BYTES};
use crate::functions::{Form, Kind, glanced, request, verified};
use crate::sys::{Tsc, pin, stamp};

/// Slots of the ring, all of them used by [`Side::pipelined`].
const SLOTS: u32 = 64;
/// Arena of every function, in bytes.
const MEMORY_BYTES: u64 = 1 << 20;
/// Functions of one worker, at most.
pub const FUNCTIONS_MAX: usize = ITEMS_MAX;
/// CPU time of a function that is meant to end by itself, in microseconds.
pub const BUDGET_US: u64 = 50_000;
/// Descriptor of the first image.
const FD_IMAGES: i32 = 6;

const START_WAIT_MAX: Duration = Duration::from_secs(120);
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(10);
/// Looks between two looks at the clock and at the worker's life.
const SPINS: u32 = 1 << 16;

/// One function of a worker.
#[derive(Debug, Clone, Copy)]
pub struct Served {
    /// What it does and who it is: its id is its place in the worker's list.
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
    served: Vec<Served>,
    frame: Vec<u8>,
    number: u64,
}

impl Worker {
    /// Starts a worker on the worker's core and waits until it is locked down and ready.
    pub fn start(kit: &Kit, form: Form, served: Vec<Served>) -> anyhow::Result<Self> {
        let most = FUNCTIONS_MAX;
        ensure!(served.len() <= most, "the worker takes at most {most} functions, not {}", served.len());
        let geometry = Geometry::new(SLOTS)?;
        let (ring, host) = create(geometry, 1)?;
        let (reader, writer) = std::io::pipe().context("a pipe")?;
        let list = sealed_copy(&serde_json::to_vec(&preload(&served))?)?;
        let mut descriptors = vec![(ring, FD_RING), (list, FD_PRELOAD), (OwnedFd::from(writer), FD_REPORT)];
        for (index, function) in served.iter().enumerate() {
            let image = sealed_copy(&kit.functions.file(form, &function.constants))?;
            descriptors.push((image, FD_IMAGES + index as i32));
        }
        let child = spawn(kit, descriptors)?;
        let mut worker = Self { host, child, served, frame: Vec::new(), number: 0 };
        worker.ready(reader)?;
        Ok(worker)
    }

    fn ready(&mut self, mut report: impl std::io::Read) -> anyhow::Result<()> {
        let mut text = String::new();
        report.read_to_string(&mut text).context("read the worker's report")?;
        for line in text.lines() {
            if let StartLine::Failed { error, .. } =
                serde_json::from_str(line).context("a line of the report")?
            {
                bail!("the worker refuses a function: {error}");
            }
        }
        let state = self.host.wait_started(START_WAIT_MAX)?;
        ensure!(state == WorkerState::Ready, "the worker is not ready");
        Ok(())
    }

    fn submit(&mut self, call_id: u64, function: u64, body: &[u8; REQUEST_BYTES]) -> anyhow::Result<()> {
        self.frame.clear();
        encode_request(&mut self.frame, "POST", "/", [], body).map_err(|e| anyhow::anyhow!("{e}"))?;
        Ok(self.host.submit(Submission { call_id, function: function as u32, frame: &self.frame })?)
    }

    /// Spins until the next completion.
    fn completion(&mut self) -> anyhow::Result<Completion> {
        let deadline = Instant::now() + ANSWER_WAIT_MAX;
        loop {
            for _ in 0..SPINS {
                if let Some(completion) = self.host.collect()? {
                    return Ok(completion);
                }
                std::hint::spin_loop();
            }
            if let Some(status) = self.child.try_wait().context("look after the worker")? {
                bail!("the worker ended with {status}");
            }
            ensure!(Instant::now() < deadline, "the worker does not answer");
        }
    }

    /// Verifies an answer as [`glanced`] does.
    fn glance(&self, number: u64, function: u64, done: &Completion) -> anyhow::Result<u64> {
        let served = self.served.get(function as usize).context("no such function")?;
        ensure!(done.status == Status::Ok, "function {function} ended as {:?}", done.status);
        let frame = ResponseFrame::decode(&done.response).map_err(|e| anyhow::anyhow!("{e}"))?;
        glanced(number, &served.constants, &request(number), frame.body)
    }

    fn verify(&self, function: u64, body: &[u8; REQUEST_BYTES], done: &Completion) -> anyhow::Result<u64> {
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
        while (next.peek().is_some() || !waiting.is_empty()) && Instant::now() < last {
            let now = stamp().wrapping_sub(begin);
            if let Some(due) = next.next_if(|due| due.at <= now && waiting.len() < SLOTS as usize) {
                self.submit(due.number, due.function, &request(due.number))?;
                waiting.push_back(due);
            }
            if let Some(done) = self.host.collect()? {
                let answered = stamp().wrapping_sub(begin);
                let planned = waiting.pop_front().context("an answer to no call")?;
                ensure!(done.call_id == planned.number, "an answer out of order");
                if planned.endless {
                    ensure!(done.status == Status::OverBudget, "an endless call ended as {:?}", done.status);
                    outcome.ended += 1;
                } else {
                    self.glance(planned.number, planned.function, &done)?;
                    outcome.honest_us.push(tsc.micros(answered.saturating_sub(planned.at)));
                }
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
    /// Planned time until answered, of each honest call, in µs.
    pub honest_us: Vec<f64>,
    /// Endless calls that were ended.
    pub ended: usize,
    /// Calls without an answer.
    pub lost: usize,
}

impl Side for Worker {
    fn protections(&self) -> String {
        "cage: own stack, arena, reset before and after, budget of CPU time; filter of system calls; no protection keys"
            .to_owned()
    }

    fn call(&mut self, function: u64) -> anyhow::Result<Timing> {
        self.number += 1;
        let (number, body) = (self.number, request(self.number));
        let sent = stamp();
        self.submit(number, function, &body)?;
        let done = self.completion()?;
        let answered = stamp();
        let entered = Some(self.verify(function, &body, &done)?);
        Ok(Timing { sent, entered, answered })
    }

    fn pipelined(&mut self, calls: u64, functions: u64) -> anyhow::Result<Duration> {
        let begin = Instant::now();
        let (mut sent, mut received) = (0, 0);
        while received < calls {
            while sent < calls && sent - received < u64::from(SLOTS) {
                self.submit(sent, scattered(sent, functions), &request(sent))?;
                sent += 1;
            }
            let done = self.completion()?;
            self.glance(received, scattered(received, functions), &done)?;
            received += 1;
        }
        Ok(begin.elapsed())
    }

    fn process(&self) -> Option<u32> {
        Some(self.child.id())
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

fn preload(served: &[Served]) -> Preload {
    let item = |(index, function): (usize, &Served)| PreloadItem {
        fd: FD_IMAGES + index as i32,
        digest: String::new(),
        label: format!("bench/function-{index}@1"),
        budget_us: function.budget_us,
        memory_bytes: MEMORY_BYTES,
    };
    Preload {
        abi_version: mfaas_abi::ABI_VERSION,
        node_pid: std::process::id(),
        items: served.iter().enumerate().map(item).collect(),
    }
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

/// The cage in this process, on this thread: what a worker does between two rings.
pub struct InProcess {
    cage: Cage,
    frame: Vec<u8>,
    number: u64,
}

/// A loaded function.
pub struct Loaded {
    image: Image,
    constants: Constants,
    limits: Limits,
}

/// Stamps of a call that was ended by its budget, and of the call after it.
#[derive(Debug, Clone, Copy)]
pub struct Kill {
    /// CPU time beyond the budget when the caged code was left, in µs.
    pub overshoot_us: f64,
    /// Left until the first instruction of the next call, in µs.
    pub next_us: f64,
}

impl InProcess {
    /// The one cage of this thread.
    pub fn new() -> anyhow::Result<Self> {
        Ok(Self { cage: Cage::new(MemoryLimit::from_bytes(MEMORY_BYTES)?)?, frame: Vec::new(), number: 0 })
    }

    /// Loads an image.
    pub fn load(&self, image: &[u8], served: Served) -> anyhow::Result<Loaded> {
        let limits = Limits {
            budget: Budget::from_micros(served.budget_us)?,
            memory: MemoryLimit::from_bytes(MEMORY_BYTES)?,
        };
        Ok(Loaded { image: Image::load(sealed_copy(image)?)?, constants: served.constants, limits })
    }

    /// One verified call.
    pub fn call(&mut self, function: &mut Loaded) -> anyhow::Result<Timing> {
        let body = self.prepare()?;
        let sent = stamp();
        let answer = self.answer(function)?;
        let answered = stamp();
        let entered = Some(verified(&function.constants, &body, answer.as_bytes())?);
        Ok(Timing { sent, entered, answered })
    }

    /// Calls with the prepared request and copies the answer out, as the worker does.
    fn answer(&mut self, function: &mut Loaded) -> anyhow::Result<Copied> {
        self.cage.call(&mut function.image, &self.frame, function.limits, copied)
    }

    /// The first call of an image that is only a file: read, copied, loaded, called.
    pub fn first_call(&mut self, file: &Path, served: Served) -> anyhow::Result<Timing> {
        let sent = stamp();
        let bytes = std::fs::read(file).with_context(|| format!("read {}", file.display()))?;
        let mut loaded = self.load(&bytes, served)?;
        let timing = self.call(&mut loaded)?;
        Ok(Timing { sent, ..timing })
    }

    /// Lets `endless` run into its budget, then calls `next`.
    pub fn kill(&mut self, endless: &mut Loaded, next: &mut Loaded, tsc: Tsc) -> anyhow::Result<Kill> {
        self.prepare()?;
        let (left, cpu_ns) = self.cage.call(&mut endless.image, &self.frame, endless.limits, |outcome| {
            let left = stamp();
            ensure!(outcome.status == Status::OverBudget, "an endless call ended as {:?}", outcome.status);
            Ok((left, outcome.cpu_ns))
        })?;
        let entered = self.call(next)?.entered.context("a stamp")?;
        let budget_us = endless.limits.budget.as_micros() as f64;
        Ok(Kill {
            overshoot_us: cpu_ns as f64 / 1e3 - budget_us,
            next_us: tsc.micros(entered.saturating_sub(left)),
        })
    }

    fn prepare(&mut self) -> anyhow::Result<[u8; REQUEST_BYTES]> {
        self.number += 1;
        let body = request(self.number);
        self.frame.clear();
        encode_request(&mut self.frame, "POST", "/", [], &body).map_err(|e| anyhow::anyhow!("{e}"))?;
        Ok(body)
    }
}

/// The body of an answer, out of the cage's memory.
struct Copied {
    bytes: [u8; ANSWER_BYTES],
    length: usize,
}

impl Copied {
    fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

fn copied(outcome: Outcome<'_>) -> anyhow::Result<Copied> {
    ensure!(outcome.status == Status::Ok, "a function ended as {:?}", outcome.status);
    let frame = ResponseFrame::decode(outcome.response).map_err(|e| anyhow::anyhow!("{e}"))?;
    let mut bytes = [0; ANSWER_BYTES];
    let length = frame.body.len();
    bytes.get_mut(..length).context("an answer that is too long")?.copy_from_slice(frame.body);
    Ok(Copied { bytes, length })
}

/// One function in the cage of this thread.
pub struct Caged {
    cage: InProcess,
    loaded: Loaded,
}

impl Caged {
    /// Loads the one function.
    pub fn new(kit: &Kit, kind: Kind) -> anyhow::Result<Self> {
        let cage = InProcess::new()?;
        let served = Served { constants: kind.constants(0), budget_us: BUDGET_US };
        let loaded = cage.load(&kit.functions.file(Form::Hosted, &served.constants), served)?;
        Ok(Self { cage, loaded })
    }

    /// One call, verified as [`glanced`] does.
    pub fn glance(&mut self) -> anyhow::Result<()> {
        let body = self.cage.prepare()?;
        let answer = self.cage.answer(&mut self.loaded)?;
        glanced(self.cage.number, &self.loaded.constants, &body, answer.as_bytes()).map(drop)
    }
}

impl Side for Caged {
    fn protections(&self) -> String {
        "cage: own stack, arena, reset before and after, budget of CPU time; no filter, no protection keys"
            .to_owned()
    }

    fn call(&mut self, _function: u64) -> anyhow::Result<Timing> {
        self.cage.call(&mut self.loaded)
    }
}

/// A running node, reached over HTTP like any caller does.
pub struct Node {
    client: Client,
    process: u32,
    number: u64,
}

/// Threads of a node that run no part of the ingress: each feeds one worker.
pub const NODE_WORKER_THREADS: &[&str] = &["lane-"];

impl Node {
    /// Connects to the function at `url` (`http://host:port/path`) of the node with process id
    /// `process`.
    pub fn connect(url: &str, process: u32) -> anyhow::Result<Self> {
        let rest = url.strip_prefix("http://").context("a URL that begins with http://")?;
        let (address, path) = rest.split_once('/').context("a URL with a path")?;
        let address: SocketAddr = address.parse().context("a URL with an address and a port")?;
        Ok(Self { client: Client::connect(address, &format!("/{path}"))?, process, number: 0 })
    }
}

impl Side for Node {
    fn protections(&self) -> String {
        "all that the node runs with".to_owned()
    }

    /// The function is whichever was deployed, so the status is verified and the body is not.
    fn call(&mut self, _function: u64) -> anyhow::Result<Timing> {
        self.number += 1;
        let request = request(self.number);
        let sent = stamp();
        self.client.post(&request)?;
        Ok(Timing { sent, entered: None, answered: stamp() })
    }

    fn process(&self) -> Option<u32> {
        Some(self.process)
    }
}
