//! Calls of a node beside work that can wait, under each way to hold that back.
//!
//! Within a round every policy is in force once, over the same node, at each of some loads: parts of what the node can do
//! alone. Calls come at planned times through the ingress, and their latency counts from those. What the secondary gets
//! done is held against what it does alone on the CPU time that the primary leaves idle when it is alone.

mod policy;

use std::cell::RefCell;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use mfaas_isolation_client::Mode;

use super::{Lane, Measured, Plan, Series, Workers, alternate};
use crate::functions::Kind;
use crate::load::{Generator, Manner, arrivals};
use crate::report::{Bound, Figures, Row, SharedFigure};
use crate::secondary::Work;
use crate::sides::Kit;
use crate::sides::mfaas::{BUDGET_US, More, Pools, Site, Tenant};
use crate::stats::{Quantiles, Spread, ratios};
use crate::sys::cpu::Cpu;
use crate::sys::{pin, pin_to, thread_cpu_seconds};
use policy::{InForce, Policy};

/// p99 beside two builds, or beside bulk calls, by p99 alone, and what the builds get of what is idle, at least: with workers that
/// sleep when nobody calls, in the mode [`NAMED`], and with workers that poll, in the mode `blind`.
const PARKED: (f64, f64) = (1.10, 0.80);
const POLLING: (f64, f64) = (1.50, 0.50);
/// The mode that the aims with parked workers are about.
const NAMED: Mode = Mode::RealTime;
/// What is compared beside bulk calls.
const BESIDE_BULK: [Policy; 4] =
    [Policy::Standalone, Policy::Nothing, Policy::Of(Mode::IdleClass), Policy::Of(Mode::RealTime)];
/// Workers of bulk calls have started, and each has answered a call, within this.
const BULK_START_MAX: Duration = Duration::from_mins(2);
/// Per cent of what the node can do alone.
const LOADS: [u32; 3] = [20, 50, 70];
/// The same in a quick run.
const LOADS_QUICK: [u32; 2] = [20, 70];
/// Where buffer cores are counted: the highest load that a site should run a node at.
const PEAK: [u32; 1] = [70];
/// What one call computes, in µs.
const CALL_US: f64 = 100.0;
const SOURCE: Ipv4Addr = Ipv4Addr::LOCALHOST;
/// Calls in flight, at most: enough for each to wait for a tenth of a second.
const CONNECTIONS: usize = 128;
/// Calls in flight while it is measured what the node can do alone, and how often that is.
const FULL_CONNECTIONS: usize = 16;
const FULL_WINDOWS: usize = 3;
/// The secondary without calls.
const ALONE: &str = "secondary alone";
/// The secondary's work has begun when it has shown progress, and not later than this.
const BEGIN_MAX: Duration = Duration::from_secs(5);
const AGAIN: Duration = Duration::from_millis(5);

/// Figures of one policy at one load in one round.
#[derive(Debug, Clone)]
struct Window {
    latency_us: Quantiles,
    missed: u64,
    /// Part of all CPU time that the node used.
    node: f64,
    /// Part that the generator used.
    generator: f64,
    /// Part that anything used.
    busy: f64,
    /// What the secondary did in a second.
    progress: f64,
    /// Bulk calls that were answered in a second.
    answered: f64,
}

/// One for each load.
type Round = Vec<Window>;

struct Scene<'a> {
    kit: &'a Kit,
    site: Site,
    generator: Generator,
    work: Work,
    cores: Vec<usize>,
    loads: &'static [u32],
    /// Calls a second that the node can do alone.
    rate: f64,
    seconds: f64,
}

/// Counters at one moment.
struct Meter {
    at: Instant,
    node_us: f64,
    generator_s: f64,
    cpu: Cpu,
    progress: f64,
    answered: f64,
}

/// The row of one secondary.
pub(super) fn row(
    kit: &Kit,
    plan: &Plan,
    (name, title, work): (&'static str, &'static str, Work),
) -> anyhow::Result<Measured> {
    let row = Row::new(name, title);
    let scene = Scene::start(kit, plan, work, plan.size(&LOADS[..], &LOADS_QUICK[..]))?;
    let (row, shared, _) = compare(plan, row, scene, &of_this_plan(plan, work))?;
    Ok((row, Figures { shared, ..Figures::default() }))
}

