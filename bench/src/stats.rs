//! Quantiles within a round, and the median with its spread over rounds.
//!
//! It must never give a number for no values: what was not measured is not a number, and meets no
//! aim.

use serde::Serialize;

/// Quantiles of the calls of one round, in the unit of the values.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Quantiles {
    /// Half are at most this.
    pub p50: f64,
    /// 99 of 100 are at most this.
    pub p99: f64,
    /// 999 of 1,000 are at most this.
    pub p999: f64,
}

/// Median and the middle three fifths of the rounds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// A fifth of the rounds is at most this.
    pub p20: f64,
    /// Half of the rounds are at most this.
    pub median: f64,
    /// Four fifths of the rounds are at most this.
    pub p80: f64,
}

/// The value at `per_mille` by nearest rank; not a number without values. `sorted` ascends.
fn rank(sorted: &[f64], per_mille: usize) -> f64 {
    let index = (sorted.len() * per_mille).div_ceil(1_000).saturating_sub(1);
    sorted.get(index).copied().unwrap_or(f64::NAN)
}

fn sorted(values: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let mut sorted: Vec<f64> = values.into_iter().collect();
    sorted.sort_by(f64::total_cmp);
    sorted
}

impl Quantiles {
    /// Of values in any order.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let sorted = sorted(values);
        Self { p50: rank(&sorted, 500), p99: rank(&sorted, 990), p999: rank(&sorted, 999) }
    }
}

impl Spread {
    /// Of one value a round.
    pub fn of(rounds: impl IntoIterator<Item = f64>) -> Self {
        let sorted = sorted(rounds);
        Self { p20: rank(&sorted, 200), median: rank(&sorted, 500), p80: rank(&sorted, 800) }
    }
}

/// The ratio of two sides, round by round: never a ratio of medians, since a machine that is slow
/// in one round is slow for both sides of it. Rounds that one side lacks are left out.
pub fn ratios(ours: &[f64], theirs: &[f64]) -> Vec<f64> {
    ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs).collect()
}

#[cfg(test)]
mod tests;
