//! Charts as shapes: numbers by step in, coordinates and labels out; `web/templates/charts.html` writes them as SVG.
//!
//! Axes of amounts begin at zero. Each step is drawn as long as it is, so nothing is drawn between what was measured, and
//! a step of which nothing is known is a band without a line. Colours are classes of the style sheet, texts are escaped by
//! the template, and nothing here is a tenant's markup.

mod plot;
mod scale;
mod time;

use std::fmt::Write as _;

use chrono::{DateTime, Utc};
use mfaas_wire::QuantileView;

use plot::{BOTTOM, LEFT, RIGHT, TOP, number};
pub(super) use plot::{HEIGHT, Tick, WIDTH};
use scale::Scale;
pub(super) use scale::Unit;
pub(super) use time::{span_text, time_text};

/// How many shades a heat map has.
const SHADES: f64 = 5.0;
/// Labels of a heat map's edges at most.
const EDGE_LABELS_MAX: usize = 8;

/// The steps of a chart: when each begins, and how long they are.
#[derive(Debug, Clone)]
pub(super) struct Axis {
    /// The beginning of each.
    pub(super) at: Vec<DateTime<Utc>>,
    /// How long each is, in seconds.
    pub(super) step_s: u32,
}

/// Numbers of one thing, one for each step; `None` where nothing is known.
#[derive(Debug, Clone)]
pub(super) struct Numbers {
    /// What it is called.
    pub(super) label: String,
    /// In the chart's unit.
    pub(super) values: Vec<Option<f64>>,
}

/// One drawing.
#[derive(Debug, Clone, Default)]
pub(super) struct Drawing {
    /// What is said to those who do not see it.
    pub(super) summary: String,
    /// The unit, above the axis.
    pub(super) unit: String,
    pub(super) x_ticks: Vec<Tick>,
    pub(super) y_ticks: Vec<Tick>,
    /// Steps of which nothing is known.
    pub(super) unknown: Option<String>,
    /// What is filled, from the back to the front.
    pub(super) fills: Vec<Shape>,
    /// What is drawn over it.
    pub(super) lines: Vec<Shape>,
    /// What colours mean.
    pub(super) keys: Vec<Key>,
}

/// A path with the class that colours it.
#[derive(Debug, Clone)]
pub(super) struct Shape {
    pub(super) class: String,
    pub(super) d: String,
}

/// A line of the legend.
#[derive(Debug, Clone)]
pub(super) struct Key {
    pub(super) class: String,
    pub(super) label: String,
}

impl Axis {
    fn x(&self, step: usize) -> f64 {
        LEFT + (RIGHT - LEFT) * step as f64 / self.at.len().max(1) as f64
    }

    fn ticks(&self) -> Vec<Tick> {
        time::ticks(&self.at, self.step_s)
            .into_iter()
            .map(|(step, label)| Tick { place: number(self.x(step)), label })
            .collect()
    }

    /// Bands over the steps that are not known.
    fn bands(&self, is_known: &[bool]) -> Option<String> {
        let mut d = String::new();
        for (begin, end) in runs(is_known.len(), |step| !is_known[step]) {
            rectangle(&mut d, (self.x(begin), self.x(end)), (TOP, BOTTOM));
        }
        (!d.is_empty()).then_some(d)
    }
}

/// Lines, each over its own steps.
pub(super) fn lines(axis: &Axis, series: &[Numbers], unit: Unit) -> Drawing {
    let scale = Scale::of(most(series.iter().flat_map(|numbers| numbers.values.iter().flatten())), unit);
    let shapes = series.iter().enumerate().map(|(place, numbers)| {
        let y = |step: usize| numbers.values[step].map(|value| scale.y(value));
        Shape { class: format!("line s{}", place + 1), d: stairs(axis, y) }
    });
    Drawing { lines: shapes.collect(), ..amounts(axis, series, &scale) }
}

