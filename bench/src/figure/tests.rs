use super::*;
use crate::stats::Quantiles;

fn mode(name: &str, warm: bool, p50: f64, p99: f64) -> ModeFigure {
    ModeFigure { mode: name.to_owned(), warm, quantiles: Quantiles { p50, p99, p999: p99 } }
}

#[test]
fn a_decade_is_as_wide_as_any_other() {
    let scale = Scale::of(&[mode("fast", true, 0.2, 0.4), mode("slow", false, 900.0, 1_000.0)]);
    assert_eq!((scale.first, scale.last), (-1, 3));
    let step = scale.x(1.0) - scale.x(0.1);
    assert!((scale.x(1_000.0) - scale.x(100.0) - step).abs() < 1e-9);
    assert_eq!(scale.x(0.1), LEFT);
    assert_eq!(scale.x(1_000.0), WIDTH - RIGHT);
}

#[test]
fn every_mode_has_its_bar_and_names_are_escaped() {
    let svg = svg(&[mode("a < b & c", true, 0.5, 1.0), mode("cold one", false, 40.0, 70.0)]);
    assert_eq!(svg.matches("<title>").count(), 2);
    assert!(svg.contains("a &lt; b &amp; c, warm: p50 0.500 µs, p99 1.000 µs"), "{svg}");
    assert!(svg.contains("cold one, cold: p50 40.000 µs"), "{svg}");
    assert!(svg.ends_with("</svg>\n"));
}

#[test]
fn what_was_not_measured_has_no_bar() {
    let svg = svg(&[mode("absent", true, f64::NAN, f64::NAN)]);
    assert!(svg.contains("not measured") && !svg.contains("<title>"));
    assert!(super::svg(&[]).contains("nothing was measured"));
}
