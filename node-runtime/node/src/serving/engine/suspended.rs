//! Calls that wait: what was put aside of them, the operations that they began, and what has come of those.
//!
//! What a worker says of them is hostile. A call that breaks the rules of its own operations is given up, and nobody else notices.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use mfaas_abi::limits::{self, OPERATIONS_MAX};
use mfaas_abi::{DONE, OperationKind, Record, Records, SuspendedFrame};
use mfaas_dispatch::{JobId, Moment, Outcome};
use mfaas_ident::TenantName;
use mfaas_ring::Completion;

use super::data::{Asked, DataCall};
use super::kept_bytes::KeptBytes;
use crate::serving::caches::AtOnce;
use crate::serving::call::Used;

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

/// An operation that has not ended.
#[derive(Debug)]
enum Open {
    /// Ends at that moment.
    Sleep(Moment),
    /// Ends when the broker says so. For the end of a part the call need not go on.
    Data { is_part: bool },
    /// Ends when the call that it made has an answer. As long as this is there, somebody waits for that.
    Call { _waits: Arc<()> },
}

/// What is kept of a call that waits, or goes on after it has waited. Its memory is wiped when it goes.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// As it left its worker, and as it goes back: a [`SuspendedFrame`].
    frame: Vec<u8>,
    /// Where the state begins in it.
    state_at: usize,
    /// Outcomes that it has not heard of, each as a record.
    outcomes: VecDeque<Vec<u8>>,
    /// Their bytes, and those that it heard of last.
    outcome_bytes: usize,
    heard_bytes: usize,
    /// CPU time of calls that it made, which it has not been charged for, in microseconds.
    pub(super) owed_us: u64,
    /// What was looked up in caches for it since it began to wait last.
    pub(super) at_once: AtOnce,
    /// Its operations that have not ended.
    open: BTreeMap<u32, Open>,
    /// It is in no worker, nor on its way into one.
    is_at_rest: bool,
    /// What it used before it waited.
    pub(super) used: Used,
    /// Where its data is known, if it reaches any.
    pub(super) data: Option<DataCall>,
    /// What it counts for in [`KeptBytes`].
    counted: usize,
}

impl Kept {
    /// Takes over what a worker reported of the call: the operations on data that it began, or how it ends.
    pub(super) fn suspend(
        &mut self,
        (job, now): (JobId, Moment),
        completion: &mut Completion,
        body_bytes_max: usize,
        timers: &mut Timers,
    ) -> Result<Vec<Asked>, Outcome> {
        self.used.add(completion);
        wipe(std::mem::replace(&mut self.frame, std::mem::take(&mut completion.response)));
        let SuspendedFrame { records, state } =
            SuspendedFrame::decode(&self.frame, body_bytes_max).ok_or(Outcome::Stuck)?;
        self.state_at = self.frame.len() - state.len();
        let (mut asked, unheard) = (Vec::new(), self.outcomes.len());
        for record in records {
            let data = begin((&mut self.open, unheard), (job, now), &record, timers).ok_or(Outcome::Stuck)?;
            asked.extend(data);
        }
        Ok(asked)
    }

    /// What becomes of it, when all that it began has begun.
    pub(super) fn rest(&mut self) -> Rest {
        self.is_at_rest = self.outcomes.is_empty();
        match (self.is_at_rest, self.open.is_empty()) {
            (false, _) => Rest::GoesOn,
            (true, false) => Rest::Waits,
            (true, true) => Rest::Ends(Outcome::Stuck),
        }
    }

    /// An operation has ended; whether the call is to go on for that.
    pub(super) fn hear(&mut self, id: u32, code: u32, bytes: &[u8]) -> bool {
        let ended = self.open.remove(&id);
        let is_awaited = code != DONE || !matches!(ended, Some(Open::Data { is_part: true }));
        let mut outcome = Vec::new();
        Record { id, code, bytes }.append_to(&mut outcome);
        self.outcome_bytes += outcome.len();
        self.outcomes.push_back(outcome);
        // What a part waits for is an operation on data as it is, so it ends.
        let others = || self.open.values().any(|open| matches!(open, Open::Data { is_part: false }));
        (is_awaited || !others()) && std::mem::take(&mut self.is_at_rest)
    }

    /// Whether the broker has not said yet what comes of that operation.
    pub(super) fn awaits_data(&self, id: u32) -> bool {
        matches!(self.open.get(&id), Some(Open::Data { .. }))
    }

    /// Whether the operation is a call that was made and has no answer yet.
    pub(super) fn awaits_call(&self, id: u32) -> bool {
        matches!(self.open.get(&id), Some(Open::Call { .. }))
    }

    /// The operations that the broker has not said anything of.
    pub(super) fn open_data(&self) -> Vec<u32> {
        self.open.iter().filter(|(_, open)| matches!(open, Open::Data { .. })).map(|(id, _)| *id).collect()
    }

