//! The executor in this process, on this thread: what a worker does between two rings. A second thread
//! on the other core watches its deadlines, as a node's dispatcher does.

mod waiting;

pub use waiting::WaitingInExecutor;

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use mfaas_abi::Status;
use mfaas_abi::frame::{ResponseFrame, encode_request};
use mfaas_executor::{
    Clock, Executor, Limits, Outcome, Slab, SlabGeometry, SlabWriter, TICK_SIGNAL, Verification, sealed_copy,
};
use mfaas_ident::{Budget, Digest, MemoryLimit};
use mfaas_ring::clock::{Rate, reader, ticks};

use super::{AGAIN_US, BUDGET_US, MEMORY_BYTES, Served};
use crate::function::{ANSWER_BYTES, Constants, REQUEST_BYTES};
use crate::functions::{Form, Kind, glanced, request, verified};
use crate::sides::{Kit, Side, Timing};
use crate::sys::{Cores, Tsc, pin, stamp, timer};

/// How often deadlines are looked at where a row does not vary it, in microseconds: as often as the
/// watching core can.
pub const LOOK_US: u64 = 0;

/// An executor and the loader of its slab. One at a time in a process: whoever makes another waits until
/// the first is gone, so one thread must never hold two.
pub struct InProcess {
    /// Before the executor: it must be gone before the word that it looks at is.
    watcher: Option<Watcher>,
    executor: Executor,
    writer: SlabWriter,
    word: Arc<AtomicU64>,
    frame: Vec<u8>,
    number: u64,
    _alone: MutexGuard<'static, ()>,
}

/// A loaded function.
pub struct Loaded {
    slot: u32,
    /// A node keeps it too: to give it back to the kernel is no part of a call.
    _memory: OwnedFd,
    constants: Constants,
    limits: Limits,
}

/// An image as a node keeps it beside the slab, in sealed memory.
pub struct Kept {
    memory: OwnedFd,
    digest: String,
    served: Served,
}

/// What is seen of a call that was ended by its budget, and of the call after it.
#[derive(Debug, Clone, Copy)]
pub struct Kill {
    /// Wall time beyond the budget when the call's code was left for good, in µs: watcher, signal
    /// and handler.
    pub overshoot_us: f64,
    /// Left until the next call is answered, in µs: wipe and reset included.
    pub next_us: f64,
}

impl InProcess {
    /// The one executor of this process, on this thread.
    pub fn new() -> anyhow::Result<Self> {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let writer = SlabWriter::new(SlabGeometry::NODE, Verification::Required)?;
        let clock = Clock::new(reader(), Rate::measured().ticks_of_us(1));
        let executor = Executor::new(Slab::map(writer.fd())?, MemoryLimit::from_bytes(MEMORY_BYTES)?, clock)?;
        let word = Arc::new(AtomicU64::new(0));
        Ok(Self { watcher: None, executor, writer, word, frame: Vec::new(), number: 0, _alone: alone })
    }

    /// Moves this thread to the worker's core, and has its deadlines looked at from the caller's
    /// every `look_us` microseconds.
    pub fn wake(&mut self, cores: Cores, look_us: u64) -> anyhow::Result<()> {
        pin(cores.worker)?;
        self.watcher = Some(Watcher::start(Arc::clone(&self.word), cores.caller, look_us)?);
        Ok(())
    }

    /// Leaves both cores: nobody watches any more, and this thread is the caller's again.
    pub fn rest(&mut self, cores: Cores) -> anyhow::Result<()> {
        self.watcher = None;
        pin(cores.caller)
    }

    /// Loads an image.
    pub fn load(&mut self, image: &[u8], served: Served) -> anyhow::Result<Loaded> {
        let memory = sealed_copy(image)?;
        let slot = self.writer.load(&memory)?.slot;
        Ok(Loaded { slot, _memory: memory, constants: served.constants, limits: limits(served)? })
    }

    /// Keeps an image beside the slab; the loader has hashed it before if it is `known`.
    pub fn keep(&mut self, file: &Path, known: bool, served: Served) -> anyhow::Result<Kept> {
        let bytes = std::fs::read(file).with_context(|| format!("read {}", file.display()))?;
        let digest = Digest::of(&bytes).to_string();
        let memory = sealed_copy(&bytes)?;
        if known {
            let loaded = self.writer.load_named(&memory, &digest)?;
            self.writer.unload(loaded.slot)?;
            self.writer.reclaim(loaded.slot)?;
        }
        Ok(Kept { memory, digest, served })
    }

    /// The first call of an image that is kept: loaded by its digest, called.
    pub fn first_call_of_kept(&mut self, kept: Kept) -> anyhow::Result<Timing> {
        let Kept { memory, digest, served } = kept;
        let sent = stamp();
        let slot = self.writer.load_named(&memory, &digest)?.slot;
        let loaded = Loaded { slot, _memory: memory, constants: served.constants, limits: limits(served)? };
        let timing = self.call(&loaded)?;
        self.writer.ready_ahead();
        Ok(Timing { sent, ..timing })
    }

    /// One verified call.
    pub fn call(&mut self, function: &Loaded) -> anyhow::Result<Timing> {
        let body = self.prepare()?;
        self.call_prepared(function, &body)
    }

    fn call_prepared(&mut self, function: &Loaded, body: &[u8; REQUEST_BYTES]) -> anyhow::Result<Timing> {
        let sent = stamp();
        let answer = self.answer(function)?;
        let answered = stamp();
        verified(&function.constants, body, answer.as_bytes())?;
        Ok(Timing { sent, answered })
    }

