//! Experiments with a generator whose seed comes with the request.
use oorandom::Rand64;
use std::collections::BTreeMap;

const THROWS: usize = 20_000;

fn pi(mut rng: Rand64) -> String {
    let mut point = || (rng.rand_float(), rng.rand_float());
    let inside = std::iter::repeat_with(&mut point).take(THROWS).filter(|(x, y)| x * x + y * y < 1.0).count();
    let pi = 4.0 * inside as f64 / THROWS as f64;
    if (pi - std::f64::consts::PI).abs() < 0.05 { "pi is near 3.14".into() } else { format!("pi is {pi}") }
}

fn dice(mut rng: Rand64) -> String {
    let mut sums: BTreeMap<u64, usize> = BTreeMap::new();
    for _ in 0..THROWS {
        *sums.entry(rng.rand_range(1..7) + rng.rand_range(1..7)).or_insert(0) += 1;
    }
    let most = sums.iter().max_by_key(|(_, n)| **n).map(|(sum, _)| *sum).unwrap_or_default();
    format!("two dice make {most} most often")
}

fn coin(mut rng: Rand64) -> String {
    let heads = (0..THROWS).filter(|_| rng.rand_u64() >> 63 == 1).count();
    let share = heads as f64 / THROWS as f64;
    if (0.48..0.52).contains(&share) { "heads are near a half".into() } else { format!("heads {share}") }
}

fn range(mut rng: Rand64) -> String {
    let mut seen: Vec<u64> = std::iter::repeat_with(|| rng.rand_range(100..110)).take(THROWS / 10).collect();
    seen.sort_unstable();
    seen.dedup();
    if seen.iter().copied().eq(100..110) { "all of 100..110 appear, nothing else".into() } else { format!("{seen:?}") }
}

const EXPERIMENTS: [(&str, fn(Rand64) -> String); 4] = [("pi", pi), ("dice", dice), ("coin", coin), ("range", range)];

fn answer(text: &str) -> Result<String, String> {
    let (name, seed) = text.split_once(' ').ok_or("EXPERIMENT SEED")?;
    let seed: u128 = seed.parse().map_err(|error: std::num::ParseIntError| error.to_string())?;
    let found = EXPERIMENTS.iter().find(|(known, _)| *known == name);
    found.map(|(_, run)| run(Rand64::new(seed))).ok_or_else(|| format!("no experiment {name}"))
}

pub fn handle(request: &[u8]) -> Vec<u8> {
    answer(&String::from_utf8_lossy(request)).unwrap_or_else(|error| error).into_bytes()
}
