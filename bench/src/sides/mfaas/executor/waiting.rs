//! Calls that wait, in the executor of this thread: what a node keeps of them lies beside it.

use anyhow::{Context as _, ensure};
use mfaas_abi::limits::BODY_BYTES_MAX;
use mfaas_abi::{DONE, Record, SuspendedFrame};

use super::{Copied, InProcess, LOOK_US, Loaded, copied};
use crate::functions::{Form, Kind, verified};
use crate::sides::mfaas::{BUDGET_US, EXECUTOR_PROTECTIONS, Served};
use crate::sides::{Kit, Side, Timing};
use crate::sys::{Cores, stamp};

/// Two functions, of which one waits and one does not, with the same memory in use.
pub struct WaitingInExecutor {
    executor: InProcess,
    waits: Loaded,
    holds: Loaded,
    /// The one that is called.
    kind: Kind,
    /// A call that waits, as it goes on.
    kept: Vec<u8>,
    records: Vec<u8>,
    cores: Cores,
}

impl WaitingInExecutor {
    /// Loads both.
    pub fn new(kit: &Kit, bytes: u64) -> anyhow::Result<Self> {
        let mut executor = InProcess::new()?;
        let mut load = |kind: Kind| {
            let served = Served { constants: kind.constants(0), budget_us: BUDGET_US };
            executor.load(&kit.functions.file(Form::Waiting, &served.constants), served)
        };
        let (waits, holds) = (load(Kind::wait(bytes))?, load(Kind::hold(bytes))?);
        let (kept, records) = (Vec::new(), Vec::new());
        Ok(Self { executor, waits, holds, kind: Kind::hold(bytes), kept, records, cores: kit.cores })
    }

    /// Which one is called from now on.
    pub fn choose(&mut self, kind: Kind) {
        self.kind = kind;
    }

    /// Keeps a call that waits as it will go on: all that it waits for has ended.
    fn keep(kept: &mut Vec<u8>, records: &mut Vec<u8>, response: &[u8]) -> anyhow::Result<()> {
        let frame =
            SuspendedFrame::decode(response, BODY_BYTES_MAX).context("no frame of a call that waits")?;
        records.clear();
        frame.records.for_each(|begun| Record { id: begun.id, code: DONE, bytes: &[] }.append_to(records));
        ensure!(!records.is_empty(), "a call that waits for nothing");
        kept.clear();
        kept.extend_from_slice(&SuspendedFrame::head(records.len()));
        kept.extend_from_slice(records);
        kept.extend_from_slice(frame.state);
        Ok(())
    }

    /// One call to its end, with all copies that a worker and a node make of its memory.
    fn answer(&mut self) -> anyhow::Result<Copied> {
        let waits = self.kind.kind == crate::function::WAIT;
        let function = if waits { &self.waits } else { &self.holds };
        if !waits {
            return self.executor.answer(function);
        }
        let InProcess { executor, frame, word, .. } = &mut self.executor;
        executor.request().get_mut(..frame.len()).context("a long request")?.copy_from_slice(frame);
        {
            let mut ended = executor.call(function.slot, frame.len(), function.limits, word)?;
            let outcome = ended.outcome();
            ensure!(outcome.waits, "a function that waits ended as {:?}", outcome.status);
            Self::keep(&mut self.kept, &mut self.records, outcome.response)?;
        }
        executor.settle();
        let kept = &self.kept;
        executor.request().get_mut(..kept.len()).context("a long state")?.copy_from_slice(kept);
        let answer = copied(executor.resume(function.slot, kept.len(), function.limits, word)?.outcome());
        executor.settle();
        answer
    }
}

impl Side for WaitingInExecutor {
    fn protections(&self) -> String {
        EXECUTOR_PROTECTIONS.to_owned()
    }

    fn wake(&mut self) -> anyhow::Result<()> {
        self.executor.wake(self.cores, LOOK_US)
    }

    fn rest(&mut self) -> anyhow::Result<()> {
        self.executor.rest(self.cores)
    }

    fn call(&mut self, _function: u64) -> anyhow::Result<Timing> {
        let body = self.executor.prepare()?;
        let sent = stamp();
        let answer = self.answer()?;
        let answered = stamp();
        verified(&self.kind.constants(0), &body, answer.as_bytes())?;
        Ok(Timing { sent, answered })
    }
}
