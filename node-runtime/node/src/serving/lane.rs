//! One lane: an operating system thread that owns one worker at a time, feeds its ring, and puts a
//! new worker in the place of one that died, for as long as the generation lives.
//!
//! Each call goes to the ring alone, so when a worker dies the call on its core is known.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use mfaas_dispatch::{GenerationId, WorkerId};
use mfaas_ring::{Completion, RingError, Submission};
use tokio::sync::mpsc::UnboundedSender;

use super::dispatcher::{Assignment, Dispatcher, LaneHandle};
use super::process::{StartError, WorkerProcess};
use crate::agent::VerifiedImage;
use crate::logs::LogSink;

/// How often an idle lane looks whether its worker still lives.
const IDLE_LOOK: Duration = Duration::from_millis(100);
/// How often a waiting lane looks whether its worker still lives or has to die.
const BUSY_LOOK: Duration = Duration::from_millis(10);
const RESTART_PAUSE_MIN: Duration = Duration::from_millis(20);
const RESTART_PAUSE_MAX: Duration = Duration::from_secs(5);
/// A worker that lived this long makes the next restart immediate again.
const STEADY: Duration = Duration::from_secs(10);

/// What every lane of a generation shares.
#[derive(Debug)]
pub(crate) struct Crew {
    pub(crate) generation: GenerationId,
    pub(crate) program: PathBuf,
    pub(crate) images: Vec<Arc<VerifiedImage>>,
    pub(crate) dispatcher: Arc<Dispatcher>,
    pub(crate) logs: Arc<LogSink>,
    /// Set once the generation's first start failed or the node ends: no lane starts again.
    pub(crate) over: AtomicBool,
}

/// How one worker's life ended.
enum End {
    /// The generation retired, or was given up.
    Retired,
    /// By itself, or because it had to be killed.
    Died(String),
}

/// Runs the lane until its generation retires. `first` hears how the first start went.
pub(crate) fn run(crew: &Crew, first: UnboundedSender<Result<(), StartError>>) {
    let mut pause = RESTART_PAUSE_MIN;
    let heard = OnceLock::new();
    let tell = |result| {
        if heard.set(()).is_ok() {
            // Nobody listens any more only when the generation was given up.
            let _ = first.send(result);
        }
    };
    while !crew.over.load(Ordering::Acquire) {
        let born = Instant::now();
        match WorkerProcess::start(&crew.program, &crew.images) {
            Ok(worker) => match live(crew, worker, &tell) {
                End::Retired => return,
                End::Died(why) => {
                    metrics::counter!("mfaas_worker_restarts_total").increment(1);
                    tracing::warn!(generation = crew.generation.0, %why, "a worker is replaced");
                }
            },
            Err(error) if heard.get().is_none() => return tell(Err(error)),
            Err(error) => {
                tracing::error!(generation = crew.generation.0, ?error, "a worker cannot be replaced yet");
            }
        }
        pause = if born.elapsed() > STEADY { RESTART_PAUSE_MIN } else { (pause * 2).min(RESTART_PAUSE_MAX) };
        std::thread::sleep(pause);
    }
}

fn live(crew: &Crew, mut worker: WorkerProcess, tell: &impl Fn(Result<(), StartError>)) -> End {
    let (jobs, incoming) = mpsc::channel();
    let kill = Arc::new(AtomicBool::new(false));
    let handle = LaneHandle { jobs, kill: Arc::clone(&kill) };
    let Some(id) = crew.dispatcher.worker_ready(crew.generation, handle) else {
        worker.stop();
        return End::Retired;
    };
    tracing::info!(generation = crew.generation.0, worker = id.0, pid = worker.pid(), "a worker is ready");
    tell(Ok(()));
    match serve(crew, id, &mut worker, &incoming, &kill) {
        Ok(()) => {
            worker.stop();
            End::Retired
        }
        Err(why) => {
            // The process must be gone before its call is answered: it could still be running.
            drop(worker);
            crew.dispatcher.worker_died(id);
            End::Died(why)
        }
    }
}

/// Feeds the worker until the channel closes (`Ok`) or the worker is done for (`Err`).
fn serve(
    crew: &Crew,
    id: WorkerId,
    worker: &mut WorkerProcess,
    incoming: &Receiver<Assignment>,
    kill: &AtomicBool,
) -> Result<(), String> {
    loop {
        match incoming.recv_timeout(IDLE_LOOK) {
            Ok(assignment) => {
                let mut completion = run_one(worker, &assignment, kill)?;
                let logs = std::mem::take(&mut completion.logs);
                let message = std::mem::take(&mut completion.message);
                crew.dispatcher.completed(id, assignment.job, completion);
                // After the answer: nobody waits for log lines.
                crew.logs.function_lines(&assignment.served.key, &logs, &message);
            }
            Err(RecvTimeoutError::Timeout) => check_alive(worker, kill)?,
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
    }
}

/// Hands one call to the worker and waits for its end.
fn run_one(
    worker: &mut WorkerProcess,
    assignment: &Assignment,
    kill: &AtomicBool,
) -> Result<Completion, String> {
    let Assignment { job, slot, frame, .. } = assignment;
    let broken = |error: RingError| format!("its ring broke: {error}");
    let key = &assignment.served.key;
    let submission = Submission {
        call_id: job.0,
        function: *slot,
        budget_us: u32::try_from(key.budget.as_micros()).unwrap_or(u32::MAX),
        memory_bytes: key.memory.as_bytes(),
        frame,
    };
    worker.ring.submit(submission).map_err(broken)?;
    let mut completion = Completion::new();
    loop {
        worker.ring.wait(BUSY_LOOK).map_err(broken)?;
        // Looked at before collecting: what it wrote before it died still counts.
        let alive = check_alive(worker, kill);
        match worker.ring.collect(&mut completion).map_err(broken)? {
            true if completion.call_id == job.0 => return Ok(completion),
            true => return Err("it answered another call".to_owned()),
            false => alive?,
        }
    }
}

fn check_alive(worker: &mut WorkerProcess, kill: &AtomicBool) -> Result<(), String> {
    if kill.load(Ordering::Acquire) {
        return Err("the dispatcher wants it dead".to_owned());
    }
    match worker.exited() {
        Some(status) => Err(format!("it ended by itself: {status}")),
        None => Ok(()),
    }
}
