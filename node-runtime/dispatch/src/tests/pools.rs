//! How many workers each pool has, and who makes room for whom.

use super::*;

fn pool(tenant: u32) -> PoolKey {
    own(tenant).pool
}

/// One function of its own for each tenant from 1 on, with the tenant's number.
fn tenants(limits: Limits, count: u32) -> Scheduler {
    let mut scheduler = Scheduler::new(Limits { shared_workers: 0, resident_bytes_max: 10_000, ..limits });
    (1..=count).for_each(|tenant| define_as(&mut scheduler, tenant, own(tenant)));
    scheduler
}

/// Asks for a call and for the worker that it needs; who runs it.
fn call(scheduler: &mut Scheduler, at: u64, number: u32) -> (WorkerId, JobId) {
    let (job, mut commands) = submit(scheduler, at, number);
    commands.extend(ready(scheduler, at, &commands.clone()));
    starts(&commands).into_iter().find(|(_, started)| *started == job).unwrap()
}

fn leave(scheduler: &mut Scheduler, at: u64, commands: &[Command]) -> Commands {
    let mut after = Commands::new();
    for command in commands {
        if let Command::Stop { worker } = *command {
            scheduler.worker_died(Moment(at), worker, &mut after);
        }
    }
    after
}

#[test]
fn the_shared_workers_are_there_from_the_first_tick_and_always() {
    let mut scheduler = Scheduler::new(Limits { shared_workers: 2, ..LIMITS });
    assert_eq!(scheduler.next_deadline(), Some(Moment(0)));
    let commands = tick(&mut scheduler, 0);
    assert_eq!(spawns(&commands), [(worker(0, 1), PoolKey::SHARED), (worker(1, 1), PoolKey::SHARED)]);
    ready(&mut scheduler, 0, &commands);
    assert_eq!(scheduler.next_deadline(), None);
    died(&mut scheduler, 5, 1, 1);
    assert_eq!(spawns(&man(&mut scheduler, 5 + PAUSE)), [(worker(1, 2), PoolKey::SHARED)]);
    assert!(tick(&mut scheduler, 3_600_000_000).is_empty(), "they stay without a call");
}

#[test]
fn a_pool_gets_a_worker_with_its_first_call_and_loses_it_after_it_was_idle() {
    let mut scheduler = tenants(LIMITS, 1);
    assert!(tick(&mut scheduler, 0).is_empty(), "nobody called");
    let (id, job) = call(&mut scheduler, 0, 1);
    completed_by(&mut scheduler, 10, id, job);
    let mut at = 10;
    let commands = loop {
        let next = scheduler.next_deadline().expect("it is looked at again").0;
        assert!(next > at, "and not without a pause");
        at = next;
        let commands = tick(&mut scheduler, at);
        if !commands.is_empty() {
            break commands;
        }
    };
    assert!((60_000_010..66_000_000).contains(&at), "{at}");
    assert_eq!(commands, [Command::Stop { worker: id }]);
    leave(&mut scheduler, at, &commands);
    assert_eq!(scheduler.snapshot().processes, 0);
    assert_eq!(spawns(&submit(&mut scheduler, at + 1, 1).1).len(), 1);
}

#[test]
fn a_pool_without_functions_loses_its_workers_after_the_last_call() {
    let mut scheduler = tenants(LIMITS, 1);
    let (id, job) = call(&mut scheduler, 0, 1);
    with(|out| scheduler.retire(FunctionId(1), out));
    assert!(tick(&mut scheduler, 2_000).is_empty(), "its last call runs");
    completed_by(&mut scheduler, 2_010, id, job);
    let next = scheduler.next_deadline().unwrap();
    assert_eq!(tick(&mut scheduler, next.0), [Command::Stop { worker: id }]);
}

#[test]
fn a_function_that_moves_out_of_a_pool_keeps_no_workers_there() {
    let mut scheduler = tenants(LIMITS, 1);
    let (id, job) = call(&mut scheduler, 0, 1);
    completed_by(&mut scheduler, 10, id, job);
    let long = Loaded { pool: PoolKey { kind: PoolKind::Long, ..pool(1) }, ..own(1) };
    with(|out| scheduler.define(FunctionId(1), long, out).unwrap());
    assert_eq!(tick(&mut scheduler, 11), [Command::Stop { worker: id }]);
    assert_eq!(spawns(&submit(&mut scheduler, 12, 1).1)[0].1, long.pool);
}

