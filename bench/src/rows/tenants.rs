//! What it costs to give each tenant a pool of workers of its own: the same tenants and the same calls on a
//! node with pools per tenant and on one with a shared pool.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use anyhow::Context as _;

use super::{Lane, Plan, Series, alternate};
use crate::functions::Kind;
use crate::load::{Generator, Manner, arrivals};
use crate::report::{Bound, Row};
use crate::sides::Kit;
use crate::sides::mfaas::{BUDGET_US, Pools, Site, Tenant};
use crate::stats::Quantiles;
use crate::sys::memory::{Held, available_kib};

/// Tenants of one node, at most: twice as many as the row asks about.
pub const TENANTS_MAX: usize = 2_000;
/// Tenants of a full run.
const TENANTS: [usize; 3] = [1, 100, 1_000];
/// Tenants of a quick run: the second number is above what shared workers there are.
const TENANTS_QUICK: [usize; 2] = [1, 4];
/// From here on a tenant's cost is the node's cost by tenants, and the aims count.
const MANY: usize = 1_000;
/// p99 at a low load beside the shared pool's.
const P99_RATIO_MAX: f64 = 3.0;
const PARKED_KIB_MAX: f64 = 2_048.0;
/// What looking after parked pools may take, of one core: as much as a node that nobody calls.
const PARKED_PERCENT_MAX: f64 = 2.0;

/// Calls in flight while the node does as much as it can.
const CONNECTIONS: usize = 32;
/// Share of what the shared pool can do at which latency is taken.
const LOAD: f64 = 0.1;
/// Between two calls that each find everybody asleep.
const REST: Duration = Duration::from_millis(20);
/// A function that is not loaded yet is asked for again after this.
const AGAIN: Duration = Duration::from_millis(5);
/// From the start of a node until all of its tenants were called.
const FIRST_CALLS_MAX: Duration = Duration::from_secs(120);

/// One round of one node.
struct Round {
    /// Calls a second, as many as it can.
    rate: f64,
    /// At a tenth of what the shared pool can, in µs.
    low: Quantiles,
    /// Of calls to pools that sleep, in µs.
    parked: Quantiles,
    /// Of a call to a tenant that has no worker process, in µs.
    gone: f64,
    /// CPU time of all processes while nobody calls, of one core.
    percent: f64,
}

/// What it is, its unit, and where it is in a round.
type Figure = (&'static str, &'static str, fn(&Round) -> f64);

/// A node whose tenants were all called once and are at rest.
struct Ready {
    site: Site,
    tenants: usize,
    generator: Generator,
    /// Tenants that nobody has called yet: one for each round.
    fresh: std::ops::Range<usize>,
    memory: anyhow::Result<Held>,
    /// What the machine could give less after the first calls, in KiB.
    taken_kib: anyhow::Result<f64>,
    random: u64,
}

/// The row.
pub(super) fn row(kit: &Kit, plan: &Plan) -> anyhow::Result<Row> {
    let mut row =
        Row::new("tenants", "pools of their own for 1, 100 and 1,000 tenants, beside a shared pool");
    let sizes = match &*plan.tenants {
        [] => plan.size(&TENANTS[..], &TENANTS_QUICK[..]),
        sizes => sizes,
    };
    let mut alone = [None; 2];
    for tenants in sizes {
        if let Err(error) = measure(kit, plan, &mut row, *tenants, &mut alone) {
            row.missing(&counted(*tenants), &error);
        }
    }
    Ok(row)
}

fn counted(tenants: usize) -> String {
    if tenants == 1 { "1 tenant".to_owned() } else { format!("{tenants} tenants") }
}

