#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod bulk;
mod check;
mod fairness;

mod loans;
mod pools;
mod residency;
mod simulation;
mod strikes;
mod suspended;
mod world;

use mfaas_ident::Budget;

use super::{
    Command, Commands, FunctionId, JobId, KillReason, Limits, Loaded, Misuse, Moment, Outcome, PoolKey,
    PoolKind, Refusal, Residency, Scheduler, SlabId, TenantId, WorkerId,
};

const LIMITS: Limits = Limits {
    waiting_max: 4,
    waiting_per_tenant: 3,
    wait_us_max: 100_000,
    suspended_max: 4,
    suspended_per_tenant: 3,
    call_us_max: 400_000,
    in_worker_max: 3,
    pipeline_budget_us_max: 200,
    backstop_factor: 2,
    backstop_slack_us: 100,
    crashes_before_ban: 2,
    tenant_crashes_before_ban: 6,
    crash_window_us: 1_000_000,
    suspect_us: 300_000,
    resident_bytes_max: 100,
    functions_max: 64,
    tenants_max: 64,
    pools_max: 64,
    shared_workers: 1,
    cores: 2,
    workers_max: 8,
    grow_after_us: 2_000,
    surplus_idle_us: 10_000_000,
    parked_idle_us: 60_000_000,
};
/// After a worker fell its pool waits so long for the next, in microseconds.
const PAUSE: u64 = 20_000;
const SLAB: SlabId = SlabId { number: 0, life: 0 };

/// A function of 10 bytes with the default budget of a millisecond.
fn function(tenant: u32) -> Loaded {
    Loaded {
        tenant: TenantId(tenant),
        pool: PoolKey::SHARED,
        budget: Budget::DEFAULT,
        idempotent: false,
        bytes: 10,
        residency: Residency::Preloaded,
    }
}

/// The same in the pool of its tenant.
fn own(tenant: u32) -> Loaded {
    Loaded { pool: PoolKey { slab: tenant, kind: PoolKind::Short }, ..function(tenant) }
}

/// Defines a function and lets its image be loaded at once, into the slot of its own number.
fn define(scheduler: &mut Scheduler, number: u32, tenant: u32) {
    define_as(scheduler, number, function(tenant));
}

fn define_as(scheduler: &mut Scheduler, number: u32, loaded: Loaded) {
    let mut commands = Commands::new();
    scheduler.define(FunctionId(number), loaded, &mut commands).unwrap();
    assert!(matches!(commands[..], [Command::Load { .. }]), "{commands:?}");
    complete_loads(scheduler, 0, &commands);
}

/// Loads each image into the slot of its function's number.
fn complete_loads(scheduler: &mut Scheduler, at: u64, commands: &[Command]) -> Commands {
    let mut after = Commands::new();
    for command in commands {
        if let Command::Load { function, slab } = *command {
            scheduler.loaded(Moment(at), function, slab, function.0, 10, &mut after);
        }
    }
    after
}

fn worker(place: u16, life: u32) -> WorkerId {
    WorkerId { place, life }
}

/// Ticks, and lets every worker that was asked for be ready at once; what followed.
fn man(scheduler: &mut Scheduler, at: u64) -> Commands {
    let commands = tick(scheduler, at);
    let ready = ready(scheduler, at, &commands);
    commands.into_iter().chain(ready).collect()
}

/// Every worker that was asked for is ready.
fn ready(scheduler: &mut Scheduler, at: u64, commands: &[Command]) -> Commands {
    let mut after = Commands::new();
    for command in commands {
        if let Command::Spawn { worker, slab, .. } = *command {
            scheduler.worker_ready(Moment(at), worker, slab, &mut after).unwrap();
        }
    }
    after
}

fn with<T>(step: impl FnOnce(&mut Commands) -> T) -> Commands {
    let mut commands = Commands::new();
    drop(step(&mut commands));
    commands
}

/// Functions 1 and 2 of tenants 1 and 2, and that many shared workers, each in its first life.
fn serving(workers: usize) -> Scheduler {
    let mut scheduler = shared(Limits { shared_workers: workers, ..LIMITS });
    define(&mut scheduler, 1, 1);
    define(&mut scheduler, 2, 2);
    scheduler
}

/// No functions, and the shared workers of the limits.
fn shared(limits: Limits) -> Scheduler {
    let mut scheduler = Scheduler::new(limits);
    assert_eq!(man(&mut scheduler, 0).len(), limits.shared_workers);
    scheduler
}

fn submit(scheduler: &mut Scheduler, at: u64, number: u32) -> (JobId, Commands) {
    let mut commands = Commands::new();
    let job = scheduler.submit(Moment(at), FunctionId(number), None, &mut commands).unwrap();
    (job, commands)
}

