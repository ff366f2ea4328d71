//! A tenant at a low load beside one that takes what it can, both through the ingress, on a node with pools
//! per tenant and on one with a shared pool.
//!
//! Within a round the victim makes the same calls twice, alone and beside the attacker, from an address of
//! its own. Its latency counts from the planned time, and a call that is refused or lost took for ever.
//! Beside the same attacker it then makes the same calls to a [`Relay`], which has nothing to do with the node: what it waits
//! there, no node can spare it.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;

use super::{Lane, Plan, Series, alternate};
use crate::functions::Kind;
use crate::load::{Crowd, Generator, Manner, Relay, Tally, arrivals};
use crate::report::{Bound, Row};
use crate::sides::Kit;
use crate::sides::mfaas::{BUDGET_US, Pools, Site, Tenant};
use crate::stats::Quantiles;
use crate::sys::{pin, pin_to};

/// p99 beside the attacker with pools per tenant, by p99 alone.
const P99_RATIO_MAX: f64 = 2.0;
/// With a shared pool: the longest call that is allowed there, in µs.
const SHARED_CALL_US_MAX: u64 = 100_000;
/// The longest call that is allowed at all, in µs.
const CALL_US_MAX: u64 = 10_000_000;

const VICTIM: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const ATTACKER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);
/// What one call of the victim computes, in µs.
const VICTIM_US: f64 = 100.0;
/// Share of what the victim can do alone at which it calls.
const LOAD: f64 = 0.1;
/// The victim's calls in flight, at most: enough for its load while each waits as long as the longest call.
const VICTIM_CONNECTIONS: usize = 128;
/// Calls in flight while it is measured what the victim can do alone.
const FULL_CONNECTIONS: usize = 16;
/// The attacker gets so long to reach its full rate, and longer, but not without an end, until it has got
/// anything at all and holds what it wants to hold.
const RAMP: Duration = Duration::from_millis(300);
const RAMP_MAX: Duration = Duration::from_secs(5);
/// Where the kernel's queue of new connections is full, a client takes one for open before the node can. The
/// kernel tries again after a second (tcp_synack_retries, tcp(7)).
const LATECOMERS: Duration = Duration::from_millis(1_500);
/// Tenants that were called once and are not again. They tell pools per tenant from a shared pool.
const BYSTANDERS: usize = 3;
/// A function that is not loaded yet is asked for again after this, and not for longer than that.
const AGAIN: Duration = Duration::from_millis(5);
const FIRST_CALLS_MAX: Duration = Duration::from_secs(30);
/// The attacker's own computing is no work of the node's: it yields to everything (setpriority(2)).
const NICE: i32 = 19;

