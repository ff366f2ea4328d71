//! Workers by their place, each with its table of jobs in flight.

use crate::{IN_WORKER_CAP, KillReason, Limits, Moment, WORKERS_CAP, WorkerId};

/// Functions that a worker ran last and that are remembered, to know whom its death may be owed to.
pub(crate) const SERVED_MAX: usize = 8;

/// Where a worker is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// There is none at this place.
    Empty,
    /// [`crate::Command::Spawn`] went out.
    Starting,
    /// It takes jobs.
    Ready,
    /// It answers what it has and takes nothing more: [`crate::Command::Stop`] follows or went out.
    Leaving,
    /// Its process is gone; what it had completed is still being reported.
    Dying,
    /// [`crate::Command::Kill`] went out.
    Doomed(KillReason),
}

/// A function that the job on the core of the worker at a place may call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Loan {
    pub(crate) place: u16,
    pub(crate) function: u32,
}

/// The functions that a worker ran last, each once.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Served {
    functions: [u32; SERVED_MAX],
    len: u8,
    next: u8,
    /// It ran others before these.
    more: bool,
}

impl Served {
    /// Another run of a function.
    #[inline]
    pub(crate) fn note(&mut self, function: u32) {
        if self.all().contains(&function) {
            return;
        }
        if usize::from(self.len) < SERVED_MAX {
            self.functions[usize::from(self.len)] = function;
            self.len += 1;
        } else {
            self.functions[usize::from(self.next)] = function;
            self.next = (self.next + 1) % SERVED_MAX as u8;
            self.more = true;
        }
    }

    /// Those that are remembered.
    pub(crate) fn all(&self) -> &[u32] {
        &self.functions[..usize::from(self.len)]
    }

    /// Whether it ran no others.
    pub(crate) fn is_complete(&self) -> bool {
        !self.more
    }

    /// The only one that it ever ran.
    pub(crate) fn only(&self) -> Option<u32> {
        match self.all() {
            [one] if !self.more => Some(*one),
            _ => None,
        }
    }
}

/// One worker. Its jobs are answered in the order in which they were given to it.
#[repr(align(64))]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Worker {
    pub(crate) life: u32,
    pub(crate) pool: u32,
    pub(crate) state: State,
    head: u8,
    len: u8,
    /// Since when the first job runs.
    pub(crate) started: Moment,
    /// When the first job has run too long by the wall.
    pub(crate) backstop: Moment,
    /// Time since it had nothing to do that no call was charged for, in microseconds.
    unbilled_us: u64,
    /// What it has worked so far: wall time and one microsecond for each job.
    pub(crate) load_us: u64,
    /// CPU budgets of its jobs together.
    pub(crate) budget_us: u64,
    jobs: [u32; IN_WORKER_CAP],
    /// Where it stands among those that are busy, while it is.
    busy_at: u16,
    /// What it ran in its life.
    pub(crate) served: Served,
    /// Since when it is ready, and since when it has nothing to do.
    pub(crate) born: Moment,
    pub(crate) idle_since: Moment,
}

impl Worker {
    pub(crate) const EMPTY: Self = Self {
        life: 0,
        pool: 0,
        state: State::Empty,
        head: 0,
        len: 0,
        started: Moment(0),
        backstop: Moment(0),
        unbilled_us: 0,
        load_us: 0,
        budget_us: 0,
        jobs: [0; IN_WORKER_CAP],
        busy_at: 0,
        served: Served { functions: [0; SERVED_MAX], len: 0, next: 0, more: false },
        born: Moment(0),
        idle_since: Moment(0),
    };

    /// A place without a worker, after that many.
    pub(crate) fn vacant(life: u32) -> Self {
        Self { life, ..Self::EMPTY }
    }

    /// One that was asked for.
    pub(crate) fn starting(life: u32, pool: u32) -> Self {
        Self { life, pool, state: State::Starting, ..Self::EMPTY }
    }

    /// Jobs in flight.
    pub(crate) fn len(&self) -> usize {
        usize::from(self.len)
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.len == 0
    }

    /// The job on its core.
    pub(crate) fn first(&self) -> Option<u32> {
        (self.len > 0).then(|| self.jobs[usize::from(self.head)])
    }

    /// Whether a job may be put behind those that it has.
    pub(crate) fn takes_more(&self, limits: &Limits) -> bool {
        let room = self.len() < limits.in_worker_max.min(IN_WORKER_CAP);
        room && self.state == State::Ready && self.budget_us < limits.pipeline_budget_us_max
    }

    /// The caller checked that there is room.
    pub(crate) fn push(&mut self, job: u32, budget_us: u32) {
        self.jobs[(self.head as usize + self.len()) % IN_WORKER_CAP] = job;
        self.len += 1;
        self.budget_us += u64::from(budget_us);
    }

    /// Takes the job on its core out.
    pub(crate) fn pop(&mut self, budget_us: u32) {
        self.head = (self.head + 1) % IN_WORKER_CAP as u8;
        self.len -= 1;
        self.budget_us -= u64::from(budget_us);
    }

