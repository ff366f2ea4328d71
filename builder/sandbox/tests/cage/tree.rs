//! Limits of all processes of a cage together: by the kernel where there are control groups, by
//! measuring everywhere.

use std::time::Duration;

use mfaas_confine::{AblationToken, Layer};
use mfaas_rules::limits::CompileLimits;
use mfaas_sandbox::{CageSpec, Cancel, Exit, Outcome, TreeLimits, tree_limits};

use crate::limits::{hold_as_ordinary_user, marker, processes_with};
use crate::setup::{LIMITS, cage, probe_spec, text};

pub(crate) const TESTS: &[crate::Test] = &[
    ("what_keeps_the_limits_is_said", what_keeps_the_limits_is_said),
    ("memory_is_limited_for_all_processes_together", memory_is_limited_for_all_processes_together),
    ("cpu_time_is_limited_for_all_processes_together", cpu_time_is_limited_for_all_processes_together),
    ("processes_are_limited_even_for_root", processes_are_limited_even_for_root),
    ("processes_are_limited_for_an_ordinary_user", processes_are_limited_for_an_ordinary_user),
];

/// With everything, and with measuring alone.
fn keepers() -> Vec<(TreeLimits, Option<Layer>)> {
    let mut all = vec![(tree_limits(), None)];
    if tree_limits() == TreeLimits::Kernel {
        all.push((TreeLimits::Measured, Some(Layer::ControlGroup)));
    }
    all
}

fn run_without(spec: CageSpec, layer: Option<Layer>) -> Outcome {
    let token = AblationToken::for_tests();
    let cage = cage(spec);
    let cage = match layer {
        Some(layer) => cage.without(&token, layer),
        None => cage,
    };
    cage.run(&Cancel::new()).unwrap()
}

fn limited(probe: &[&str], limits: CompileLimits, layer: Option<Layer>) -> Outcome {
    let place = tempfile::tempdir().unwrap();
    run_without(CageSpec { limits, ..probe_spec(place.path(), probe) }, layer)
}

fn what_keeps_the_limits_is_said() {
    println!("limits are kept {}", tree_limits());
    assert_ne!(tree_limits(), TreeLimits::PerProcess, "this machine tells the children of a process");
    for (kept, layer) in keepers() {
        assert_eq!(limited(&["nothing"], LIMITS, layer).tree, kept);
    }
    assert_eq!(limited(&["nothing"], LIMITS, Some(Layer::Limits)).tree, TreeLimits::PerProcess);
}

/// Six times 40 MiB, where 128 MiB are allowed; none of the six is near the limit.
fn memory_is_limited_for_all_processes_together() {
    let limits = CompileLimits { memory_bytes_max: 128 << 20, ..LIMITS };
    let bytes = (40 << 20).to_string();
    let probe = |count| ["each", count, "-", "hold-memory", &bytes].map(str::to_owned);
    let run = |count, layer| {
        let probe = probe(count);
        limited(&probe.each_ref().map(String::as_str), limits, layer)
    };
    for (kept, layer) in keepers() {
        let outcome = run("6", layer);
        assert_eq!((outcome.exit, outcome.tree), (Exit::MemoryLimit, kept));
        assert!(outcome.wall < Duration::from_secs(10), "{:?}", outcome.wall);
        assert_eq!(run("2", layer).exit, Exit::Code(0), "what fits, fits: {kept}");
    }
    assert_eq!(run("6", Some(Layer::Limits)).exit, Exit::Code(0), "each of them alone is within its limit");
}

/// Four processes, none of which may use more than two seconds, nor may all.
fn cpu_time_is_limited_for_all_processes_together() {
    let limits = CompileLimits { cpu_seconds_max: 2, wall_seconds_max: 30, ..LIMITS };
    for (kept, layer) in keepers() {
        let outcome = limited(&["each", "4", "-", "spin"], limits, layer);
        assert_eq!((outcome.exit, outcome.tree), (Exit::CpuLimit, kept));
        assert!(outcome.cpu < Duration::from_millis(3_500), "{kept}: {:?}", outcome.cpu);
    }
}

/// The largest number of processes with this marker while something runs.
fn most_processes<T: Send>(marker: &str, run: impl FnOnce() -> T + Send) -> (usize, T) {
    std::thread::scope(|scope| {
        let running = scope.spawn(run);
        let mut most = 0;
        while !running.is_finished() {
            most = most.max(processes_with(marker));
            std::thread::sleep(Duration::from_millis(5));
        }
        (most, running.join().unwrap())
    })
}

fn processes_are_limited_even_for_root() {
    let limits = CompileLimits { processes_max: 24, wall_seconds_max: 3, ..LIMITS };
    for (kept, layer) in keepers() {
        let marker = marker("bomb");
        let (most, outcome) = most_processes(&marker, || limited(&["bomb", &marker], limits, layer));
        println!("  {kept}: at most {most} processes, {:?}", outcome.exit);
        match (kept, rustix::process::geteuid().is_root()) {
            // Kept small by the kernel, the bomb goes on until its time is over.
            (TreeLimits::Kernel, _) | (_, false) => {
                assert_eq!(outcome.exit, Exit::WallLimit);
                assert!((2..=24).contains(&most), "{most}");
            }
            (TreeLimits::Measured | TreeLimits::PerProcess, true) => {
                assert_eq!(outcome.exit, Exit::ProcessLimit);
                assert!((2..2_000).contains(&most), "{most}");
            }
        }
        assert_eq!(processes_with(&marker), 0);
    }
}

fn processes_are_limited_for_an_ordinary_user() {
    let place = tempfile::tempdir().unwrap();
    let marker = marker("user-bomb");
    // Sixty at once, which LIMITS allow, and then as many again.
    let mut command = hold_as_ordinary_user(place.path(), &["each", "100", &marker, "sleep", "2"]);
    let (most, output) = most_processes(&marker, || command.output().unwrap());
    let printed = text(&output.stdout);
    let started: u64 =
        printed.split("started ").nth(1).unwrap().trim().lines().next().unwrap().parse().unwrap();
    assert!((40..=LIMITS.processes_max).contains(&started), "{started} of 100");
    assert!(most as u64 <= LIMITS.processes_max + 3, "{most}");
    assert_eq!(processes_with(&marker), 0);
}
