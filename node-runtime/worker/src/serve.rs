//! The service: map the slab, lock down, then ring → executor → ring until the node says stop.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use mfaas_abi::Status;
use mfaas_executor::{CallError, Clock, Executor, Inline, Keys, Outcome, Slab, Start, exit_now};
use mfaas_ident::{MemoryLimit, sanitise_line};
use mfaas_ring::clock;
use mfaas_ring::preload::{
    ERROR_BYTES_MAX, FD_PRELOAD, FD_REPORT, FD_RING, FD_SLAB, KeysLine, PRELOAD_BYTES_MAX, Preload, StartLine,
};
use mfaas_ring::{Answer, Job, Next, RingError, Told, WorkerEnd, WorkerState, take_inherited};

use crate::inline::Callees;
use crate::{harden, limits};

/// How long the worker sleeps at most before it shows that it is alive.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// Exit code when the ring broke: there is nobody left to tell more.
const RING_BROKEN: i32 = 3;

/// Everything that the loop needs; nothing in it grows.
struct Worker {
    ring: WorkerEnd,
    executor: Executor,
    callees: RefCell<Callees>,
}

/// Serves the node that started this process. Comes back only if it could not begin.
pub(crate) fn serve() -> anyhow::Result<ExitCode> {
    let ring = take_inherited(FD_RING)?;
    let settings = take_inherited(FD_PRELOAD)?;
    let mut report = File::from(take_inherited(FD_REPORT)?);
    let slab = take_inherited(FD_SLAB)?;
    let mut worker = match prepare(ring, settings, slab) {
        Ok((worker, line)) => {
            say(&mut report, &line)?;
            worker
        }
        Err(error) => {
            let sentence = sanitise_line(&format!("{error:#}"), ERROR_BYTES_MAX);
            say(&mut report, &StartLine::Failed { error: sentence })?;
            return Err(error);
        }
    };
    drop(report);
    harden::after_loading()?;
    worker.ring.set_state(WorkerState::Ready);
    match worker.run() {
        Ok(()) => exit_now(0),
        Err(_) => exit_now(RING_BROKEN),
    }
}

/// Everything that needs system calls which lock-down denies.
fn prepare(ring: OwnedFd, settings: OwnedFd, slab: OwnedFd) -> anyhow::Result<(Worker, StartLine)> {
    let preload = read_preload(settings)?;
    harden::live_and_die_with(preload.node_pid)?;
    harden::before_loading()?;
    let speculation = harden::against_speculation(preload.speculation);
    let mut ring = WorkerEnd::attach(ring)?;
    ring.set_ask_us(preload.ask_us);
    let slab = Slab::map(slab).context("map the slab")?;
    let slots = u32::try_from(slab.slots()).context("a slab of too many slots")?;
    let memory = MemoryLimit::from_bytes(preload.memory_bytes_max)?;
    let clock = Clock::new(clock::reader(), ring.rate().ticks_of_us(1));
    let bodies = ring.body_bytes_max();
    let mut executor = Executor::with_bodies(slab, memory, bodies, clock).context("make the executor")?;
    let keys = keys_line(executor.protect().context("protect calls with keys")?);
    executor.confirm_window()?;
    let callees = RefCell::new(Callees::new(bodies));
    Ok((Worker { ring, executor, callees }, StartLine::Mapped { slots, keys, speculation }))
}

/// Whether calls run under keys, as a node is told.
pub(crate) fn keys_line(keys: Keys) -> KeysLine {
    match keys {
        Keys::On => KeysLine { on: true, reason: String::new() },
        Keys::Off(reason) => KeysLine { on: false, reason: sanitise_line(&reason, ERROR_BYTES_MAX) },
    }
}

