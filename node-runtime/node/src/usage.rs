//! What calls cost: counted where they are answered, shown in `/metrics`, reported to the server as totals.
//!
//! Counting is one short hold of a lock and no allocation after a version's first call. What a worker says about time
//! and memory is bounded by what this process saw itself: a worker that lies can claim less than it used, never more.
//! Totals live in memory. Of a node that is killed, what was counted since its last report is lost; of one that stops
//! in order, nothing.

mod exposition;
mod histogram;
mod load;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mfaas_abi::Status;
use mfaas_delivery::{Kill, NODE_PROTOCOL, RUN_BUCKETS, USAGE_ROWS_MAX, UsageReport, UsageRow};
use mfaas_dispatch::Outcome;
use mfaas_ident::{FunctionName, TenantName, VersionNumber};
use mfaas_ring::Completion;

pub(crate) use load::Load;

use histogram::{Shown, bucket, by_reason};

use crate::serving::{Answered, Served, Used};
use crate::upstream::{Upstream, UpstreamError};

/// How often totals are reported.
const INTERVAL: Duration = Duration::from_secs(10);
/// Versions that are counted by themselves from one start to the next; calls of further ones are counted without a
/// name. A node loads far fewer at once.
const VERSIONS_MAX: usize = 100_000;
/// Functions with series of their own in `/metrics`: the first ones that were called. Further ones are summed up as
/// `other`, so that whoever deploys cannot make the scrape grow without an end.
const FUNCTIONS_SHOWN_MAX: usize = 200;

/// The counts of one start of the node.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    ledger: Mutex<Ledger>,
    /// The server knows run times by bucket: it has taken a report of load.
    takes_runs: AtomicBool,
}

#[derive(Debug)]
struct Ledger {
    versions: Vec<Version>,
    by_name: HashMap<(TenantName, FunctionName, VersionNumber), usize>,
    /// By the number that the scheduler gave: what it meant last, and where that is counted.
    by_id: Vec<Option<(Arc<Served>, usize)>>,
    /// What `/metrics` shows; the first is `other`.
    shown: Vec<Shown>,
    shown_by_name: HashMap<(TenantName, FunctionName), usize>,
    /// Versions that were called since they were reported last, each once.
    unreported: Vec<usize>,
    /// Versions of the last report, until the server has taken it.
    in_report: Vec<usize>,
    sequence: u64,
    /// Calls of versions beyond [`VERSIONS_MAX`].
    unnamed_calls: u64,
    /// CPU time of all calls.
    cpu_ns: u64,
}

/// One version since the node started.
#[derive(Debug)]
struct Version {
    served: Arc<Served>,
    shown: usize,
    calls: u64,
    cpu_ns: u64,
    run_ns: u64,
    queue_ns: u64,
    kills: [u64; Kill::ALL.len()],
    /// Calls by run time.
    runs: [u64; RUN_BUCKETS],
    /// Since the last report began.
    recent: HighWater,
    /// Of the report that the server has not taken yet.
    in_report: HighWater,
    /// It is in [`Ledger::unreported`].
    is_unreported: bool,
    /// It is in [`Ledger::in_report`].
    is_in_report: bool,
}

/// The most of something since some moment.
#[derive(Debug, Clone, Copy, Default)]
struct HighWater {
    run_ns: u64,
    memory_bytes: u64,
}

/// The numbers of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cost {
    cpu_ns: u64,
    run_ns: u64,
    queue_ns: u64,
    memory_bytes: u64,
    kill: Option<Kill>,
}

impl Usage {
    /// Counts an answered call, unless it never ran.
    pub(crate) fn record(&self, answered: &Answered) {
        if let Some(cost) = cost(answered) {
            self.lock().add(&answered.served, cost, 1);
        }
    }

