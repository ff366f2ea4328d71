//! Latency and use of the CPU by policy, as an SVG.
//!
//! It must stay readable on a white page and in print: no colour carries meaning alone.

use std::fmt::Write as _;

use crate::report::MachineRun;
use crate::scenario::LOADS;

const WIDTH: f64 = 960.0;
const NAMES: f64 = 190.0;
const PANEL: f64 = 340.0;
const GAP: f64 = 50.0;
const TOP: f64 = 40.0;
const STEP: f64 = 24.0;
const BAR: f64 = 16.0;
/// Between the loads.
const BETWEEN: f64 = 66.0;
/// The ends of the scale of latency, in milliseconds.
const MS: (f64, f64) = (1.0, 1_000.0);
const PRIMARY: &str = "#2f6f9f";
const SECONDARY: &str = "#b8cfe0";

/// The figure: for each load a group of bars, the 99th percentile on the left and the CPU on the right.
pub(crate) fn svg(runs: &[MachineRun]) -> String {
    let mut body = String::new();
    let mut y = TOP;
    for load in LOADS {
        let group: Vec<_> = runs.iter().filter(|run| run.queries_per_s == load).collect();
        let height = STEP * group.len() as f64;
        // Writing to a string cannot fail.
        let _ = writeln!(
            body,
            "<text x=\"10\" y=\"{:.1}\" font-size=\"14\">{load} queries a second</text>",
            y - 12.0
        );
        body.push_str(&axes(y, height));
        for run in group {
            body.push_str(&latency(y, run));
            body.push_str(&cpu(y, run));
            y += STEP;
        }
        y += BETWEEN;
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {y:.0}\" font-family=\"sans-serif\" font-size=\"12\" \
         fill=\"#222\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n{body}</svg>\n"
    )
}

fn left_of_cpu() -> f64 {
    NAMES + PANEL + GAP
}

fn x_of_ms(ms: f64) -> f64 {
    let part = (ms / MS.0).log10() / (MS.1 / MS.0).log10();
    NAMES + PANEL * part.clamp(0.0, 1.0)
}

fn axes(y: f64, height: f64) -> String {
    let bottom = y + height;
    let mut axes = String::new();
    let mut tick = |x: f64, label: String| {
        let _ = writeln!(
            axes,
            "<line x1=\"{x:.1}\" y1=\"{y:.1}\" x2=\"{x:.1}\" y2=\"{bottom:.1}\" stroke=\"#ddd\"/>\
             <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#555\">{label}</text>",
            bottom + 16.0
        );
    };
    for ms in [1.0, 10.0, 100.0, 1_000.0] {
        tick(x_of_ms(ms), format!("{ms} ms"));
    }
    for percent in [0, 25, 50, 75, 100] {
        tick(left_of_cpu() + PANEL * f64::from(percent) / 100.0, format!("{percent} %"));
    }
    let _ = writeln!(
        axes,
        "<text x=\"{NAMES}\" y=\"{:.1}\">p99 of a query (line: from p50)</text>\
         <text x=\"{:.1}\" y=\"{:.1}\">CPU: primary (dark), secondary (light)</text>",
        y - 12.0,
        left_of_cpu(),
        y - 12.0
    );
    axes
}

fn latency(y: f64, run: &MachineRun) -> String {
    let middle = y + STEP / 2.0;
    let (p50, p99) = (x_of_ms(run.latency_ms.p50), x_of_ms(run.latency_ms.p99));
    format!(
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\
         <line x1=\"{p50:.1}\" y1=\"{middle:.1}\" x2=\"{p99:.1}\" y2=\"{middle:.1}\" stroke=\"{PRIMARY}\" stroke-width=\"3\"/>\
         <circle cx=\"{p99:.1}\" cy=\"{middle:.1}\" r=\"5\" fill=\"{PRIMARY}\"/>\
         <text x=\"{:.1}\" y=\"{:.1}\">{:.1}</text>\n",
        NAMES - 10.0,
        middle + 4.0,
        run.name,
        p99 + 9.0,
        middle + 4.0,
        run.latency_ms.p99
    )
}

fn cpu(y: f64, run: &MachineRun) -> String {
    let top = y + (STEP - BAR) / 2.0;
    let (primary, secondary) = (PANEL * run.primary, PANEL * run.secondary);
    let x = left_of_cpu();
    format!(
        "<rect x=\"{x:.1}\" y=\"{top:.1}\" width=\"{primary:.1}\" height=\"{BAR}\" fill=\"{PRIMARY}\"/>\
         <rect x=\"{:.1}\" y=\"{top:.1}\" width=\"{secondary:.1}\" height=\"{BAR}\" fill=\"{SECONDARY}\" stroke=\"{PRIMARY}\"/>\
         <title>{}: primary {:.1} %, secondary {:.1} %</title>\n",
        x + primary,
        run.name,
        run.primary * 100.0,
        run.secondary * 100.0
    )
}

#[cfg(test)]
mod tests;
