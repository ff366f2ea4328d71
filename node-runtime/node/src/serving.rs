//! Serving: workers that map the slab of their tenant, the loader that fills it, and the dispatcher
//! between callers and workers.
//!
//! Functions come and go while workers stay: the loader, the only process that can write a slab,
//! puts an image into a slot, and the number of the slot names it in every worker of that slab. Threads
//! here: `dispatcher` decides and moves calls ([`engine`]), which a caller does for it where that is
//! quicker ([`shared`]); `loader` talks to the loader ([`loading`]), `worker-N` starts and waits for the
//! worker at place N ([`supervisor`]), `memory-monitor` ends workers that hold too much ([`memory_monitor`]),
//! `log-forwarder` writes log lines. Which pool of workers runs a function is found
//! when it is defined ([`pools`]), and which window of theirs holds it ([`windows`]); whether tenants share one is the site's choice ([`sharing`]).
//!
//! Must never free a slot that a call needs, and never answer a call as lost whose worker lives.

mod awaited;
mod call;
mod dispatcher;
mod engine;
mod intake;
mod loader;
mod loading;
mod log_forwarder;
mod memory_monitor;
mod pools;
mod process;
mod protection;
mod services;
mod shared;
mod sharing;
mod supervisor;
mod table;
mod windows;

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use mfaas_dispatch::Limits;
use mfaas_ident::TenantName;

pub(crate) use awaited::Awaited;
pub(crate) use call::{Answered, Asked, CallError, Way};
pub(crate) use dispatcher::{Dispatcher, RouteChange, Stalled};
pub(crate) use process::ask_protection;
pub(crate) use protection::{Protection, parse_controls};
pub(crate) use services::NodeServices;
pub(crate) use sharing::{IsolationMinimum, Sharing};
pub(crate) use table::{Route, Served};

use crate::cores::Cores;
#[cfg(test)]
use crate::logs::LogSink;
use engine::Engine;
use intake::{Event, Intake};
use loading::{Loading, Task};
use log_forwarder::LogForwarder;
use pools::Pools;
use shared::SharedEngine;
use supervisor::WorkerSupervisor;

/// What a node serves with.
#[derive(Debug, Default)]
pub(crate) struct WorkerSetup {
    /// The worker's executable.
    pub(crate) worker: PathBuf,
    /// The loader's.
    pub(crate) loader: PathBuf,
    /// Where workers run.
    pub(crate) cores: Cores,
    /// What tenants share workers with.
    pub(crate) sharing: Sharing,
    /// What must hold a call at least.
    pub(crate) minimum: IsolationMinimum,
    /// Tenants that have workers of their own where others share.
    pub(crate) isolated: BTreeSet<TenantName>,
}

/// The processes behind the dispatcher.
#[derive(Debug)]
pub(crate) struct Fleet {
    supervisor: Arc<WorkerSupervisor>,
    intake: Intake,
    over: Arc<AtomicBool>,
}

/// Starts dispatcher, loader and workers. The dispatcher's thread ends with its last handle.
pub(crate) fn start(
    limits: Limits,
    services: NodeServices,
    setup: WorkerSetup,
) -> std::io::Result<(Arc<Dispatcher>, Fleet)> {
    let (dispatcher, intake, supervisor, tasks) = connect(limits, services, &setup)?;
    let over = Arc::new(AtomicBool::new(false));
    let loading = Loading {
        program: setup.loader,
        tasks,
        supervisor: Arc::clone(&supervisor),
        intake: intake.clone(),
        over: Arc::clone(&over),
        ends: HashMap::new(),
        slabs: HashMap::new(),
    };
    std::thread::Builder::new().name("loader".to_owned()).spawn(move || loading.run())?;
    let dispatcher = Arc::new(dispatcher);
    memory_monitor::start(Arc::downgrade(&dispatcher), Arc::clone(&supervisor), Arc::clone(&over))?;
    Ok((dispatcher, Fleet { supervisor, intake, over }))
}

/// A dispatcher without workers and loader, for tests of what stands before it.
#[cfg(test)]
pub(crate) fn alone(limits: Limits, logs: Arc<LogSink>) -> std::io::Result<Dispatcher> {
    let services = NodeServices { logs, ..NodeServices::default() };
    connect(limits, services, &WorkerSetup::default()).map(|(dispatcher, ..)| dispatcher)
}

type Connected = (Dispatcher, Intake, Arc<WorkerSupervisor>, mpsc::Receiver<Task>);

/// Starts the dispatcher's thread.
fn connect(limits: Limits, services: NodeServices, setup: &WorkerSetup) -> std::io::Result<Connected> {
    let (intake, outlet, lives) = intake::intake();
    let (loader, tasks) = mpsc::channel();
    let supervisor = Arc::new(WorkerSupervisor::new(
        setup.worker.clone(),
        setup.cores.clone(),
        intake.clone(),
        Arc::clone(&services.protection),
        setup.sharing,
    ));
    let published = Arc::new(Mutex::default());
    let log_forwarder = LogForwarder::start(Arc::clone(&services.logs))?;
    let shown = Arc::clone(&published);
    let mut engine = Engine::new(
        limits,
        outlet,
        loader,
        Arc::clone(&supervisor),
        log_forwarder,
        services.clone(),
        published,
    );
    engine.hold_bans();
    let engine = Arc::new(SharedEngine::new(engine, intake.clone()));
    let minimum = setup.minimum.code(services.protection.keys_are_on());
    let shared = limits.shared_workers > 0;
    let pools = Pools::new(shared, setup.isolated.clone(), minimum, limits.resident_bytes_max);
    let workers = limits.shared_workers;
    let dispatcher = Dispatcher::new(intake.clone(), Arc::clone(&engine), shown, workers, pools, &services);
    std::thread::Builder::new().name("dispatcher".to_owned()).spawn(move || engine.run(lives))?;
    Ok((dispatcher, intake, supervisor, tasks))
}

impl Fleet {
    /// Lets every worker leave and waits until they are gone. `false` when some are left.
    pub(crate) async fn ended(&self, wait_max: Duration) -> bool {
        self.over.store(true, Ordering::Release);
        self.supervisor.close();
        self.intake.send(Event::Dismiss);
        let deadline = Instant::now() + wait_max;
        while !self.supervisor.is_gone() {
            if Instant::now() >= deadline {
                return false;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        true
    }
}
