//! Serving: workers that map one slab of images, the loader that fills it, and the dispatcher between
//! callers and workers.
//!
//! Functions come and go while workers stay: the loader, the only process that can write the slab,
//! puts an image into a slot, and the number of the slot names it in every worker. Threads here:
//! `dispatcher` decides and moves calls ([`engine`]), which a caller does for it where that is quicker
//! ([`shared`]); `loader` talks to the loader ([`loading`]), `keeper-N` starts and waits for the worker at
//! place N ([`crew`]), `scribe` writes log lines. Which workers may run a function is found when it is
//! defined ([`cordons`]).
//!
//! Must never free a slot that a call needs, and never answer a call as lost whose worker lives.

mod cordons;
mod crew;
mod dispatcher;
mod engine;
mod intake;
mod loader;
mod loading;
mod process;
mod protection;
mod scribe;
mod shared;
mod table;

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use mfaas_dispatch::{CordonId, Limits, WORKERS_CAP};
use mfaas_ident::TenantName;

pub(crate) use dispatcher::{Answered, Asked, CallError, Dispatcher, Stalled, Way};
pub(crate) use protection::{Protection, parse_wish};
pub(crate) use table::{Route, Served, Table};

use crate::cores::Cores;
use crate::logs::LogSink;
use crate::orders::Standing;
use crate::usage::Usage;
use cordons::Cordons;
use crew::Crew;
use engine::Engine;
use intake::{Event, Intake};
use loading::{Loading, Task};
pub(crate) use scribe::CALLS as LOGGED_CALLS;
use scribe::Scribe;
use shared::SharedEngine;

/// Workers of a tenant that has its own.
const PRIVATE_WORKERS: usize = 1;

/// What a node serves with.
#[derive(Debug, Default)]
pub(crate) struct Means {
    /// The worker's executable.
    pub(crate) worker: PathBuf,
    /// The loader's.
    pub(crate) loader: PathBuf,
    /// Workers that tenants share.
    pub(crate) workers: usize,
    /// Where they run.
    pub(crate) cores: Cores,
    /// Tenants that have workers of their own.
    pub(crate) isolated: BTreeSet<TenantName>,
    /// Other tenants that may have workers of their own at a time, because their functions declare it.
    pub(crate) private_cordons_max: usize,
}

impl Means {
    /// Worker processes at a time, at most.
    fn workers_max(&self) -> usize {
        let private = self.isolated.len().saturating_add(self.private_cordons_max);
        self.workers.saturating_add(private.saturating_mul(PRIVATE_WORKERS)).min(WORKERS_CAP)
    }
}

/// What the dispatcher writes into and asks besides its own tables.
#[derive(Debug, Clone, Default)]
pub(crate) struct Books {
    /// Log lines on their way to the server.
    pub(crate) logs: Arc<LogSink>,
    /// What the node is to take, and the bans in force.
    pub(crate) standing: Arc<Standing>,
    /// What calls cost.
    pub(crate) usage: Arc<Usage>,
    /// What holds the workers.
    pub(crate) protection: Arc<Protection>,
}

/// The processes behind the dispatcher.
#[derive(Debug)]
pub(crate) struct Fleet {
    crew: Arc<Crew>,
    intake: Intake,
    over: Arc<AtomicBool>,
}

/// Starts dispatcher, loader and workers. The dispatcher's thread ends with its last handle.
pub(crate) fn start(limits: Limits, books: Books, means: Means) -> std::io::Result<(Arc<Dispatcher>, Fleet)> {
    let (dispatcher, intake, crew, tasks) = connect(limits, books, &means)?;
    let over = Arc::new(AtomicBool::new(false));
    let loading = Loading {
        program: means.loader,
        tasks,
        crew: Arc::clone(&crew),
        intake: intake.clone(),
        over: Arc::clone(&over),
        ends: HashMap::new(),
    };
    std::thread::Builder::new().name("loader".to_owned()).spawn(move || loading.run())?;
    crew.man(CordonId::SHARED, means.workers)?;
    Ok((Arc::new(dispatcher), Fleet { crew, intake, over }))
}

/// A dispatcher without workers and loader, for tests of what stands before it.
#[cfg(test)]
pub(crate) fn alone(limits: Limits, logs: Arc<LogSink>) -> std::io::Result<Dispatcher> {
    let books = Books { logs, ..Books::default() };
    connect(limits, books, &Means::default()).map(|(dispatcher, ..)| dispatcher)
}

type Connected = (Dispatcher, Intake, Arc<Crew>, mpsc::Receiver<Task>);

/// Starts the dispatcher's thread.
fn connect(limits: Limits, books: Books, means: &Means) -> std::io::Result<Connected> {
    let (intake, outlet, lives) = intake::intake();
    let (loader, tasks) = mpsc::channel();
    let crew = Arc::new(Crew::new(
        means.worker.clone(),
        means.cores.clone(),
        means.workers_max(),
        intake.clone(),
        Arc::clone(&books.protection),
    ));
    let published = Arc::new(Mutex::default());
    let scribe = Scribe::start(Arc::clone(&books.logs))?;
    let shown = Arc::clone(&published);
    let mut engine = Engine::new(limits, outlet, loader, Arc::clone(&crew), scribe, books.clone(), published);
    engine.hold_bans();
    let engine = Arc::new(SharedEngine::new(engine, intake.clone()));
    let cordons = Cordons::new(&means.isolated, means.private_cordons_max);
    let dispatcher =
        Dispatcher::new(intake.clone(), Arc::clone(&engine), shown, means.workers, cordons, &books);
    std::thread::Builder::new().name("dispatcher".to_owned()).spawn(move || engine.run(lives))?;
    Ok((dispatcher, intake, crew, tasks))
}

impl Fleet {
    /// Lets every worker leave and waits until they are gone. `false` when some are left.
    pub(crate) async fn ended(&self, wait_max: Duration) -> bool {
        self.over.store(true, Ordering::Release);
        self.crew.close();
        self.intake.say(Event::Dismiss);
        let deadline = Instant::now() + wait_max;
        while !self.crew.is_gone() {
            if Instant::now() >= deadline {
                return false;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        true
    }
}
