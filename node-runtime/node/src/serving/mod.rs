//! Serving: generations of workers, the lanes to them, and the dispatcher between callers and
//! lanes.
//!
//! A generation loads its images before it locks itself down and never anything after, so a
//! changed set of images is a new generation: start it, swap, drain the old one. Must never route a
//! call to a generation of which a worker failed to start.

mod dispatcher;
mod lane;
mod loader;
mod process;
mod table;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mfaas_dispatch::GenerationId;
use tokio::sync::mpsc;

pub(crate) use dispatcher::{Answered, CallError, Dispatcher};
pub(crate) use process::StartError;
pub(crate) use table::{Route, Served, Table};

use crate::agent::VerifiedImage;
use crate::logs::LogSink;
use lane::Crew;

/// Starts generations and keeps their threads.
#[derive(Debug)]
pub(crate) struct Fleet {
    dispatcher: Arc<Dispatcher>,
    logs: Arc<LogSink>,
    program: PathBuf,
    workers: usize,
    /// Weak, so that an ended generation lets go of its images.
    lanes: Mutex<Vec<(Weak<Crew>, JoinHandle<()>)>>,
}

impl Fleet {
    /// `program` is the worker's executable; `workers` processes make a generation.
    pub(crate) fn new(
        dispatcher: Arc<Dispatcher>,
        logs: Arc<LogSink>,
        program: PathBuf,
        workers: usize,
    ) -> Self {
        Self { dispatcher, logs, program, workers, lanes: Mutex::new(Vec::new()) }
    }

    /// Starts a generation with these images and returns when all of its workers are ready.
    ///
    /// It is staged, not current: [`Dispatcher::swap`] makes it so. On an error nothing of it is
    /// left. Without images there is nothing to isolate, and no process is started.
    pub(crate) async fn start(&self, images: Vec<Arc<VerifiedImage>>) -> Result<GenerationId, StartError> {
        let workers = if images.is_empty() { 0 } else { self.workers };
        let generation = self.dispatcher.stage(images.iter().map(|image| image.key()), workers);
        let crew = Arc::new(Crew {
            generation,
            program: self.program.clone(),
            images,
            dispatcher: Arc::clone(&self.dispatcher),
            logs: Arc::clone(&self.logs),
            over: AtomicBool::new(false),
        });
        let (first, mut heard) = mpsc::unbounded_channel();
        let mut result = Ok(());
        for number in 0..workers {
            result = result.and_then(|()| self.spawn_lane(&crew, number, first.clone()));
        }
        drop(first);
        for _ in 0..workers {
            if result.is_err() {
                break;
            }
            result = heard.recv().await.unwrap_or_else(|| Err(StartError::Worker("a lane ended".to_owned())));
        }
        if let Err(error) = result {
            crew.over.store(true, Ordering::Release);
            self.dispatcher.discard(generation);
            return Err(error);
        }
        Ok(generation)
    }

    /// Starts one worker with one image and stops it again: can it be loaded at all?
    pub(crate) async fn probe(&self, image: Arc<VerifiedImage>) -> Result<(), StartError> {
        let program = self.program.clone();
        // The worker is gone before the thread is given back.
        let tried =
            move || process::WorkerProcess::start(&program, &[image]).map(process::WorkerProcess::stop);
        match tokio::task::spawn_blocking(tried).await {
            Ok(result) => result,
            Err(e) => Err(StartError::Worker(format!("the probe did not end well: {e}"))),
        }
    }

    fn spawn_lane(
        &self,
        crew: &Arc<Crew>,
        number: usize,
        first: mpsc::UnboundedSender<Result<(), StartError>>,
    ) -> Result<(), StartError> {
        let own = Arc::clone(crew);
        let thread = std::thread::Builder::new()
            .name(format!("lane-{}-{number}", crew.generation.0))
            .spawn(move || lane::run(&own, first))
            .map_err(|e| StartError::Worker(format!("starting a thread: {e}")))?;
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        lanes.retain(|(_, thread)| !thread.is_finished());
        lanes.push((Arc::downgrade(crew), thread));
        Ok(())
    }

    /// Waits until every lane, and with it every worker, is gone. `false` when some are left.
    pub(crate) async fn ended(&self, wait_max: Duration) -> bool {
        let deadline = Instant::now() + wait_max;
        loop {
            {
                let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
                lanes.retain(|(_, thread)| !thread.is_finished());
                for crew in lanes.iter().filter_map(|(crew, _)| crew.upgrade()) {
                    crew.over.store(true, Ordering::Release);
                }
                if lanes.is_empty() {
                    return true;
                }
            }
            if Instant::now() >= deadline {
                return false;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}
