//! One figure: drawings of an object of the API, and a table of the same numbers.

use mfaas_wire::{
    BuildPointView, BuildSeriesView, FunctionPointView, FunctionSeriesView, OneNodeSeriesView, QuantileView,
    TenantSeriesView, duration_text,
};

use crate::console::chart::{
    Axis, Drawing, HEIGHT, HeatMap, Numbers, Unit, WIDTH, lines, stacked, time_text,
};

/// What a page shows as one thing.
pub(in crate::console) struct Figure {
    /// Apart from those of the other figures of the page.
    pub(in crate::console) id: String,
    pub(in crate::console) title: String,
    pub(in crate::console) drawings: Vec<Titled>,
    pub(in crate::console) table: Table,
}

/// A drawing with what it shows.
pub(in crate::console) struct Titled {
    pub(in crate::console) title: &'static str,
    pub(in crate::console) drawing: Drawing,
}

/// The numbers of a figure.
pub(in crate::console) struct Table {
    pub(in crate::console) head: Vec<String>,
    pub(in crate::console) rows: Vec<Vec<String>>,
}

impl Figure {
    pub(in crate::console) fn width(&self) -> f64 {
        WIDTH
    }

    pub(in crate::console) fn height(&self) -> f64 {
        HEIGHT
    }
}

/// What nobody knows.
const UNKNOWN: &str = "no data";

/// CPU time and memory; with shares of tenants where all are shown together.
pub(super) fn of_tenants(view: &TenantSeriesView, axis: &Axis, all: bool) -> Vec<Figure> {
    let over_s: Vec<f64> = view.points.iter().map(|point| f64::from(point.over_s)).collect();
    let per_s = |ns: Option<u64>, step: usize| ns.map(|ns| ns as f64 / 1e9 / over_s[step]);
    let mut cpu: Vec<Numbers> = view
        .tenants
        .iter()
        .map(|one| Numbers {
            label: one.tenant.to_string(),
            values: one.cpu_ns.iter().enumerate().map(|(step, ns)| per_s(*ns, step)).collect(),
        })
        .collect();
    if all {
        let rest = |step: usize| {
            let shown: u64 = view.tenants.iter().filter_map(|one| one.cpu_ns[step]).sum();
            view.points[step].cpu_ns.map(|all| all.saturating_sub(shown))
        };
        let values = (0..over_s.len()).map(|step| per_s(rest(step), step)).collect();
        cpu.push(Numbers { label: "others".to_owned(), values });
    }
    let memory = view.tenants.iter().map(|one| Numbers {
        label: one.tenant.to_string(),
        values: one.memory_bytes_max.iter().map(|bytes| bytes.map(|bytes| bytes as f64)).collect(),
    });
    let memory: Vec<Numbers> = memory.collect();
    let calls =
        view.points.iter().map(|point| point.calls.map(|calls| calls as f64 / f64::from(point.over_s)));
    let calls = [Numbers { label: "calls".to_owned(), values: calls.collect() }];
    let table = |of: &[Numbers], text: fn(f64) -> String| table(axis, of, text);
    vec![
        Figure {
            id: "cpu".to_owned(),
            title: "CPU time".to_owned(),
            table: table(&cpu, cpu_text),
            drawings: vec![Titled {
                title: "CPU time of handlers",
                drawing: stacked(axis, &cpu, Unit::Cores),
            }],
        },
        Figure {
            id: "memory".to_owned(),
            title: "Memory of one call".to_owned(),
            table: table(&memory, |bytes| bytes_text(bytes as u64)),
            drawings: vec![Titled {
                title: "The most memory of one call",
                drawing: lines(axis, &memory, Unit::Bytes),
            }],
        },
        Figure {
            id: "calls".to_owned(),
            title: "Calls".to_owned(),
            table: table(&calls, |calls| format!("{calls:.3} a second")),
            drawings: vec![Titled { title: "Calls", drawing: stacked(axis, &calls, Unit::PerSecond) }],
        },
    ]
}

/// Calls a second of each version that is named, and of the others together.
fn calls_by_version(view: &FunctionSeriesView) -> Vec<Numbers> {
    let per_s = |calls: Option<u64>, step: usize| {
        calls.map(|calls| calls as f64 / f64::from(view.points[step].over_s))
    };
    let mut calls: Vec<Numbers> = view
        .versions
        .iter()
        .map(|one| Numbers {
            label: format!("version {}", one.version),
            values: one.calls.iter().enumerate().map(|(step, calls)| per_s(*calls, step)).collect(),
        })
        .collect();
    let rest = |step: usize| {
        let shown: u64 = view.versions.iter().filter_map(|one| one.calls[step]).sum();
        view.points[step].calls.map(|all| all.saturating_sub(shown))
    };
    let rest: Vec<_> = (0..view.points.len()).map(rest).collect();
    if calls.is_empty() || rest.iter().flatten().any(|calls| *calls > 0) {
        let values = rest.iter().enumerate().map(|(step, calls)| per_s(*calls, step)).collect();
        let label = if calls.is_empty() { "all versions" } else { "other versions" };
        calls.push(Numbers { label: label.to_owned(), values });
    }
    calls
}

