//! Calls that wait: what was put aside of them, the operations that they began, and what has come of those.
//!
//! What a worker says of them is hostile. A call that breaks the rules of its own operations is given up, and nobody else notices.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use mfaas_abi::limits::OPERATIONS_MAX;
use mfaas_abi::{DONE, OperationKind, Record, SuspendedFrame};
use mfaas_dispatch::{JobId, Moment, Outcome};
use mfaas_ident::TenantName;
use mfaas_ring::Completion;

use crate::serving::call::Used;

/// What is kept of all calls together, and of those of one tenant, in bytes.
const KEPT_BYTES_MAX: usize = 1 << 30;
const TENANT_KEPT_BYTES_MAX: usize = KEPT_BYTES_MAX / 2;

/// What an operation that has not ended takes besides, in bytes: where it is known by its identity, and by its time.
const OPERATION_BYTES: usize = 160;

/// What becomes of a call that has begun to wait.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Rest {
    /// It waits until it hears something.
    Waits,
    /// It has heard something already.
    GoesOn,
    /// It ends.
    Ends(Outcome),
}

/// What is kept of a call that waits, or goes on after it has waited. Its memory is wiped when it goes.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// As it left its worker, and as it goes back: a [`SuspendedFrame`].
    frame: Vec<u8>,
    /// Where the state begins in it.
    state_at: usize,
    /// Outcomes that it has not heard of, as records.
    outcomes: Vec<u8>,
    /// Its operations that have not ended, and when each will.
    open: BTreeMap<u32, Moment>,
    /// It is in no worker, nor on its way into one.
    is_at_rest: bool,
    /// What it used before it waited.
    pub(super) used: Used,
    /// What it counts for in [`KeptBytes`].
    counted: usize,
}

impl Kept {
    /// Takes over what a worker reported of the call.
    pub(super) fn suspend(
        &mut self,
        (job, now): (JobId, Moment),
        completion: &mut Completion,
        body_bytes_max: usize,
        timers: &mut Timers,
    ) -> Rest {
        self.used.add(completion);
        wipe(std::mem::replace(&mut self.frame, std::mem::take(&mut completion.response)));
        let Some(SuspendedFrame { records, state }) = SuspendedFrame::decode(&self.frame, body_bytes_max)
        else {
            return Rest::Ends(Outcome::Stuck);
        };
        self.state_at = self.frame.len() - state.len();
        let mut began = records.map(|record| begin(&mut self.open, (job, now), &record, timers));
        if !began.all(|one| one.is_some()) {
            return Rest::Ends(Outcome::Stuck);
        }
        self.is_at_rest = self.outcomes.is_empty();
        match (self.is_at_rest, self.open.is_empty()) {
            (false, _) => Rest::GoesOn,
            (true, false) => Rest::Waits,
            (true, true) => Rest::Ends(Outcome::Stuck),
        }
    }

    /// An operation has ended; whether the call is to go on for that.
    pub(super) fn hear(&mut self, id: u32) -> bool {
        self.open.remove(&id);
        Record { id, code: DONE, bytes: &[] }.append_to(&mut self.outcomes);
        std::mem::take(&mut self.is_at_rest)
    }

    /// The frame with which it goes on: what it has not heard of, and what it was.
    pub(super) fn resume(&mut self) -> &[u8] {
        let state = &self.frame[self.state_at..];
        let head = SuspendedFrame::head(self.outcomes.len());
        let mut frame = Vec::with_capacity(head.len() + self.outcomes.len() + state.len());
        frame.extend_from_slice(&head);
        frame.extend_from_slice(&self.outcomes);
        frame.extend_from_slice(state);
        self.state_at = frame.len() - state.len();
        wipe(std::mem::replace(&mut self.frame, frame));
        wipe(std::mem::take(&mut self.outcomes));
        &self.frame
    }