/// Both nodes with so many tenants. `alone` is what nodes with one tenant hold.
fn measure(
    kit: &Kit,
    plan: &Plan,
    row: &mut Row,
    tenants: usize,
    alone: &mut [Option<Held>; 2],
) -> anyhow::Result<()> {
    let many = counted(tenants);
    let mut nodes = Vec::new();
    for (pools, alone) in Pools::ALL.into_iter().zip(alone) {
        let node = Ready::start(kit, plan, pools, tenants)
            .with_context(|| format!("a node with {}", pools.name()))?;
        row.side(pools.name(), node.site.protections());
        costs(row, pools, &node, alone);
        nodes.push(node);
    }
    let shared = nodes.last_mut().context("a node with a shared pool")?;
    let window = Duration::from_millis(plan.size(500, 50));
    let rate = LOAD * shared.generator.saturate(window, &mut shared.random)?;
    row.measure(format!("{many}: a tenth of what the shared pool can"), "calls/s", vec![rate]);
    let lanes = Pools::ALL.into_iter().zip(nodes).map(|(pools, mut node)| {
        let mut number = 0;
        Some(Lane::new(format!("{many}, {}", pools.name()), move || {
            number += 1;
            node.round(plan, rate, number)
        }))
    });
    let series = alternate(plan, row, lanes.collect());
    report(row, tenants, &series);
    Ok(())
}

impl Ready {
    fn start(kit: &Kit, plan: &Plan, pools: Pools, tenants: usize) -> anyhow::Result<Self> {
        // The first round is thrown away and needs one, too.
        let fresh = tenants..tenants + plan.rounds as usize + 1;
        let all: Vec<Tenant> = (0..fresh.end)
            .map(|number| Tenant::new(format!("tenant-{number}"), Kind::EMPTY, number, BUDGET_US))
            .collect();
        let site = Site::start(kit, pools, &all)?;
        let manner = Manner {
            source: Ipv4Addr::LOCALHOST,
            connections: CONNECTIONS,
            body_bytes: 0,
            reconnects: false,
        };
        let mut generator = Generator::new(site.address(), manner, site.targets().to_vec());
        let before = available_kib();
        let deadline = Instant::now() + FIRST_CALLS_MAX;
        for tenant in 0..tenants {
            while let Err(error) = generator.call(tenant) {
                if Instant::now() > deadline {
                    return Err(error);
                }
                std::thread::sleep(AGAIN);
            }
        }
        site.rest()?;
        site.verify_pools(tenants)?;
        let taken_kib = before.and_then(|before| Ok((before - available_kib()?).max(0.0)));
        let memory = site.memory();
        // From here on those that are called are those that were.
        let targets = site.targets()[..tenants].to_vec();
        let generator = Generator::new(site.address(), manner, targets);
        Ok(Self { site, tenants, generator, fresh, memory, taken_kib, random: 0 })
    }

    /// One round; the same calls for both kinds of pools.
    fn round(&mut self, plan: &Plan, rate: f64, number: u64) -> anyhow::Result<Round> {
        self.random = number;
        self.generator.disconnect();
        let window = Duration::from_millis(plan.size(500, 50));
        let most = self.generator.saturate(window, &mut self.random)?;
        let calls = (rate as usize).clamp(plan.size(1_000, 20), plan.size(10_000, 40));
        let planned = arrivals(rate, calls, self.tenants, &mut self.random);
        let outcome = self.generator.open_loop(&planned)?;
        self.site.rest()?;
        let percent = self.site.percent(Duration::from_millis(plan.size(500, 50)))?;
        let parked = (0..plan.size(50, 3))
            .map(|call| {
                std::thread::sleep(REST);
                self.generator.call((number as usize * 50 + call) % self.tenants)
            })
            .collect::<anyhow::Result<Vec<f64>>>()?;
        Ok(Round {
            rate: most,
            low: Quantiles::of(outcome.latency_us),
            parked: Quantiles::of(parked),
            gone: self.first_call()?,
            percent,
        })
    }

    /// The first call of a tenant that nobody has called.
    fn first_call(&mut self) -> anyhow::Result<f64> {
        let tenant = self.fresh.next().context("no tenant is left that nobody has called")?;
        let target = self.site.targets()[tenant].clone();
        let manner = Manner { source: Ipv4Addr::LOCALHOST, connections: 1, body_bytes: 0, reconnects: false };
        Generator::new(self.site.address(), manner, vec![target]).call(0)
    }
}