    /// Its jobs in order.
    pub(crate) fn jobs(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.len()).map(|n| self.jobs[(usize::from(self.head) + n) % IN_WORKER_CAP])
    }

    /// What a call is charged that says it took `cpu_us`, `run_us` after the one before it was received.
    /// Several may be received at once, so what one leaves of the time that passed is there for the next.
    pub(crate) fn bill(&mut self, run_us: u64, cpu_us: u64) -> u64 {
        let passed = self.unbilled_us.saturating_add(run_us);
        let used = self.believed_us(run_us, cpu_us);
        self.unbilled_us = if self.len > 1 { passed - used } else { 0 };
        used
    }

    /// The same, without charging it.
    pub(crate) fn believed_us(&self, run_us: u64, cpu_us: u64) -> u64 {
        cpu_us.min(self.unbilled_us.saturating_add(run_us))
    }

    /// The job that came on the core now runs.
    pub(crate) fn start(&mut self, now: Moment, budget_us: u32, limits: &Limits) {
        self.started = now;
        self.backstop = now.plus(limits.backstop_us(u64::from(budget_us)));
    }
}

/// All workers, by their place, and what became of them.
#[derive(Debug, Default)]
pub(crate) struct Workers {
    records: Vec<Worker>,
    /// Places without a worker, below the number of those that were ever used.
    free: Vec<u16>,
    /// Places of workers with jobs.
    busy: Vec<u16>,
    /// Calls that they ended because those used up their budget, and workers that died with a call on
    /// their core, since the start.
    kills: u64,
    crashes: u64,
}

impl Workers {
    /// The record of a worker, if that life of it is not over.
    #[inline]
    pub(crate) fn living(&mut self, id: WorkerId) -> Option<&mut Worker> {
        let worker = self.records.get_mut(usize::from(id.place))?;
        (worker.life == id.life && worker.state != State::Empty).then_some(worker)
    }

    /// Worker processes that are there or being started or leaving.
    pub(crate) fn processes(&self) -> usize {
        self.records.len() - self.free.len()
    }

    pub(crate) fn get(&self, place: u16) -> Option<&Worker> {
        self.records.get(usize::from(place))
    }

    /// Every place that was ever used.
    pub(crate) fn places(&self) -> std::ops::Range<u16> {
        0..self.records.len() as u16
    }

    /// The same with who is there.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u16, &Worker)> {
        (0..).zip(&self.records)
    }

    /// A place for another worker. As many places as there may be workers, so one is free exactly when
    /// there is room.
    pub(crate) fn take_place(&mut self, workers_max: usize) -> Option<u16> {
        self.free.pop().or_else(|| {
            let next = self.records.len();
            (next < workers_max.min(WORKERS_CAP)).then(|| {
                self.records.push(Worker::EMPTY);
                next as u16
            })
        })
    }

    /// What a worker was that is no more. Its place is not free yet.
    pub(crate) fn bury(&mut self, place: u16) -> Worker {
        let worker = self[place];
        if !worker.is_idle() {
            self.rests(place);
        }
        self[place] = Worker::vacant(worker.life);
        worker
    }

    /// Another worker may be started at the place.
    pub(crate) fn free_place(&mut self, place: u16) {
        self.free.push(place);
    }

    /// Places of workers with jobs.
    #[inline]
    pub(crate) fn busy(&self) -> &[u16] {
        &self.busy
    }

    /// A worker that had nothing to do has a job.
    #[inline]
    pub(crate) fn works(&mut self, place: u16) {
        self.records[usize::from(place)].busy_at = self.busy.len() as u16;
        self.busy.push(place);
    }

    /// A worker has nothing to do any more.
    #[inline]
    pub(crate) fn rests(&mut self, place: u16) {
        let at = usize::from(self.records[usize::from(place)].busy_at);
        self.busy.swap_remove(at);
        if let Some(moved) = self.busy.get(at) {
            self.records[usize::from(*moved)].busy_at = at as u16;
        }
    }

    /// Calls that were ended because they used up their budget.
    pub(crate) fn kills(&self) -> u64 {
        self.kills
    }

    /// A worker finished a call; whether by ending it for its budget.
    #[inline]
    pub(crate) fn count_finished(&mut self, over_budget: bool) {
        self.kills += u64::from(over_budget);
    }

    /// Workers that died with a call on their core.
    pub(crate) fn crashes(&self) -> u64 {
        self.crashes
    }

    pub(crate) fn count_crash(&mut self) {
        self.crashes += 1;
    }

    #[cfg(test)]
    pub(crate) fn free(&self) -> &[u16] {
        &self.free
    }

    #[cfg(test)]
    pub(crate) fn is_at_its_place(&self, place: u16) -> bool {
        self.busy.get(usize::from(self[place].busy_at)) == Some(&place)
    }
}

impl std::ops::Index<u16> for Workers {
    type Output = Worker;
    #[inline]
    fn index(&self, place: u16) -> &Worker {
        &self.records[usize::from(place)]
    }
}

impl std::ops::IndexMut<u16> for Workers {
    #[inline]
    fn index_mut(&mut self, place: u16) -> &mut Worker {
        &mut self.records[usize::from(place)]
    }
}
