//! Workers by their place, each with its table of jobs in flight.

use crate::{IN_WORKER_CAP, KillReason, Limits, Moment, WORKERS_CAP};

/// Where a worker is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// There is none at this place.
    Empty,
    /// It takes jobs.
    Ready,
    /// It answers what it has and takes nothing more: [`crate::Command::Replace`] follows or went out.
    Replacing,
    /// [`crate::Command::Park`] went out.
    Parking,
    /// Its process is gone; what it had completed is still being reported.
    Dying,
    /// [`crate::Command::Kill`] went out.
    Doomed(KillReason),
}

/// One worker. Its jobs are answered in the order in which they were given to it.
#[repr(align(64))]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Worker {
    pub(crate) life: u32,
    pub(crate) cordon: u32,
    pub(crate) state: State,
    /// Its job is one that runs with nothing else.
    pub(crate) alone: bool,
    head: u8,
    len: u8,
    /// Since when the first job runs.
    pub(crate) started: Moment,
    /// When the first job has run too long by the wall.
    pub(crate) backstop: Moment,
    /// What it has worked so far: wall time and one microsecond for each job.
    pub(crate) load_us: u64,
    /// CPU budgets of its jobs together.
    pub(crate) budget_us: u64,
    jobs: [u32; IN_WORKER_CAP],
}

impl Worker {
    pub(crate) const EMPTY: Self = Self {
        life: 0,
        cordon: 0,
        state: State::Empty,
        alone: false,
        head: 0,
        len: 0,
        started: Moment(0),
        backstop: Moment(0),
        load_us: 0,
        budget_us: 0,
        jobs: [0; IN_WORKER_CAP],
    };

    /// A worker without jobs.
    pub(crate) fn new(life: u32, cordon: u32, state: State, load_us: u64) -> Self {
        Self { life, cordon, state, load_us, ..Self::EMPTY }
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
        room && !self.alone && self.state == State::Ready && self.budget_us < limits.pipeline_budget_us_max
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

    /// The job that came on the core now runs.
    pub(crate) fn start(&mut self, now: Moment, budget_us: u32, limits: &Limits) {
        self.started = now;
        self.backstop = now.plus(limits.backstop_us(u64::from(budget_us)));
    }
}

const WORDS: usize = WORKERS_CAP / 64;

/// A set of places.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Places([u64; WORDS]);

impl Places {
    pub(crate) fn insert(&mut self, place: u16) {
        self.0[usize::from(place) / 64] |= 1 << (place % 64);
    }

    pub(crate) fn remove(&mut self, place: u16) {
        self.0[usize::from(place) / 64] &= !(1 << (place % 64));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0 == [0; WORDS]
    }

    pub(crate) fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = u16> {
        (0..).step_by(64).zip(self.0).flat_map(|(base, mut word)| {
            std::iter::from_fn(move || {
                let bit = (word != 0).then(|| word.trailing_zeros() as u16)?;
                word &= word - 1;
                Some(base + bit)
            })
        })
    }
}