#[test]
fn a_pool_grows_when_calls_have_waited() {
    let mut scheduler = tenants(LIMITS, 1);
    call(&mut scheduler, 0, 1);
    let (waits, commands) = submit(&mut scheduler, 1_000, 1);
    assert!(commands.is_empty());
    assert!(tick(&mut scheduler, 2_050).is_empty(), "it may still be taken");
    let commands = tick(&mut scheduler, 3_100);
    let grown = commands.iter().filter(|command| matches!(command, Command::Spawn { .. })).count();
    assert_eq!(grown, 1);
    assert!(spawns(&tick(&mut scheduler, 4_200)).is_empty(), "one is coming");
    assert_eq!(starts(&ready(&mut scheduler, 4_300, &commands))[0].1, waits);
}

#[test]
fn cores_are_shared_by_the_pools_that_have_calls() {
    let limits = Limits { waiting_max: 20, waiting_per_tenant: 10, wait_us_max: 1_000_000, ..LIMITS };
    let limits = Limits { backstop_slack_us: 1_000_000, cores: 3, ..limits };
    let mut scheduler = tenants(limits, 2);
    for (at, running) in [(0, 1), (10_000, 2), (20_000, 3), (30_000, 3)] {
        let (_, commands) = submit(&mut scheduler, at, 1);
        ready(&mut scheduler, at, &commands);
        man(&mut scheduler, at + 5_000);
        assert_eq!(scheduler.pools[0].busy(), running);
    }
    assert_eq!((scheduler.pools[0].busy(), scheduler.pools[0].queued()), (3, 1), "it has all three");
    let (other, job) = call(&mut scheduler, 40_000, 2);
    let busy: Vec<_> = scheduler.workers.busy().iter().map(|place| scheduler.workers[*place]).collect();
    assert_eq!(busy.len(), 4, "what runs is not interrupted");
    let mut done = 0;
    for place in 0..3 {
        let index = scheduler.workers[place].first().unwrap();
        let id = worker(place, 1);
        let first = scheduler.jobs.get(index).id;
        done += starts(&completed_by(&mut scheduler, 40_100, id, first)).len();
    }
    assert_eq!(done, 1, "3 cores for 2 pools: one call each, and the last that waits runs");
    for at in [50_000, 50_001] {
        submit(&mut scheduler, at, 1);
    }
    assert_eq!(scheduler.pools[0].queued(), 2);
    completed_by(&mut scheduler, 50_100, other, job);
    assert_eq!(starts(&tick(&mut scheduler, 52_000)).len(), 2, "the other fell quiet");
}

#[test]
fn the_longest_idle_leaves_for_who_waits_longest_and_nobody_is_refused() {
    let mut scheduler = tenants(Limits { workers_max: 2, ..LIMITS }, 4);
    for (at, tenant) in [(0, 1), (100, 2)] {
        let (id, job) = call(&mut scheduler, at, tenant);
        completed_by(&mut scheduler, at + 10, id, job);
    }
    let (third, commands) = submit(&mut scheduler, 200, 3);
    assert!(commands.is_empty());
    let (fourth, commands) = submit(&mut scheduler, 210, 4);
    assert!(commands.is_empty());
    let stops = tick(&mut scheduler, 1_500);
    assert_eq!(stops, [Command::Stop { worker: worker(0, 1) }, Command::Stop { worker: worker(1, 1) }]);
    assert!(tick(&mut scheduler, 3_000).is_empty(), "no others must go");
    let first = leave(&mut scheduler, 3_100, &stops[..1]);
    assert_eq!(spawns(&first), [(worker(0, 2), pool(3))], "first come first served");
    let second = leave(&mut scheduler, 3_200, &stops[1..]);
    assert_eq!(spawns(&second), [(worker(1, 2), pool(4))]);
    assert_eq!(starts(&ready(&mut scheduler, 3_300, &first))[0].1, third);
    assert_eq!(starts(&ready(&mut scheduler, 3_300, &second))[0].1, fourth);
}

