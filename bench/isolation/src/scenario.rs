//! The runs: the paper's comparison on one machine, how much hangs on what we chose, and the paper's cluster.

use mfaas_isolation::CpuSettings;

use crate::agenda::Ns;
use crate::policy::{Blind, Policy};
use crate::report::{ClusterRun, MachineRun, Quantiles};
use crate::workload::Workload;
use crate::world::{Plan, run};

/// Bursts of a worker in all runs but the variants.
const BURSTS: f64 = 8.0;
/// Buffer cores of the aims, and of the cluster.
pub(crate) const BUFFER: usize = 8;
/// The paper's cluster.
const COLUMNS: usize = 22;
const ROWS: usize = 2;
const CLUSTER_QUERIES_PER_S: u32 = 8_000;

/// How much is simulated.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Length {
    /// Of one machine.
    pub(crate) machine_ns: Ns,
    /// Of the cluster.
    pub(crate) cluster_ns: Ns,
    /// Where the random numbers begin.
    pub(crate) seed: u64,
}

/// The paper's loads on one machine, in queries a second.
pub(crate) const LOADS: [u32; 2] = [2_000, 4_000];

/// Each way to share a machine, at each load.
pub(crate) fn comparison(length: Length) -> anyhow::Result<Vec<MachineRun>> {
    let policies = [
        ("standalone", Policy::Standalone),
        ("no isolation", Policy::Unmanaged),
        ("static, 24 cores", Policy::Static(24)),
        ("static, 16 cores", Policy::Static(16)),
        ("static, 8 cores", Policy::Static(8)),
        ("cycles, 45 %", Policy::Cap(45)),
        ("cycles, 25 %", Policy::Cap(25)),
        ("cycles, 5 %", Policy::Cap(5)),
        ("blind, 4 buffer cores", Policy::Blind(Blind::with_buffer(4))),
        ("blind, 8 buffer cores", Policy::Blind(Blind::with_buffer(BUFFER))),
    ];
    let mut runs = Vec::new();
    for load in LOADS {
        for (name, policy) in policies {
            runs.push(machine(name, Plan { policy, ..base(load, length) })?);
        }
    }
    Ok(runs)
}

/// What we chose, chosen otherwise: blind isolation with 8 buffer cores at 2,000 queries a second, each beside the same machine
/// alone.
pub(crate) fn variants(length: Length) -> anyhow::Result<Vec<(MachineRun, MachineRun)>> {
    let shipped = base(LOADS[0], length);
    let blind = Blind::with_buffer(BUFFER);
    let with = |blind| Plan { policy: Policy::Blind(blind), ..shipped };
    let bursts = |bursts| Plan { workload: Workload::with_bursts(bursts), ..with(blind) };
    let settings = |change: fn(&mut CpuSettings)| {
        let mut changed = blind;
        change(&mut changed.settings);
        with(changed)
    };
    let variants = [
        ("as shipped", with(blind)),
        ("idle cores take what waits", Plan { balances: true, ..with(blind) }),
        ("2 bursts of a worker", bursts(2.0)),
        ("4 bursts of a worker", bursts(4.0)),
        ("16 bursts of a worker", bursts(16.0)),
        ("32 bursts of a worker", bursts(32.0)),
        ("looks every 50 µs", with(Blind { poll_ns: 50_000, ..blind })),
        ("looks every 500 µs", with(Blind { poll_ns: 500_000, ..blind })),
        ("looks every 1 ms", with(Blind { poll_ns: 1_000_000, ..blind })),
        ("limits take 4 times as long", with(Blind { delay_factor: 4, ..blind })),
        ("grows after 200 µs", settings(|settings| settings.grow_after_us = 200)),
        ("grows after 5 ms", settings(|settings| settings.grow_after_us = 5_000)),
        ("grows after 20 ms", settings(|settings| settings.grow_after_us = 20_000)),
        ("yields at once", settings(|settings| settings.yield_after_us = 0)),
        ("yields after 1 ms", settings(|settings| settings.yield_after_us = 1_000)),
        ("2 buffer cores", settings(|settings| settings.buffer_cores = 2)),
        ("16 buffer cores", settings(|settings| settings.buffer_cores = 16)),
        ("sees idle cores alone", with(Blind { sees_idle_alone: true, ..blind })),
    ];
    let mut runs = Vec::new();
    for (name, plan) in variants {
        let alone = machine("standalone", Plan { policy: Policy::Standalone, ..plan })?;
        runs.push((alone, machine(name, plan)?));
    }
    Ok(runs)
}

/// One machine alone, with what the runs have in common.
fn base(load: u32, length: Length) -> Plan {
    Plan {
        policy: Policy::Standalone,
        balances: false,
        workload: Workload::with_bursts(BURSTS),
        queries_per_s: load,
        columns: 1,
        rows: 1,
        measured_ns: length.machine_ns,
        seed: length.seed,
    }
}

fn machine(name: &str, plan: Plan) -> anyhow::Result<MachineRun> {
    let outcome = run(plan)?;
    Ok(MachineRun {
        name: name.to_owned(),
        queries_per_s: plan.queries_per_s,
        queries: outcome.machine_ms.len(),
        latency_ms: Quantiles::of(outcome.machine_ms),
        primary: outcome.primary,
        secondary: outcome.secondary,
        queued: outcome.queued,
        changes_per_s: outcome.changes_per_s,
    })
}

/// The cluster alone and with a secondary under blind isolation.
pub(crate) fn cluster(length: Length) -> anyhow::Result<Vec<ClusterRun>> {
    let policies = [
        ("standalone", Policy::Standalone),
        ("blind, 8 buffer cores", Policy::Blind(Blind::with_buffer(BUFFER))),
    ];
    let mut runs = Vec::new();
    for (name, policy) in policies {
        let one = base(CLUSTER_QUERIES_PER_S, length);
        let outcome =
            run(Plan { policy, columns: COLUMNS, rows: ROWS, measured_ns: length.cluster_ns, ..one })?;
        runs.push(ClusterRun {
            name: name.to_owned(),
            queries: outcome.top_ms.len(),
            machine_ms: Quantiles::of(outcome.machine_ms),
            mid_ms: Quantiles::of(outcome.mid_ms),
            top_ms: Quantiles::of(outcome.top_ms),
            primary: outcome.primary,
            secondary: outcome.secondary,
        });
    }
    Ok(runs)
}