/// Calls by version, and how long they ran.
pub(super) fn of_function(view: &FunctionSeriesView, axis: &Axis) -> Vec<Figure> {
    let calls = calls_by_version(view);
    let counts = |point: &'_ FunctionPointView| point.calls.is_some();
    let map = HeatMap {
        counts: view.points.iter().map(|point| counts(point).then_some(&point.runs[..])).collect(),
        edges: &view.run_edges_ns,
        edge_text: |ns| short(duration_text(ns)),
        p50: view.points.iter().map(|point| point.run_ns_p50).collect(),
        p99: view.points.iter().map(|point| point.run_ns_p99).collect(),
    };
    let times = |point: &FunctionPointView| {
        let text = |quantile: Option<QuantileView>| quantile_text(quantile, |ns| short(duration_text(ns)));
        vec![
            time_text(point.at),
            point.calls.map_or(UNKNOWN.to_owned(), |calls| calls.to_string()),
            text(point.run_ns_p50),
            text(point.run_ns_p99),
        ]
    };
    let head = ["Step", "Calls", "p50", "p99"].map(str::to_owned).into();
    let memory = view.points.iter().map(|point| point.memory_bytes_max.map(|bytes| bytes as f64));
    let memory = [Numbers { label: "most memory of one call".to_owned(), values: memory.collect() }];
    let cpu =
        view.points.iter().map(|point| point.cpu_ns.map(|ns| ns as f64 / 1e9 / f64::from(point.over_s)));
    let cpu = [Numbers { label: "CPU time".to_owned(), values: cpu.collect() }];
    vec![
        Figure {
            id: "calls".to_owned(),
            title: "Calls by version".to_owned(),
            table: table(axis, &calls, |calls| format!("{calls:.3} a second")),
            drawings: vec![Titled {
                title: "Calls by version",
                drawing: stacked(axis, &calls, Unit::PerSecond),
            }],
        },
        Figure {
            id: "runs".to_owned(),
            title: "Run time".to_owned(),
            table: Table { head, rows: view.points.iter().map(times).collect() },
            drawings: vec![Titled { title: "Run time of calls", drawing: map.draw(axis) }],
        },
        Figure {
            id: "cpu".to_owned(),
            title: "CPU time".to_owned(),
            table: table(axis, &cpu, cpu_text),
            drawings: vec![Titled { title: "CPU time of calls", drawing: stacked(axis, &cpu, Unit::Cores) }],
        },
        Figure {
            id: "memory".to_owned(),
            title: "Memory of one call".to_owned(),
            table: table(axis, &memory, |bytes| bytes_text(bytes as u64)),
            drawings: vec![Titled {
                title: "The most memory of one call",
                drawing: lines(axis, &memory, Unit::Bytes),
            }],
        },
    ]
}

/// Time in the queue and with builders.
pub(super) fn of_builds(view: &BuildSeriesView, axis: &Axis) -> Vec<Figure> {
    let edge_text = |ms: u64| short(duration_text(ms.saturating_mul(1_000_000)));
    let drawing = |counts: fn(&BuildPointView) -> &[u64],
                   quantiles: fn(&BuildPointView) -> [Option<QuantileView>; 2]| {
        let map = HeatMap {
            counts: view.points.iter().map(|point| Some(counts(point))).collect(),
            edges: &view.edges_ms,
            edge_text,
            p50: view.points.iter().map(|point| quantiles(point)[0]).collect(),
            p99: view.points.iter().map(|point| quantiles(point)[1]).collect(),
        };
        map.draw(axis)
    };
    let queue = drawing(|point| &point.queue_counts, |point| [point.queue_ms_p50, point.queue_ms_p99]);
    let build = drawing(|point| &point.build_counts, |point| [point.build_ms_p50, point.build_ms_p99]);
    let rate = view.points.iter().map(|point| Some(point.builds as f64 / f64::from(point.over_s)));
    let rate = [Numbers { label: "builds that ended".to_owned(), values: rate.collect() }];
    let row = |point: &BuildPointView| {
        let quantiles = [point.queue_ms_p50, point.queue_ms_p99, point.build_ms_p50, point.build_ms_p99];
        let texts = quantiles.map(|quantile| quantile_text(quantile, edge_text));
        [vec![time_text(point.at), point.builds.to_string()], texts.into()].concat()
    };
    let head = ["Step", "Builds", "Queue p50", "Queue p99", "Build p50", "Build p99"].map(str::to_owned);
    vec![Figure {
        id: "builds".to_owned(),
        title: "Builds".to_owned(),
        table: Table { head: head.into(), rows: view.points.iter().map(row).collect() },
        drawings: vec![
            Titled { title: "Time in the queue", drawing: queue },
            Titled { title: "Time to build", drawing: build },
            Titled { title: "Builds that ended", drawing: stacked(axis, &rate, Unit::PerSecond) },
        ],
    }]
}

