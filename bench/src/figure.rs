//! Latency by mode, warm and cold, on a logarithmic scale: the paper's Figure 2 for this machine,
//! as an SVG of our own few lines.
//!
//! It must stay readable on a white page and in print: no colour carries meaning alone.

pub mod shared;

use std::fmt::Write as _;

use crate::report::ModeFigure;

const WIDTH: f64 = 860.0;
const LEFT: f64 = 250.0;
const RIGHT: f64 = 40.0;
const TOP: f64 = 56.0;
const BAR: f64 = 22.0;
const STEP: f64 = 36.0;
const BOTTOM: f64 = 48.0;
/// Fills of warm and cold modes.
const WARM: &str = "#2f6f9f";
const COLD: &str = "#b8cfe0";

/// The figure; with no modes, a frame that says so.
pub fn svg(modes: &[ModeFigure]) -> String {
    let scale = Scale::of(modes);
    let height = TOP + STEP * modes.len().max(1) as f64 + BOTTOM;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" \
         font-size=\"13\" fill=\"#222\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text x=\"{LEFT}\" y=\"22\" font-size=\"15\">Latency of one call by mode, µs (bar: median; line: to p99)</text>\n"
    );
    // Writing to a string cannot fail.
    let _ = write!(svg, "{}{}", scale.grid(height), key());
    if modes.is_empty() {
        let _ = writeln!(svg, "<text x=\"{LEFT}\" y=\"{}\">nothing was measured</text>", TOP + BAR);
    }
    for (index, mode) in modes.iter().enumerate() {
        svg.push_str(&scale.bar(TOP + STEP * index as f64, mode));
    }
    svg.push_str("</svg>\n");
    svg
}

/// Decades from the first to the last, as powers of ten.
struct Scale {
    first: i32,
    last: i32,
}

impl Scale {
    fn of(modes: &[ModeFigure]) -> Self {
        let values = || {
            let both = modes.iter().flat_map(|mode| [mode.quantiles.p50, mode.quantiles.p99]);
            both.filter(|value| value.is_finite() && *value > 0.0)
        };
        let least = values().fold(f64::INFINITY, f64::min).min(1.0);
        let most = values().fold(0.0, f64::max).max(10.0);
        // A median on a decade still needs a bar that can be seen.
        Self { first: (least * 0.9).log10().floor() as i32, last: most.log10().ceil() as i32 }
    }

    fn x(&self, micros: f64) -> f64 {
        let span = WIDTH - LEFT - RIGHT;
        let share = (micros.log10() - f64::from(self.first)) / f64::from(self.last - self.first);
        LEFT + span * share.clamp(0.0, 1.0)
    }

    fn grid(&self, height: f64) -> String {
        let mut grid = String::new();
        let bottom = height - BOTTOM + 6.0;
        for decade in self.first..=self.last {
            let value = 10f64.powi(decade);
            let x = self.x(value);
            let label = if decade < 0 {
                format!("{value:.*}", decade.unsigned_abs() as usize)
            } else {
                value.to_string()
            };
            let _ = writeln!(
                grid,
                "<line x1=\"{x:.1}\" y1=\"{:.1}\" x2=\"{x:.1}\" y2=\"{bottom:.1}\" stroke=\"#ddd\"/>\
                 <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#555\">{label}</text>",
                TOP - 8.0,
                bottom + 18.0
            );
        }
        grid
    }

    fn bar(&self, y: f64, mode: &ModeFigure) -> String {
        let middle = y + BAR / 2.0;
        let name = escaped(&mode.mode);
        let mut bar = format!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{name}</text>\n",
            LEFT - 10.0,
            middle + 4.5
        );
        let (p50, p99) = (mode.quantiles.p50, mode.quantiles.p99);
        if !(p50.is_finite() && p99.is_finite()) {
            let _ =
                writeln!(bar, "<text x=\"{:.1}\" y=\"{:.1}\">not measured</text>", LEFT + 6.0, middle + 4.5);
            return bar;
        }
        let (fill, word) = if mode.warm { (WARM, "warm") } else { (COLD, "cold") };
        let (end, tail) = (self.x(p50), self.x(p99));
        let _ = writeln!(
            bar,
            "<rect x=\"{LEFT}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{BAR}\" fill=\"{fill}\" stroke=\"{WARM}\">\
             <title>{name}, {word}: p50 {p50:.3} µs, p99 {p99:.3} µs</title></rect>\
             <line x1=\"{end:.1}\" y1=\"{middle:.1}\" x2=\"{tail:.1}\" y2=\"{middle:.1}\" stroke=\"#222\"/>\
             <line x1=\"{tail:.1}\" y1=\"{:.1}\" x2=\"{tail:.1}\" y2=\"{:.1}\" stroke=\"#222\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" fill=\"#333\">{}</text>",
            (end - LEFT).max(1.0),
            middle - 5.0,
            middle + 5.0,
            LEFT + 6.0,
            middle + 4.5,
            label(p50, mode.warm),
        );
        bar
    }
}

/// The median inside of its bar: white on dark, dark on light.
fn label(micros: f64, warm: bool) -> String {
    let digits = if micros < 10.0 { 2 } else { 0 };
    let fill = if warm { "#fff" } else { "#222" };
    format!("<tspan fill=\"{fill}\">{micros:.digits$}</tspan>")
}

fn key() -> String {
    let entry = |x: f64, fill: &str, word: &str| {
        format!(
            "<rect x=\"{x}\" y=\"10\" width=\"14\" height=\"14\" fill=\"{fill}\" stroke=\"{WARM}\"/>\
             <text x=\"{}\" y=\"22\">{word}</text>\n",
            x + 20.0
        )
    };
    entry(20.0, WARM, "warm") + &entry(90.0, COLD, "cold")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests;
