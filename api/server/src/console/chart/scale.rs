//! The axis of amounts: from zero to a round number above the most, in a unit that keeps labels short.

use super::plot::{BOTTOM, TOP, Tick, number};

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Events in a second.
    PerSecond,
    /// CPU time in a second: seconds of it are cores.
    Cores,
    /// Memory.
    Bytes,
    /// A share of one.
    Share,
    /// Things at once.
    Count,
}

impl Unit {
    /// Names of the unit, each with how much one is, the largest first.
    fn names(self) -> &'static [(f64, &'static str)] {
        match self {
            Self::PerSecond => &[
                (1e6, "millions a second"),
                (1e3, "thousands a second"),
                (1.0, "a second"),
                (1.0 / 60.0, "a minute"),
            ],
            Self::Cores => &[(0.1, "cores"), (1e-3, "ms of CPU a second"), (1e-6, "µs of CPU a second")],
            Self::Bytes => {
                &[(1_073_741_824.0, "GiB"), (1_048_576.0, "MiB"), (1_024.0, "KiB"), (1.0, "bytes")]
            }
            Self::Share => &[(0.01, "% of the cores")],
            Self::Count => &[(1e6, "millions"), (1e3, "thousands"), (1.0, "at once")],
        }
    }
}

/// Where a value is on the axis.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scale {
    /// How much one of the unit is.
    one: f64,
    unit: &'static str,
    /// The upper end, in the unit.
    end: f64,
    /// Between two labels.
    every: f64,
}

impl Scale {
    /// From zero to at least `most`; with nothing to show, to one.
    pub(super) fn of(most: f64, unit: Unit) -> Self {
        let names = unit.names();
        let fits = names.iter().find(|(one, _)| most >= *one);
        let smallest = if most > 0.0 { names.last() } else { names.iter().find(|(one, _)| *one <= 1.0) };
        let (one, name) = fits.or(smallest).copied().unwrap_or((1.0, ""));
        // Cores are counted in ones, however few of one there are.
        let one = if name == "cores" { 1.0 } else { one };
        let most = if most > 0.0 { most / one } else { 1.0 };
        let every = round_up(most / 4.0);
        Self { one, unit: name, end: every * (most / every).ceil().max(1.0), every }
    }

    pub(super) fn unit(&self) -> &'static str {
        self.unit
    }

    pub(super) fn y(&self, value: f64) -> f64 {
        BOTTOM - (BOTTOM - TOP) * (value / self.one / self.end).clamp(0.0, 1.0)
    }

    pub(super) fn ticks(&self) -> Vec<Tick> {
        let labels = (self.end / self.every).round() as usize;
        let decimals = decimals(self.every);
        (0..=labels)
            .map(|place| {
                let value = self.every * place as f64;
                Tick { place: number(self.y(value * self.one)), label: format!("{value:.decimals$}") }
            })
            .collect()
    }

    /// A value in words.
    pub(super) fn text(&self, value: f64) -> String {
        let value = value / self.one;
        let decimals = decimals(self.every) + 1;
        let separator = if self.unit.starts_with('%') { "" } else { " " };
        format!("{value:.decimals$}{separator}{}", self.unit)
    }
}

/// The next of 1, 2 and 5 times a power of ten.
fn round_up(value: f64) -> f64 {
    let power = 10_f64.powf(value.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].into_iter();
    steps.map(|step| step * power).find(|step| *step >= value * (1.0 - 1e-9)).unwrap_or(power * 10.0)
}

fn decimals(every: f64) -> usize {
    if every >= 1.0 { 0 } else { (-every.log10()).ceil().clamp(0.0, 9.0) as usize }
}