/// Areas on top of each other. A step is known when all of them are.
pub(super) fn stacked(axis: &Axis, series: &[Numbers], unit: Unit) -> Drawing {
    let mut tops = vec![vec![Some(0.0); axis.at.len()]];
    for numbers in series {
        let below = &tops[tops.len() - 1];
        let sums = below.iter().zip(&numbers.values).map(|(below, value)| Some((*below)? + (*value)?));
        tops.push(sums.collect());
    }
    let scale = Scale::of(most(tops.iter().flatten().flatten()), unit);
    let fills = tops.windows(2).enumerate().map(|(place, pair)| {
        let (below, above) = (&pair[0], &pair[1]);
        let mut d = String::new();
        for (begin, end) in runs(axis.at.len(), |step| above[step].is_some() && below[step].is_some()) {
            let y = |tops: &Vec<Option<f64>>, step: usize| scale.y(tops[step].unwrap_or_default());
            let _ = write!(d, "M{} {}", number(axis.x(begin)), number(y(below, begin)));
            for step in begin..end {
                let _ = write!(d, "V{}H{}", number(y(above, step)), number(axis.x(step + 1)));
            }
            for step in (begin..end).rev() {
                let _ = write!(d, "V{}H{}", number(y(below, step)), number(axis.x(step)));
            }
            d.push('Z');
        }
        Shape { class: format!("fill s{}", place + 1), d }
    });
    Drawing { fills: fills.collect(), ..amounts(axis, series, &scale) }
}

/// What lines and areas have in common.
fn amounts(axis: &Axis, series: &[Numbers], scale: &Scale) -> Drawing {
    let known = |step: usize| series.iter().any(|numbers| numbers.values[step].is_some());
    let is_known: Vec<bool> = (0..axis.at.len()).map(known).collect();
    let keys = series
        .iter()
        .enumerate()
        .map(|(place, numbers)| Key { class: format!("s{}", place + 1), label: numbers.label.clone() });
    let said = series.iter().map(|numbers| format!("{}: {}", numbers.label, peak(axis, numbers, scale)));
    Drawing {
        summary: summary(axis, &is_known, &said.collect::<Vec<_>>()),
        unit: scale.unit().to_owned(),
        x_ticks: axis.ticks(),
        y_ticks: scale.ticks(),
        unknown: axis.bands(&is_known),
        keys: keys.collect(),
        ..Drawing::default()
    }
}

/// Counts by bucket as shades, with two quantiles as lines: each at the upper edge of its bucket, since a bucket is all that
/// is known of it.
pub(super) struct HeatMap<'a> {
    /// Counts of each step; `None` where nothing is known.
    pub(super) counts: Vec<Option<&'a [u64]>>,
    /// Upper edges of the buckets, and how one is written.
    pub(super) edges: &'a [u64],
    pub(super) edge_text: fn(u64) -> String,
    /// The median of each step, and what 99 of 100 do not pass.
    pub(super) p50: Vec<Option<QuantileView>>,
    pub(super) p99: Vec<Option<QuantileView>>,
}

impl HeatMap<'_> {
    /// The drawing.
    pub(super) fn draw(&self, axis: &Axis) -> Drawing {
        let counts = || self.counts.iter().flatten();
        let used = |bucket: usize| counts().any(|counts| counts.get(bucket).is_some_and(|count| *count > 0));
        let used: Vec<usize> = (0..=self.edges.len()).filter(|bucket| used(*bucket)).collect();
        let (first, last) = (used.first().copied().unwrap_or(0), used.last().copied().unwrap_or(0));
        let rows = Rows { first, number: last - first + 1 };
        let most = counts().flat_map(|counts| counts.iter()).copied().max().unwrap_or(0);
        let is_known: Vec<bool> = self.counts.iter().map(Option::is_some).collect();
        let quantile = |class: &str, found: &[Option<QuantileView>]| {
            let upper = |found: QuantileView| rows.y(self.bucket(found) + 1);
            Shape { class: format!("line {class}"), d: stairs(axis, |step| found[step].map(upper)) }
        };
        let key = |class: &str, label: &str| Key { class: class.to_owned(), label: label.to_owned() };
        Drawing {
            summary: summary(axis, &is_known, &[self.peak(first, last, !used.is_empty())]),
            unit: "by bucket, logarithmic".to_owned(),
            x_ticks: axis.ticks(),
            y_ticks: self.ticks(&rows),
            unknown: axis.bands(&is_known),
            fills: self.shades(axis, &rows, most),
            lines: vec![quantile("p50", &self.p50), quantile("p99", &self.p99)],
            keys: vec![
                key("p50", "p50"),
                key("p99", "p99"),
                key("h1", "few"),
                key("h5", &format!("many (most {most})")),
            ],
        }
    }

    fn bucket(&self, found: QuantileView) -> usize {
        self.edges.iter().position(|edge| Some(*edge) == found.up_to).unwrap_or(self.edges.len())
    }

    /// Cells of one shade are one path. Shades are of logarithms: one slow call is seen beside a million fast ones.
    fn shades(&self, axis: &Axis, rows: &Rows, most: u64) -> Vec<Shape> {
        let mut paths = vec![String::new(); SHADES as usize];
        for (step, counts) in self.counts.iter().enumerate() {
            for (bucket, count) in counts.iter().flat_map(|counts| counts.iter().enumerate()) {
                let share = (*count as f64).ln_1p() / (most as f64).ln_1p();
                if let Some(path) = paths.get_mut(((share * SHADES).ceil() as usize).wrapping_sub(1)) {
                    rectangle(path, (axis.x(step), axis.x(step + 1)), (rows.y(bucket + 1), rows.y(bucket)));
                }
            }
        }
        let shapes = paths.into_iter().enumerate();
        shapes
            .map(|(shade, d)| Shape { class: format!("heat h{}", shade + 1), d })
            .filter(|s| !s.d.is_empty())
            .collect()
    }

    /// Edges between rows, not more than there is room for.
    fn ticks(&self, rows: &Rows) -> Vec<Tick> {
        let every = (rows.number + 1).div_ceil(EDGE_LABELS_MAX);
        let edge = |row: usize| match row.checked_sub(1) {
            None => Some("0".to_owned()),
            Some(before) => self.edges.get(before).map(|edge| (self.edge_text)(*edge)),
        };
        (rows.first..=rows.first + rows.number)
            .step_by(every)
            .filter_map(|row| Some(Tick { place: number(rows.y(row)), label: edge(row)? }))
            .collect()
    }

    fn peak(&self, first: usize, last: usize, any: bool) -> String {
        let above = first.checked_sub(1).and_then(|before| self.edges.get(before)).copied().unwrap_or(0);
        match self.edges.get(last) {
            _ if !any => "nothing was counted".to_owned(),
            Some(up_to) => {
                format!("all between {} and {}", (self.edge_text)(above), (self.edge_text)(*up_to))
            }
            None => format!("all above {}, some beyond the last edge", (self.edge_text)(above)),
        }
    }
}