fn refused(scheduler: &mut Scheduler, at: u64, number: u32) -> Refusal {
    scheduler.submit(Moment(at), FunctionId(number), None, &mut Commands::new()).unwrap_err()
}

fn completed(scheduler: &mut Scheduler, at: u64, place: u16, job: JobId) -> Commands {
    completed_by(scheduler, at, worker(place, 1), job)
}

fn completed_by(scheduler: &mut Scheduler, at: u64, worker: WorkerId, job: JobId) -> Commands {
    with(|commands| scheduler.completed(Moment(at), worker, job, 1_000, false, commands))
}

fn died(scheduler: &mut Scheduler, at: u64, place: u16, life: u32) -> Commands {
    with(|commands| scheduler.worker_died(Moment(at), worker(place, life), commands))
}

/// Traps stand in a slot of the shared slab.
fn unloaded(scheduler: &mut Scheduler, slot: u32) -> Commands {
    with(|commands| scheduler.unloaded(SLAB, slot, commands))
}

fn tick(scheduler: &mut Scheduler, at: u64) -> Commands {
    with(|commands| scheduler.tick(Moment(at), commands))
}

fn start(place: u16, job: JobId, slot: u32) -> Command {
    Command::Start { worker: worker(place, 1), job, slot }
}

/// Who was started, and where.
fn starts(commands: &[Command]) -> Vec<(WorkerId, JobId)> {
    let start = |command: &Command| match command {
        Command::Start { worker, job, .. } => Some((*worker, *job)),
        _ => None,
    };
    commands.iter().filter_map(start).collect()
}

/// Who was asked for.
fn spawns(commands: &[Command]) -> Vec<(WorkerId, PoolKey)> {
    let spawn = |command: &Command| match command {
        Command::Spawn { worker, pool, .. } => Some((*worker, *pool)),
        _ => None,
    };
    commands.iter().filter_map(spawn).collect()
}

fn answers(commands: &[Command]) -> Vec<(JobId, Outcome)> {
    let answer = |command: &Command| match command {
        Command::Answer { job, outcome } => Some((*job, *outcome)),
        _ => None,
    };
    commands.iter().filter_map(answer).collect()
}

#[test]
fn calls_go_to_the_worker_that_worked_least() {
    let mut scheduler = serving(2);
    let (first, commands) = submit(&mut scheduler, 0, 1);
    assert_eq!(commands, [start(0, first, 1)]);
    let done = [Command::Answer { job: first, outcome: Outcome::Finished }];
    assert_eq!(completed(&mut scheduler, 50, 0, first), done);
    let (second, commands) = submit(&mut scheduler, 60, 2);
    assert_eq!(commands, [start(1, second, 2)]);
}

#[test]
fn what_is_not_defined_or_retired_or_stopped_is_refused() {
    let mut scheduler = serving(1);
    assert_eq!(refused(&mut scheduler, 0, 9), Refusal::NotServed);
    let (job, _) = submit(&mut scheduler, 0, 1);
    assert!(with(|commands| scheduler.retire(FunctionId(1), commands)).is_empty(), "a call needs it");
    assert_eq!(refused(&mut scheduler, 1, 1), Refusal::NotServed);
    let commands = completed(&mut scheduler, 2, 0, job);
    let unload = Command::Unload { function: FunctionId(1), slot: 1, slab: SLAB };
    assert_eq!(commands, [Command::Answer { job, outcome: Outcome::Finished }, unload]);
    assert_eq!(unloaded(&mut scheduler, 1), [Command::Reclaim { slot: 1, slab: SLAB }]);
    scheduler.stop(&mut Commands::new());
    assert_eq!(refused(&mut scheduler, 4, 2), Refusal::NotServing);
    assert!(scheduler.is_idle());
}

#[test]
fn queues_are_bounded_by_tenant_and_in_total() {
    let mut scheduler = serving(1);
    submit(&mut scheduler, 0, 1);
    for _ in 0..3 {
        submit(&mut scheduler, 0, 1);
    }
    let full = Refusal::QueueFull { retry_after_s: 1 };
    assert_eq!(refused(&mut scheduler, 0, 1), full, "the tenant's share is 3");
    submit(&mut scheduler, 0, 2);
    assert_eq!(refused(&mut scheduler, 0, 2), full, "the node's is 4");
}