    /// The frame with which it goes on: what it has not heard of, as far as it has room for that at once, and what it was.
    pub(super) fn resume(&mut self, body_bytes_max: usize) -> &[u8] {
        let (mut count, mut bytes) = (0, 0);
        for outcome in self.outcomes.iter().take(limits::RECORDS_MAX) {
            if bytes + outcome.len() > limits::records_bytes_max(body_bytes_max) {
                break;
            }
            (count, bytes) = (count + 1, bytes + outcome.len());
        }
        let state = &self.frame[self.state_at..];
        let head = SuspendedFrame::head(bytes);
        let mut frame = Vec::with_capacity(head.len() + bytes + state.len());
        frame.extend_from_slice(&head);
        for outcome in self.outcomes.drain(..count) {
            frame.extend_from_slice(&outcome);
            wipe(outcome);
        }
        frame.extend_from_slice(state);
        (self.outcome_bytes, self.heard_bytes) = (self.outcome_bytes - bytes, bytes);
        self.state_at = frame.len() - state.len();
        wipe(std::mem::replace(&mut self.frame, frame));
        &self.frame
    }

    /// The bytes of what it heard when it went on last.
    pub(super) fn heard_bytes(&self) -> usize {
        self.heard_bytes
    }

    /// Whether the call was put aside: then it goes on, and does not begin.
    pub(super) fn is_suspended(&self) -> bool {
        !self.frame.is_empty()
    }

    /// Whether the call asks for something, all of it new and of such a kind, and has nothing else to hear of.
    pub(super) fn hears_only(&self, asked: Records<'_>, of_kind: impl Fn(OperationKind) -> bool) -> bool {
        let is_new = |record: Record<'_>| {
            OperationKind::from_u32(record.code).is_some_and(&of_kind) && !self.open.contains_key(&record.id)
        };
        self.outcomes.is_empty() && !asked.as_bytes().is_empty() && { asked }.all(is_new)
    }

    /// Counts what is kept of it, its request of so many bytes included. Whether it may be.
    pub(super) fn count(&mut self, bytes: &mut KeptBytes, tenant: &TenantName, request_bytes: usize) -> bool {
        let after = self.frame.capacity()
            + self.outcome_bytes
            + self.open.len() * OPERATION_BYTES
            + self.data.as_ref().map_or(0, DataCall::kept_bytes)
            + request_bytes;
        bytes.replace(tenant, std::mem::replace(&mut self.counted, after), after)
    }

    /// Nothing is kept of it any more.
    pub(super) fn release(&self, bytes: &mut KeptBytes, tenant: &TenantName) {
        bytes.replace(tenant, self.counted, 0);
    }

    /// Nothing of it will end any more.
    pub(super) fn forget(&self, job: JobId, timers: &mut Timers) {
        for (id, open) in &self.open {
            timers.remove(open, job, *id);
        }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        wipe(std::mem::take(&mut self.frame));
        self.outcomes.drain(..).for_each(wipe);
    }
}

/// Nothing of these bytes stays in memory that others are given. As fast as memory is: a wipe byte by byte would keep all calls
/// waiting.
pub(super) fn wipe(mut bytes: Vec<u8>) {
    bytes.fill(0);
    // Looked at, so that it is not left out.
    std::hint::black_box(&bytes);
}

/// Does what a call asks for, or gives it back if it is the broker's to do. `None` where it breaks a rule.
fn begin(
    (open, unheard): (&mut BTreeMap<u32, Open>, usize),
    (job, now): (JobId, Moment),
    record: &Record<'_>,
    timers: &mut Timers,
) -> Option<Option<Asked>> {
    // An operation that was overwritten here would leave its timer behind.
    let has_room = open.len() < OPERATIONS_MAX && open.len() + unheard < limits::RECORDS_MAX;
    let is_new = has_room && !open.contains_key(&record.id);
    match OperationKind::from_u32(record.code)? {
        OperationKind::Sleep => {
            let ns = u64::from_le_bytes(record.bytes.try_into().ok()?);
            let at = now.plus(ns.div_ceil(1_000));
            is_new.then(|| {
                open.insert(record.id, Open::Sleep(at));
                timers.0.insert((at, job, record.id));
                None
            })
        }
        kind @ (OperationKind::Data | OperationKind::Part) => is_new.then(|| {
            open.insert(record.id, Open::Data { is_part: kind == OperationKind::Part });
            Some(Asked { id: record.id, operation: record.bytes.to_vec(), waits: None })
        }),
        OperationKind::Call => is_new.then(|| {
            let waits = Arc::new(());
            let asked = Asked {
                id: record.id,
                operation: record.bytes.to_vec(),
                waits: Some(Arc::downgrade(&waits)),
            };
            open.insert(record.id, Open::Call { _waits: waits });
            Some(asked)
        }),
        OperationKind::Cancel => {
            // It may have ended meanwhile.
            if let Some(cancelled) = open.remove(&record.id) {
                timers.remove(&cancelled, job, record.id);
            }
            Some(None)
        }
    }
}

/// When which operation of which call ends.
#[derive(Debug, Default)]
pub(super) struct Timers(BTreeSet<(Moment, JobId, u32)>);

impl Timers {
    /// The operation ends at no moment any more.
    fn remove(&mut self, open: &Open, job: JobId, id: u32) {
        if let Open::Sleep(at) = open {
            self.0.remove(&(*at, job, id));
        }
    }

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

#[cfg(test)]
mod tests;
