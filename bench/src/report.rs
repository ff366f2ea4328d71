//! What comes out: rows of measures with their aims, for people and as JSON.
//!
//! It must never call an aim met that was not measured, and never show a figure without the
//! protections that were on.

use std::fmt::Write as _;

use serde::Serialize;

use crate::machine::Machine;
use crate::stats::{Quantiles, Spread, ratios};

/// A ratio that two equal sides reach by chance.
const SLOWER: f64 = 1.05;

/// A whole run.
#[derive(Debug, Serialize)]
pub struct Report {
    /// What it ran on.
    pub machine: Machine,
    /// Rounds of every row.
    pub rounds: u32,
    /// A short run, whose figures are no evidence.
    pub quick: bool,
    /// Load averages before the first row.
    pub load_before: [f64; 3],
    /// Load averages after the last row.
    pub load_after: [f64; 3],
    /// The rows, in the order of the table.
    pub rows: Vec<Row>,
    /// For the figures.
    #[serde(flatten)]
    pub figures: Figures,
}

/// What is drawn.
#[derive(Debug, Default, Serialize)]
pub struct Figures {
    /// Latency by mode.
    pub modes: Vec<ModeFigure>,
    /// Calls beside a secondary, by policy.
    pub shared: Vec<SharedFigure>,
}

/// Two bars of the figure of performance isolation.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SharedFigure {
    /// The row, which is named after the secondary.
    pub secondary: &'static str,
    /// Calls, in per cent of what the node can do alone.
    pub load_percent: u32,
    /// How the secondary was held back.
    pub policy: String,
    /// p99 by that of standalone: the median over the rounds.
    pub p99_ratio: f64,
    /// What the secondary did, by what it does alone on what was there for it: the median over the rounds.
    pub progress: f64,
}

impl Figures {
    /// Adds those of another row.
    pub fn extend(&mut self, more: Self) {
        self.modes.extend(more.modes);
        self.shared.extend(more.shared);
    }
}

/// One row of the table.
#[derive(Debug, Serialize)]
pub struct Row {
    /// What `--rows` calls it.
    pub name: &'static str,
    /// What it is about.
    pub title: &'static str,
    /// The sides, with what protected the machine from the function while they ran.
    pub sides: Vec<SideLine>,
    /// What was measured.
    pub measures: Vec<Measure>,
    /// What could not be measured, and why.
    pub missing: Vec<String>,
}

/// A side of a row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SideLine {
    /// Its name in the measures.
    pub name: String,
    /// What was on.
    pub protections: String,
}

/// One measure over all rounds.
#[derive(Debug, Serialize)]
pub struct Measure {
    /// What it is.
    pub what: String,
    /// Its unit; empty for a ratio.
    pub unit: &'static str,
    /// Over the rounds.
    pub spread: Spread,
    /// Every round.
    pub rounds: Vec<f64>,
    /// What it should be, if it has an aim.
    pub aim: Option<Aim>,
}

/// What a measure's median should be; with [`Bound::NotAbove`] its 20th percentile.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Aim {
    /// Which side of the limit is good.
    pub bound: Bound,
    /// The limit, in the unit of the measure.
    pub limit: f64,
    /// Whether that keeps it.
    pub met: bool,
    /// How far that is from the limit, as a multiple of the limit: 1 is at the limit.
    pub of_limit: f64,
}

/// Which side of a limit is good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// The limit and everything below it.
    AtMost,
    /// The limit and everything above it.
    AtLeast,
    /// Everything below the limit.
    Below,
    /// The limit and everything below it, of which the 20th percentile is enough: what varies around the
    /// limit is not worse than it.
    NotAbove,
}

impl Aim {
    /// What is not a number meets no aim.
    fn of(bound: Bound, limit: f64, spread: Spread) -> Self {
        let (met, told) = match bound {
            Bound::AtMost => (spread.median <= limit, spread.median),
            Bound::AtLeast => (spread.median >= limit, spread.median),
            Bound::Below => (spread.median < limit, spread.median),
            Bound::NotAbove => (spread.p20 <= limit, spread.p20),
        };
        Self { bound, limit, met, of_limit: told / limit }
    }

    fn text(&self) -> String {
        let sign = match self.bound {
            Bound::AtMost => "≤",
            Bound::AtLeast => "≥",
            Bound::Below => "<",
            Bound::NotAbove => "p20 ≤",
        };
        let limit = number(self.limit);
        if self.met {
            format!("met     (aim {sign} {limit})")
        } else if self.of_limit.is_nan() {
            format!("none    (aim {sign} {limit})")
        } else if self.of_limit.is_infinite() {
            // The limit is nothing at all.
            format!("MISSED  (aim {sign} {limit})")
        } else {
            format!("MISSED  (aim {sign} {limit}, is {} × that)", number(self.of_limit))
        }
    }
}

