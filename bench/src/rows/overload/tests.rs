use super::*;

#[test]
fn a_window_that_the_machine_spoiled_does_not_count() {
    let calm = |calls: usize| (0..calls).map(|call| if call % 500 == 0 { 50.0 } else { 10.0 });
    let mut calls: Vec<f64> = calm(5 * WINDOW_CALLS + 7).collect();
    assert!((window_p999(&calls) - 50.0).abs() < 1e-9, "four of 2,000 are above");
    calls[WINDOW_CALLS..WINDOW_CALLS + 900].fill(9_000.0);
    assert!((window_p999(&calls) - 50.0).abs() < 1e-9);
    assert!(Quantiles::of(calls.iter().copied()).p999 > 8_000.0, "the whole round remembers");
    // Attacked in every window, it counts.
    calls.iter_mut().step_by(300).for_each(|call| *call = 700.0);
    assert!((window_p999(&calls) - 700.0).abs() < 1e-9);
    assert!((window_p999(&[3.0, 4.0]) - 4.0).abs() < 1e-9, "fewer than a window");
    assert!(window_p999(&[]).is_nan());
}
