//! Refusals in the log: those of a kind have lines of their own while they are few, and are counted while they are many.
//!
//! A line for each would let anybody fill the disk. What had none is told in one line a period, by code. Must hold
//! nothing that a caller wrote.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::limits;

/// Whom a refusal is about. With its code it is a kind that has lines of its own, so that a flood of one does not hide the
/// others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum About {
    Anybody,
    KnownCaller,
    Ourselves,
}

/// How many were refused, by code. Codes are ours, so they are few.
type ByCode = BTreeMap<String, u64>;

/// What was refused since it was told last.
#[derive(Debug, Default)]
pub(crate) struct Tally(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    anybody: ByCode,
    known_callers: ByCode,
    ourselves: ByCode,
    without_line: ByCode,
}

impl Tally {
    /// Whether a refusal with this code gets a line; counts it where not.
    pub(crate) fn has_line(&self, about: About, code: &str) -> bool {
        let mut counts = self.lock();
        let (lines, lines_max) = match about {
            About::Anybody => (&mut counts.anybody, limits::ANONYMOUS_LINES_MAX),
            About::KnownCaller => (&mut counts.known_callers, limits::KNOWN_LINES_MAX),
            About::Ourselves => (&mut counts.ourselves, limits::KNOWN_LINES_MAX),
        };
        if add(lines, code) <= lines_max {
            return true;
        }
        add(&mut counts.without_line, code);
        false
    }

    /// Counts what never has a line of its own.
    pub(crate) fn count(&self, what: &'static str) {
        add(&mut self.lock().without_line, what);
    }

    /// Writes the line about what had none, and begins again.
    pub(crate) fn tell(&self) {
        let Counts { without_line, .. } = std::mem::take(&mut *self.lock());
        if without_line.is_empty() {
            return;
        }
        let more: Vec<_> = without_line.iter().map(|(what, count)| format!("{what}: {count}")).collect();
        let seconds = limits::TALLY_PERIOD.as_secs();
        tracing::warn!(more = more.join(", "), seconds, "refusals without a line of their own");
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts one more and says how many there were.
fn add(counts: &mut ByCode, what: &str) -> u64 {
    match counts.get_mut(what) {
        Some(count) => {
            *count += 1;
            *count
        }
        None => {
            counts.insert(what.to_owned(), 1);
            1
        }
    }
}

#[cfg(test)]
mod tests;
