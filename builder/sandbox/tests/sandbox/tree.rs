//! Limits of all processes of a sandbox together: by the kernel where there are control groups, by
//! measuring everywhere.

use std::fs::File;
use std::time::Duration;

use mfaas_confine::{AblationToken, Layer};
use mfaas_rules::limits::CompileLimits;
use mfaas_sandbox::{Cancel, Exit, Filter, Outcome, SandboxSpec, TreeLimits, tree_limits};

use crate::limits::{hold_as_ordinary_user, marker, processes_with};
use crate::setup::{LIMITS, probe_spec, sandbox, text};

pub(crate) const TESTS: &[crate::Test] = &[
    ("what_keeps_the_limits_is_reported", what_keeps_the_limits_is_reported),
    ("memory_is_limited_for_all_processes_together", memory_is_limited_for_all_processes_together),
    ("cpu_time_is_limited_for_all_processes_together", cpu_time_is_limited_for_all_processes_together),
    ("processes_are_limited_even_for_root", processes_are_limited_even_for_root),
    ("processes_are_limited_for_an_ordinary_user", processes_are_limited_for_an_ordinary_user),
];

/// A tenant's sandbox, and that of a long job, with a control group where there can be one.
fn all_monitors() -> Vec<(TreeLimits, Filter)> {
    let filters = [Filter::Compiler, Filter::DependencyBuild];
    filters.into_iter().map(|filter| (tree_limits(filter), filter)).collect()
}

fn limited(probe: &[&str], limits: CompileLimits, filter: Filter) -> Outcome {
    let place = tempfile::tempdir().unwrap();
    sandbox(SandboxSpec { limits, filter, ..probe_spec(place.path(), probe) }).run(&Cancel::new()).unwrap()
}

/// A sandbox without what keeps the sum.
fn limited_without(layer: Layer, probe: &[&str], limits: CompileLimits) -> Outcome {
    let (place, token) = (tempfile::tempdir().unwrap(), AblationToken::for_tests());
    let filter = Filter::DependencyBuild;
    let sandbox = sandbox(SandboxSpec { limits, filter, ..probe_spec(place.path(), probe) });
    sandbox.without(&token, layer).run(&Cancel::new()).unwrap()
}

fn what_keeps_the_limits_is_reported() {
    assert_eq!(
        tree_limits(Filter::Compiler),
        TreeLimits::Measured,
        "this machine tells the children of a process"
    );
    for (kept, filter) in all_monitors() {
        println!("  {kept}");
        assert_eq!(limited(&["nothing"], LIMITS, filter).tree, kept);
    }
    assert_eq!(limited_without(Layer::Limits, &["nothing"], LIMITS).tree, TreeLimits::PerProcess);
    assert_eq!(limited_without(Layer::ControlGroup, &["nothing"], LIMITS).tree, TreeLimits::Measured);
}

/// Six times 40 MiB, where 128 MiB are allowed; none of the six is near the limit.
fn memory_is_limited_for_all_processes_together() {
    let limits = CompileLimits { memory_bytes_max: 128 << 20, ..LIMITS };
    let bytes = (40 << 20).to_string();
    let probe = |count| ["each", count, "-", "hold-memory", &bytes].map(str::to_owned);
    let run = |count, filter| {
        let probe = probe(count);
        limited(&probe.each_ref().map(String::as_str), limits, filter)
    };
    for (kept, filter) in all_monitors() {
        let outcome = run("6", filter);
        assert_eq!((outcome.exit, outcome.tree), (Exit::MemoryLimit, kept));
        assert!(outcome.wall < Duration::from_secs(10), "{:?}", outcome.wall);
        assert_eq!(run("2", filter).exit, Exit::Code(0), "what fits, fits: {kept}");
    }
    let probe = probe("6");
    let outcome = limited_without(Layer::Limits, &probe.each_ref().map(String::as_str), limits);
    assert_eq!(outcome.exit, Exit::Code(0), "each of them alone is within its limit");
}

/// Four processes, none of which may use more than two seconds, nor may all.
fn cpu_time_is_limited_for_all_processes_together() {
    let limits = CompileLimits { cpu_seconds_max: 2, wall_seconds_max: 30, ..LIMITS };
    for (kept, filter) in all_monitors() {
        let outcome = limited(&["each", "4", "-", "spin"], limits, filter);
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

/// Whether a pid namespace has a largest id of its own: since Linux 6.14, where `/proc/sys` can be
/// written.
fn ids_are_bounded() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(['.', '-']).map_while(|number| number.parse::<u32>().ok());
    let version = (numbers.next().unwrap(), numbers.next().unwrap());
    let writable = File::options().write(true).open("/proc/sys/kernel/pid_max").is_ok();
    version >= (6, 14) && writable
}

fn processes_are_limited_even_for_root() {
    let limits = CompileLimits { processes_max: 24, wall_seconds_max: 3, ..LIMITS };
    for (kept, filter) in all_monitors() {
        let marker = marker("bomb");
        let (most, outcome) = most_processes(&marker, || limited(&["bomb", &marker], limits, filter));
        println!("  {kept}: at most {most} processes, {:?}", outcome.exit);
        match (kept, rustix::process::geteuid().is_root()) {
            // Kept small by the kernel, the bomb goes on until its time is over.
            (TreeLimits::Kernel, _) | (_, false) => {
                assert_eq!(outcome.exit, Exit::WallLimit);
                assert!((2..=24).contains(&most), "{most}");
            }
            // Ids run out before the next count, on kernels that bound them by namespace.
            (TreeLimits::Measured | TreeLimits::PerProcess, true) => {
                assert_eq!(outcome.exit, Exit::ProcessLimit);
                let ids = if ids_are_bounded() { 24 + 300 + 2 } else { usize::MAX };
                assert!((2..=ids).contains(&most), "{most}");
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