#[test]
fn short_calls_stand_behind_each_other_in_a_worker_and_long_ones_do_not() {
    let mut scheduler = shared(LIMITS);
    let short = Loaded { budget: Budget::from_micros(80).unwrap(), ..function(1) };
    define_as(&mut scheduler, 1, short);
    define(&mut scheduler, 2, 2);
    let (first, commands) = submit(&mut scheduler, 0, 1);
    assert_eq!(commands, [start(0, first, 1)]);
    let (second, commands) = submit(&mut scheduler, 0, 1);
    assert_eq!(commands, [start(0, second, 1)]);
    let (long, commands) = submit(&mut scheduler, 0, 2);
    assert_eq!(commands, [start(0, long, 2)], "160 µs stand before it");
    let (waits, commands) = submit(&mut scheduler, 0, 1);
    assert!(commands.is_empty(), "three are in the worker");
    assert_eq!(completed(&mut scheduler, 10, 0, first).len(), 1, "a millisecond would stand before it");
    assert_eq!(completed(&mut scheduler, 20, 0, second).len(), 1);
    assert_eq!(completed(&mut scheduler, 30, 0, long)[1], start(0, waits, 1));
}

#[test]
fn with_several_workers_nobody_is_put_behind_another_while_one_idles() {
    let mut scheduler = shared(Limits { shared_workers: 2, ..LIMITS });
    define_as(&mut scheduler, 1, Loaded { budget: Budget::from_micros(80).unwrap(), ..function(1) });
    let places = (0..4).map(|_| match submit(&mut scheduler, 0, 1).1[0] {
        Command::Start { worker, .. } => worker.place,
        other => panic!("{other:?}"),
    });
    assert_eq!(places.collect::<Vec<_>>(), [0, 1, 0, 1]);
}

#[test]
fn tenants_take_turns() {
    let mut scheduler = serving(1);
    let (running, _) = submit(&mut scheduler, 0, 1);
    let (own, _) = submit(&mut scheduler, 0, 1);
    submit(&mut scheduler, 0, 1);
    let (other, _) = submit(&mut scheduler, 0, 2);
    assert_eq!(completed(&mut scheduler, 400, 0, running)[1], start(0, other, 2), "1 had its turn");
    assert_eq!(completed(&mut scheduler, 600, 0, other)[1], start(0, own, 1), "2 had less");
}

#[test]
fn a_dead_worker_loses_its_job_once_and_the_queue_waits_for_the_replacement() {
    let mut scheduler = serving(1);
    let (lost, _) = submit(&mut scheduler, 0, 1);
    let (waits, _) = submit(&mut scheduler, 0, 2);
    assert_eq!(answers(&died(&mut scheduler, 5, 0, 1)), [(lost, Outcome::Lost)]);
    assert!(died(&mut scheduler, 6, 0, 1).is_empty());
    assert!(completed(&mut scheduler, 7, 0, lost).is_empty(), "the dead say nothing");
    assert!(tick(&mut scheduler, PAUSE - 2_000).is_empty());
    let spawn = Command::Spawn { worker: worker(0, 2), pool: PoolKey::SHARED, slab: SLAB };
    let start = Command::Start { worker: worker(0, 2), job: waits, slot: 2 };
    assert_eq!(man(&mut scheduler, 5 + PAUSE), [spawn, start]);
    for unknown in [worker(0, 2), worker(0, 3), worker(1, 1)] {
        let taken = scheduler.worker_ready(Moment(50_000), unknown, SLAB, &mut Commands::new());
        assert_eq!(taken, Err(Misuse::NotExpected(unknown)));
    }
}

#[test]
fn what_a_dead_worker_had_completed_counts_and_nothing_is_given_to_it_meanwhile() {
    let mut scheduler = serving(1);
    let (done, _) = submit(&mut scheduler, 0, 1);
    let (waits, _) = submit(&mut scheduler, 0, 2);
    scheduler.worker_dying(worker(0, 1));
    let commands = completed(&mut scheduler, 1, 0, done);
    assert_eq!((answers(&commands).len(), starts(&commands).len()), (1, 0));
    assert_eq!(spawns(&commands), [(worker(1, 1), PoolKey::SHARED)], "what waits needs another");
    assert!(died(&mut scheduler, 2, 0, 1).is_empty());
    assert_eq!(scheduler.snapshot().crashes, 0, "it died with nothing on its core");
    assert_eq!(starts(&ready(&mut scheduler, 3, &commands)), [(worker(1, 1), waits)]);
}

#[test]
fn what_may_run_twice_is_run_again_once() {
    let mut scheduler = shared(LIMITS);
    let twice = Loaded { budget: Budget::from_micros(50).unwrap(), idempotent: true, ..function(1) };
    define_as(&mut scheduler, 1, twice);
    let (first, _) = submit(&mut scheduler, 0, 1);
    let (behind, _) = submit(&mut scheduler, 0, 1);
    assert_eq!(answers(&died(&mut scheduler, 1, 0, 1)), []);
    assert_eq!(starts(&man(&mut scheduler, 1 + PAUSE)), [(worker(0, 2), first), (worker(0, 2), behind)]);
    let commands = died(&mut scheduler, 2 + PAUSE, 0, 2);
    assert_eq!(answers(&commands), [(first, Outcome::Lost), (behind, Outcome::Lost)]);
}

