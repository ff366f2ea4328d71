#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod check;
mod fairness;
mod simulation;

use mfaas_ident::Budget;

use super::{
    Command, Commands, FunctionId, JobId, KillReason, Limits, Loaded, Misuse, Moment, Outcome, PoolId,
    Refusal, Residency, Scheduler, SlabId, Standing, TenantId, WorkerId,
};

const LIMITS: Limits = Limits {
    waiting_max: 4,
    waiting_per_tenant: 3,
    wait_us_max: 1_000,
    in_worker_max: 3,
    pipeline_budget_us_max: 200,
    backstop_factor: 2,
    backstop_slack_us: 100,
    crashes_before_ban: 2,
    crash_window_us: 10_000,
    resident_bytes_max: 100,
    functions_max: 64,
    tenants_max: 64,
    pools_max: 4,
    park_after_us: 500,
};

/// A function of 10 bytes with the default budget of a millisecond.
fn function(tenant: u32) -> Loaded {
    Loaded {
        tenant: TenantId(tenant),
        pool: PoolId::SHARED,
        budget: Budget::DEFAULT,
        idempotent: false,
        bytes: 10,
        residency: Residency::Preloaded,
    }
}

/// Defines a function and lets its image be loaded at once, into the slot of its own number.
fn define(scheduler: &mut Scheduler, number: u32, tenant: u32) {
    define_as(scheduler, number, function(tenant));
}

fn define_as(scheduler: &mut Scheduler, number: u32, loaded: Loaded) {
    let mut commands = Commands::new();
    scheduler.define(FunctionId(number), loaded, &mut commands).unwrap();
    assert_eq!(commands, [Command::Load { function: FunctionId(number), slab: SlabId(0) }]);
    load(scheduler, 0, number);
}

fn load(scheduler: &mut Scheduler, at: u64, number: u32) -> Commands {
    let slab = scheduler.slab;
    with(|commands| scheduler.loaded(Moment(at), FunctionId(number), slab, number, 10, commands))
}

fn worker(place: u16, life: u32) -> WorkerId {
    WorkerId { place, life }
}

fn ready(scheduler: &mut Scheduler, at: u64, place: u16, life: u32) -> Commands {
    let slab = scheduler.slab;
    with(|commands| {
        scheduler.worker_ready(Moment(at), worker(place, life), PoolId::SHARED, slab, commands).unwrap();
    })
}

fn with(step: impl FnOnce(&mut Commands)) -> Commands {
    let mut commands = Commands::new();
    step(&mut commands);
    commands
}

/// Functions 1 and 2 of tenants 1 and 2, and that many workers, each in its first life.
fn serving(workers: u16) -> Scheduler {
    let mut scheduler = Scheduler::new(LIMITS);
    define(&mut scheduler, 1, 1);
    define(&mut scheduler, 2, 2);
    (0..workers).for_each(|place| drop(ready(&mut scheduler, 0, place, 1)));
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
    with(|commands| scheduler.completed(Moment(at), worker(place, 1), job, false, commands))
}

fn died(scheduler: &mut Scheduler, at: u64, place: u16, life: u32) -> Commands {
    with(|commands| scheduler.worker_died(Moment(at), worker(place, life), commands))
}

fn tick(scheduler: &mut Scheduler, at: u64) -> Commands {
    with(|commands| scheduler.tick(Moment(at), commands))
}

fn start(place: u16, job: JobId, slot: u32) -> Command {
    Command::Start { worker: worker(place, 1), job, slot }
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
    let unload = Command::Unload { function: FunctionId(1), slot: 1, slab: SlabId(0) };
    assert_eq!(commands, [Command::Answer { job, outcome: Outcome::Finished }, unload]);
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
    let mut scheduler = Scheduler::new(LIMITS);
    let short = Loaded { budget: Budget::from_micros(80).unwrap(), ..function(1) };
    define_as(&mut scheduler, 1, short);
    define(&mut scheduler, 2, 2);
    ready(&mut scheduler, 0, 0, 1);
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
    let mut scheduler = Scheduler::new(LIMITS);
    define_as(&mut scheduler, 1, Loaded { budget: Budget::from_micros(80).unwrap(), ..function(1) });
    (0..2).for_each(|place| drop(ready(&mut scheduler, 0, place, 1)));
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
    assert_eq!(completed(&mut scheduler, 1, 0, running)[1], start(0, own, 1));
    assert_eq!(completed(&mut scheduler, 2, 0, own)[1], start(0, other, 2));
}