    /// Counts calls that were made within another one and answered, and took so long together: each as one of the mean.
    pub(crate) fn record_inline(&self, served: &Arc<Served>, calls: u64, ns: u64, memory_bytes: u64) {
        let Some(mean_ns) = ns.checked_div(calls) else { return };
        let memory_bytes = memory_bytes.min(served.terms.memory.as_bytes());
        let cost = Cost { cpu_ns: mean_ns, run_ns: mean_ns, queue_ns: 0, memory_bytes, kill: None };
        self.lock().add(served, cost, calls);
    }

    /// The series of functions, in Prometheus' text format.
    pub(crate) fn render(&self) -> String {
        // Copied, so that calls are answered while the text is made.
        let (shown, unnamed_calls) = {
            let ledger = self.lock();
            (ledger.shown.clone(), ledger.unnamed_calls)
        };
        exposition::render(&shown, unnamed_calls)
    }

    /// CPU time of all calls since the start, in nanoseconds.
    fn cpu_ns(&self) -> u64 {
        self.lock().cpu_ns
    }

    /// The next report, if there is something to report.
    fn report(&self, boot: uuid::Uuid) -> Option<UsageReport> {
        let mut ledger = self.lock();
        let mut rows = ledger.rows();
        if rows.is_empty() {
            return None;
        }
        if !self.takes_runs.load(Ordering::Relaxed) {
            rows.iter_mut().for_each(|row| row.runs.clear());
        }
        // A report that is tried again may hold more than before, so it is never the same number again.
        ledger.sequence += 1;
        Some(UsageReport { protocol: NODE_PROTOCOL, boot, sequence: ledger.sequence, rows })
    }