/// One way to take from others.
pub(super) struct Attack {
    name: &'static str,
    title: &'static str,
    does: Does,
    /// What the attacker's function does.
    function: Work,
    budget_us: u64,
    /// Bytes of each body of the victim, who must not be one whom the attack cannot reach.
    victim_bytes: usize,
    /// Whether the victim comes with a new connection for each call, for the same reason.
    victim_reconnects: bool,
    /// What the attacker's rate counts, and how many of them are in one answer.
    unit: (&'static str, f64),
}

enum Does {
    /// Calls without a pause: how many at once, of how many bytes each.
    Calls(usize, usize),
    /// So many bodies that come byte by byte.
    SlowBodies(usize),
    /// So many connections without a request.
    Connections(usize),
}

enum Work {
    Empty,
    BusyMicros(f64),
    LogLines(u64),
}

/// Lines of one call: what a node takes of it.
const LINES: u64 = 200;
/// The largest body that a node takes.
const BODY_BYTES: usize = 1 << 20;

const PLAIN: Attack = Attack {
    name: "calls",
    title: "an attacker with 64 calls in flight at any time, which return at once",
    does: Does::Calls(64, 0),
    function: Work::Empty,
    budget_us: BUDGET_US,
    victim_bytes: 0,
    victim_reconnects: false,
    unit: ("calls/s", 1.0),
};
pub(super) const CALLS: Attack = PLAIN;
pub(super) const LONG_CALLS: Attack = Attack {
    name: "long-calls",
    title: "16 calls in flight of 80 ms each, the longest that a shared pool takes (budget 100 ms)",
    does: Does::Calls(16, 0),
    function: Work::BusyMicros(80_000.0),
    budget_us: SHARED_CALL_US_MAX,
    ..PLAIN
};
pub(super) const LONGEST_CALLS: Attack = Attack {
    name: "longest-calls",
    title: "four calls in flight of a second each, with the longest budget that there is (10 s)",
    does: Does::Calls(4, 0),
    function: Work::BusyMicros(1e6),
    budget_us: CALL_US_MAX,
    ..PLAIN
};
pub(super) const LOG_LINES: Attack = Attack {
    name: "log-lines",
    title: "64 calls in flight, each of which writes 200 lines into the log",
    function: Work::LogLines(LINES),
    unit: ("lines/s", LINES as f64),
    ..PLAIN
};
pub(super) const LARGE_BODIES: Attack = Attack {
    name: "large-bodies",
    title: "64 calls in flight with 1 MiB each, beside a victim with 32 KiB each",
    does: Does::Calls(64, BODY_BYTES),
    victim_bytes: 32 << 10,
    unit: ("MiB/s", BODY_BYTES as f64 / (1 << 20) as f64),
    ..PLAIN
};
pub(super) const SLOW_BODIES: Attack = Attack {
    name: "slow-bodies",
    title: "1,100 bodies without an end, a byte a second each, beside a victim with 32 KiB a call",
    does: Does::SlowBodies(1_100),
    victim_bytes: 32 << 10,
    ..PLAIN
};
pub(super) const CONNECTIONS: Attack = Attack {
    name: "connections",
    title: "2,100 connections without a request, beside a victim with a new connection for each call",
    does: Does::Connections(2_100),
    victim_reconnects: true,
    ..PLAIN
};

/// One round of one node.
struct Round {
    alone: Side,
    beside: Side,
    /// The same calls to the relay, beside the attacker of the node.
    relay: Side,
    /// What the attacker got a second: answers, or connections that it holds.
    attack: f64,
    /// What the node refused it a second, or closed.
    refused: f64,
}

/// The victim's calls of one window.
struct Side {
    latency_us: Quantiles,
    answered: u64,
    refused: u64,
    lost: u64,
}

/// The row of one attack.
pub(super) fn row(kit: &Kit, plan: &Plan, attack: &Attack) -> anyhow::Result<Row> {
    let mut row = Row::new(attack.name, attack.title);
    pin(kit.cores.worker)?;
    let victim = Kind::busy_micros(VICTIM_US, kit.tsc);
    let attacker = attack.function.kind(kit);
    pin(kit.cores.caller)?;
    let mut scenes = Vec::new();
    for pools in Pools::ALL {
        let scene = Scene::start(kit, pools, attack, victim, attacker)
            .with_context(|| format!("a node with {}", pools.name()))?;
        row.side(pools.name(), scene.site.protections());
        scenes.push(scene);
    }
    // One rate for both: a tenth of the lower.
    let window = Duration::from_millis(plan.size(1_000, 100));
    let most = scenes.iter_mut().map(|scene| scene.most(window)).collect::<anyhow::Result<Vec<f64>>>()?;
    let rate = LOAD * most.into_iter().fold(f64::INFINITY, f64::min);
    row.measure("victim: a tenth of what it can alone", "calls/s", vec![rate]);
    let lanes = Pools::ALL.into_iter().zip(scenes).map(|(pools, mut scene)| {
        let mut number = 0;
        Some(Lane::new(pools.name(), move || {
            number += 1;
            scene.round(kit, plan, rate, number)
        }))
    });
    let series = alternate(plan, &mut row, lanes.collect());
    for pools in Pools::ALL {
        report(&mut row, attack, pools, &series);
    }
    Ok(row)
}

impl Work {
    fn kind(&self, kit: &Kit) -> Kind {
        match self {
            Self::Empty => Kind::EMPTY,
            Self::BusyMicros(micros) => Kind::busy_micros(*micros, kit.tsc),
            Self::LogLines(lines) => Kind::log(*lines),
        }
    }
}

/// A node with both tenants.
struct Scene<'a> {
    site: Site,
    attack: &'a Attack,
    victim: Generator,
    /// The victim, where it calls the relay.
    relayed: Generator,
    _relay: Relay,
}

