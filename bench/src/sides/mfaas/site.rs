//! A node with functions of many tenants, as it ships but for one choice: whether tenants share worker
//! processes.
//!
//! It must never pass for one kind of node while it is the other: what its processes are is looked at,
//! not what it was told.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use mfaas_ident::{Class, MemoryLimit};

use super::home::Deployed;
use super::node::{Started, Variable, of_one_worker};
use crate::function::Constants;
use crate::functions::{Example, Form, Kind};
use crate::sides::Kit;
use crate::sys::cpu::{niceness, threads, tree_seconds};
use crate::sys::memory::{Held, descendants};

/// What the kernel calls a worker of a node; it keeps 15 bytes of a name.
const WORKER: &str = "mfaas-worker";
/// What a node is given here. It shares one worker for each core, unless it is told otherwise.
const CORES: usize = 2;
/// As many for short calls, and for long ones where there are any.
const SHARED_WORKERS_MAX: usize = 2 * CORES;
/// Whose the bulk function is, so that its workers are nobody else's.
const BULK_TENANT: &str = "secondary";
/// What a node gives its workers of bulk calls (`BULK_NICENESS` of its supervisor).
const BULK_NICENESS: i32 = 19;
/// What a worker of bulk calls takes besides the memory of its call (`MFAAS_BULK_MEMORY_MIB`).
const BULK_WORKER_MIB: u64 = 321;
/// After the last call until no thread of a node looks for another one.
const REST: Duration = Duration::from_millis(100);
/// A node that starts workers or loads images has this long to come to rest.
const REST_WAIT_MAX: Duration = Duration::from_secs(60);
/// Of one core: less than this is rest.
const REST_PERCENT: f64 = 5.0;

/// Who shares worker processes with whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pools {
    /// A pool of workers for each tenant.
    PerTenant,
    /// One pool for all tenants.
    Shared,
}

impl Pools {
    /// Both kinds.
    pub const ALL: [Self; 2] = [Self::PerTenant, Self::Shared];

    /// What measures call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::PerTenant => "pools per tenant",
            Self::Shared => "shared pool",
        }
    }

    /// Whether it can be that `tenants` tenants were served by `workers` processes.
    fn verify(self, workers: usize, tenants: usize) -> anyhow::Result<()> {
        match self {
            Self::PerTenant => ensure!(
                workers >= tenants,
                "{tenants} tenants were called and there are {workers} workers: they share some"
            ),
            Self::Shared => ensure!(
                workers <= SHARED_WORKERS_MAX,
                "there are {workers} workers on {CORES} cores: tenants do not share them"
            ),
        }
        Ok(())
    }

    /// What makes a node have such pools.
    fn variables(self) -> Vec<Variable> {
        let share = match self {
            Self::PerTenant => "never",
            Self::Shared => "with-verified-code",
        };
        vec![("MFAAS_SHARE_WORKERS", share.into())]
    }
}

/// What gives a node so many workers for bulk calls of so much memory.
fn of_bulk_workers(workers: usize, memory: MemoryLimit) -> [Variable; 2] {
    let each_mib = BULK_WORKER_MIB + (memory.as_bytes() >> 20);
    let all_mib = each_mib * workers as u64;
    [
        ("MFAAS_BULK_WORKERS", workers.to_string().into()),
        ("MFAAS_BULK_MEMORY_MIB", all_mib.to_string().into()),
    ]
}

/// What one tenant deploys.
#[derive(Debug, Clone)]
pub struct Tenant {
    /// Its name.
    pub name: String,
    /// What its function does, and which of many it is.
    pub constants: Constants,
    /// CPU time of one call, in microseconds.
    pub budget_us: u64,
}

impl Tenant {
    /// A tenant whose function does `kind`; its number tells it from others.
    pub fn new(name: impl Into<String>, kind: Kind, number: usize, budget_us: u64) -> Self {
        Self { name: name.into(), constants: kind.constants(number as u64), budget_us }
    }

    fn deployed(&self, kit: &Kit) -> anyhow::Result<Deployed> {
        let image = kit.functions.file(Form::Hosted, &self.constants);
        Deployed::micro(&self.name, image, self.budget_us)
    }
}

/// What a node has besides tenants and cores.
#[derive(Debug, Default)]
pub struct More {
    /// A core for its one worker.
    pub worker: Option<usize>,
    /// A bulk function, with a worker for each core.
    pub bulk: Option<Example>,
}

/// A bulk function that can be called.
#[derive(Debug, Clone)]
pub struct BulkTarget {
    /// The node.
    pub address: SocketAddr,
    /// Where in it.
    pub path: String,
}

/// A function that can be called.
#[derive(Debug, Clone)]
pub struct Target {
    /// Where.
    pub path: String,
    /// What it must answer.
    pub constants: Constants,
}