    /// Calls with the prepared request, copies the answer out and clears away, as the worker does.
    fn answer(&mut self, function: &Loaded) -> anyhow::Result<Copied> {
        let Self { executor, frame, word, .. } = self;
        executor.request().get_mut(..frame.len()).context("a long request")?.copy_from_slice(frame);
        let answer = copied(executor.call(function.slot, frame.len(), function.limits, word)?.outcome());
        executor.settle();
        answer
    }

    /// The first call of an image that is only a file: read, copied, loaded, called.
    pub fn first_call(&mut self, file: &Path, served: Served) -> anyhow::Result<Timing> {
        let sent = stamp();
        let bytes = std::fs::read(file).with_context(|| format!("read {}", file.display()))?;
        let loaded = self.load(&bytes, served)?;
        let timing = self.call(&loaded)?;
        // As the loader does when it has answered.
        self.writer.ready_ahead();
        Ok(Timing { sent, ..timing })
    }

    /// Lets `endless` run into its budget, then calls `next` with the same request.
    pub fn kill(&mut self, endless: &Loaded, next: &Loaded, tsc: Tsc) -> anyhow::Result<Kill> {
        let body = self.prepare()?;
        let Self { executor, frame, word, .. } = self;
        executor.request().get_mut(..frame.len()).context("a long request")?.copy_from_slice(frame);
        let mut ended = executor.call(endless.slot, frame.len(), endless.limits, word)?;
        let left = stamp();
        let (status, wall_ns) = {
            let outcome = ended.outcome();
            (outcome.status, outcome.wall_ns)
        };
        drop(ended);
        ensure!(status == Status::OverBudget, "an endless call ended as {status:?}");
        let answered = self.call_prepared(next, &body)?.answered;
        let budget_us = endless.limits.budget.as_micros() as f64;
        Ok(Kill {
            overshoot_us: wall_ns as f64 / 1e3 - budget_us,
            next_us: tsc.micros(answered.saturating_sub(left)),
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

fn limits(served: Served) -> anyhow::Result<Limits> {
    let budget = Budget::from_micros(served.budget_us)?;
    Ok(Limits { budget, memory: MemoryLimit::from_bytes(MEMORY_BYTES)? })
}

/// Signals the thread that started it when the time in its word has passed.
struct Watcher {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watcher {
    /// On `core`, looking every `look_us` microseconds.
    fn start(word: Arc<AtomicU64>, core: usize, look_us: u64) -> anyhow::Result<Self> {
        let over = Arc::new(AtomicBool::new(false));
        let (ends, watched) = (Arc::clone(&over), timer::this_thread());
        let (ready, started) = std::sync::mpsc::channel();
        let watch = move || {
            let pinned = pin(core);
            let go = pinned.is_ok();
            // Whoever started this waits for it.
            let _ = ready.send(pinned);
            if go {
                watch(&word, &ends, watched, Rate::measured().ticks_of_us(look_us));
            }
        };
        let thread = std::thread::Builder::new().name("watcher".to_owned()).spawn(watch)?;
        let watcher = Self { over, thread: Some(thread) };
        started.recv_timeout(Duration::from_secs(10)).context("the watcher does not start")??;
        Ok(watcher)
    }
}

/// Looks until told to end.
fn watch(word: &AtomicU64, ends: &AtomicBool, watched: i32, look: u64) {
    let again = Rate::measured().ticks_of_us(AGAIN_US);
    let (mut next_look, mut signalled, mut not_before) = (0, 0, 0);
    while !ends.load(Ordering::Relaxed) {
        std::hint::spin_loop();
        let now = ticks();
        if now < next_look {
            continue;
        }
        next_look = now.saturating_add(look);
        let deadline = word.load(Ordering::Acquire);
        let passed = deadline != 0 && deadline <= now;
        if passed && (deadline != signalled || not_before <= now) {
            (signalled, not_before) = (deadline, now.saturating_add(again));
            // The thread joins this one, so it is there.
            let _ = timer::poke(watched, TICK_SIGNAL);
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic of the watcher shows as calls that do not end.
            let _ = thread.join();
        }
    }
}

/// The body of an answer, out of the executor's memory.
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

/// One function in the executor of this thread. While it is awake, this thread is the worker's.
pub struct InExecutor {
    executor: InProcess,
    loaded: Loaded,
    cores: Cores,
}

impl InExecutor {
    /// Loads the one function.
    pub fn new(kit: &Kit, kind: Kind) -> anyhow::Result<Self> {
        let mut executor = InProcess::new()?;
        let served = Served { constants: kind.constants(0), budget_us: BUDGET_US };
        let loaded = executor.load(&kit.functions.file(Form::Hosted, &served.constants), served)?;
        Ok(Self { executor, loaded, cores: kit.cores })
    }

    /// As [`Side::wake`], with deadlines that are looked at every `look_us` microseconds.
    pub fn wake_looking(&mut self, look_us: u64) -> anyhow::Result<()> {
        self.executor.wake(self.cores, look_us)
    }

    /// One call, verified as [`glanced`] does.
    pub fn glance(&mut self) -> anyhow::Result<()> {
        let body = self.executor.prepare()?;
        let answer = self.executor.answer(&self.loaded)?;
        glanced(self.executor.number, &self.loaded.constants, &body, answer.as_bytes()).map(drop)
    }
}

impl Side for InExecutor {
    fn protections(&self) -> String {
        super::EXECUTOR_PROTECTIONS.to_owned()
    }

    fn wake(&mut self) -> anyhow::Result<()> {
        self.wake_looking(LOOK_US)
    }

    fn rest(&mut self) -> anyhow::Result<()> {
        self.executor.rest(self.cores)
    }

    fn call(&mut self, _function: u64) -> anyhow::Result<Timing> {
        self.executor.call(&self.loaded)
    }
}
