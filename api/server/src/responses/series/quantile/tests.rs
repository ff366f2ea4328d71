use mfaas_delivery::RUN_EDGES_NS;
use mfaas_wire::QuantileView;

use super::quantile;

/// Against the times themselves: the quantile of any set of times lies in the bucket that their counts give.
#[test]
fn the_quantile_of_the_times_is_in_the_bucket_that_is_named() {
    let mut state = 7_u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    for _ in 0..2_000 {
        let times = 1 + random(40);
        let mut times: Vec<u64> = (0..times)
            .map(|_| {
                let magnitude = 10_u64.pow(u32::try_from(random(12)).unwrap_or(0));
                random(20) * magnitude
            })
            .collect();
        let mut counts = vec![0; RUN_EDGES_NS.len() + 1];
        times.iter().for_each(|time| counts[RUN_EDGES_NS.partition_point(|edge| edge < time)] += 1);
        times.sort_unstable();
        for percent in [1_u8, 50, 99, 100] {
            let rank = (times.len() * usize::from(percent)).div_ceil(100).max(1);
            let bucket = RUN_EDGES_NS.partition_point(|edge| *edge < times[rank - 1]);
            let above = bucket.checked_sub(1).map_or(0, |before| RUN_EDGES_NS[before]);
            let expected = QuantileView { above, up_to: RUN_EDGES_NS.get(bucket).copied() };
            assert_eq!(quantile(&counts, &RUN_EDGES_NS, percent), Some(expected), "{percent} of {times:?}");
        }
    }
}

#[test]
fn nothing_has_no_quantile_and_what_is_above_all_edges_has_no_upper_one() {
    assert_eq!(quantile(&[], &RUN_EDGES_NS, 50), None);
    assert_eq!(quantile(&[0, 0], &RUN_EDGES_NS, 50), None);
    let mut counts = vec![0; RUN_EDGES_NS.len()];
    counts.push(1);
    let above = QuantileView { above: 10_000_000_000, up_to: None };
    assert_eq!(quantile(&counts, &RUN_EDGES_NS, 50), Some(above));
    let median = QuantileView { above: 0, up_to: Some(1_000) };
    assert_eq!(quantile(&[1, 1], &RUN_EDGES_NS, 50), Some(median), "of two the first");
    assert_eq!(quantile(&[u64::MAX, u64::MAX], &RUN_EDGES_NS, 99).and_then(|q| q.up_to), Some(2_000));
}