#[test]
fn nobody_leaves_for_a_pool_that_does_not_wait_any_more() {
    let mut scheduler = tenants(Limits { workers_max: 1, wait_us_max: 500, ..LIMITS }, 2);
    let (id, job) = call(&mut scheduler, 0, 1);
    submit(&mut scheduler, 10, 2);
    completed_by(&mut scheduler, 20, id, job);
    let commands = tick(&mut scheduler, 2_000);
    assert_eq!(answers(&commands).len(), 1, "it waited too long");
    assert_eq!(commands.len(), 1, "{commands:?}");
    assert_eq!(scheduler.pools.waiting_for_room(), 0);
}

#[test]
fn everybody_progresses_with_more_tenants_than_workers_that_never_pause() {
    const TENANTS: u32 = 6;
    let limits = Limits { waiting_max: 100, wait_us_max: 10_000_000, workers_max: 2, ..LIMITS };
    let mut scheduler = tenants(limits, TENANTS);
    let mut served = [0_u64; TENANTS as usize + 1];
    let mut commands = Commands::new();
    let mut running: Vec<(WorkerId, JobId)> = Vec::new();
    for at in (0..8_000_000).step_by(500) {
        for tenant in 1..=TENANTS {
            // Two calls of each are always there.
            while scheduler.functions[tenant].open < 2 {
                scheduler
                    .submit(Moment(at), FunctionId(tenant), None, &mut commands)
                    .expect("nobody is refused");
            }
        }
        scheduler.tick(Moment(at), &mut commands);
        for (id, job) in std::mem::take(&mut running) {
            scheduler.completed(Moment(at), id, job, 500, false, &mut commands);
        }
        while !commands.is_empty() {
            let now = std::mem::take(&mut commands);
            running.extend(starts(&now));
            commands.extend(leave(&mut scheduler, at, &now));
            commands.extend(ready(&mut scheduler, at, &now));
            for (job, _) in answers(&now) {
                assert!(running.iter().all(|(_, other)| *other != job));
            }
        }
        for (id, _) in &running {
            let tenant = scheduler.pools[scheduler.workers[id.place].pool].key.slab;
            served[tenant as usize] += 1;
        }
        check::check(&scheduler, Moment(at));
    }
    let (least, most) = (served[1..].iter().min().unwrap(), served[1..].iter().max().unwrap());
    assert!(*least * 5 > *most * 4, "{served:?}");
}

#[test]
fn a_start_that_fails_is_tried_again_after_growing_pauses() {
    let mut scheduler = tenants(Limits { wait_us_max: 60_000_000, ..LIMITS }, 1);
    let (_, mut commands) = submit(&mut scheduler, 0, 1);
    let (mut at, mut pauses) = (0, Vec::new());
    for _ in 0..12 {
        let (id, _) = spawns(&commands)[0];
        let failed = at;
        commands = with(|out| scheduler.worker_died(Moment(at), id, out));
        while spawns(&commands).is_empty() {
            at = scheduler.next_deadline().unwrap().0.max(at + 1);
            commands = tick(&mut scheduler, at);
        }
        pauses.push(at - failed);
    }
    assert!(pauses.is_sorted() && pauses[0] >= PAUSE && pauses[0] < 2 * PAUSE, "{pauses:?}");
    assert!((5_000_000..5_002_000).contains(pauses.last().unwrap()), "{pauses:?}");
    assert_eq!(starts(&ready(&mut scheduler, at, &commands)).len(), 1, "it recovers");
    let (id, _) = spawns(&commands)[0];
    // One that lived long fell by chance.
    with(|out| scheduler.worker_died(Moment(at + 11_000_000), id, out));
    submit(&mut scheduler, at + 11_000_000, 1);
    assert_eq!(spawns(&tick(&mut scheduler, at + 11_000_000 + PAUSE)).len(), 1);
}

#[test]
fn a_worker_that_misbehaves_before_it_is_ready_is_replaced() {
    let mut scheduler = tenants(LIMITS, 1);
    let (job, commands) = submit(&mut scheduler, 0, 1);
    let (id, _) = spawns(&commands)[0];
    let kill = with(|out| scheduler.violated(id, out));
    assert_eq!(kill, [Command::Kill { worker: id, reason: KillReason::Violation }]);
    with(|out| scheduler.worker_died(Moment(1), id, out));
    let commands = man(&mut scheduler, 10 + PAUSE);
    assert_eq!(starts(&commands).into_iter().map(|(_, started)| started).collect::<Vec<_>>(), [job]);
}