/// How many buffer cores the mode `blind` needs here: the fewest with which p99 keeps its aim at the highest load.
pub(super) fn buffer_cores(kit: &Kit, plan: &Plan) -> anyhow::Result<Measured> {
    let title =
        "calls of 100 µs at the highest load beside threads that compute without end, by buffer cores";
    let row = Row::new("buffer-cores", title);
    let scene = Scene::start(kit, plan, Work::Cpu, &PEAK)?;
    let candidates = candidates(scene.cores.len());
    let mut policies = vec![Policy::Standalone, Policy::Nothing];
    policies.extend(candidates.iter().copied().map(Policy::Blind));
    let (mut row, shared, ratios) = compare(plan, row, scene, &policies)?;
    let most = match plan.workers {
        Workers::Parked => PARKED.0,
        Workers::Polling => POLLING.0,
    };
    let ratio_of = |buffer_cores: &u32| {
        let found = ratios.iter().find(|(policy, _)| *policy == Policy::Blind(*buffer_cores));
        found.map_or(f64::INFINITY, |(_, at)| row.measures[*at].spread.median)
    };
    let enough = candidates.iter().find(|candidate| ratio_of(candidate) <= most);
    let found = enough.map(|candidate| f64::from(*candidate));
    row.measure(
        format!("buffer cores: the fewest with p99 / standalone ≤ {most}"),
        "cores",
        Vec::from_iter(found),
    )
    .aim(Bound::AtLeast, 0.0);
    Ok((row, Figures { shared, ..Figures::default() }))
}

/// Numbers of buffer cores that are tried: all up to four, then each twice the one before, and never all cores.
fn candidates(cores: usize) -> Vec<u32> {
    let doubled = std::iter::successors(Some(8), |number| Some(number * 2));
    (0..=4).chain(doubled).take_while(|number| (*number as usize) < cores).collect()
}

/// Those of a row whose loads are [`LOADS`].
fn of_this_plan(plan: &Plan, work: Work) -> Vec<Policy> {
    let compared = if work.example().is_some() { &BESIDE_BULK[..] } else { &Policy::ALL };
    let chosen = |policy| match (policy, plan.buffer_cores) {
        (Policy::Of(Mode::Blind), Some(buffer_cores)) => Policy::Blind(buffer_cores),
        _ => policy,
    };
    let is_chosen = |policy: &Policy| {
        let all = plan.policies.is_empty() || *policy == Policy::Standalone;
        all || plan.policies.iter().any(|name| *name == policy.name())
    };
    compared.iter().copied().filter(is_chosen).map(chosen).collect()
}

/// Whether there is a policy of that name.
pub(super) fn is_policy(name: &str) -> bool {
    Policy::ALL.iter().any(|policy| policy.name() == name)
}

/// Where the ratio of p99 of each policy is in a row.
type Ratios = Vec<(Policy, usize)>;

/// Measures the policies that this machine offers over one node, at each of its loads.
fn compare(
    plan: &Plan,
    mut row: Row,
    mut scene: Scene<'_>,
    policies: &[Policy],
) -> anyhow::Result<(Row, Vec<SharedFigure>, Ratios)> {
    let (kit, name, work, loads) = (scene.kit, row.name, scene.work, scene.loads);
    scene.start_bulk_workers()?;
    row.side("node", scene.site.protections());
    let full = scene.full()?;
    row.measure("calls that the node can do alone", "calls/s", full.clone());
    scene.rate = Spread::of(full).median;
    policy::sweep()?;
    let policies = offered(kit, plan, &mut row, (policies, &scene.cores));
    let scene = RefCell::new(scene);
    let mut lanes: Vec<Option<Lane<'_, Round>>> = Vec::new();
    for policy in &policies {
        let (scene, mut number) = (&scene, 0);
        lanes.push(Some(Lane::new(policy.name(), move || {
            number += 1;
            scene.borrow_mut().round(*policy, number)
        })));
    }
    lanes.push(Some(Lane::new(ALONE, || scene.borrow_mut().alone())));
    let series = alternate(plan, &mut row, lanes);
    drop(scene);
    policy::remove_own()?;
    let (mut shared, mut ratios) = (Vec::new(), Ratios::new());
    row.measure(
        format!("{ALONE}: progress"),
        work.unit(),
        series.of(ALONE, |round: &Round| round[0].progress),
    );
    if work.example().is_some() {
        let answered = series.of(ALONE, |round: &Round| round[0].answered);
        row.measure(format!("{ALONE}: bulk calls answered"), "calls/s", answered);
    }
    for at @ (_, load_percent) in loads.iter().copied().enumerate() {
        report_alone(&mut row, &series, at);
        for policy in policies.iter().filter(|policy| **policy != Policy::Standalone) {
            let (ratio, part) = report(&mut row, &series, (at, *policy), work);
            ratios.push((*policy, ratio));
            match work {
                Work::Cpu | Work::Disk => {}
                Work::Builds => aim(&mut row, plan.workers, *policy, (ratio, Some(part))),
                Work::BulkGzip | Work::BulkImages => aim(&mut row, plan.workers, *policy, (ratio, None)),
            }
            let figure = |at: usize| row.measures[at].spread.median;
            shared.push(SharedFigure {
                secondary: name,
                load_percent,
                policy: policy.name().into_owned(),
                p99_ratio: figure(ratio),
                progress: figure(part),
            });
        }
    }
    Ok((row, shared, ratios))
}

