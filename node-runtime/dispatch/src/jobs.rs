//! Open jobs in one dense table, and the lists that run through it.
//!
//! A job is in at most one list at a time, so the link lies in the job: queues cost no memory of
//! their own and nothing is allocated when a job waits.

use crate::{JOBS_CAP, JobId, Moment, Outcome};

/// No job: the end of a list.
pub(crate) const NONE: u32 = u32::MAX;

/// Where an open job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// Nobody's: the record waits for the next job.
    Free,
    /// In a tenant's queue, for a worker.
    Queued,
    /// In its function's list, for the image.
    Cold,
    /// In a worker's table.
    InWorker,
    /// In no list: it waits for what it has asked its node for.
    Suspended,
    /// Out of its list, to be answered in this step.
    Taken,
}

/// One open job, on one cache line.
#[repr(align(64))]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Job {
    pub(crate) id: JobId,
    /// When it is answered at the latest if it still waits then.
    pub(crate) expires: Moment,
    /// What the caller asked for; [`Moment::NEVER`] when it did not.
    pub(crate) deadline: Moment,
    /// When it may be suspended no longer: the deadline, or what a call may take.
    pub(crate) ends: Moment,
    pub(crate) function: u32,
    /// The queue and pool that it waits or runs in, even if the function moved since.
    pub(crate) queue: u32,
    pub(crate) pool: u32,
    /// What is left of its CPU time.
    pub(crate) budget_us: u32,
    /// Which load of the function's image runs it: [`crate::functions::Function::stamp`].
    pub(crate) stamp: u32,
    pub(crate) next: u32,
    pub(crate) place: Place,
    /// It runs for the second time, since a worker died with it.
    pub(crate) again: bool,
    /// It was suspended, and what it was by then cannot be run twice.
    pub(crate) has_waited: bool,
    /// An open job made it.
    pub(crate) is_child: bool,
    /// What its tenant was charged when it started, in microseconds.
    pub(crate) charged_us: u32,
}

impl Job {
    /// How it ends that may take no longer.
    pub(crate) fn end_at(&self, now: Moment) -> Outcome {
        if self.deadline <= now { Outcome::DeadlinePassed } else { Outcome::TookTooLong }
    }

    /// Whether it is in one of the lists of jobs that wait.
    pub(crate) fn waits(&self) -> bool {
        match self.place {
            Place::Queued | Place::Cold => true,
            Place::Free | Place::InWorker | Place::Suspended | Place::Taken => false,
        }
    }
}

const _: () = assert!(size_of::<Job>() == 64);

/// All open jobs.
#[derive(Debug)]
pub(crate) struct Jobs {
    records: Vec<Job>,
    free: u32,
    open: usize,
    sequence: u64,
}

impl Default for Jobs {
    fn default() -> Self {
        Self { records: Vec::new(), free: NONE, open: 0, sequence: 0 }
    }
}

impl Jobs {
    /// Jobs that were not answered.
    pub(crate) fn open(&self) -> usize {
        self.open
    }

    /// Whether one more can be opened.
    pub(crate) fn has_room(&self) -> bool {
        self.open < JOBS_CAP
    }

    /// Jobs opened so far: an order of use that does not depend on the clock's resolution.
    pub(crate) fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Opens a job. The caller checked [`Jobs::has_room`] and puts it somewhere in the same step.
    pub(crate) fn add(&mut self, job: Job) -> u32 {
        self.sequence += 1;
        self.open += 1;
        let index = if self.free == NONE {
            self.records.push(job);
            (self.records.len() - 1) as u32
        } else {
            let index = self.free;
            self.free = self.records[index as usize].next;
            self.records[index as usize] = job;
            index
        };
        self.records[index as usize].id = JobId::new(index, self.sequence);
        index
    }

    /// Forgets a job that is in no list.
    pub(crate) fn remove(&mut self, index: u32) {
        let record = &mut self.records[index as usize];
        record.place = Place::Free;
        record.next = self.free;
        self.free = index;
        self.open -= 1;
    }

    /// Where an open job is in the table.
    pub(crate) fn find(&self, id: JobId) -> Option<u32> {
        let record = self.records.get(id.index())?;
        (record.place != Place::Free && record.id == id).then_some(id.index() as u32)
    }

    pub(crate) fn get(&self, index: u32) -> &Job {
        &self.records[index as usize]
    }

    pub(crate) fn get_mut(&mut self, index: u32) -> &mut Job {
        &mut self.records[index as usize]
    }

    /// Every open job with its index, for what looks at all that waits.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Job)> {
        (0..).zip(&self.records).filter(|(_, job)| job.place != Place::Free)
    }
}

/// Jobs in order, linked through their records.
#[derive(Debug, Clone, Copy)]
pub(crate) struct List {
    head: u32,
    tail: u32,
    len: u32,
}

impl Default for List {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl List {
    pub(crate) const EMPTY: Self = Self { head: NONE, tail: NONE, len: 0 };

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn push(&mut self, jobs: &mut Jobs, index: u32, place: Place) {
        let job = jobs.get_mut(index);
        job.next = NONE;
        job.place = place;
        if self.tail == NONE {
            self.head = index;
        } else {
            jobs.get_mut(self.tail).next = index;
        }
        self.tail = index;
        self.len += 1;
    }

    pub(crate) fn pop(&mut self, jobs: &Jobs) -> Option<u32> {
        let index = self.head;
        if index == NONE {
            return None;
        }
        self.head = jobs.get(index).next;
        if self.head == NONE {
            self.tail = NONE;
        }
        self.len -= 1;
        Some(index)
    }

    /// Takes out every job for which `wanted` holds; the order of both parts stays.
    pub(crate) fn take_where(&mut self, jobs: &mut Jobs, wanted: impl Fn(&Job) -> bool, out: &mut Vec<u32>) {
        let mut kept = Self::default();
        while let Some(index) = self.pop(jobs) {
            let job = jobs.get(index);
            if wanted(job) {
                jobs.get_mut(index).place = Place::Taken;
                out.push(index);
            } else {
                let place = job.place;
                kept.push(jobs, index, place);
            }
        }
        *self = kept;
    }

    /// Its jobs in order, for checks.
    #[cfg(test)]
    pub(crate) fn iter<'j>(&self, jobs: &'j Jobs) -> impl Iterator<Item = &'j Job> {
        let mut next = self.head;
        std::iter::from_fn(move || {
            let job = (next != NONE).then(|| jobs.get(next))?;
            next = job.next;
            Some(job)
        })
    }
}
