//! Medians, spreads, and the aims they are held against.

use std::time::Duration;

use serde_json::{Value, json};

/// Aim for hello: CPU above the bare compiler, in milliseconds.
pub(super) const HELLO_EXTRA_CPU_MS_MAX: f64 = 250.0;
/// Aim for hello: from the command's start to the first answer, in milliseconds.
const HELLO_ANSWER_MS_MAX: f64 = 1500.0;
/// Aim for real work: CPU as a multiple of the bare compiler's.
pub(super) const REAL_CPU_RATIO_MAX: f64 = 1.35;

/// What one thing took.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample {
    /// By the clock.
    pub(super) wall: Duration,
    /// On processors.
    pub(super) cpu: Duration,
}

/// A deploy and the bare compilation beside it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Round {
    /// The deploy, to the first answer.
    pub(super) deployed: Sample,
    /// The compiler alone.
    pub(super) bare: Sample,
}

/// Measures with their units: medians and spreads of the rounds of each package, and aims.
pub(super) struct Table {
    pub(super) packages: Vec<(String, usize, Vec<Row>)>,
    pub(super) aims: Vec<Aim>,
}

/// A measure's name, its unit and its values.
pub(super) type Row = (String, &'static str, Spread);

impl Table {
    /// Whether every aim is met.
    pub(super) fn all_aims_met(&self) -> bool {
        self.aims.iter().all(Aim::is_met)
    }

    /// For people.
    pub(super) fn text(&self) -> String {
        let mut lines = Vec::new();
        for (name, rounds, rows) in &self.packages {
            lines.push(format!("{name}  ({rounds} rounds; median, p20–p80)"));
            for (what, unit, spread) in rows {
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
    pub(super) fn document(&self) -> Value {
        let packages: Vec<Value> = self
            .packages
            .iter()
            .map(|(name, rounds, rows)| {
                let measures: serde_json::Map<String, Value> = rows
                    .iter()
                    .map(|(what, unit, s)| {
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

/// All rounds of all packages.
#[derive(Debug, Default)]
pub(super) struct Report {
    packages: Vec<(String, Vec<Round>)>,
}

/// Median and the range of the middle three fifths.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Spread {
    pub(super) p20: f64,
    pub(super) median: f64,
    pub(super) p80: f64,
}

/// Something measured, and what it may be at most.
pub(super) struct Aim {
    pub(super) what: String,
    pub(super) value: f64,
    pub(super) limit: f64,
}

impl Aim {
    /// What is not a number meets no aim.
    pub(super) fn is_met(&self) -> bool {
        self.value <= self.limit
    }

    /// The line for people.
    pub(super) fn line(&self) -> String {
        let verdict = if self.is_met() { "met   " } else { "MISSED" };
        format!("{verdict}  {}: {:.2} (aim {:.2})", self.what, self.value, self.limit)
    }

    /// The same for scripts.
    pub(super) fn document(&self) -> Value {
        json!({ "aim": self.what, "value": self.value, "limit": self.limit, "met": self.is_met() })
    }
}

impl Report {
    /// Adds a package's rounds.
    pub(super) fn add(&mut self, name: String, rounds: Vec<Round>) {
        self.packages.push((name, rounds));
    }

    /// What was measured, and the aims that it is held against.
    pub(super) fn table(&self) -> Table {
        let packages =
            self.packages.iter().map(|(name, rounds)| (name.clone(), rounds.len(), rows(rounds))).collect();
        Table { packages, aims: self.aims() }
    }

    /// The first package is the small one, every other is real work.
    fn aims(&self) -> Vec<Aim> {
        let mut aims = Vec::new();
        for (index, (name, rounds)) in self.packages.iter().enumerate() {
            if index == 0 {
                let extra = spread(rounds.iter().map(|r| ms(r.deployed.cpu) - ms(r.bare.cpu)));
                let answered = spread(rounds.iter().map(|r| ms(r.deployed.wall)));
                aims.push(Aim {
                    what: format!("{name}: CPU above bare, ms"),
                    value: extra.median,
                    limit: HELLO_EXTRA_CPU_MS_MAX,
                });
                aims.push(Aim {
                    what: format!("{name}: answered, ms"),
                    value: answered.median,
                    limit: HELLO_ANSWER_MS_MAX,
                });
            } else {
                let ratio = spread(rounds.iter().map(|r| ratio(r.deployed.cpu, r.bare.cpu)));
                aims.push(Aim {
                    what: format!("{name}: CPU as a multiple of bare"),
                    value: ratio.median,
                    limit: REAL_CPU_RATIO_MAX,
                });
            }
        }
        aims
    }
}

fn rows(rounds: &[Round]) -> Vec<Row> {
    let row = |what: &str, unit, spread| (what.to_owned(), unit, spread);
    vec![
        row("deploy wall", "ms", spread(rounds.iter().map(|r| ms(r.deployed.wall)))),
        row("bare rustc wall", "ms", spread(rounds.iter().map(|r| ms(r.bare.wall)))),
        row("wall ratio", "", spread(rounds.iter().map(|r| ratio(r.deployed.wall, r.bare.wall)))),
        row("deploy cpu", "ms", spread(rounds.iter().map(|r| ms(r.deployed.cpu)))),
        row("bare rustc cpu", "ms", spread(rounds.iter().map(|r| ms(r.bare.cpu)))),
        row("cpu ratio", "", spread(rounds.iter().map(|r| ratio(r.deployed.cpu, r.bare.cpu)))),
    ]
}

pub(super) fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// A bare time of zero ticks makes the ratio infinite: a missed aim, not a met one.
pub(super) fn ratio(ours: Duration, bare: Duration) -> f64 {
    ours.as_secs_f64() / bare.as_secs_f64()
}

/// Percentiles by nearest rank; not a number without values, which meets no aim.
pub(super) fn spread(values: impl Iterator<Item = f64>) -> Spread {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    let rank = |percent: usize| {
        let index = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
        sorted.get(index).copied().unwrap_or(f64::NAN)
    };
    Spread { p20: rank(20), median: rank(50), p80: rank(80) }
}