/// Those that this machine offers; of the others the row says why not.
fn offered(kit: &Kit, plan: &Plan, row: &mut Row, (policies, cores): (&[Policy], &[usize])) -> Vec<Policy> {
    let mut offered = Vec::new();
    for policy in policies.iter().copied() {
        if plan.workers == Workers::Polling && policy == Policy::Of(Mode::RealTime) {
            row.side(&policy.name(), "left out: it is not for workers that poll".to_owned());
            continue;
        }
        match policy.described(kit, cores) {
            Ok(described) => {
                row.side(&policy.name(), described);
                offered.push(policy);
            }
            Err(error) => row.missing(&policy.name(), &error),
        }
    }
    offered
}

impl<'a> Scene<'a> {
    fn start(kit: &'a Kit, plan: &Plan, work: Work, loads: &'static [u32]) -> anyhow::Result<Self> {
        let cores = kit.all_cores.clone();
        pin(kit.cores.worker)?;
        let function = Kind::busy_micros(CALL_US, kit.tsc);
        let tenants = [Tenant::new("primary", function, 0, BUDGET_US)];
        let worker = (plan.workers == Workers::Polling).then_some(kit.cores.worker);
        let bulk = work.example().map(|name| kit.functions.example(name)).transpose()?;
        // A bulk call takes a second, so more than one has to end in a window.
        let seconds = if bulk.is_some() { plan.size(6.0, 0.5) } else { plan.size(2.0, 0.25) };
        let site = Site::start_on(kit, &cores, Pools::PerTenant, &tenants, More { worker, bulk })?;
        // The generator runs wherever the scheduler finds a core for it, as a caller's connection would.
        pin_to(&cores)?;
        let manner = Manner { source: SOURCE, connections: CONNECTIONS, body_bytes: 0, reconnects: false };
        let generator = Generator::new(site.address(), manner, site.targets().to_vec());
        Ok(Self { kit, site, generator, work, cores, loads, rate: f64::NAN, seconds })
    }

    /// Calls bulk functions until the node has as many workers for them as it may, so that each policy finds the same ones.
    fn start_bulk_workers(&self) -> anyhow::Result<()> {
        if self.site.bulk().is_none() {
            return Ok(());
        }
        let (deadline, workers) = (Instant::now() + BULK_START_MAX, self.cores.len());
        let mut in_force = InForce::begin(self.kit, &self.site, Policy::Nothing, self.work, &self.cores)?;
        while in_force.progress()? < workers as f64 || self.site.bulk_workers()?.len() < workers {
            ensure!(Instant::now() < deadline, "the node does not start {workers} workers for bulk calls");
            std::thread::sleep(AGAIN);
        }
        in_force.end()
    }

