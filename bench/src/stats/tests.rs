use super::*;

#[test]
fn quantiles_are_by_nearest_rank() {
    let values = (1..=1_000).rev().map(f64::from);
    assert_eq!(Quantiles::of(values), Quantiles { p50: 500.0, p99: 990.0, p999: 999.0 });
    let one = Quantiles::of([7.0]);
    assert_eq!((one.p50, one.p99, one.p999), (7.0, 7.0, 7.0));
}

#[test]
fn the_spread_of_nine_rounds_is_the_second_the_fifth_and_the_eighth() {
    let rounds = [9.0, 1.0, 5.0, 3.0, 7.0, 2.0, 8.0, 4.0, 6.0];
    assert_eq!(Spread::of(rounds), Spread { p20: 2.0, median: 5.0, p80: 8.0 });
}

#[test]
fn nothing_measured_is_not_a_number() {
    assert!(Spread::of([]).median.is_nan());
    assert!(Quantiles::of([]).p50.is_nan());
}

#[test]
fn ratios_are_taken_round_by_round() {
    // The machine halves its speed in the second round: the ratio does not change.
    assert_eq!(ratios(&[1.0, 2.0], &[2.0, 4.0]), [0.5, 0.5]);
    assert_eq!(ratios(&[1.0, 2.0, 3.0], &[2.0]), [0.5], "a round without its other side says nothing");
}