#[test]
fn the_wall_backstop_kills_the_worker_and_then_answers() {
    let mut scheduler = serving(1);
    let (job, _) = submit(&mut scheduler, 0, 1);
    assert!(tick(&mut scheduler, 2_099).is_empty());
    assert_eq!(scheduler.next_deadline(), Some(Moment(2_100)));
    let kill = Command::Kill { worker: worker(0, 1), reason: KillReason::Overdue };
    assert_eq!(tick(&mut scheduler, 2_100)[0], kill);
    assert!(!tick(&mut scheduler, 2_200).contains(&kill), "one kill is enough");
    assert_eq!(answers(&died(&mut scheduler, 2_300, 0, 1)), [(job, Outcome::Overdue)]);
}

#[test]
fn what_waits_is_answered_at_the_waiting_limit_or_the_callers_deadline() {
    let mut scheduler = shared(Limits { wait_us_max: 1_000, ..LIMITS });
    define(&mut scheduler, 1, 1);
    define(&mut scheduler, 2, 2);
    let (running, _) = submit(&mut scheduler, 0, 1);
    let (waits, _) = submit(&mut scheduler, 1_500, 1);
    let mut commands = Commands::new();
    let late = scheduler.submit(Moment(1_500), FunctionId(2), Some(Moment(1_700)), &mut commands).unwrap();
    assert!(tick(&mut scheduler, 1_699).is_empty());
    assert_eq!(scheduler.next_deadline(), Some(Moment(1_700)));
    assert_eq!(answers(&tick(&mut scheduler, 1_700)), [(late, Outcome::DeadlinePassed)]);
    let done = completed(&mut scheduler, 2_600, 0, running);
    assert_eq!(answers(&done)[1..], [(waits, Outcome::WaitedTooLong)]);
    let past = scheduler.submit(Moment(3_000), FunctionId(2), Some(Moment(3_000)), &mut commands);
    assert_eq!(past, Err(Refusal::DeadlinePassed));
    assert!(scheduler.is_idle());
    assert_eq!(scheduler.next_deadline(), None, "an idle node sleeps");
}

#[test]
fn a_worker_that_answers_for_another_job_is_killed_and_not_believed() {
    let mut scheduler = serving(2);
    let (first, _) = submit(&mut scheduler, 0, 1);
    let (second, _) = submit(&mut scheduler, 0, 2);
    let commands = completed(&mut scheduler, 1, 0, second);
    assert_eq!(commands, [Command::Kill { worker: worker(0, 1), reason: KillReason::Violation }]);
    assert_eq!(answers(&died(&mut scheduler, 2, 0, 1)), [(first, Outcome::Lost)]);
    assert_eq!(answers(&completed(&mut scheduler, 3, 1, second)), [(second, Outcome::Finished)]);
}

#[test]
fn a_stopping_node_drains_and_loses_what_nobody_can_run() {
    let mut scheduler = serving(1);
    let (running, _) = submit(&mut scheduler, 0, 1);
    let (waits, _) = submit(&mut scheduler, 0, 2);
    assert!(with(|out| scheduler.stop(out)).is_empty(), "a worker is there");
    let commands = died(&mut scheduler, 2, 0, 1);
    assert_eq!(answers(&commands), [(running, Outcome::Lost), (waits, Outcome::Lost)]);
    assert!(scheduler.is_idle());
}

#[test]
fn a_stopping_node_waits_for_workers_that_are_being_started() {
    let mut scheduler = shared(LIMITS);
    define_as(&mut scheduler, 3, own(3));
    define_as(&mut scheduler, 4, own(4));
    let (runs, spawn) = submit(&mut scheduler, 0, 3);
    let (lost, other) = submit(&mut scheduler, 0, 4);
    assert!(with(|out| scheduler.stop(out)).is_empty(), "both are on their way");
    assert_eq!(starts(&ready(&mut scheduler, 1, &spawn)).len(), 1);
    let (failed, _) = spawns(&other)[0];
    let commands = with(|out| scheduler.worker_died(Moment(2), failed, out));
    assert_eq!(answers(&commands), [(lost, Outcome::Lost)], "nobody else comes");
    let (place, _) = spawns(&spawn)[0];
    assert_eq!(answers(&completed_by(&mut scheduler, 3, place, runs)), [(runs, Outcome::Finished)]);
    assert!(scheduler.is_idle());
}
