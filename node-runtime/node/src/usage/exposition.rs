//! Counts of functions in Prometheus' text format, with buckets that begin at a microsecond.
//!
//! Names are those of the vocabulary, which hold nothing that a label would have to escape.

use std::fmt::Write as _;

use super::histogram::{EDGE_LABELS, Histogram, Shown, by_reason};

/// Everything that is shown. Writing to a String cannot fail, here and below.
pub(super) fn render(shown: &[Shown], unnamed_calls: u64) -> String {
    let mut out = String::new();
    let called: Vec<(String, &Shown)> =
        shown.iter().filter(|row| row.run.calls() > 0).map(|row| (labels(row), row)).collect();
    histogram(&mut out, "mfaas_function_run_seconds", "Run time of the handler.", &called, |row| &row.run);
    let help = "Time from acceptance to the worker.";
    histogram(&mut out, "mfaas_function_queue_seconds", help, &called, |row| &row.queue);
    head(&mut out, "mfaas_function_cpu_seconds_total", "counter", "CPU time of the handler.");
    for (labels, row) in &called {
        let _ = writeln!(out, "mfaas_function_cpu_seconds_total{{{labels}}} {}", seconds(row.cpu_ns));
    }
    head(&mut out, "mfaas_function_memory_bytes_max", "gauge", "The most memory that one call had at once.");
    for (labels, row) in &called {
        let _ = writeln!(out, "mfaas_function_memory_bytes_max{{{labels}}} {}", row.memory_bytes_max);
    }
    head(&mut out, "mfaas_function_kills_total", "counter", "Calls that did not end well, by reason.");
    for (labels, row) in &called {
        for (kill, kills) in by_reason(&row.kills) {
            let reason = kill.as_str();
            let _ = writeln!(out, "mfaas_function_kills_total{{{labels},reason=\"{reason}\"}} {kills}");
        }
    }
    head(
        &mut out,
        "mfaas_unnamed_calls_total",
        "counter",
        "Calls that are charged to nobody: too many versions.",
    );
    let _ = writeln!(out, "mfaas_unnamed_calls_total {unnamed_calls}");
    out
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

/// No tenant has an empty name, so `other` is nobody's function.
fn labels(row: &Shown) -> String {
    match &row.name {
        Some((tenant, function)) => format!("tenant=\"{tenant}\",function=\"{function}\""),
        None => "tenant=\"\",function=\"other\"".to_owned(),
    }
}

fn histogram(
    out: &mut String,
    name: &str,
    help: &str,
    called: &[(String, &Shown)],
    of: fn(&Shown) -> &Histogram,
) {
    head(out, name, "histogram", help);
    for (labels, row) in called {
        let histogram = of(row);
        let mut below = 0;
        for (edge, count) in EDGE_LABELS.iter().zip(histogram.counts) {
            below += count;
            let _ = writeln!(out, "{name}_bucket{{{labels},le=\"{edge}\"}} {below}");
        }
        let calls = histogram.calls();
        let _ = writeln!(out, "{name}_bucket{{{labels},le=\"+Inf\"}} {calls}");
        let _ = writeln!(out, "{name}_sum{{{labels}}} {}", seconds(histogram.sum_ns));
        let _ = writeln!(out, "{name}_count{{{labels}}} {calls}");
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

impl Histogram {
    fn calls(&self) -> u64 {
        self.counts.iter().sum()
    }
}