#[test]
fn a_dead_worker_loses_its_job_once_and_the_queue_waits_for_the_replacement() {
    let mut scheduler = serving(1);
    let (lost, _) = submit(&mut scheduler, 0, 1);
    let (waits, _) = submit(&mut scheduler, 0, 2);
    assert_eq!(answers(&died(&mut scheduler, 5, 0, 1)), [(lost, Outcome::Lost)]);
    assert!(died(&mut scheduler, 6, 0, 1).is_empty());
    assert!(completed(&mut scheduler, 7, 0, lost).is_empty(), "the dead say nothing");
    let commands = ready(&mut scheduler, 8, 0, 2);
    assert_eq!(commands, [Command::Start { worker: worker(0, 2), job: waits, slot: 2 }]);
    let taken = scheduler.worker_ready(Moment(9), worker(0, 3), PoolId(0), SlabId(0), &mut Commands::new());
    assert_eq!(taken, Err(Misuse::PlaceTaken(0)));
}

#[test]
fn what_a_dead_worker_had_completed_counts_and_nothing_is_given_to_it_meanwhile() {
    let mut scheduler = serving(1);
    let (done, _) = submit(&mut scheduler, 0, 1);
    let (waits, _) = submit(&mut scheduler, 0, 2);
    scheduler.worker_dying(worker(0, 1));
    assert_eq!(completed(&mut scheduler, 1, 0, done).len(), 1, "the answer and no start");
    assert!(died(&mut scheduler, 2, 0, 1).is_empty());
    assert_eq!(scheduler.snapshot().crashes, 0, "it died with nothing on its core");
    let commands = ready(&mut scheduler, 3, 0, 2);
    assert_eq!(commands, [Command::Start { worker: worker(0, 2), job: waits, slot: 2 }]);
}

#[test]
fn what_may_run_twice_is_run_again_alone_once() {
    let mut scheduler = Scheduler::new(LIMITS);
    let twice = Loaded { budget: Budget::from_micros(50).unwrap(), idempotent: true, ..function(1) };
    define_as(&mut scheduler, 1, twice);
    define_as(&mut scheduler, 2, Loaded { idempotent: false, ..twice });
    ready(&mut scheduler, 0, 0, 1);
    let (suspect, _) = submit(&mut scheduler, 0, 1);
    let (once, _) = submit(&mut scheduler, 0, 2);
    let (behind, _) = submit(&mut scheduler, 0, 1);
    assert_eq!(answers(&died(&mut scheduler, 1, 0, 1)), [(once, Outcome::Lost)]);
    let commands = ready(&mut scheduler, 2, 0, 2);
    assert_eq!(
        commands,
        [Command::Start { worker: worker(0, 2), job: suspect, slot: 1 }],
        "and nothing more"
    );
    let (waits, commands) = submit(&mut scheduler, 3, 2);
    assert!(commands.is_empty(), "nothing stands behind a suspect");
    let commands = died(&mut scheduler, 4, 0, 2);
    let ban = Command::Ban { function: FunctionId(1), crashes: 2 };
    assert!(commands.contains(&ban));
    let mut ended = answers(&commands);
    ended.sort_unstable_by_key(|(job, _)| *job);
    assert_eq!(ended, [(suspect, Outcome::Lost), (behind, Outcome::Banned)]);
    let commands = ready(&mut scheduler, 5, 0, 3);
    assert_eq!(commands, [Command::Start { worker: worker(0, 3), job: waits, slot: 2 }]);
}

#[test]
fn the_wall_backstop_kills_the_worker_and_then_answers() {
    let mut scheduler = serving(1);
    let (job, _) = submit(&mut scheduler, 0, 1);
    assert!(tick(&mut scheduler, 2_099).is_empty());
    assert_eq!(scheduler.next_deadline(), Some(Moment(2_100)));
    let kill = Command::Kill { worker: worker(0, 1), reason: KillReason::Overdue };
    assert_eq!(tick(&mut scheduler, 2_100), [kill]);
    assert!(tick(&mut scheduler, 2_200).is_empty(), "one kill is enough");
    assert_eq!(answers(&died(&mut scheduler, 2_300, 0, 1)), [(job, Outcome::Overdue)]);
    assert_eq!(scheduler.next_deadline(), None);
}

