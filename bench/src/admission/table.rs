//! Medians, spreads, and the aims they are held against.

use std::time::Duration;

use serde_json::{Value, json};

use crate::stats::Spread;

/// Aim for a small package: CPU above the bare compiler, in milliseconds.
pub const SMALL_EXTRA_CPU_MS_MAX: f64 = 250.0;
/// Aim for real work: CPU as a multiple of the bare compiler's.
pub const REAL_CPU_RATIO_MAX: f64 = 1.35;

/// What one thing took.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    /// By the clock.
    pub wall: Duration,
    /// On processors.
    pub cpu: Duration,
}

/// Measures with their units: medians and spreads of the rounds of each package, and aims.
#[derive(Debug, Default)]
pub struct Table {
    packages: Vec<(String, usize, Vec<Row>)>,
    aims: Vec<Aim>,
}

/// A measure's name, its unit and its values.
#[derive(Debug)]
pub struct Row {
    what: String,
    unit: &'static str,
    spread: Spread,
}

impl Row {
    /// One value a round.
    pub fn new(what: impl Into<String>, unit: &'static str, rounds: impl Iterator<Item = f64>) -> Self {
        Self { what: what.into(), unit, spread: Spread::of(rounds) }
    }
}

impl Table {
    /// Adds what came of a package's rounds.
    pub fn add(&mut self, name: String, rounds: usize, rows: Vec<Row>, aims: Vec<Aim>) {
        self.packages.push((name, rounds, rows));
        self.aims.extend(aims);
    }

    /// Whether the next package is the first: the small one, every other being real work.
    pub fn is_empty(&self) -> bool {
        self.packages.is_empty()
    }

    /// Whether every aim is met.
    pub fn all_aims_met(&self) -> bool {
        self.aims.iter().all(Aim::is_met)
    }

    /// For people.
    pub fn text(&self) -> String {
        let mut lines = Vec::new();
        for (name, rounds, rows) in &self.packages {
            lines.push(format!("{name}  ({rounds} rounds; median, p20–p80)"));
            for Row { what, unit, spread } in rows {
                lines.push(format!(
                    "  {what:22} {:9.2} {unit:2}  {:9.2} – {:.2}",
                    spread.median, spread.p20, spread.p80
                ));
            }
        }
        lines.extend(self.aims.iter().map(Aim::line));
        lines.join("\n")
    }

    /// The same for scripts.
    pub fn document(&self) -> Value {
        let packages: Vec<Value> = self
            .packages
            .iter()
            .map(|(name, rounds, rows)| {
                let measures: serde_json::Map<String, Value> = rows
                    .iter()
                    .map(|Row { what, unit, spread: s }| {
                        let value = json!({ "unit": unit, "median": s.median, "p20": s.p20, "p80": s.p80 });
                        (what.clone(), value)
                    })
                    .collect();
                json!({ "function": name, "rounds": rounds, "measures": measures })
            })
            .collect();
        json!({ "packages": packages, "aims": self.aims.iter().map(Aim::document).collect::<Vec<_>>() })
    }
}

/// Something measured, and what it may be at most.
#[derive(Debug)]
pub struct Aim {
    what: String,
    value: f64,
    limit: f64,
}

impl Aim {
    /// Holds the median of a measure of the package `name` against a limit.
    pub fn new(name: &str, what: &str, limit: f64, rounds: impl Iterator<Item = f64>) -> Self {
        Self { what: format!("{name}: {what}"), value: Spread::of(rounds).median, limit }
    }

    /// What is not a number meets no aim.
    fn is_met(&self) -> bool {
        self.value <= self.limit
    }

    fn line(&self) -> String {
        let verdict = if self.is_met() { "met   " } else { "MISSED" };
        format!("{verdict}  {}: {:.2} (aim {:.2})", self.what, self.value, self.limit)
    }

    fn document(&self) -> Value {
        json!({ "aim": self.what, "value": self.value, "limit": self.limit, "met": self.is_met() })
    }
}

/// A time in milliseconds.
pub fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// A bare time of zero ticks makes the ratio infinite: a missed aim, not a met one.
pub fn ratio(ours: Duration, bare: Duration) -> f64 {
    ours.as_secs_f64() / bare.as_secs_f64()
}