    /// Calls a second that the node answers when it always has some.
    fn full(&mut self) -> anyhow::Result<Vec<f64>> {
        let manner =
            Manner { source: SOURCE, connections: FULL_CONNECTIONS, body_bytes: 0, reconnects: false };
        let mut full = Generator::new(self.site.address(), manner, self.site.targets().to_vec());
        let window = Duration::from_secs_f64(self.seconds);
        // The first one wakes everything.
        full.saturate(window, &mut 0)?;
        (0..FULL_WINDOWS).map(|_| full.saturate(window, &mut 0)).collect()
    }

    /// One policy at every load.
    fn round(&mut self, policy: Policy, number: u64) -> anyhow::Result<Round> {
        self.site.rest()?;
        self.generator.disconnect();
        let (kit, site, generator) = (self.kit, &self.site, &mut self.generator);
        let mut in_force = InForce::begin(kit, site, policy, self.work, &self.cores)?;
        if policy != Policy::Standalone {
            begun(&mut in_force)?;
        }
        let mut round = Round::new();
        for (place, load) in self.loads.iter().copied().enumerate() {
            let rate = self.rate * f64::from(load) / 100.0;
            // The same calls for every policy of a round, after some that open connections.
            let mut random = number * self.loads.len() as u64 + place as u64;
            let warming = arrivals(rate, (rate * self.seconds / 10.0) as usize, 1, &mut random);
            generator.open_loop(&warming)?;
            let planned = arrivals(rate, ((rate * self.seconds) as usize).max(20), 1, &mut random);
            let before = Meter::read(site, &mut in_force)?;
            let outcome = generator.open_loop(&planned)?;
            let after = Meter::read(site, &mut in_force)?;
            let missed = outcome.refused + outcome.lost;
            round.push(after.since(&before, Quantiles::of(outcome.latency_us), missed, self.cores.len()));
        }
        in_force.end()?;
        Ok(round)
    }

    /// The secondary alone, whatever the load would be.
    fn alone(&mut self) -> anyhow::Result<Round> {
        self.site.rest()?;
        let mut in_force = InForce::begin(self.kit, &self.site, Policy::Nothing, self.work, &self.cores)?;
        begun(&mut in_force)?;
        let before = Meter::read(&self.site, &mut in_force)?;
        std::thread::sleep(Duration::from_secs_f64(self.seconds));
        let after = Meter::read(&self.site, &mut in_force)?;
        in_force.end()?;
        Ok(vec![after.since(&before, Quantiles::of([]), 0, self.cores.len()); self.loads.len()])
    }
}

/// Waits until the secondary is at work. One that is held back so much that it does nothing is measured as that.
fn begun(in_force: &mut InForce<'_>) -> anyhow::Result<()> {
    let (begin, first) = (Instant::now(), in_force.progress()?);
    while in_force.progress()? <= first && begin.elapsed() < BEGIN_MAX {
        std::thread::sleep(AGAIN);
    }
    Ok(())
}

impl Meter {
    fn read(site: &Site, in_force: &mut InForce<'_>) -> anyhow::Result<Self> {
        let progress = in_force.progress()?;
        let (progress, answered) =
            if site.bulk().is_some() { (site.bulk_seconds()?, progress) } else { (progress, 0.0) };
        Ok(Self {
            node_us: site.spent().context("the node's CPU time")?,
            cpu: Cpu::read()?,
            progress,
            answered,
            generator_s: thread_cpu_seconds(),
            at: Instant::now(),
        })
    }

    fn since(&self, before: &Self, latency_us: Quantiles, missed: u64, cores: usize) -> Window {
        let seconds = self.at.duration_since(before.at).as_secs_f64();
        let all = seconds * cores as f64;
        Window {
            latency_us,
            missed,
            node: (self.node_us - before.node_us) / 1e6 / all,
            generator: (self.generator_s - before.generator_s) / all,
            busy: self.cpu.busy_since(before.cpu),
            progress: (self.progress - before.progress) / seconds,
            answered: (self.answered - before.answered) / seconds,
        }
    }
}

