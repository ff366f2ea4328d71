//! The service: load everything, lock down, then ring → cage → ring until the node says stop.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use mfaas_abi::Status;
use mfaas_cage::{Cage, Image, Limits, exit_now};
use mfaas_ident::{Budget, MemoryLimit, sanitise_line};
use mfaas_ring::preload::{
    ERROR_BYTES_MAX, FD_PRELOAD, FD_REPORT, FD_RING, ITEMS_MAX, PRELOAD_BYTES_MAX, Preload, PreloadItem,
    StartLine,
};
use mfaas_ring::{Answer, Job, Next, RingError, WorkerEnd, WorkerState, take_inherited};

use crate::harden;

/// How long the worker sleeps at most before it shows that it is alive.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// Exit code when the ring broke: there is nobody left to tell more.
const RING_BROKEN: i32 = 3;

/// One function of the preload list.
struct Served {
    image: Image,
    limits: Limits,
    /// No call so far.
    cold: bool,
}

/// Everything that the loop needs; nothing in it grows.
struct Worker {
    ring: WorkerEnd,
    cage: Cage,
    functions: Vec<Option<Served>>,
    request: Vec<u8>,
}

/// Serves the node that started this process. Comes back only if it could not begin.
pub(crate) fn serve() -> anyhow::Result<ExitCode> {
    let ring = take_inherited(FD_RING)?;
    let list = take_inherited(FD_PRELOAD)?;
    let mut report = File::from(take_inherited(FD_REPORT)?);
    let preload = read_preload(list)?;
    harden::live_and_die_with(preload.node_pid)?;
    harden::before_loading()?;
    let mut worker = Worker {
        ring: WorkerEnd::attach(ring)?,
        cage: Cage::new(largest_memory(&preload)?)?,
        functions: load_all(&preload, &mut report)?,
        request: vec![0; WorkerEnd::BUFFER_BYTES],
    };
    drop(report);
    harden::after_loading()?;
    worker.ring.set_state(WorkerState::Ready);
    match worker.run() {
        Ok(()) => exit_now(0),
        Err(_) => exit_now(RING_BROKEN),
    }
}

fn read_preload(list: OwnedFd) -> anyhow::Result<Preload> {
    let mut text = Vec::new();
    // A memfd's offset is where its writer left it; a node may or may not have rewound it.
    rustix::fs::seek(&list, rustix::fs::SeekFrom::Start(0)).context("rewind the preload list")?;
    File::from(list)
        .take(PRELOAD_BYTES_MAX as u64 + 1)
        .read_to_end(&mut text)
        .context("read the preload list")?;
    ensure!(text.len() <= PRELOAD_BYTES_MAX, "the preload list is too long");
    let preload: Preload = serde_json::from_slice(&text).context("parse the preload list")?;
    ensure!(preload.items.len() <= ITEMS_MAX, "the preload list names more than {ITEMS_MAX} functions");
    ensure!(
        preload.abi_version == mfaas_abi::ABI_VERSION,
        "the node speaks version {} of the ABI, this worker {}",
        preload.abi_version,
        mfaas_abi::ABI_VERSION
    );
    Ok(preload)
}

/// What the arena must hold; the default where no function says anything.
fn largest_memory(preload: &Preload) -> anyhow::Result<MemoryLimit> {
    let largest = preload
        .items
        .iter()
        .map(|item| item.memory_bytes)
        .filter_map(|bytes| MemoryLimit::from_bytes(bytes).ok())
        .max();
    Ok(largest.unwrap_or(MemoryLimit::DEFAULT))
}

/// Loads every function that can be loaded and reports the others.
fn load_all(preload: &Preload, report: &mut File) -> anyhow::Result<Vec<Option<Served>>> {
    let mut functions = Vec::with_capacity(preload.items.len());
    for (index, item) in preload.items.iter().enumerate() {
        let served = match load(item) {
            Ok(served) => Some(served),
            Err(error) => {
                let error = sanitise_line(&format!("{}: {error:#}", item.label), ERROR_BYTES_MAX);
                say(report, &StartLine::Failed { function: index as u32, error })?;
                None
            }
        };
        functions.push(served);
    }
    let count = functions.iter().flatten().count();
    say(report, &StartLine::Loaded { functions: count as u32 })?;
    Ok(functions)
}

fn load(item: &PreloadItem) -> anyhow::Result<Served> {
    // First, so that the descriptor is closed whatever is wrong with the rest.
    let fd = take_inherited(item.fd)?;
    let budget = Budget::from_micros(item.budget_us)?;
    let memory = MemoryLimit::from_bytes(item.memory_bytes)?;
    let image = Image::load(fd)?;
    Ok(Served { image, limits: Limits { budget, memory }, cold: true })
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
        let Self { ring, cage, functions, request } = self;
        ring.take_frame(request)?;
        let frame = &mut request[..job.frame_bytes];
        let served = usize::try_from(job.function).ok().and_then(|index| functions.get_mut(index));
        let replied = match served {
            Some(Some(served)) => {
                let cold = std::mem::replace(&mut served.cold, false);
                cage.call(&mut served.image, frame, served.limits, |outcome| {
                    ring.reply(&Answer {
                        status: outcome.status,
                        cold,
                        response: outcome.response,
                        logs: outcome.logs,
                        message: outcome.message,
                        wall_ns: outcome.wall_ns,
                        cpu_ns: outcome.cpu_ns,
                        memory_bytes: outcome.memory_bytes,
                    })
                })
            }
            Some(None) | None => ring.reply(&NOT_LOADED),
        };
        // The next function must not find this one's request.
        frame.fill(0);
        replied
    }
}

/// The answer for a function that did not load, or that nobody named.
const NOT_LOADED: Answer<'static> = Answer {
    status: Status::Denied,
    cold: true,
    response: &[],
    logs: &[],
    message: b"the function is not loaded in this worker",
    wall_ns: 0,
    cpu_ns: 0,
    memory_bytes: 0,
};