/// Load and pools of one node.
pub(super) fn of_node(one: &OneNodeSeriesView, axis: &Axis) -> Figure {
    let numbers = |label: &str, of: fn(&mfaas_wire::NodePointView) -> f64| Numbers {
        label: label.to_owned(),
        values: one.points.iter().map(|point| point.as_ref().map(of)).collect(),
    };
    let load = [numbers("load", |point| point.load)];
    let pools = [
        numbers("pools with workers", |point| point.pools_max as f64),
        numbers("pools with calls", |point| point.pools_busy_max as f64),
        numbers("worker processes", |point| point.processes_max as f64),
    ];
    let row = |(at, point): (&chrono::DateTime<chrono::Utc>, &Option<mfaas_wire::NodePointView>)| {
        let Some(point) = point else {
            return [vec![time_text(*at)], vec![UNKNOWN.to_owned(); 9]].concat();
        };
        let counts = [
            point.running_max,
            point.waiting_max,
            point.pools_max,
            point.pools_busy_max,
            point.processes_max,
            point.resident_max,
        ];
        let load = format!("{:.2}%", point.load * 100.0);
        let begin = vec![time_text(*at), load, point.cores.to_string()];
        let end = vec![bytes_text(point.resident_bytes_max)];
        [begin, counts.map(|count| count.to_string()).into(), end].concat()
    };
    let head = [
        "Step",
        "Load",
        "Cores",
        "Running",
        "Waiting",
        "Pools",
        "Busy pools",
        "Processes",
        "Functions",
        "Images",
    ];
    Figure {
        id: format!("node-{}", one.node),
        title: format!("Node {}", one.node),
        table: Table {
            head: head.map(str::to_owned).into(),
            rows: axis.at.iter().zip(&one.points).map(row).collect(),
        },
        drawings: vec![
            Titled { title: "Load", drawing: stacked(axis, &load, Unit::Share) },
            Titled { title: "Worker pools", drawing: lines(axis, &pools, Unit::Count) },
        ],
    }
}

/// Who used how many cores of a machine, minute by minute.
pub(in crate::console) fn of_isolation(minutes: &[Minute], axis: &Axis) -> Figure {
    let numbers = |label: &str, of: fn(&Minute) -> Option<f64>| Numbers {
        label: label.to_owned(),
        values: minutes.iter().map(of).collect(),
    };
    let used = [
        numbers("primary", |minute| minute.primary_cores),
        numbers("secondary", |minute| minute.secondary_cores),
    ];
    Figure {
        id: "cores".to_owned(),
        title: "Cores in use".to_owned(),
        table: table(axis, &used, |cores| format!("{cores:.2} cores")),
        drawings: vec![Titled { title: "Primary and secondary", drawing: stacked(axis, &used, Unit::Cores) }],
    }
}

/// What the roles of a machine used in a minute, in cores; `None` where nobody said so.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(in crate::console) struct Minute {
    pub(in crate::console) primary_cores: Option<f64>,
    pub(in crate::console) secondary_cores: Option<f64>,
}

/// The table of what is drawn: a column for each.
fn table(axis: &Axis, of: &[Numbers], text: fn(f64) -> String) -> Table {
    let head = std::iter::once("Step".to_owned()).chain(of.iter().map(|numbers| numbers.label.clone()));
    let cell = |value: Option<f64>| value.map_or(UNKNOWN.to_owned(), text);
    let row = |step: usize| {
        let values = of.iter().map(|numbers| cell(numbers.values[step]));
        std::iter::once(time_text(axis.at[step])).chain(values).collect()
    };
    Table { head: head.collect(), rows: (0..axis.at.len()).map(row).collect() }
}

fn cpu_text(cores: f64) -> String {
    duration_text((cores * 1e9) as u64) + " a second"
}

/// A quantile as far as it is known.
fn quantile_text(quantile: Option<QuantileView>, edge: impl Fn(u64) -> String) -> String {
    match quantile {
        None => "-".to_owned(),
        Some(QuantileView { above, up_to: Some(up_to) }) => format!("{} to {}", edge(above), edge(up_to)),
        Some(QuantileView { above, up_to: None }) => format!("above {}", edge(above)),
    }
}

/// Edges are round numbers.
fn short(duration: String) -> String {
    let Some((value, unit)) = duration.split_once(' ') else { return duration };
    let value = if value.contains('.') { value.trim_end_matches('0').trim_end_matches('.') } else { value };
    if value == "0" { value.to_owned() } else { format!("{value} {unit}") }
}

pub(in crate::console) fn bytes_text(bytes: u64) -> String {
    let units = [(1_u64 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.into_iter().find(|(one, _)| bytes >= *one) {
        Some((one, unit)) => format!("{:.1} {unit}", bytes as f64 / one as f64),
        None => format!("{bytes} bytes"),
    }
}
