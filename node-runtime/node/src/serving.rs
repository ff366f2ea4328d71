//! Serving: workers that map the slab of their tenant, the loader that fills it, and the dispatcher
//! between callers and workers.
//!
//! Functions come and go while workers stay: the loader, the only process that can write a slab,
//! puts an image into a slot, and the number of the slot names it in every worker of that slab. Threads
//! here: `dispatcher` decides and moves calls ([`engine`]), which a caller does for it where that is
//! quicker ([`shared`]); `loader` talks to the loader ([`loading`]), `worker-N` starts and waits for the
//! worker at place N ([`supervisor`]), `memory-monitor` ends workers that hold too much ([`memory_monitor`]),
//! `log-forwarder` writes log lines, `broker-link` and `broker-reader` talk to the data broker ([`mod@broker`]). Which pool of workers runs a function is found
//! when it is defined ([`mod@pools`]), and which window of theirs holds it ([`windows`]); whether tenants share one is the site's choice ([`sharing`]).
//!
//! All of this is there twice: once for functions of class `micro`, and once for bulk functions, where a node runs any
//! ([`bulk`]). The two share the table of names, usage, logs and bans, and nothing that a call waits for: no queue,
//! no thread, no worker, no loader.
//!
//! Must never free a slot that a call needs, and never answer a call as lost whose worker lives.

mod awaited;
mod broker;
mod bulk;
mod caches;
mod call;
mod callees;
mod dispatcher;
mod engine;
mod grants;
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
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use mfaas_dispatch::Limits;
use mfaas_ident::{Class, TenantName};
use mfaas_isolation_client::BACKGROUND_THREADS;

pub(crate) use awaited::Awaited;
pub(crate) use bulk::BulkWorkers;
pub(crate) use caches::Caches;
pub(crate) use call::{Answered, Asked, CALLER, CallError, Used, Way};
pub(crate) use callees::Callees;
pub(crate) use dispatcher::{Dispatcher, RouteChange, Stalled};
pub(crate) use process::ask_protection;
pub(crate) use protection::{Protection, parse_controls};
pub(crate) use services::NodeServices;
pub(crate) use sharing::{IsolationMinimum, Sharing};
pub(crate) use table::{Route, Served};

use crate::cores::Cores;
#[cfg(test)]
use crate::logs::LogSink;
use broker::BrokerLink;
use dispatcher::Lane;
use engine::Engine;
use intake::{Event, Intake};
use loading::{Loading, Task};
use log_forwarder::LogForwarder;
use pools::{ClassPools, Pools};
use process::WorkerKind;
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
    /// What bulk functions get; without it none runs here.
    pub(crate) bulk: Option<BulkWorkers>,
    /// Where the isolation controller of this machine listens, if bulk calls give way to others.
    pub(crate) isolation: Option<PathBuf>,
}

/// The processes behind the dispatcher.
#[derive(Debug)]
pub(crate) struct Fleet {
    /// Of each class that runs here.
    processes: Vec<Processes>,
    over: Arc<AtomicBool>,
}

/// Those of one class.
#[derive(Debug)]
struct Processes {
    supervisor: Arc<WorkerSupervisor>,
    intake: Intake,
}

/// Starts dispatcher, loader and workers. The dispatcher's threads end with its last handle.
pub(crate) fn start(
    limits: Limits,
    services: NodeServices,
    setup: WorkerSetup,
) -> std::io::Result<(Arc<Dispatcher>, Fleet)> {
    let over = Arc::new(AtomicBool::new(false));
    let micro = Connection::new(WorkerKind::MICRO, limits, &services, &setup)?;
    let bulk = setup.bulk.map(|bulk| Connection::new(bulk.kind(), bulk.limits(), &services, &setup));
    let bulk = bulk.transpose()?;
    let lanes = (micro.lane.clone(), bulk.as_ref().map(|bulk| bulk.lane.clone()));
    let dispatcher = Arc::new(Dispatcher::new(lanes.0, lanes.1, pools(limits, &services, &setup), &services));
    let mut processes = Vec::new();
    for Connection { kind, lane, supervisor, tasks } in std::iter::once(micro).chain(bulk) {
        let loading = Loading {
            program: setup.loader.clone(),
            tasks,
            supervisor: Arc::clone(&supervisor),
            intake: lane.intake.clone(),
            over: Arc::clone(&over),
            ends: HashMap::new(),
            slabs: HashMap::new(),
            on_demand: kind.class == Class::Bulk,
        };
        std::thread::Builder::new().name("loader".to_owned()).spawn(move || loading.run())?;
        let (dispatcher, monitored) = (Arc::downgrade(&dispatcher), Arc::clone(&supervisor));
        memory_monitor::start(dispatcher, monitored, kind, Arc::clone(&over))?;
        processes.push(Processes { supervisor, intake: lane.intake });
    }
    Ok((dispatcher, Fleet { processes, over }))
}