/// The node.
#[derive(Debug)]
pub struct Site {
    started: Started,
    pools: Pools,
    targets: Vec<Target>,
    own_core: Option<usize>,
    /// The path of the bulk function.
    bulk: Option<String>,
}

impl Site {
    /// Starts a node for these tenants and waits until the first one's function answers.
    pub fn start(kit: &Kit, pools: Pools, tenants: &[Tenant]) -> anyhow::Result<Self> {
        Self::start_on(kit, &kit.cores.both(), pools, tenants, More::default())
    }

    /// The same on these cores, with more.
    pub fn start_on(
        kit: &Kit,
        cores: &[usize],
        pools: Pools,
        tenants: &[Tenant],
        more: More,
    ) -> anyhow::Result<Self> {
        let mut deployed: Vec<Deployed> =
            tenants.iter().map(|tenant| tenant.deployed(kit)).collect::<anyhow::Result<_>>()?;
        let targets = tenants
            .iter()
            .zip(&deployed)
            .map(|(tenant, deployed)| Target { path: deployed.path(), constants: tenant.constants })
            .collect();
        let mut variables = pools.variables();
        variables.extend(more.worker.into_iter().flat_map(of_one_worker));
        let mut bulk = None;
        if let Some(Example { image, budget, memory }) = more.bulk {
            variables.extend(of_bulk_workers(cores.len(), memory));
            let one = Deployed::only(BULK_TENANT, image, Class::Bulk, (budget, memory));
            bulk = Some(one.path());
            deployed.push(one);
        }
        let started = Started::over(kit, cores, &deployed, &variables)?;
        Ok(Self { started, pools, targets, own_core: more.worker, bulk })
    }

    /// Where it answers.
    pub fn address(&self) -> SocketAddr {
        self.started.address()
    }

    /// Cores that its workers have for themselves.
    pub fn own_cores(&self) -> &[usize] {
        self.own_core.as_slice()
    }

    /// The functions, in the order of the tenants.
    pub fn targets(&self) -> &[Target] {
        &self.targets
    }

    /// For the row.
    pub fn protections(&self) -> String {
        format!("all that the node runs with, {}; started for this row", self.pools.name())
    }

    /// Fails unless the node has the pools that it is named after, once `tenants` tenants were called.
    pub fn verify_pools(&self, tenants: usize) -> anyhow::Result<()> {
        let below = descendants(self.started.process())?;
        self.pools.verify(below.iter().filter(|process| process.name == WORKER).count(), tenants)
    }

    /// Waits until nothing runs any more, neither a call nor a start.
    pub fn rest(&self) -> anyhow::Result<()> {
        let deadline = Instant::now() + REST_WAIT_MAX;
        while self.percent(REST)? > REST_PERCENT {
            ensure!(Instant::now() < deadline, "the node does not come to rest");
        }
        Ok(())
    }

    /// CPU time of all its processes while `window` passes, in percent of one core.
    pub fn percent(&self, window: Duration) -> anyhow::Result<f64> {
        let (begin, before) = (Instant::now(), self.spent()?);
        std::thread::sleep(window);
        Ok((self.spent()? - before).max(0.0) / begin.elapsed().as_secs_f64() / 1e4)
    }

    /// CPU time of all its processes since they began, those that have ended among them, in microseconds.
    pub fn spent(&self) -> anyhow::Result<f64> {
        Ok(tree_seconds(self.started.process())? * 1e6)
    }

    /// All its processes but the workers of bulk calls.
    pub fn processes(&self) -> anyhow::Result<Vec<u32>> {
        let (process, bulk) = (self.started.process(), self.bulk_workers()?);
        let below = descendants(process)?.into_iter().map(|below| below.process);
        Ok([process].into_iter().chain(below).filter(|one| !bulk.contains(one)).collect())
    }

    /// The bulk function, where there is one.
    pub fn bulk(&self) -> Option<BulkTarget> {
        Some(BulkTarget { address: self.address(), path: self.bulk.clone()? })
    }

    /// Its workers of bulk calls: those of lowest priority.
    pub fn bulk_workers(&self) -> anyhow::Result<Vec<u32>> {
        let below = descendants(self.started.process())?;
        let workers = below.into_iter().filter(|one| one.name == WORKER).map(|one| one.process);
        Ok(workers.filter(|worker| niceness(*worker) == Some(BULK_NICENESS)).collect())
    }

    /// CPU time of these since they began, in seconds.
    pub fn bulk_seconds(&self) -> anyhow::Result<f64> {
        let workers = self.bulk_workers()?;
        // One that ends meanwhile is left out.
        let spent = workers.into_iter().flat_map(|worker| threads(worker).unwrap_or_default());
        Ok(spent.map(|thread| thread.micros).sum::<f64>() / 1e6)
    }

    /// Memory of all its processes.
    pub fn memory(&self) -> anyhow::Result<Held> {
        Held::by_tree(self.started.process()).context("the node's memory")
    }
}

#[cfg(test)]
mod tests;
