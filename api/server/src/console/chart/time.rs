//! The axis of time, in UTC.

use chrono::{DateTime, Timelike as _, Utc};

/// Labels between two ends at most.
const LABELS_MAX: i64 = 7;
/// What may lie between two labels, in seconds: minutes, hours, days.
const BETWEEN_S: [i64; 10] = [300, 600, 900, 1_800, 3_600, 7_200, 14_400, 21_600, 43_200, 86_400];

/// Steps that have a label: those that begin with a round moment.
pub(super) fn ticks(at: &[DateTime<Utc>], step_s: u32) -> Vec<(usize, String)> {
    let length_s = at.len() as i64 * i64::from(step_s);
    let days = |every: &i64| *every >= 86_400;
    let every = BETWEEN_S.into_iter().find(|every| length_s / every <= LABELS_MAX);
    let every =
        every.unwrap_or_else(|| 86_400 * (length_s / 86_400).div_euclid(LABELS_MAX).saturating_add(1));
    let label = |at: &DateTime<Utc>| {
        let is_date = days(&every) || (at.hour(), at.minute()) == (0, 0);
        if is_date { at.format("%b %-d").to_string() } else { at.format("%H:%M").to_string() }
    };
    let is_round = |at: &DateTime<Utc>| at.timestamp().rem_euclid(every) == 0;
    let last = at.len().saturating_sub(at.len() / 40);
    at.iter()
        .enumerate()
        .filter(|(step, at)| is_round(at) && *step < last)
        .map(|(step, at)| (step, label(at)))
        .collect()
}

/// A moment for a table.
pub(crate) fn time_text(at: DateTime<Utc>) -> String {
    at.format("%b %-d, %H:%M").to_string()
}

/// From when to when, and how long the steps are.
pub(crate) fn span_text(at: &[DateTime<Utc>], step_s: u32) -> String {
    let step = match step_s {
        60 => "a minute",
        900 => "a quarter of an hour",
        21_600 => "six hours",
        _ => "some time",
    };
    let end = at.last().map(|last| *last + chrono::TimeDelta::seconds(i64::from(step_s)));
    match at.first().zip(end) {
        Some((first, end)) => format!("{} to {} UTC, in steps of {step}", time_text(*first), time_text(end)),
        None => "No time at all".to_owned(),
    }
}