/// A dispatcher without workers and loader, for tests of what stands before it.
#[cfg(test)]
pub(crate) fn alone(limits: Limits, logs: Arc<LogSink>) -> std::io::Result<Dispatcher> {
    let services = NodeServices { logs, ..NodeServices::default() };
    connect(limits, services, &WorkerSetup::default()).map(|(dispatcher, ..)| dispatcher)
}

#[cfg(test)]
type Connected = (Dispatcher, Intake, Arc<WorkerSupervisor>, mpsc::Receiver<Task>);

/// A dispatcher of functions of class `micro` alone, with what leads to it and what it asks for.
#[cfg(test)]
fn connect(limits: Limits, services: NodeServices, setup: &WorkerSetup) -> std::io::Result<Connected> {
    let Connection { lane, supervisor, tasks, .. } =
        Connection::new(WorkerKind::MICRO, limits, &services, setup)?;
    let intake = lane.intake.clone();
    let dispatcher = Dispatcher::new(lane, None, pools(limits, &services, setup), &services);
    Ok((dispatcher, intake, supervisor, tasks))
}

/// Which workers run what: those of bulk functions are never shared.
fn pools(limits: Limits, services: &NodeServices, setup: &WorkerSetup) -> ClassPools {
    let minimum = setup.minimum.code(services.protection.keys_are_on());
    let shared = limits.shared_workers > 0;
    ClassPools {
        micro: Pools::new(shared, setup.isolated.clone(), minimum, limits.resident_bytes_max),
        bulk: Pools::new(false, BTreeSet::new(), minimum, Limits::BULK.resident_bytes_max),
    }
}

/// The engine of one class, whose thread turns, and what it asks of workers and loader.
struct Connection {
    kind: WorkerKind,
    lane: Lane,
    supervisor: Arc<WorkerSupervisor>,
    tasks: mpsc::Receiver<Task>,
}

impl Connection {
    /// Starts the engine's thread.
    fn new(
        kind: WorkerKind,
        limits: Limits,
        services: &NodeServices,
        setup: &WorkerSetup,
    ) -> std::io::Result<Self> {
        let (intake, outlet, lives) = intake::intake();
        let (loader, tasks) = mpsc::channel();
        let supervisor = Arc::new(WorkerSupervisor::new(
            setup.worker.clone(),
            setup.cores.clone(),
            intake.clone(),
            Arc::clone(&services.protection),
            setup.sharing,
            kind,
            setup.isolation.clone(),
        ));
        let broker = BrokerLink::start(services.broker.as_deref(), intake.clone())?;
        let log_forwarder = LogForwarder::start(Arc::clone(&services.logs))?;
        let mut engine = Engine::new(
            limits,
            outlet,
            loader,
            Arc::clone(&supervisor),
            log_forwarder,
            services.clone(),
            broker,
        );
        let published = engine.published();
        engine.hold_bans();
        let engine = Arc::new(SharedEngine::new(engine, intake.clone()));
        let lane =
            Lane { kind, intake, engine: Arc::clone(&engine), published, workers: limits.shared_workers };
        let name = match kind.class {
            Class::Micro => "dispatcher".to_owned(),
            // Copies of megabytes can wait: by this name the isolation controller keeps it out of real time.
            Class::Bulk => format!("{BACKGROUND_THREADS}dispatcher"),
        };
        std::thread::Builder::new().name(name).spawn(move || engine.run(lives))?;
        Ok(Self { kind, lane, supervisor, tasks })
    }
}

impl Fleet {
    /// Lets every worker leave and waits until they are gone. `false` when some are left.
    pub(crate) async fn ended(&self, wait_max: Duration) -> bool {
        self.over.store(true, Ordering::Release);
        for Processes { supervisor, intake } in &self.processes {
            supervisor.close();
            intake.send(Event::Dismiss);
        }
        let deadline = Instant::now() + wait_max;
        while !self.processes.iter().all(|processes| processes.supervisor.is_gone()) {
            if Instant::now() >= deadline {
                return false;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        true
    }
}
