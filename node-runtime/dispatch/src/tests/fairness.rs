//! Shares of tenants of a shared pool, against bounds that are too simple to be wrong.

use std::collections::BTreeMap;

use super::check::check;
use super::simulation::Dice;
use super::*;
use crate::turns::QUANTUM_US;

/// Workers that run until their time is over, and tenants that always have calls waiting.
struct Shop {
    scheduler: Scheduler,
    commands: Commands,
    at: u64,
    /// What each worker runs and when it ends.
    running: BTreeMap<u16, (JobId, u32, u64, u64)>,
    tenant_of: BTreeMap<JobId, u32>,
    used_us: BTreeMap<u32, u64>,
}

impl Shop {
    fn new(workers: usize, tenants: u32, limits: Limits) -> Self {
        let limits =
            Limits { waiting_per_tenant: 40, waiting_max: 10_000, resident_bytes_max: 10_000, ..limits };
        let limits = Limits { wait_us_max: u64::MAX, in_worker_max: 1, backstop_slack_us: 1 << 40, ..limits };
        let mut scheduler = shared(Limits { shared_workers: workers, workers_max: workers, ..limits });
        (0..tenants).for_each(|tenant| define(&mut scheduler, tenant, tenant));
        let (commands, running) = (Commands::new(), BTreeMap::new());
        Self { scheduler, commands, at: 0, running, tenant_of: BTreeMap::new(), used_us: BTreeMap::new() }
    }

    fn submit(&mut self, tenant: u32, cost: impl FnMut(u32) -> u64) {
        let job =
            self.scheduler.submit(Moment(self.at), FunctionId(tenant), None, &mut self.commands).unwrap();
        self.tenant_of.insert(job, tenant);
        self.begin(cost);
    }

    /// What was started runs for as long as a call of its tenant takes.
    fn begin(&mut self, mut cost: impl FnMut(u32) -> u64) {
        for (id, job) in starts(&std::mem::take(&mut self.commands)) {
            let tenant = self.tenant_of[&job];
            let took = cost(tenant);
            assert!(self.running.insert(id.place, (job, tenant, self.at + took, took)).is_none());
        }
    }

    /// The next call that ends.
    fn finish(&mut self, cost: impl FnMut(u32) -> u64) -> u32 {
        let next = self.running.iter().min_by_key(|(_, (_, _, end, _))| *end);
        let (place, (job, tenant, end, took)) = next.map(|(place, run)| (*place, *run)).unwrap();
        self.running.remove(&place);
        self.at = end;
        self.tenant_of.remove(&job);
        *self.used_us.entry(tenant).or_default() += took;
        self.scheduler.completed(Moment(end), worker(place, 1), job, took, false, &mut self.commands);
        self.begin(cost);
        tenant
    }

    fn waiting(&self, tenant: u32) -> usize {
        let of_it = |place: &u16| self.running[place].1 == tenant;
        self.scheduler.functions[tenant].open as usize
            - self.running.keys().filter(|place| of_it(place)).count()
    }
}

#[test]
fn calls_of_100_ms_and_of_10_us_get_the_same_cpu_time_within_a_minute() {
    let cost = |tenant: u32| if tenant == 0 { 100_000 } else { 10 };
    for (workers, until) in [(1, 60_000_000), (2, 20_000_000), (4, 10_000_000)] {
        let mut shop = Shop::new(workers, 2, LIMITS);
        while shop.at < until {
            for tenant in 0..2 {
                while shop.waiting(tenant) < 8 {
                    shop.submit(tenant, cost);
                }
            }
            shop.finish(cost);
        }
        let (long, short) = (shop.used_us[&0], shop.used_us[&1]);
        assert!(long.abs_diff(short) * 100 < long.max(short) * 3, "{workers} workers: {long} and {short}");
        assert!((long + short) * 100 > until * workers as u64 * 97, "and nothing was idle");
    }
}

