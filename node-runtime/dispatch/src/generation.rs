//! One generation of workers and the jobs that wait for them.
//!
//! There is one queue for the whole generation, not one for each worker: no worker idles while a
//! job waits, and a long call delays only itself. Within it tenants take turns, so a tenant that
//! fills its share delays its own calls first.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::{FunctionId, JobId, Loaded, Plan, TenantId, WorkerId};

/// Where a generation is in its life. A retired one is no longer in any table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Workers start; no call is routed to it.
    Staged,
    /// New calls come here.
    Current,
    /// Only what it accepted before is still run.
    Draining,
}

/// The state of one generation.
#[derive(Debug)]
pub(crate) struct Generation {
    pub(crate) phase: Phase,
    pub(crate) workers: BTreeSet<WorkerId>,
    pub(crate) waiting: Waiting,
    functions: BTreeMap<FunctionId, Loaded>,
    workers_planned: usize,
}

impl Generation {
    pub(crate) fn staged(plan: Plan) -> Self {
        Self {
            phase: Phase::Staged,
            workers: BTreeSet::new(),
            waiting: Waiting::default(),
            functions: plan.functions,
            workers_planned: plan.workers,
        }
    }

    pub(crate) fn function(&self, function: FunctionId) -> Option<Loaded> {
        self.functions.get(&function).copied()
    }

    /// How many jobs may wait here; dead workers count, since each is being replaced.
    pub(crate) fn waiting_max(&self, per_worker: usize) -> usize {
        self.workers_planned.max(1).saturating_mul(per_worker)
    }
}

/// Jobs without a worker, first come first served within a tenant, tenants in turn.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    queues: BTreeMap<TenantId, VecDeque<JobId>>,
    turn: VecDeque<TenantId>,
    count: usize,
}

impl Waiting {
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    pub(crate) fn of_tenant(&self, tenant: TenantId) -> usize {
        self.queues.get(&tenant).map_or(0, VecDeque::len)
    }

    pub(crate) fn push(&mut self, tenant: TenantId, job: JobId) {
        let queue = self.queues.entry(tenant).or_default();
        if queue.is_empty() {
            self.turn.push_back(tenant);
        }
        queue.push_back(job);
        self.count += 1;
    }

    /// The next job by turn; its tenant goes to the end of the line.
    pub(crate) fn pop(&mut self) -> Option<JobId> {
        let tenant = self.turn.pop_front()?;
        let queue = self.queues.get_mut(&tenant)?;
        let job = queue.pop_front()?;
        self.count -= 1;
        if queue.is_empty() {
            self.queues.remove(&tenant);
        } else {
            self.turn.push_back(tenant);
        }
        Some(job)
    }

    /// Takes out every job for which `leave` is true, oldest first.
    pub(crate) fn take_where(&mut self, mut leave: impl FnMut(JobId) -> bool) -> Vec<JobId> {
        let mut taken = Vec::new();
        for queue in self.queues.values_mut() {
            queue.retain(|job| {
                let leaves = leave(*job);
                if leaves {
                    taken.push(*job);
                }
                !leaves
            });
        }
        self.queues.retain(|_, queue| !queue.is_empty());
        let queues = &self.queues;
        self.turn.retain(|tenant| queues.contains_key(tenant));
        self.count -= taken.len();
        taken.sort_unstable();
        taken
    }

    /// The oldest waiting job of each tenant.
    pub(crate) fn fronts(&self) -> impl Iterator<Item = JobId> + '_ {
        self.queues.values().filter_map(|queue| queue.front().copied())
    }
}
