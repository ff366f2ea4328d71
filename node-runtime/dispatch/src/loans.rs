//! Functions that a job on a worker's core calls there: images that stay as long as it is on the core, and whom a death may be owed to.

use crate::functions::Phase;
use crate::scheduler::Scheduler;
use crate::worker::{Loan, State};
use crate::{Commands, FunctionId, JobId, WorkerId};

impl Scheduler {
    /// The slot of a function that `job` may call where it is, on the core of that worker, for as long as it is there. Nothing where
    /// the function has to run by itself: in another pool or of another tenant, not resident, or where its calls are refused. A function
    /// that runs alone has a pool of its own, so it is called by nobody so, and calls nobody: a death in its worker names its author.
    pub fn lend(&mut self, id: WorkerId, job: JobId, function: FunctionId) -> Option<u32> {
        let worker = self.workers.living(id).filter(|worker| worker.state == State::Ready)?;
        let caller = *worker.first().map(|first| self.jobs.get(first)).filter(|first| first.id == job)?;
        let known = self.functions.get(function.0).filter(|known| known.admits().is_ok())?;
        let is_beside =
            known.phase == Phase::Resident && known.queue == caller.queue && known.pool == worker.pool;
        if !is_beside || function.0 == caller.function {
            return None;
        }
        let loan = Loan { place: id.place, function: function.0 };
        let known = &mut self.functions[function.0];
        known.used = self.jobs.sequence();
        if !self.loans.contains(&loan) {
            known.open += 1;
            self.loans.push(loan);
        }
        self.workers[id.place].served.note(function.0);
        Some(self.functions[function.0].slot)
    }

    /// The job on the core of the worker at a place has left it.
    #[inline]
    pub(crate) fn release_loans(&mut self, place: u16, commands: &mut Commands) {
        while let Some(at) = self.loans.iter().position(|loan| loan.place == place) {
            let Loan { function, .. } = self.loans.swap_remove(at);
            let known = &mut self.functions[function];
            known.open -= 1;
            if known.open == 0 {
                self.settle(function, commands);
            }
        }
    }
}
