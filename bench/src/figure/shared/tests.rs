use super::*;

fn figure(policy: &str, load_percent: u32, p99_ratio: f64, progress: f64) -> SharedFigure {
    SharedFigure { secondary: "builds", load_percent, policy: policy.to_owned(), p99_ratio, progress }
}

#[test]
fn each_load_has_its_group_and_each_policy_two_bars() {
    let svg =
        svg(&[figure("none", 20, 300.0, 1.0), figure("nice", 20, 50.0, 0.5), figure("none", 50, 400.0, 0.9)]);
    assert_eq!(svg.matches("calls at").count(), 2, "{svg}");
    assert_eq!(svg.matches("<title>").count(), 6);
    assert!(svg.contains("nice: 50.00 ×") && svg.contains("nice: 50 %"), "{svg}");
    assert!(svg.ends_with("</svg>\n"));
}

#[test]
fn a_ratio_of_ten_is_as_wide_as_any_other() {
    let step = x_of_ratio(10.0) - x_of_ratio(1.0);
    assert!((x_of_ratio(100.0) - x_of_ratio(10.0) - step).abs() < 1e-9);
    assert_eq!(x_of_ratio(1e9), NAMES + PANEL, "what is beyond the scale stays in its panel");
}

#[test]
fn calls_that_were_missed_have_no_bar() {
    let svg = svg(&[figure("none", 20, f64::INFINITY, 1.0)]);
    assert!(svg.contains("none: not measured, or calls were missed"), "{svg}");
    assert!(super::svg(&[]).contains("nothing was measured"));
}