    /// The server has the last report.
    fn taken(&self) {
        let mut ledger = self.lock();
        for index in std::mem::take(&mut ledger.in_report) {
            let version = &mut ledger.versions[index];
            (version.in_report, version.is_in_report) = (HighWater::default(), false);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Ledger {
    fn default() -> Self {
        Self {
            versions: Vec::new(),
            by_name: HashMap::new(),
            by_id: Vec::new(),
            shown: vec![Shown::default()],
            shown_by_name: HashMap::new(),
            unreported: Vec::new(),
            in_report: Vec::new(),
            sequence: 0,
            unnamed_calls: 0,
            cpu_ns: 0,
        }
    }
}

impl Ledger {
    /// Counts so many calls of the same cost.
    fn add(&mut self, served: &Arc<Served>, cost: Cost, calls: u64) {
        self.cpu_ns = self.cpu_ns.saturating_add(cost.cpu_ns.saturating_mul(calls));
        let Some(index) = self.place_of(served) else {
            self.unnamed_calls += calls;
            self.shown[0].add(cost, calls);
            return;
        };
        let version = &mut self.versions[index];
        version.add(cost, calls);
        if !std::mem::replace(&mut version.is_unreported, true) {
            self.unreported.push(index);
        }
        let shown = version.shown;
        self.shown[shown].add(cost, calls);
    }

    /// Where calls of this version are counted. The scheduler may give a number to another version later, so what it
    /// meant last is compared.
    fn place_of(&mut self, served: &Arc<Served>) -> Option<usize> {
        let id = served.id.0 as usize;
        if let Some(Some((known, index))) = self.by_id.get(id)
            && Arc::ptr_eq(known, served)
        {
            return Some(*index);
        }
        let index = self.find_or_open(served)?;
        if self.by_id.len() <= id {
            self.by_id.resize(id + 1, None);
        }
        self.by_id[id] = Some((Arc::clone(served), index));
        Some(index)
    }

    fn find_or_open(&mut self, served: &Arc<Served>) -> Option<usize> {
        let key = &served.key;
        let name = (key.tenant.clone(), key.function.clone(), key.version);
        if let Some(index) = self.by_name.get(&name) {
            return Some(*index);
        }
        if self.versions.len() >= VERSIONS_MAX {
            return None;
        }
        let index = self.versions.len();
        let shown = self.shown_place((key.tenant.clone(), key.function.clone()));
        self.versions.push(Version::new(Arc::clone(served), shown));
        self.by_name.insert(name, index);
        Some(index)
    }

    /// Whoever has series keeps them: a counter must not move from one label to another.
    fn shown_place(&mut self, name: (TenantName, FunctionName)) -> usize {
        if let Some(index) = self.shown_by_name.get(&name) {
            return *index;
        }
        if self.shown_by_name.len() >= FUNCTIONS_SHOWN_MAX {
            return 0;
        }
        self.shown.push(Shown { name: Some(name.clone()), ..Shown::default() });
        self.shown_by_name.insert(name, self.shown.len() - 1);
        self.shown.len() - 1
    }

    /// What the server has not taken yet, and what is new, as far as one report holds it.
    fn rows(&mut self) -> Vec<UsageRow> {
        let room = USAGE_ROWS_MAX.saturating_sub(self.in_report.len()).min(self.unreported.len());
        for index in self.unreported.drain(..room) {
            let version = &mut self.versions[index];
            version.is_unreported = false;
            // It may be there already, when the last report was not taken.
            if !std::mem::replace(&mut version.is_in_report, true) {
                self.in_report.push(index);
            }
        }
        self.in_report.iter().map(|index| self.versions[*index].row()).collect()
    }
}

impl Version {
    fn new(served: Arc<Served>, shown: usize) -> Self {
        let (recent, in_report) = Default::default();
        Self {
            served,
            shown,
            calls: 0,
            cpu_ns: 0,
            run_ns: 0,
            queue_ns: 0,
            kills: [0; Kill::ALL.len()],
            runs: [0; RUN_BUCKETS],
            recent,
            in_report,
            is_unreported: false,
            is_in_report: false,
        }
    }

    fn add(&mut self, cost: Cost, calls: u64) {
        self.calls += calls;
        self.cpu_ns = self.cpu_ns.saturating_add(cost.cpu_ns.saturating_mul(calls));
        self.run_ns = self.run_ns.saturating_add(cost.run_ns.saturating_mul(calls));
        self.queue_ns = self.queue_ns.saturating_add(cost.queue_ns.saturating_mul(calls));
        self.runs[bucket(cost.run_ns)] += calls;
        self.recent.run_ns = self.recent.run_ns.max(cost.run_ns);
        self.recent.memory_bytes = self.recent.memory_bytes.max(cost.memory_bytes);
        if let Some(kill) = cost.kill {
            self.kills[kill as usize] += calls;
        }
    }

    fn row(&mut self) -> UsageRow {
        let recent = std::mem::take(&mut self.recent);
        self.in_report.run_ns = self.in_report.run_ns.max(recent.run_ns);
        self.in_report.memory_bytes = self.in_report.memory_bytes.max(recent.memory_bytes);
        let key = &self.served.key;
        UsageRow {
            tenant: key.tenant.clone(),
            function: key.function.clone(),
            version: key.version,
            calls: self.calls,
            cpu_ns: self.cpu_ns,
            run_ns: self.run_ns,
            queue_ns: self.queue_ns,
            run_ns_max: self.in_report.run_ns,
            memory_bytes_max: self.in_report.memory_bytes,
            kills: by_reason(&self.kills).collect::<BTreeMap<_, _>>(),
            runs: without_zeros_at_the_end(&self.runs).to_vec(),
        }
    }
}

fn without_zeros_at_the_end(numbers: &[u64]) -> &[u64] {
    let end = numbers.iter().rposition(|number| *number > 0).map_or(0, |last| last + 1);
    numbers.get(..end).unwrap_or_default()
}

impl Shown {
    fn add(&mut self, cost: Cost, calls: u64) {
        self.run.add(cost.run_ns, calls);
        self.queue.add(cost.queue_ns, calls);
        self.cpu_ns = self.cpu_ns.saturating_add(cost.cpu_ns.saturating_mul(calls));
        self.memory_bytes_max = self.memory_bytes_max.max(cost.memory_bytes);
        if let Some(kill) = cost.kill {
            self.kills[kill as usize] += calls;
        }
    }
}

/// What a call cost; `None` when it never ran. Of one that ended while it waited, that is what it used before.
///
/// The CPU time of a call that went down with its worker is not known: it is taken for what its budget allowed, as
/// far as it ran at all.
fn cost(answered: &Answered) -> Option<Cost> {
    let terms = &answered.served.terms;
    let (queue_ns, ran_ns) = (ns(answered.queued), ns(answered.ran));
    let budget_ns = terms.budget.as_micros().saturating_mul(1_000);
    let gone = |kill| Cost {
        cpu_ns: ran_ns.min(budget_ns),
        run_ns: ran_ns,
        queue_ns,
        memory_bytes: 0,
        kill: Some(kill),
    };
    let used = &answered.used;
    let before_it_waited = |kill| {
        let run_ns = used.wall_ns.min(ran_ns);
        let (cpu_ns, memory_bytes) =
            (used.cpu_ns.min(run_ns), used.memory_bytes.min(terms.memory.as_bytes()));
        Cost { cpu_ns, run_ns, queue_ns, memory_bytes, kill }
    };
    match (answered.outcome, &answered.completion) {
        (Outcome::Finished, Some(completion)) => {
            let run_ns = completion.wall_ns.min(ran_ns);
            Some(Cost {
                cpu_ns: completion.cpu_ns.min(run_ns),
                run_ns,
                queue_ns,
                memory_bytes: completion.memory_bytes.min(terms.memory.as_bytes()),
                kill: kill(completion),
            })
        }
        (Outcome::Lost, _) | (Outcome::Finished, None) => Some(gone(Kill::Lost)),
        (Outcome::Overdue, _) => Some(gone(Kill::Overdue)),
        (Outcome::OverBudget, _) => Some(before_it_waited(Some(Kill::OverBudget))),
        (Outcome::TookTooLong, _) => Some(before_it_waited(Some(Kill::Overdue))),
        (Outcome::Stuck, _) => Some(before_it_waited(Some(Kill::BadOutput))),
        (
            Outcome::WaitedTooLong
            | Outcome::DeadlinePassed
            | Outcome::TooManySuspended
            | Outcome::LoadFailed
            | Outcome::Withdrawn
            | Outcome::Banned,
            _,
        ) => (answered.used != Used::default()).then(|| before_it_waited(None)),
    }
}

fn kill(completion: &Completion) -> Option<Kill> {
    match completion.status {
        Status::Ok | Status::HandlerError => None,
        Status::Panicked => Some(Kill::Panicked),
        Status::OverBudget => Some(Kill::OverBudget),
        Status::StackOverflow => Some(Kill::StackOverflow),
        Status::OutOfMemory => Some(Kill::OutOfMemory),
        Status::Denied => Some(Kill::Denied),
        Status::Fault => Some(Kill::Fault),
        Status::Aborted => Some(Kill::Aborted),
        Status::BadOutput => Some(Kill::BadOutput),
    }
}

fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Reports load and totals for ever. Load comes first: how it is answered says whether the server knows run times.
pub(crate) async fn report_periodically(
    usage: Arc<Usage>,
    mut load: Load,
    upstream: Upstream,
    boot: uuid::Uuid,
) {
    let mut failing = false;
    loop {
        tokio::time::sleep(INTERVAL).await;
        // Without an answer it stays as it was; the totals below say what is wrong.
        if let Ok(is_taken) = load.report(usage.cpu_ns(), &upstream).await {
            usage.takes_runs.store(is_taken, Ordering::Relaxed);
        }
        match report_all(&usage, &upstream, boot).await {
            Ok(()) => failing = false,
            Err(error) if !std::mem::replace(&mut failing, true) => {
                tracing::warn!(%error, "usage cannot be reported; it is kept and reported later");
            }
            Err(_) => {}
        }
    }
}

/// Reports everything that the server does not have yet.
pub(crate) async fn report_all(
    usage: &Usage,
    upstream: &Upstream,
    boot: uuid::Uuid,
) -> Result<(), UpstreamError> {
    while let Some(report) = usage.report(boot) {
        upstream.usage(&report).await?;
        usage.taken();
    }
    Ok(())
}

#[cfg(test)]
mod tests;
