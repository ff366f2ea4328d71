use super::{MS, svg, x_of_ms};
use crate::report::{MachineRun, Quantiles};

#[test]
fn every_run_is_drawn_within_the_page() {
    let run = |name: &str, p99| MachineRun {
        name: name.to_owned(),
        queries_per_s: 2_000,
        queries: 1,
        latency_ms: Quantiles { p50: 0.1, p95: 5.0, p99 },
        primary: 0.25,
        secondary: 0.5,
        queued: 0.0,
        changes_per_s: 0.0,
    };
    let figure = svg(&[run("standalone", 10.0), run("no isolation", 5_000.0)]);
    assert!(figure.starts_with("<svg ") && figure.ends_with("</svg>\n"));
    assert!(figure.contains(">standalone<") && figure.contains(">no isolation<"));
    assert!(figure.contains("width=\"85.0\""), "a quarter of the panel is the primary's");
    assert!(figure.contains("width=\"170.0\""), "half of it is the secondary's");
    assert_eq!(x_of_ms(5_000.0), x_of_ms(MS.1), "what is beyond the scale stays on it");
}
