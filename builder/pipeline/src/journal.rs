//! What is told about a build while it runs: each stage's start, end, and cost.
//!
//! The journal measures; it decides nothing. The CPU time of a stage is this thread's plus that
//! of every sandboxed command it ran.

use std::cell::Cell;
use std::time::{Duration, Instant};

use mfaas_delivery::{Diagnostic, Event, Stage};
use mfaas_rules::{Finding, LinkedCrate, UndecidedCrate};
use rustix::time::{ClockId, clock_gettime};

use crate::error::BuilderError;

/// Where events go: rows of the registry, or a list that is printed.
pub(crate) trait Progress {
    /// Takes one event. A failure to store it must not stop the build: the ending is what counts.
    fn report(&self, event: Event);
}

/// Why a build does not go on.
#[derive(Debug)]
pub(crate) enum Stop {
    /// Policy or the compiler said no.
    Refused(Vec<Diagnostic>),
    /// Reviewers have to decide first.
    Waiting(Review),
    /// It is our fault.
    Failed(BuilderError),
}

/// What reviewers are asked.
#[derive(Debug, Default)]
pub(crate) struct Review {
    /// What the tenant is told.
    pub(crate) findings: Vec<Finding>,
    /// What is to be decided.
    pub(crate) wanted: Vec<UndecidedCrate>,
    /// What is allowed, and not in the dependency cache of this build.
    pub(crate) unbuilt: Vec<LinkedCrate>,
}

impl From<BuilderError> for Stop {
    fn from(error: BuilderError) -> Self {
        Self::Failed(error)
    }
}

/// The refusal for one finding.
pub(crate) fn refusal(finding: &Finding) -> Stop {
    Stop::Refused(vec![Diagnostic::from(finding)])
}

/// Adds up the CPU time of sandboxed commands within one stage.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    sandboxed: Cell<Duration>,
}

impl Meter {
    /// Counts a sandboxed command.
    pub(crate) fn add(&self, cpu: Duration) {
        self.sandboxed.set(self.sandboxed.get() + cpu);
    }
}

/// Tells the stages of one build.
pub(crate) struct Journal<'a> {
    progress: &'a dyn Progress,
    current: Cell<Stage>,
}

impl<'a> Journal<'a> {
    pub(crate) fn new(progress: &'a dyn Progress) -> Self {
        Self { progress, current: Cell::new(Stage::Claim) }
    }

    /// The stage that was started last.
    pub(crate) fn current(&self) -> Stage {
        self.current.get()
    }

    /// Runs one stage between its two events. A stage that stops the build has no end of its
    /// own: the ending tells what happened.
    pub(crate) fn stage<T>(
        &self,
        stage: Stage,
        work: impl FnOnce(&Meter) -> Result<T, Stop>,
    ) -> Result<T, Stop> {
        self.current.set(stage);
        self.progress.report(Event::started(stage));
        let meter = Meter::default();
        let (wall, cpu) = (Instant::now(), thread_cpu());
        let result = work(&meter)?;
        let cpu = thread_cpu().saturating_sub(cpu) + meter.sandboxed.get();
        self.progress.report(Event::finished(stage, milliseconds(wall.elapsed()), milliseconds(cpu)));
        Ok(result)
    }

    /// Passes warnings on; nothing is told when there are none.
    pub(crate) fn warn(&self, stage: Stage, diagnostics: Vec<Diagnostic>) {
        if !diagnostics.is_empty() {
            self.progress.report(Event::diagnostics(stage, diagnostics));
        }
    }
}

fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Rounded to the nearest, so that ten stages do not lose ten milliseconds.
fn milliseconds(time: Duration) -> u64 {
    u64::try_from((time + Duration::from_micros(500)).as_millis()).unwrap_or(u64::MAX)
}