    /// Nothing of it will end any more.
    pub(super) fn forget(&self, job: JobId, timers: &mut Timers) {
        for (id, at) in &self.open {
            timers.0.remove(&(*at, job, *id));
        }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        wipe(std::mem::take(&mut self.frame));
        wipe(std::mem::take(&mut self.outcomes));
    }
}

/// Nothing of these bytes stays in memory that others are given. As fast as memory is: a wipe byte by byte would keep all calls
/// waiting.
pub(super) fn wipe(mut bytes: Vec<u8>) {
    bytes.fill(0);
    // Looked at, so that it is not left out.
    std::hint::black_box(&bytes);
}

/// Does what a call asks for. `None` where it breaks a rule.
fn begin(
    open: &mut BTreeMap<u32, Moment>,
    (job, now): (JobId, Moment),
    record: &Record<'_>,
    timers: &mut Timers,
) -> Option<()> {
    match OperationKind::from_u32(record.code)? {
        OperationKind::Sleep => {
            let ns = u64::from_le_bytes(record.bytes.try_into().ok()?);
            let at = now.plus(ns.div_ceil(1_000));
            // An operation that was overwritten here would leave its timer behind.
            let is_new = open.len() < OPERATIONS_MAX && !open.contains_key(&record.id);
            is_new.then(|| {
                open.insert(record.id, at);
                timers.0.insert((at, job, record.id));
            })
        }
        OperationKind::Cancel => {
            // It may have ended meanwhile.
            if let Some(at) = open.remove(&record.id) {
                timers.0.remove(&(at, job, record.id));
            }
            Some(())
        }
    }
}

/// When which operation of which call ends.
#[derive(Debug, Default)]
pub(super) struct Timers(BTreeSet<(Moment, JobId, u32)>);

impl Timers {
    /// When the first does.
    pub(super) fn next(&self) -> Option<Moment> {
        self.0.first().map(|(at, ..)| *at)
    }

    /// Tells calls which of their operations have ended by `now`, until one is to go on: `hear` says whether it is. Takes what it
    /// tells from what is `left`.
    pub(super) fn wake(
        &mut self,
        now: Moment,
        left: &mut usize,
        mut hear: impl FnMut(JobId, u32) -> bool,
    ) -> Option<JobId> {
        while *left > 0 && self.next().is_some_and(|at| at <= now) {
            *left -= 1;
            let (_, job, id) = self.0.pop_first()?;
            if hear(job, id) {
                return Some(job);
            }
        }
        None
    }
}

/// What is kept of all calls, in bytes.
#[derive(Debug, Default)]
pub(super) struct KeptBytes {
    all: usize,
    by_tenant: HashMap<TenantName, usize>,
}

impl KeptBytes {
    /// Counts what is kept of a call of the tenant. Whether it may be.
    pub(super) fn count(&mut self, tenant: &TenantName, kept: &mut Kept) -> bool {
        let after = kept.frame.capacity() + kept.open.len() * OPERATION_BYTES;
        self.replace(tenant, std::mem::replace(&mut kept.counted, after), after)
    }

    /// Nothing is kept of a call any more.
    pub(super) fn forget(&mut self, tenant: &TenantName, kept: &Kept) {
        self.replace(tenant, kept.counted, 0);
    }

    /// Something is kept in the place of something else.
    fn replace(&mut self, tenant: &TenantName, before: usize, after: usize) -> bool {
        self.all = self.all - before + after;
        let of_tenant = match self.by_tenant.get_mut(tenant) {
            Some(of_tenant) => of_tenant,
            None => self.by_tenant.entry(tenant.clone()).or_default(),
        };
        *of_tenant = *of_tenant - before + after;
        let fits = *of_tenant <= TENANT_KEPT_BYTES_MAX && self.all <= KEPT_BYTES_MAX;
        if *of_tenant == 0 {
            self.by_tenant.remove(tenant);
        }
        fits
    }
}

#[cfg(test)]
mod tests;
