use rand::SeedableRng as _;
use rand::rngs::SmallRng;

use super::{QUERY_CPU_NS, WORKERS, Workload};

#[test]
fn a_query_costs_what_the_paper_s_utilisation_says() {
    assert_eq!(QUERY_CPU_NS, 5_040_000.0, "21 % of 48 cores for 2,000 queries a second");
    for bursts in [4.0, 8.0, 32.0] {
        let workload = Workload::with_bursts(bursts);
        let mut random = SmallRng::seed_from_u64(1);
        let queries = 20_000;
        let mut cpu_ns = 0.0;
        for _ in 0..queries {
            let size = workload.size(&mut random);
            let count: u32 = (0..WORKERS).map(|_| workload.bursts(size, &mut random)).sum();
            cpu_ns += f64::from(count) * workload.burst_ns;
        }
        let mean = cpu_ns / f64::from(queries);
        assert!((mean / QUERY_CPU_NS - 1.0).abs() < 0.03, "{bursts} bursts: {mean}");
    }
}

#[test]
fn sizes_have_the_spread_that_was_asked_for() {
    let workload = Workload::with_bursts(8.0);
    let mut random = SmallRng::seed_from_u64(1);
    let mut sizes: Vec<_> = (0..50_000).map(|_| workload.size(&mut random)).collect();
    sizes.sort_by(f64::total_cmp);
    let ratio = sizes[49_500] / sizes[25_000];
    assert!((2.8..3.2).contains(&ratio), "{ratio}");
    let mean = sizes.iter().sum::<f64>() / 50_000.0;
    assert!((0.98..1.02).contains(&mean), "{mean}");
}

#[test]
fn times_have_their_means() {
    let workload = Workload::with_bursts(8.0);
    let mut random = SmallRng::seed_from_u64(1);
    let mean = |sample: &mut dyn FnMut() -> u64| (0..50_000).map(|_| sample() as f64).sum::<f64>() / 50_000.0;
    let burst = mean(&mut || workload.burst(&mut random));
    assert!((burst / workload.burst_ns - 1.0).abs() < 0.03, "{burst}");
    let read = mean(&mut || workload.read(&mut random));
    assert!((read / workload.read_ns - 1.0).abs() < 0.03, "{read}");
}
