//! What became of all programs together.

use std::fmt;

use crate::pipeline::{Ended, Refusal};

/// Counts, and the names behind what went wrong.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    programs: usize,
    refused: Vec<(String, Vec<Refusal>)>,
    wrong: Vec<String>,
}

impl Tally {
    pub(crate) fn add(&mut self, name: &str, ended: Ended) {
        self.programs += 1;
        match ended {
            Ended::Right { .. } => {}
            Ended::Wrong(reason) => self.wrong.push(format!("{name}: {reason}")),
            Ended::Refused(refusals) => self.refused.push((name.to_owned(), refusals)),
        }
    }

    /// The share that was admitted; 0 of nothing is 0.
    pub(crate) fn admitted_percent(&self) -> f64 {
        self.admitted() as f64 * 100.0 / self.programs.max(1) as f64
    }

    /// Programs that were admitted and answered wrongly.
    pub(crate) fn wrong(&self) -> &[String] {
        &self.wrong
    }

    fn admitted(&self) -> usize {
        self.programs - self.refused.len()
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = self.admitted_percent();
        writeln!(f, "admitted {} of {} at the first try ({percent:.1} %)", self.admitted(), self.programs)?;
        write!(f, "refused: {}", if self.refused.is_empty() { "none" } else { "" })?;
        for (name, refusals) in &self.refused {
            for refusal in refusals {
                write!(f, "\n  {name}: {refusal}")?;
            }
        }
        Ok(())
    }
}