/// One bar of the figure.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ModeFigure {
    /// The mode.
    pub mode: String,
    /// Whether the function's code was ready before the call.
    pub warm: bool,
    /// Median over the rounds of each quantile, in µs.
    pub quantiles: Quantiles,
}

impl Row {
    /// A row without measures.
    pub fn new(name: &'static str, title: &'static str) -> Self {
        Self { name, title, sides: vec![], measures: vec![], missing: vec![] }
    }

    /// Notes a side.
    pub fn side(&mut self, name: &str, protections: String) {
        let line = SideLine { name: name.to_owned(), protections };
        if !self.sides.contains(&line) {
            self.sides.push(line);
        }
    }

    /// Notes what could not be measured.
    pub fn missing(&mut self, what: &str, why: &anyhow::Error) {
        self.missing.push(format!("{what}: {why:#}"));
    }

    /// Adds an absolute measure.
    pub fn measure(&mut self, what: impl Into<String>, unit: &'static str, rounds: Vec<f64>) -> &mut Measure {
        let spread = Spread::of(rounds.iter().copied());
        self.measures.push(Measure { what: what.into(), unit, spread, rounds, aim: None });
        let last = self.measures.len() - 1;
        &mut self.measures[last]
    }

    /// Adds the ratio of two sides, round by round.
    pub fn ratio(&mut self, what: impl Into<String>, ours: &[f64], theirs: &[f64]) -> &mut Measure {
        self.measure(what, "", ratios(ours, theirs))
    }
}

impl Measure {
    /// Holds the rounds against a limit.
    pub fn aim(&mut self, bound: Bound, limit: f64) {
        self.aim = Some(Aim::of(bound, limit, self.spread));
    }

    /// Holds the ratio of two times against being slower: its 20th to 80th percentile must not lie wholly above
    /// [`SLOWER`].
    pub fn not_slower(&mut self) {
        self.aim(Bound::NotAbove, SLOWER);
    }
}

impl Report {
    /// Whether every aim of every row is met and nothing is missing.
    pub fn all_aims_met(&self) -> bool {
        let aims = || self.rows.iter().flat_map(|row| &row.measures).filter_map(|measure| measure.aim);
        self.rows.iter().all(|row| row.missing.is_empty()) && aims().all(|aim| aim.met)
    }

    /// For people: what the rows were taken on.
    pub fn head(&self) -> String {
        let mut text = format!("{}\n", self.machine);
        // Writing to a string cannot fail.
        let _ = writeln!(text, "load        {} before the first row", load(self.load_before));
        let _ = writeln!(text, "rounds      {}; median (p20 – p80) of the rounds' figures", self.rounds);
        if self.quick {
            text.push_str("            a quick run: nothing below is evidence\n");
        }
        if !self.machine.steady_counter {
            text.push_str(
                "            the time stamp counter does not run evenly here: figures of cycles mean little\n",
            );
        }
        text
    }

    /// For people: what came of all rows.
    pub fn tail(&self) -> String {
        let aims = || self.rows.iter().flat_map(|row| &row.measures).filter_map(|measure| measure.aim);
        let met = aims().filter(|aim| aim.met).count();
        let missing: usize = self.rows.iter().map(|row| row.missing.len()).sum();
        format!(
            "\nload        {} after the last row\naims met: {met} of {}; not measured: {missing}\n",
            load(self.load_after),
            aims().count()
        )
    }
}

impl Row {
    /// For people.
    pub fn text(&self) -> String {
        let mut text = format!("\n{}: {}\n", self.name, self.title);
        let width = self.sides.iter().map(|side| side.name.chars().count()).max().unwrap_or(0);
        for side in &self.sides {
            let _ = writeln!(text, "  on  {:width$}  {}", side.name, side.protections);
        }
        let width = self.measures.iter().map(|measure| measure.what.chars().count()).max().unwrap_or(0);
        for measure in &self.measures {
            let Spread { p20, median, p80 } = measure.spread;
            let unit = if measure.unit.is_empty() { "×" } else { measure.unit };
            let spread = format!("({} – {})", number(p20), number(p80));
            let aim = measure.aim.map(|aim| aim.text()).unwrap_or_default();
            let line =
                format!("  {:width$}  {:>9} {unit:7}  {spread:22}  {aim}", measure.what, number(median));
            let _ = writeln!(text, "{}", line.trim_end());
        }
        for missing in &self.missing {
            let _ = writeln!(text, "  not measured  {missing}");
        }
        text
    }
}

fn load(average: [f64; 3]) -> String {
    average.map(|value| format!("{value:.2}")).join(" ")
}

/// Three digits that count, whatever the size.
fn number(value: f64) -> String {
    let size = value.abs();
    let digits = match size {
        _ if !size.is_finite() => return "-".to_owned(),
        _ if size >= 100.0 => 0,
        _ if size >= 10.0 => 1,
        _ if size >= 1.0 => 2,
        _ => 3,
    };
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests;