impl<'a> Scene<'a> {
    fn start(
        kit: &Kit,
        pools: Pools,
        attack: &'a Attack,
        victim: Kind,
        attacker: Kind,
    ) -> anyhow::Result<Self> {
        let mut tenants = vec![
            Tenant::new("victim", victim, 0, BUDGET_US),
            Tenant::new("attacker", attacker, 1, attack.budget_us),
        ];
        tenants
            .extend((0..BYSTANDERS).map(|number| {
                Tenant::new(format!("bystander-{number}"), Kind::EMPTY, 2 + number, BUDGET_US)
            }));
        let site = Site::start(kit, pools, &tenants)?;
        let manner = Manner {
            source: VICTIM,
            connections: VICTIM_CONNECTIONS,
            body_bytes: attack.victim_bytes,
            reconnects: attack.victim_reconnects,
        };
        let mut all = Generator::new(site.address(), manner, site.targets().to_vec());
        let deadline = Instant::now() + FIRST_CALLS_MAX;
        for tenant in 0..tenants.len() {
            while let Err(error) = all.call(tenant) {
                if Instant::now() > deadline {
                    return Err(error);
                }
                std::thread::sleep(AGAIN);
            }
        }
        site.verify_pools(tenants.len())?;
        let target = &site.targets()[..1];
        let victim = Generator::new(site.address(), manner, target.to_vec());
        let relay = Relay::start(target[0].constants, &[kit.cores.caller, kit.cores.worker])?;
        let relayed = Generator::new(relay.address(), manner, target.to_vec());
        Ok(Self { site, attack, victim, relayed, _relay: relay })
    }

    /// What the victim can do alone, in calls a second.
    fn most(&mut self, window: Duration) -> anyhow::Result<f64> {
        let manner =
            Manner { source: VICTIM, connections: FULL_CONNECTIONS, body_bytes: 0, reconnects: false };
        let targets = self.site.targets()[..1].to_vec();
        Generator::new(self.site.address(), manner, targets).saturate(window, &mut 0)
    }

    /// The victim alone, then beside the attacker.
    fn round(&mut self, kit: &Kit, plan: &Plan, rate: f64, number: u64) -> anyhow::Result<Round> {
        self.site.rest()?;
        self.victim.disconnect();
        self.relayed.disconnect();
        let seconds = plan.size(1.5, 0.2);
        let calls = ((rate * seconds) as usize).max(plan.size(200, 20));
        let mut random = number;
        let planned = arrivals(rate, calls, 1, &mut random);
        let alone = Side::of(self.victim.open_loop(&planned)?);
        let (stop, tally) = (AtomicBool::new(false), Tally::default());
        let (server, path) = (self.site.address(), self.site.targets()[1].clone());
        std::thread::scope(|scope| {
            let attacking = scope.spawn(|| self.attack.run(kit, server, path, &stop, &tally));
            let ramp = Instant::now();
            std::thread::sleep(RAMP);
            while !self.attack.is_at_work(&tally.counts()) && ramp.elapsed() < RAMP_MAX {
                std::thread::sleep(AGAIN);
            }
            if self.attack.holds() {
                std::thread::sleep(LATECOMERS);
            }
            let (begin, before) = (Instant::now(), tally.counts());
            let beside = self.victim.open_loop(&planned);
            let (after, seconds) = (tally.counts(), begin.elapsed().as_secs_f64());
            let relay = self.relayed.open_loop(&planned);
            stop.store(true, Ordering::Relaxed);
            let attacked = attacking.join().map_err(|_| anyhow::anyhow!("the attacker panicked"));
            attacked??;
            let each = |count: fn(&Counts) -> u64| (count(&after) - count(&before)) as f64 / seconds;
            let attack = if self.attack.holds() { after.held as f64 } else { each(|c| c.answered) };
            let (beside, relay) = (Side::of(beside?), Side::of(relay?));
            Ok(Round { alone, beside, relay, attack, refused: each(|counts| counts.refused) })
        })
    }
}

/// A [`Tally`] at one moment.
struct Counts {
    answered: u64,
    refused: u64,
    held: u64,
}

impl Tally {
    fn counts(&self) -> Counts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts { answered: read(&self.answered), refused: read(&self.refused), held: read(&self.held) }
    }
}