type Quantile = (&'static str, fn(&Quantiles) -> f64);

const QUANTILES: [Quantile; 3] = [("p50", |of| of.p50), ("p99", |of| of.p99), ("p99.9", |of| of.p999)];

/// Which of the loads it is, and its per cent.
type Load = (usize, u32);

fn report_alone(row: &mut Row, series: &Series<Round>, (place, load): Load) {
    let standalone = Policy::Standalone.name();
    let of = |pick: fn(&Window) -> f64| series.of(&standalone, |round: &Round| pick(&round[place]));
    for (quantile, pick) in QUANTILES {
        let values = series.of(&standalone, |round: &Round| pick(&round[place].latency_us));
        row.measure(format!("{load} %, standalone: {quantile}"), "µs", values);
    }
    let per_cent = |part: Vec<f64>| part.into_iter().map(|part| part * 100.0).collect();
    row.measure(format!("{load} %, standalone: CPU of the node"), "%", per_cent(of(|window| window.node)));
    row.measure(
        format!("{load} %, standalone: CPU of the generator"),
        "%",
        per_cent(of(|window| window.generator)),
    );
    row.measure(format!("{load} %, standalone: CPU in use"), "%", per_cent(of(|window| window.busy)));
    let missed = total(of(|window| window.missed as f64));
    row.measure(format!("{load} %, standalone: refused or lost in all rounds"), "calls", missed);
}

/// The measures of a policy at a load; where the ratio of p99 and the part of the secondary's progress are in the row.
fn report(
    row: &mut Row,
    series: &Series<Round>,
    ((place, load), policy): (Load, Policy),
    work: Work,
) -> (usize, usize) {
    let (name, standalone) = (policy.name(), Policy::Standalone.name());
    let of = |name: &str, pick: fn(&Window) -> f64| series.of(name, |round: &Round| pick(&round[place]));
    let mut p99_ratio = 0;
    for (quantile, pick) in QUANTILES {
        let values = |name: &str| series.of(name, |round: &Round| pick(&round[place].latency_us));
        row.measure(format!("{load} %, {name}: {quantile}"), "µs", values(&name));
        row.ratio(format!("{load} %, {name}: {quantile} / standalone"), &values(&name), &values(&standalone));
        if quantile == "p99" {
            p99_ratio = row.measures.len() - 1;
        }
    }
    let missed = total(of(&name, |window| window.missed as f64));
    row.measure(format!("{load} %, {name}: refused or lost in all rounds"), "calls", missed);
    let busy = of(&name, |window| window.busy).into_iter().map(|part| part * 100.0).collect();
    row.measure(format!("{load} %, {name}: CPU in use"), "%", busy);
    let node = of(&name, |window| window.node).into_iter().map(|part| part * 100.0).collect();
    row.measure(format!("{load} %, {name}: CPU of the node"), "%", node);
    if work.example().is_some() {
        let answered = of(&name, |window| window.answered);
        row.measure(format!("{load} %, {name}: bulk calls answered"), "calls/s", answered);
    }
    let (ours, alone) = (of(&name, |window| window.progress), of(ALONE, |window| window.progress));
    let idle = of(&standalone, |window| 1.0 - window.node - window.generator);
    let (what, offered) = match work {
        // A disk is no part of what a core leaves idle.
        Work::Disk => ("progress / alone", alone),
        Work::Cpu | Work::Builds | Work::BulkGzip | Work::BulkImages => (
            "progress / alone on what was idle",
            alone.iter().zip(idle).map(|(alone, idle)| alone * idle).collect(),
        ),
    };
    row.measure(format!("{load} %, {name}: progress"), work.unit(), ours.clone());
    row.measure(format!("{load} %, {name}: {what}"), "", ratios(&ours, &offered));
    (p99_ratio, row.measures.len() - 1)
}

/// Nothing of a policy without rounds.
fn total(rounds: Vec<f64>) -> Vec<f64> {
    rounds.into_iter().reduce(|sum, more| sum + more).into_iter().collect()
}

/// Holds a policy against its aims, if it has some. Beside bulk calls there is none for what these get.
fn aim(row: &mut Row, workers: Workers, policy: Policy, (ratio, part): (usize, Option<usize>)) {
    let (most, least) = match (workers, policy) {
        (Workers::Parked, Policy::Of(NAMED)) => PARKED,
        (Workers::Polling, policy) if policy.mode() == Some(Mode::Blind) => POLLING,
        _ => return,
    };
    row.measures[ratio].aim(Bound::AtMost, most);
    if let Some(part) = part {
        row.measures[part].aim(Bound::AtLeast, least);
    }
}

#[cfg(test)]
mod tests;