/// Rows of a heat map: those between the lowest and the highest bucket with anything in it.
struct Rows {
    first: usize,
    number: usize,
}

impl Rows {
    /// The lower edge of a bucket; of the last one plus one, the upper edge.
    fn y(&self, bucket: usize) -> f64 {
        BOTTOM - (BOTTOM - TOP) * bucket.saturating_sub(self.first) as f64 / self.number.max(1) as f64
    }
}

/// A line that is level over each step and interrupted where there is none.
fn stairs(axis: &Axis, y: impl Fn(usize) -> Option<f64>) -> String {
    let mut d = String::new();
    for (begin, end) in runs(axis.at.len(), |step| y(step).is_some()) {
        for step in begin..end {
            let y = number(y(step).unwrap_or_default());
            match step == begin {
                true => _ = write!(d, "M{} {y}", number(axis.x(step))),
                false => _ = write!(d, "V{y}"),
            }
            let _ = write!(d, "H{}", number(axis.x(step + 1)));
        }
    }
    d
}

/// Steps in a row for which something holds: the first of each, and the one behind the last.
fn runs(steps: usize, holds: impl Fn(usize) -> bool) -> Vec<(usize, usize)> {
    let mut found: Vec<(usize, usize)> = Vec::new();
    for step in (0..steps).filter(|step| holds(*step)) {
        match found.last_mut() {
            Some((_, end)) if *end == step => *end += 1,
            _ => found.push((step, step + 1)),
        }
    }
    found
}

fn rectangle(d: &mut String, (left, right): (f64, f64), (top, bottom): (f64, f64)) {
    let [left, right, top, bottom] = [left, right, top, bottom].map(number);
    let _ = write!(d, "M{left} {top}H{right}V{bottom}H{left}Z");
}

fn most<'a>(values: impl Iterator<Item = &'a f64>) -> f64 {
    values.copied().fold(0.0, f64::max)
}

/// The highest value and when it was.
fn peak(axis: &Axis, numbers: &Numbers, scale: &Scale) -> String {
    let known = numbers.values.iter().zip(&axis.at).filter_map(|(value, at)| Some(((*value)?, at)));
    match known.max_by(|a, b| a.0.total_cmp(&b.0)) {
        None => "nothing is known".to_owned(),
        Some((most, _)) if most <= 0.0 => "nothing".to_owned(),
        Some((most, at)) => format!("at most {}, at {}", scale.text(most), time_text(*at)),
    }
}

fn summary(axis: &Axis, is_known: &[bool], said: &[String]) -> String {
    let unknown = is_known.iter().filter(|known| !**known).count();
    let mut text = format!("{}. {}.", span_text(&axis.at, axis.step_s), said.join("; "));
    if unknown > 0 {
        let _ = write!(text, " Of {unknown} of {} steps nothing is known.", is_known.len());
    }
    text
}

#[cfg(test)]
mod tests;