/// Among those who wait all the time nobody is behind by more than a turn and the calls in flight.
#[test]
fn nobody_who_waits_is_behind_by_more_than_a_turn_and_what_is_in_flight() {
    const TENANTS: u32 = 40;
    let mut dice = Dice(11);
    // Shares are compared with one worker: with more, the rule of the last worker comes before them.
    let mut shop = Shop::new(1, TENANTS, LIMITS);
    let costs: Vec<u64> = (0..TENANTS).map(|_| 1 + dice.below(5_000)).collect();
    let longest = *costs.iter().max().unwrap();
    let mut cost = |tenant: u32| costs[tenant as usize] / 2 + dice.below(costs[tenant as usize] + 1) / 2;
    for step in 0..60_000 {
        for tenant in 0..TENANTS {
            while shop.waiting(tenant) < 2 {
                shop.submit(tenant, &mut cost);
            }
        }
        if step == 0 {
            shop.used_us = (0..TENANTS).map(|tenant| (tenant, 0)).collect();
        }
        shop.finish(&mut cost);
        let (least, most) = (shop.used_us.values().min().unwrap(), shop.used_us.values().max().unwrap());
        assert!(most - least <= 2 * (QUANTUM_US + longest), "step {step}: {:?}", shop.used_us);
    }
    check(&shop.scheduler, Moment(shop.at));
}

#[test]
fn what_was_used_while_nobody_waited_is_not_held_against_a_tenant() {
    let cost = |_| 1_000;
    let mut shop = Shop::new(1, 3, LIMITS);
    for _ in 0..10_000 {
        shop.submit(0, cost);
        shop.finish(cost);
    }
    // Then both want all there is.
    shop.used_us.clear();
    for _ in 0..100 {
        for tenant in 0..2 {
            while shop.waiting(tenant) < 2 {
                shop.submit(tenant, cost);
            }
        }
        shop.finish(cost);
    }
    assert!(shop.used_us[&0].abs_diff(shop.used_us[&1]) <= 2_000, "{:?}", shop.used_us);
    // And one who comes back after the others used much owes nothing and is owed nothing.
    for _ in 0..10_000 {
        for tenant in 1..3 {
            while shop.waiting(tenant) < 2 {
                shop.submit(tenant, cost);
            }
        }
        shop.finish(cost);
    }
    shop.used_us.clear();
    for _ in 0..99 {
        for tenant in 0..3 {
            while shop.waiting(tenant) < 2 {
                shop.submit(tenant, cost);
            }
        }
        shop.finish(cost);
    }
    assert!(shop.used_us.values().all(|used| (31_000..=35_000).contains(used)), "{:?}", shop.used_us);
}

#[test]
fn a_tenant_leaves_one_worker_to_the_others_while_they_wait() {
    let mut scheduler = serving(3);
    let mut define_more = |number| define(&mut scheduler, number, 3);
    define_more(3);
    for _ in 0..3 {
        assert_eq!(submit(&mut scheduler, 0, 1).1.len(), 1, "who waits alone may have all");
    }
    let (own, _) = submit(&mut scheduler, 1, 1);
    let (other, _) = submit(&mut scheduler, 1, 2);
    let done = |scheduler: &mut Scheduler, place: u16, at| {
        let index = scheduler.workers[place].first().unwrap();
        let job = scheduler.jobs.get(index).id;
        let commands = with(|out| scheduler.completed(Moment(at), worker(place, 1), job, 1, false, out));
        starts(&commands)
    };
    assert_eq!(done(&mut scheduler, 0, 2), [(worker(0, 1), other)], "1 has two others");
    assert_eq!(done(&mut scheduler, 1, 3), [(worker(1, 1), own)]);
    check(&scheduler, Moment(3));
}

#[test]
fn completions_that_are_received_together_are_charged_one_by_one() {
    let mut scheduler = shared(Limits { in_worker_max: 3, ..LIMITS });
    let short = Loaded { budget: Budget::from_micros(50).unwrap(), ..function(1) };
    define_as(&mut scheduler, 1, short);
    let jobs: Vec<JobId> = (0..3).map(|_| submit(&mut scheduler, 0, 1).0).collect();
    for job in jobs {
        with(|out| scheduler.completed(Moment(120), worker(0, 1), job, 50, false, out));
    }
    assert_eq!(scheduler.queues[0].used_us(), 120, "not more than the time that passed, and not less");
}
