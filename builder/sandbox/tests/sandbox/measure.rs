//! What entering a sandbox costs: `sandbox measure ROUNDS [HELPER|-] [long]` prints one line with wall
//! and CPU; `long` enters that of a long job, which has a control group.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use mfaas_sandbox::{Cancel, Exit, Filter, Sandbox};

use crate::setup::{probe_spec, this_executable};

/// The argument that makes this executable measure.
pub(crate) const MEASURE: &str = "measure";

/// Clock ticks (10 ms) of CPU time of this process and of every child that has ended, all
/// processes of all its sandboxes included. The kernel's sums behind it are exact.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    let ticks = fields.split(' ').skip(11).take(4).map(|field| field.parse::<u64>().unwrap()).sum::<u64>();
    Duration::from_millis(ticks * 10)
}

pub(crate) fn measure(arguments: &[String]) {
    let rounds: u32 = arguments.first().and_then(|text| text.parse().ok()).unwrap_or(100);
    let helper = arguments.get(1).filter(|path| *path != "-").map_or_else(this_executable, PathBuf::from);
    let place = tempfile::tempdir().unwrap();
    let mut spec = probe_spec(place.path(), &["nothing"]);
    if arguments.get(2).is_some_and(|word| word == "long") {
        spec.filter = Filter::DependencyBuild;
    }
    let sandbox = Sandbox::new(spec, helper).unwrap();
    let mut walls = Vec::new();
    let before = cpu();
    for _ in 0..rounds {
        let start = Instant::now();
        let outcome = sandbox.run(&Cancel::new()).unwrap();
        walls.push(start.elapsed());
        assert_eq!(outcome.exit, Exit::Code(0));
    }
    walls.sort_unstable();
    let used = (cpu() - before) / rounds;
    let (median, ninety) = (walls[walls.len() / 2], walls[walls.len() * 9 / 10]);
    println!("{rounds} sandboxes: wall {median:?} (median) {ninety:?} (p90), CPU {used:?} each");
}