fn read_preload(list: OwnedFd) -> anyhow::Result<Preload> {
    let mut text = Vec::new();
    // A memfd's offset is where its writer left it; a node may or may not have rewound it.
    rustix::fs::seek(&list, rustix::fs::SeekFrom::Start(0)).context("rewind the settings")?;
    File::from(list)
        .take(PRELOAD_BYTES_MAX as u64 + 1)
        .read_to_end(&mut text)
        .context("read the settings")?;
    ensure!(text.len() <= PRELOAD_BYTES_MAX, "the settings are too long");
    let preload: Preload = serde_json::from_slice(&text).context("parse the settings")?;
    ensure!(
        preload.abi_version == mfaas_abi::ABI_VERSION,
        "the node speaks version {} of the ABI, this worker {}",
        preload.abi_version,
        mfaas_abi::ABI_VERSION
    );
    Ok(preload)
}

fn say(report: &mut File, line: &StartLine) -> anyhow::Result<()> {
    let mut text = serde_json::to_vec(line).context("encode the report")?;
    text.push(b'\n');
    report.write_all(&text).context("write the report")
}

impl Worker {
    /// Answers calls until the node says stop.
    fn run(&mut self) -> Result<(), RingError> {
        loop {
            match self.ring.next(HEARTBEAT)? {
                Next::Call(job) => self.answer(job)?,
                Next::Idle => {}
                Next::Stop => {
                    self.ring.set_state(WorkerState::Stopped);
                    return Ok(());
                }
            }
        }
    }

    fn answer(&mut self, job: Job) -> Result<(), RingError> {
        let Self { ring, executor, callees } = self;
        // Before the frame is taken: what is not taken is wiped in the ring, what is taken by the call.
        let Some(limits) = limits::of(job.budget_us, job.memory_bytes) else {
            return ring.reply(&NOT_LOADED);
        };
        let frame_bytes = ring.take_frame(executor.request())?;
        if let Some(next) = ring.look_ahead() {
            executor.expect(next);
        }
        let start = Start { slot: job.function, frame_bytes, resumes: job.resumes, limits };
        let broken = Cell::new(None);
        let ask = |asked: &[u8], heard: &mut [u8], inline: &mut Inline<'_>| {
            callees.borrow_mut().answer((job.function, asked), heard, inline, |heard| {
                if ring.host_sleeps() {
                    return Told::Nothing;
                }
                ring.ask(asked, heard).unwrap_or_else(|error| {
                    broken.set(Some(error));
                    Told::Nothing
                })
            })
        };
        match executor.enter(start, ring.watch_word(), &ask) {
            Ok(mut ended) => match broken.take() {
                Some(error) => return Err(error),
                None => ring.reply(&answer_of(&ended.outcome(), callees.borrow_mut().uses()))?,
            },
            Err(CallError::NotResident) => ring.reply(&NOT_LOADED)?,
            Err(CallError::NotARequest(_)) => ring.reply(&NOT_A_REQUEST)?,
            Err(CallError::NotItsState) => ring.reply(&NOT_ITS_STATE)?,
        }
        callees.borrow_mut().forget();
        // Nobody waits: the time to clear away what the next call would have to.
        if !ring.has_next() {
            executor.settle();
        }
        Ok(())
    }
}

fn answer_of<'a>(outcome: &Outcome<'a>, inline: &'a [u8]) -> Answer<'a> {
    Answer {
        status: outcome.status,
        cold: outcome.cold,
        waits: outcome.waits,
        response: outcome.response,
        logs: outcome.logs,
        message: outcome.message,
        inline,
        wall_ns: outcome.wall_ns,
        cpu_ns: outcome.cpu_ns,
        memory_bytes: outcome.memory_bytes,
    }
}

/// The answer for a function that is not resident, or whose limits are none.
const NOT_LOADED: Answer<'static> = not_run(b"the function is not loaded in this worker");

/// The answer to what is not a frame: no node that works sends one.
const NOT_A_REQUEST: Answer<'static> = not_run(b"the node sent what is not a request");

/// The answer to a state of another image's call: no node that works resumes one there.
const NOT_ITS_STATE: Answer<'static> = not_run(b"the node resumed a call of another image");

const fn not_run(message: &'static [u8]) -> Answer<'static> {
    Answer {
        status: Status::Denied,
        cold: true,
        waits: false,
        response: &[],
        logs: &[],
        message,
        inline: &[],
        wall_ns: 0,
        cpu_ns: 0,
        memory_bytes: 0,
    }
}