/// What tenants at rest hold.
fn costs(row: &mut Row, pools: Pools, node: &Ready, alone: &mut Option<Held>) {
    let (many, name) = (counted(node.tenants), pools.name());
    match &node.memory {
        Ok(held) if node.tenants == 1 => {
            *alone = Some(*held);
            row.measure(format!("{many}, {name}: all processes"), "KiB", vec![held.total()]);
        }
        Ok(held) => by_tenant(row, pools, node.tenants, *held, *alone),
        Err(error) => row.missing(&format!("{many}, {name}: memory"), error),
    }
    match &node.taken_kib {
        Ok(taken) => {
            let taken = vec![taken / node.tenants as f64];
            row.measure(format!("{many}, {name}: gone from the machine, by tenant"), "KiB", taken);
        }
        Err(error) => row.missing(&format!("{many}, {name}: gone from the machine"), error),
    }
}

/// The difference to a node with one tenant, by the others.
fn by_tenant(row: &mut Row, pools: Pools, tenants: usize, held: Held, alone: Option<Held>) {
    let (many, name) = (counted(tenants), pools.name());
    let what = format!("{many}, {name}: a parked tenant");
    let Some(alone) = alone else {
        return row.missing(&what, &anyhow::anyhow!("there was no node with one tenant to compare with"));
    };
    let more = (tenants - 1) as f64;
    let each = |part: fn(Held) -> f64| vec![(part(held) - part(alone)) / more];
    let whole = row.measure(what.clone(), "KiB", each(Held::total));
    if pools == Pools::PerTenant {
        whole.aim(Bound::AtMost, PARKED_KIB_MAX);
    }
    for (name, part) in Held::PARTS {
        row.measure(format!("{what}: {name}"), "KiB", each(part));
    }
}

fn report(row: &mut Row, tenants: usize, series: &Series<Round>) {
    let many = counted(tenants);
    let of = |pools: Pools, pick: fn(&Round) -> f64| series.of(&format!("{many}, {}", pools.name()), pick);
    let figures: [Figure; 8] = [
        ("calls a second", "calls/s", |round| round.rate),
        ("p50 at 10 %", "µs", |round| round.low.p50),
        ("p99 at 10 %", "µs", |round| round.low.p99),
        ("p50 of a call that wakes a pool", "µs", |round| round.parked.p50),
        ("p99 of a call that wakes a pool", "µs", |round| round.parked.p99),
        ("a tenant's first call", "µs", |round| round.gone),
        ("CPU time while nobody calls, of one core", "%", |round| round.percent),
        ("p99.9 at 10 %", "µs", |round| round.low.p999),
    ];
    for (what, unit, pick) in figures {
        for pools in Pools::ALL {
            let rounds = of(pools, pick);
            let measure = row.measure(format!("{many}, {}: {what}", pools.name()), unit, rounds);
            if unit == "%" {
                measure.aim(Bound::AtMost, PARKED_PERCENT_MAX);
            }
        }
    }
    let both = |pick: fn(&Round) -> f64| (of(Pools::PerTenant, pick), of(Pools::Shared, pick));
    let (own, shared) = both(|round| round.rate);
    row.ratio(format!("{many}: calls a second, pools per tenant / shared pool"), &own, &shared);
    let (own, shared) = both(|round| round.low.p50);
    let p50 = row.ratio(format!("{many}: p50 at 10 %, pools per tenant / shared pool"), &own, &shared);
    if tenants == 1 {
        // Who is alone shares with nobody in either.
        p50.not_slower();
    }
    let (own, shared) = both(|round| round.low.p99);
    let p99 = row.ratio(format!("{many}: p99 at 10 %, pools per tenant / shared pool"), &own, &shared);
    if tenants >= MANY {
        p99.aim(Bound::AtMost, P99_RATIO_MAX);
    }
}