#[test]
fn what_waits_is_answered_at_the_waiting_limit_or_the_callers_deadline() {
    let mut scheduler = serving(1);
    let (running, _) = submit(&mut scheduler, 0, 1);
    let (waits, _) = submit(&mut scheduler, 1_500, 1);
    let mut commands = Commands::new();
    let late = scheduler.submit(Moment(1_500), FunctionId(2), Some(Moment(1_700)), &mut commands).unwrap();
    assert_eq!(scheduler.next_deadline(), Some(Moment(1_700)));
    assert!(tick(&mut scheduler, 1_699).is_empty());
    assert_eq!(answers(&tick(&mut scheduler, 1_700)), [(late, Outcome::DeadlinePassed)]);
    assert_eq!(scheduler.next_deadline(), Some(Moment(2_100)), "the backstop of what runs");
    assert_eq!(
        answers(&completed(&mut scheduler, 2_600, 0, running))[1..],
        [(waits, Outcome::WaitedTooLong)]
    );
    let past = scheduler.submit(Moment(3_000), FunctionId(2), Some(Moment(3_000)), &mut commands);
    assert_eq!(past, Err(Refusal::DeadlinePassed));
    assert!(scheduler.is_idle());
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
fn a_function_on_the_core_in_repeated_crashes_is_banned_until_it_is_lifted() {
    let mut scheduler = serving(1);
    submit(&mut scheduler, 0, 1);
    died(&mut scheduler, 1, 0, 1);
    ready(&mut scheduler, 2, 0, 2);
    submit(&mut scheduler, 3, 1);
    let (waits, _) = submit(&mut scheduler, 3, 1);
    let (innocent, _) = submit(&mut scheduler, 3, 2);
    let commands = died(&mut scheduler, 4, 0, 2);
    assert!(commands.contains(&Command::Ban { function: FunctionId(1), crashes: 2 }));
    assert!(answers(&commands).contains(&(waits, Outcome::Banned)));
    assert_eq!(refused(&mut scheduler, 5, 1), Refusal::Banned { crashes: 2 });
    let commands = ready(&mut scheduler, 6, 0, 3);
    assert_eq!(commands, [Command::Start { worker: worker(0, 3), job: innocent, slot: 2 }]);
    assert_eq!(scheduler.banned().collect::<Vec<_>>(), [(FunctionId(1), 2)]);
    scheduler.lift(FunctionId(1));
    submit(&mut scheduler, 7, 1);
}

#[test]
fn a_ban_from_outside_counts_before_the_function_is_known() {
    let mut scheduler = Scheduler::new(LIMITS);
    scheduler.ban(FunctionId(3), 5, &mut Commands::new()).unwrap();
    define(&mut scheduler, 3, 1);
    assert_eq!(refused(&mut scheduler, 1, 3), Refusal::Banned { crashes: 5 });
    let beyond = scheduler.ban(FunctionId(64), 5, &mut Commands::new()).unwrap_err();
    assert_eq!(beyond, Misuse::TooMany { what: "function", number: 64, limit: 64 });
}

#[test]
fn crashes_far_apart_and_spent_budgets_do_not_add_up() {
    let mut scheduler = serving(1);
    for (life, at) in [(1, 0), (2, 20_000), (3, 40_000)] {
        submit(&mut scheduler, at, 1);
        died(&mut scheduler, at + 1, 0, life);
        ready(&mut scheduler, at + 2, 0, life + 1);
    }
    for at in 50_000..50_010 {
        let (job, _) = submit(&mut scheduler, at, 1);
        scheduler.completed(Moment(at), worker(0, 4), job, true, &mut Commands::new());
    }
    assert_eq!(scheduler.banned().count(), 0);
    assert_eq!((scheduler.snapshot().kills, scheduler.snapshot().crashes), (10, 3));
}

#[test]
fn a_cold_function_is_loaded_with_its_first_call() {
    let mut scheduler = serving(1);
    let cold = Loaded { residency: Residency::OnDemand, ..function(3) };
    assert!(with(|commands| scheduler.define(FunctionId(3), cold, commands).unwrap()).is_empty());
    let (first, commands) = submit(&mut scheduler, 0, 3);
    assert_eq!(commands, [Command::Load { function: FunctionId(3), slab: SlabId(0) }]);
    let (second, commands) = submit(&mut scheduler, 0, 3);
    assert!(commands.is_empty(), "it is asked for once");
    assert_eq!(load(&mut scheduler, 5, 3), [start(0, first, 3)]);
    assert_eq!(completed(&mut scheduler, 6, 0, first)[1], start(0, second, 3));
}

#[test]
fn what_cannot_be_loaded_is_refused_until_it_is_defined_again() {
    let mut scheduler = serving(1);
    let cold = Loaded { residency: Residency::OnDemand, ..function(3) };
    scheduler.define(FunctionId(3), cold, &mut Commands::new()).unwrap();
    let (job, _) = submit(&mut scheduler, 0, 3);
    let failed = with(|out| scheduler.load_failed(FunctionId(3), SlabId(0), out));
    assert_eq!(answers(&failed), [(job, Outcome::LoadFailed)]);
    assert_eq!(refused(&mut scheduler, 2, 3), Refusal::NotLoadable);
    define_as(&mut scheduler, 3, function(3));
    submit(&mut scheduler, 3, 3);
}

#[test]
fn the_least_recently_used_idle_function_makes_room() {
    let mut scheduler = Scheduler::new(LIMITS);
    ready(&mut scheduler, 0, 0, 1);
    define_as(&mut scheduler, 0, Loaded { residency: Residency::Pinned, ..function(1) });
    (1..10).for_each(|number| define(&mut scheduler, number, 1));
    assert!(with(|out| scheduler.define(FunctionId(10), function(1), out).unwrap()).is_empty(), "it is full");
    let mut running = None;
    for number in [2, 3, 1, 4, 5, 6, 7, 8, 9, 2] {
        let (job, _) = submit(&mut scheduler, 0, number);
        if let Some(before) = running.replace(job) {
            completed(&mut scheduler, 0, 0, before);
        }
    }
    // 2 is the oldest but for its last call, which runs; 3 comes next.
    let (_, commands) = submit(&mut scheduler, 1, 10);
    let unload = Command::Unload { function: FunctionId(3), slot: 3, slab: SlabId(0) };
    assert_eq!(commands, [unload, Command::Load { function: FunctionId(10), slab: SlabId(0) }]);
    let large = Loaded { bytes: 101, ..function(1) };
    let error = scheduler.define(FunctionId(11), large, &mut Commands::new()).unwrap_err();
    assert_eq!(error, Misuse::ImageTooLarge { bytes: 101, limit: 100 });
}

#[test]
fn what_needs_room_waits_until_something_is_idle() {
    let mut scheduler = serving(1);
    let large = Loaded { bytes: 95, residency: Residency::OnDemand, ..function(3) };
    scheduler.define(FunctionId(3), large, &mut Commands::new()).unwrap();
    let (running, _) = submit(&mut scheduler, 0, 1);
    let (_, commands) = submit(&mut scheduler, 1, 3);
    assert_eq!(commands, [Command::Unload { function: FunctionId(2), slot: 2, slab: SlabId(0) }]);
    let commands = completed(&mut scheduler, 2, 0, running);
    let unload = Command::Unload { function: FunctionId(1), slot: 1, slab: SlabId(0) };
    assert_eq!(commands[1..], [unload, Command::Load { function: FunctionId(3), slab: SlabId(0) }]);
}

#[test]
fn an_image_that_fits_nowhere_takes_the_place_of_another() {
    let mut scheduler = serving(1);
    let cold = Loaded { residency: Residency::OnDemand, ..function(3) };
    scheduler.define(FunctionId(3), cold, &mut Commands::new()).unwrap();
    submit(&mut scheduler, 0, 3);
    let no_room = |scheduler: &mut Scheduler| with(|out| scheduler.no_room(FunctionId(3), SlabId(0), out));
    for victim in [1, 2] {
        let unload = Command::Unload { function: FunctionId(victim), slot: victim, slab: SlabId(0) };
        let load = Command::Load { function: FunctionId(3), slab: SlabId(0) };
        assert_eq!(no_room(&mut scheduler), [unload, load]);
    }
    assert_eq!(answers(&no_room(&mut scheduler))[0].1, Outcome::LoadFailed, "the slab is empty");
}

#[test]
fn a_revoked_function_is_not_run_even_if_it_was_accepted() {
    let mut scheduler = serving(1);
    let (running, _) = submit(&mut scheduler, 0, 2);
    let (waits, _) = submit(&mut scheduler, 0, 2);
    let commands = with(|out| scheduler.withdraw(FunctionId(2), out));
    assert_eq!(answers(&commands), [(waits, Outcome::Withdrawn)]);
    let commands = completed(&mut scheduler, 2, 0, running);
    assert!(matches!(commands[1], Command::Unload { function: FunctionId(2), .. }));
}

#[test]
fn a_new_slab_replaces_the_workers_and_loads_again_what_was_used_last_first() {
    let mut scheduler = serving(2);
    let (running, _) = submit(&mut scheduler, 0, 1);
    let commands = with(|out| scheduler.renew(SlabId(1), out));
    let load = |number| Command::Load { function: FunctionId(number), slab: SlabId(1) };
    assert_eq!(commands, [Command::Replace { worker: worker(1, 1) }, load(1), load(2)]);
    let (waits, commands) = submit(&mut scheduler, 1, 1);
    assert!(commands.is_empty());
    let stale = with(|out| scheduler.loaded(Moment(2), FunctionId(1), SlabId(0), 1, 10, out));
    assert!(
        stale.is_empty() && scheduler.standing(FunctionId(1)) == Standing::Coming,
        "news of the old slab"
    );
    let commands = completed(&mut scheduler, 3, 0, running);
    assert_eq!(commands[0], Command::Replace { worker: worker(0, 1) });
    assert_eq!(commands[1..], [Command::Answer { job: running, outcome: Outcome::Finished }]);
    died(&mut scheduler, 4, 0, 1);
    with(|out| scheduler.loaded(Moment(5), FunctionId(1), SlabId(1), 7, 10, out));
    let late = with(|out| {
        scheduler.worker_ready(Moment(6), worker(0, 2), PoolId(0), SlabId(0), out).unwrap();
    });
    assert_eq!(late, [Command::Replace { worker: worker(0, 2) }], "it maps the old slab");
    died(&mut scheduler, 7, 0, 2);
    let commands = ready(&mut scheduler, 8, 0, 3);
    assert_eq!(commands, [Command::Start { worker: worker(0, 3), job: waits, slot: 7 }]);
}

#[test]
fn a_private_pool_gets_workers_with_its_first_call_and_loses_them_when_idle() {
    let mut scheduler = serving(1);
    define_as(&mut scheduler, 3, Loaded { pool: PoolId(1), ..function(3) });
    let (job, commands) = submit(&mut scheduler, 0, 3);
    assert_eq!(commands, [Command::Unpark { pool: PoolId(1) }], "shared workers are not for it");
    let commands = with(|out| {
        scheduler.worker_ready(Moment(1), worker(5, 1), PoolId(1), SlabId(0), out).unwrap();
    });
    assert_eq!(commands, [start(5, job, 3)]);
    completed(&mut scheduler, 10, 5, job);
    assert_eq!(scheduler.next_deadline(), Some(Moment(510)));
    assert!(tick(&mut scheduler, 509).is_empty());
    assert_eq!(tick(&mut scheduler, 510), [Command::Park { worker: worker(5, 1) }]);
    assert_eq!(scheduler.next_deadline(), None);
    assert_eq!(submit(&mut scheduler, 511, 3).1, [Command::Unpark { pool: PoolId(1) }]);
}

#[test]
fn a_private_pool_without_functions_loses_its_workers_at_once() {
    let mut scheduler = serving(1);
    define_as(&mut scheduler, 3, Loaded { pool: PoolId(1), ..function(3) });
    define_as(&mut scheduler, 4, Loaded { pool: PoolId(1), ..function(3) });
    let (job, _) = submit(&mut scheduler, 0, 3);
    with(|out| scheduler.worker_ready(Moment(1), worker(5, 1), PoolId(1), SlabId(0), out).unwrap());
    with(|out| scheduler.retire(FunctionId(4), out));
    with(|out| scheduler.retire(FunctionId(3), out));
    assert!(tick(&mut scheduler, 5).is_empty(), "its last call runs");
    completed(&mut scheduler, 10, 5, job);
    assert_eq!(scheduler.next_deadline(), Some(Moment(10)));
    assert_eq!(tick(&mut scheduler, 10), [Command::Park { worker: worker(5, 1) }]);
}

#[test]
fn a_function_that_moves_out_of_a_pool_keeps_no_workers_there() {
    let mut scheduler = serving(1);
    define_as(&mut scheduler, 3, Loaded { pool: PoolId(1), ..function(3) });
    let (job, _) = submit(&mut scheduler, 0, 3);
    with(|out| scheduler.worker_ready(Moment(1), worker(5, 1), PoolId(1), SlabId(0), out).unwrap());
    completed(&mut scheduler, 10, 5, job);
    with(|out| scheduler.define(FunctionId(3), function(3), out).unwrap());
    assert_eq!(tick(&mut scheduler, 11), [Command::Park { worker: worker(5, 1) }]);
    assert_eq!(submit(&mut scheduler, 12, 3).1.len(), 1, "the shared worker has it");
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