impl Attack {
    /// Whether it holds connections instead of asking for answers.
    fn holds(&self) -> bool {
        !matches!(self.does, Does::Calls(..))
    }

    fn is_at_work(&self, counts: &Counts) -> bool {
        match self.does {
            Does::Calls(..) => counts.answered + counts.refused > 0,
            Does::SlowBodies(connections) | Does::Connections(connections) => {
                counts.refused > 0 || counts.held >= connections as u64
            }
        }
    }

    /// Attacks until `stop`.
    fn run(
        &self,
        kit: &Kit,
        server: std::net::SocketAddr,
        target: crate::sides::mfaas::Target,
        stop: &AtomicBool,
        tally: &Tally,
    ) -> anyhow::Result<()> {
        pin_to(&[kit.cores.caller, kit.cores.worker])?;
        // Of this thread alone, as Linux has it.
        rustix::process::setpriority_process(None, NICE).context("lower the attacker's priority")?;
        match self.does {
            Does::Calls(connections, body_bytes) => {
                let manner = Manner { source: ATTACKER, connections, body_bytes, reconnects: false };
                Generator::new(server, manner, vec![target]).flood(stop, tally, &mut 0)?;
            }
            Does::SlowBodies(connections) => {
                Crowd::slow(server, ATTACKER, connections, &target.path).hold(stop, tally);
            }
            Does::Connections(connections) => Crowd::idle(server, ATTACKER, connections).hold(stop, tally),
        }
        Ok(())
    }
}

impl Side {
    fn missed(&self) -> f64 {
        (self.refused + self.lost) as f64
    }

    fn of(outcome: crate::load::Outcome) -> Self {
        Self {
            latency_us: Quantiles::of(outcome.latency_us),
            answered: outcome.answered,
            refused: outcome.refused,
            lost: outcome.lost,
        }
    }
}

fn report(row: &mut Row, attack: &Attack, pools: Pools, series: &Series<Round>) {
    let name = pools.name();
    let of = |pick: fn(&Round) -> f64| series.of(name, pick);
    let (alone, beside) = (of(|round| round.alone.latency_us.p99), of(|round| round.beside.latency_us.p99));
    row.measure(format!("{name}: victim alone p50"), "µs", of(|round| round.alone.latency_us.p50));
    row.measure(format!("{name}: victim alone p99"), "µs", alone.clone());
    row.measure(format!("{name}: victim beside p50"), "µs", of(|round| round.beside.latency_us.p50));
    let p99 = row.measure(format!("{name}: victim beside p99"), "µs", beside.clone());
    if pools == Pools::Shared {
        p99.aim(Bound::AtMost, SHARED_CALL_US_MAX as f64);
    }
    let ratio = row.ratio(format!("{name}: victim p99 beside / alone"), &beside, &alone);
    if pools == Pools::PerTenant {
        ratio.aim(Bound::AtMost, P99_RATIO_MAX);
    }
    let relay = of(|round| round.relay.latency_us.p99);
    row.measure(format!("{name}: victim of a relay beside p99"), "µs", relay.clone());
    row.ratio(format!("{name}: relay's p99 beside / victim's alone"), &relay, &alone);
    row.ratio(format!("{name}: victim's p99 beside / relay's"), &beside, &relay);
    let answered = of(|round| round.beside.answered as f64);
    row.measure(format!("{name}: victim's calls answered in a round"), "calls", answered.clone());
    let fewest = answered.into_iter().fold(f64::NAN, f64::min);
    row.measure(format!("{name}: fewest of them"), "calls", vec![fewest]).aim(Bound::AtLeast, 1.0);
    let all = |pick: fn(&Round) -> f64| vec![of(pick).into_iter().sum()];
    row.measure(format!("{name}: refused in all rounds"), "calls", all(|r| r.beside.refused as f64));
    row.measure(format!("{name}: lost in all rounds"), "calls", all(|round| round.beside.lost as f64));
    row.measure(format!("{name}: refused or lost alone"), "calls", all(|round| round.alone.missed()));
    let (unit, each) = if attack.holds() { ("held", 1.0) } else { attack.unit };
    let attacks = of(|round| round.attack).into_iter().map(|count| count * each).collect();
    row.measure(format!("{name}: attacker"), unit, attacks);
    row.measure(format!("{name}: attacker refused"), "1/s", of(|round| round.refused));
}
