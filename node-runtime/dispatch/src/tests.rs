#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod simulation;

use std::collections::BTreeMap;

use mfaas_ident::Budget;

use super::{
    Command, FunctionId, GenerationId, JobId, KillReason, Limits, Loaded, Misuse, Moment, Outcome, Plan,
    Refusal, Scheduler, TenantId, WorkerId,
};

const LIMITS: Limits = Limits {
    waiting_per_worker: 4,
    waiting_per_tenant: 3,
    wait_us_max: 1_000,
    backstop_factor: 2,
    backstop_slack_us: 100,
    crashes_before_ban: 2,
    crash_window_us: 10_000,
};

fn plan(functions: &[(u32, u32)], workers: usize) -> Plan {
    let functions = functions.iter().enumerate().map(|(slot, (function, tenant))| {
        let budget = Budget::from_micros(1_000).unwrap();
        (FunctionId(*function), Loaded { slot: slot as u32, tenant: TenantId(*tenant), budget })
    });
    Plan { functions: functions.collect::<BTreeMap<_, _>>(), workers }
}

/// Two functions of two tenants, workers 1..=`workers` ready, generation current.
fn serving(workers: u64) -> (Scheduler, GenerationId) {
    let mut scheduler = Scheduler::new(LIMITS);
    let generation = scheduler.stage(plan(&[(1, 1), (2, 2)], workers as usize));
    for worker in 1..=workers {
        assert!(scheduler.worker_ready(Moment(0), generation, WorkerId(worker)).0);
    }
    scheduler.swap(Moment(0), generation, &[]).unwrap();
    (scheduler, generation)
}

fn answers(commands: &[Command]) -> Vec<(JobId, Outcome)> {
    let answer = |command: &Command| match command {
        Command::Answer { job, outcome } => Some((*job, *outcome)),
        _ => None,
    };
    commands.iter().filter_map(answer).collect()
}

fn submit(scheduler: &mut Scheduler, at: u64, function: u32) -> (JobId, Vec<Command>) {
    scheduler.submit(Moment(at), FunctionId(function)).unwrap()
}

#[test]
fn calls_go_to_the_worker_that_worked_least() {
    let (mut scheduler, _) = serving(2);
    let (first, commands) = submit(&mut scheduler, 0, 1);
    assert_eq!(commands, [Command::Start { worker: WorkerId(1), job: first, slot: 0 }]);
    assert_eq!(
        scheduler.completed(Moment(50), WorkerId(1), first),
        [Command::Answer { job: first, outcome: Outcome::Finished }]
    );
    let (second, commands) = submit(&mut scheduler, 60, 2);
    assert_eq!(commands, [Command::Start { worker: WorkerId(2), job: second, slot: 1 }]);
}

#[test]
fn before_the_first_generation_and_after_stop_nothing_is_accepted() {
    let mut scheduler = Scheduler::new(LIMITS);
    assert_eq!(scheduler.submit(Moment(0), FunctionId(1)).unwrap_err(), Refusal::NotServing);
    let (mut scheduler, generation) = serving(1);
    assert_eq!(scheduler.submit(Moment(0), FunctionId(9)).unwrap_err(), Refusal::NotLoaded);
    let (job, _) = submit(&mut scheduler, 0, 1);
    assert!(scheduler.stop().is_empty(), "a running job keeps its worker");
    assert_eq!(scheduler.submit(Moment(1), FunctionId(1)).unwrap_err(), Refusal::NotServing);
    let commands = scheduler.completed(Moment(2), WorkerId(1), job);
    assert_eq!(commands[1], Command::Retire { generation, workers: vec![WorkerId(1)] });
    assert!(scheduler.is_idle());
}

#[test]
fn queues_are_bounded_by_tenant_and_in_total() {
    let (mut scheduler, _) = serving(1);
    submit(&mut scheduler, 0, 1);
    for _ in 0..3 {
        submit(&mut scheduler, 0, 1);
    }
    let full = scheduler.submit(Moment(0), FunctionId(1)).unwrap_err();
    assert_eq!(full, Refusal::QueueFull { retry_after_s: 1 }, "the tenant's share is 3");
    submit(&mut scheduler, 0, 2);
    let full = scheduler.submit(Moment(0), FunctionId(2)).unwrap_err();
    assert_eq!(full, Refusal::QueueFull { retry_after_s: 1 }, "one worker's share is 4");
}

#[test]
fn tenants_take_turns() {
    let (mut scheduler, _) = serving(1);
    let (running, _) = submit(&mut scheduler, 0, 1);
    let (own, _) = submit(&mut scheduler, 0, 1);
    submit(&mut scheduler, 0, 1);
    let (other, _) = submit(&mut scheduler, 0, 2);
    let commands = scheduler.completed(Moment(1), WorkerId(1), running);
    assert_eq!(commands[1], Command::Start { worker: WorkerId(1), job: own, slot: 0 });
    let commands = scheduler.completed(Moment(2), WorkerId(1), own);
    assert_eq!(commands[1], Command::Start { worker: WorkerId(1), job: other, slot: 1 });
}

#[test]
fn a_dead_worker_loses_its_job_once_and_the_queue_waits_for_the_replacement() {
    let (mut scheduler, generation) = serving(1);
    let (lost, _) = submit(&mut scheduler, 0, 1);
    let (waits, _) = submit(&mut scheduler, 0, 2);
    assert_eq!(answers(&scheduler.worker_died(Moment(5), WorkerId(1))), [(lost, Outcome::Lost)]);
    assert!(scheduler.worker_died(Moment(6), WorkerId(1)).is_empty());
    assert!(scheduler.completed(Moment(7), WorkerId(1), lost).is_empty(), "the dead say nothing");
    let (wanted, commands) = scheduler.worker_ready(Moment(8), generation, WorkerId(2));
    assert!(wanted);
    assert_eq!(commands, [Command::Start { worker: WorkerId(2), job: waits, slot: 1 }]);
}

#[test]
fn the_wall_backstop_kills_the_worker_and_then_answers() {
    let (mut scheduler, _) = serving(1);
    let (job, _) = submit(&mut scheduler, 0, 1);
    assert!(scheduler.tick(Moment(2_099)).is_empty());
    let kill = Command::Kill { worker: WorkerId(1), reason: KillReason::Overdue };
    assert_eq!(scheduler.tick(Moment(2_100)), [kill]);
    assert!(scheduler.tick(Moment(2_200)).is_empty(), "one kill is enough");
    assert_eq!(answers(&scheduler.worker_died(Moment(2_300), WorkerId(1))), [(job, Outcome::Overdue)]);
}

#[test]
fn a_job_that_waits_too_long_is_answered() {
    let (mut scheduler, _) = serving(1);
    let (running, _) = submit(&mut scheduler, 0, 1);
    let (waits, _) = submit(&mut scheduler, 10, 1);
    assert!(scheduler.tick(Moment(1_009)).is_empty());
    assert_eq!(answers(&scheduler.tick(Moment(1_010))), [(waits, Outcome::WaitedTooLong)]);
    assert_eq!(answers(&scheduler.completed(Moment(1_011), WorkerId(1), running)).len(), 1);
    assert!(scheduler.is_idle());
}

#[test]
fn a_worker_that_answers_for_another_job_is_killed_and_not_believed() {
    let (mut scheduler, _) = serving(2);
    let (first, _) = submit(&mut scheduler, 0, 1);
    let (second, _) = submit(&mut scheduler, 0, 2);
    let commands = scheduler.completed(Moment(1), WorkerId(1), second);
    assert_eq!(commands, [Command::Kill { worker: WorkerId(1), reason: KillReason::Violation }]);
    assert_eq!(answers(&scheduler.worker_died(Moment(2), WorkerId(1))), [(first, Outcome::Lost)]);
    assert_eq!(answers(&scheduler.completed(Moment(3), WorkerId(2), second)), [(second, Outcome::Finished)]);
}

#[test]
fn a_function_on_the_core_in_repeated_crashes_is_banned() {
    let (mut scheduler, generation) = serving(1);
    submit(&mut scheduler, 0, 1);
    scheduler.worker_died(Moment(1), WorkerId(1));
    scheduler.worker_ready(Moment(2), generation, WorkerId(2));
    submit(&mut scheduler, 3, 1);
    let (waits, _) = submit(&mut scheduler, 3, 1);
    let (innocent, _) = submit(&mut scheduler, 3, 2);
    let commands = scheduler.worker_died(Moment(4), WorkerId(2));
    assert!(commands.contains(&Command::Ban { function: FunctionId(1), crashes: 2 }));
    assert!(answers(&commands).contains(&(waits, Outcome::Banned)));
    assert_eq!(scheduler.submit(Moment(5), FunctionId(1)).unwrap_err(), Refusal::Banned { crashes: 2 });
    let (_, commands) = scheduler.worker_ready(Moment(6), generation, WorkerId(3));
    assert_eq!(commands, [Command::Start { worker: WorkerId(3), job: innocent, slot: 1 }]);
}

#[test]
fn crashes_far_apart_do_not_add_up() {
    let (mut scheduler, generation) = serving(1);
    for (worker, at) in [(1, 0), (2, 20_000), (3, 40_000)] {
        submit(&mut scheduler, at, 1);
        scheduler.worker_died(Moment(at + 1), WorkerId(worker));
        scheduler.worker_ready(Moment(at + 2), generation, WorkerId(worker + 1));
    }
    assert!(scheduler.banned().is_empty());
}

#[test]
fn a_swap_moves_what_waits_drains_what_is_left_and_retires_the_old() {
    let (mut scheduler, old) = serving(1);
    let (running, _) = submit(&mut scheduler, 0, 1);
    let (moves, _) = submit(&mut scheduler, 0, 1);
    let (stays, _) = submit(&mut scheduler, 0, 2);
    let new = scheduler.stage(plan(&[(3, 2), (1, 1)], 1));
    scheduler.worker_ready(Moment(1), new, WorkerId(2));
    let commands = scheduler.swap(Moment(2), new, &[]).unwrap();
    assert_eq!(commands, [Command::Start { worker: WorkerId(2), job: moves, slot: 1 }]);
    assert_eq!(scheduler.submit(Moment(3), FunctionId(2)).unwrap_err(), Refusal::NotLoaded);
    let commands = scheduler.completed(Moment(4), WorkerId(1), running);
    assert_eq!(commands[1], Command::Start { worker: WorkerId(1), job: stays, slot: 1 });
    let commands = scheduler.completed(Moment(5), WorkerId(1), stays);
    assert_eq!(commands[1], Command::Retire { generation: old, workers: vec![WorkerId(1)] });
    assert_eq!(scheduler.worker_ready(Moment(6), old, WorkerId(9)), (false, vec![]));
    assert_eq!(scheduler.swap(Moment(6), old, &[]).unwrap_err(), Misuse::NotStaged(old));
}

#[test]
fn a_revoked_function_is_not_run_even_if_it_was_accepted() {
    let (mut scheduler, _) = serving(1);
    submit(&mut scheduler, 0, 1);
    let (waits, _) = submit(&mut scheduler, 0, 2);
    let new = scheduler.stage(plan(&[(1, 1)], 1));
    scheduler.worker_ready(Moment(1), new, WorkerId(2));
    let commands = scheduler.swap(Moment(2), new, &[FunctionId(2)]).unwrap();
    assert_eq!(answers(&commands), [(waits, Outcome::Withdrawn)]);
}

#[test]
fn a_generation_that_drains_without_workers_answers_what_it_cannot_run() {
    let (mut scheduler, old) = serving(1);
    let (running, _) = submit(&mut scheduler, 0, 1);
    let (stays, _) = submit(&mut scheduler, 0, 2);
    let new = scheduler.stage(plan(&[(1, 1)], 1));
    scheduler.worker_ready(Moment(1), new, WorkerId(2));
    scheduler.swap(Moment(2), new, &[]).unwrap();
    let commands = scheduler.worker_died(Moment(3), WorkerId(1));
    assert_eq!(answers(&commands), [(running, Outcome::Lost), (stays, Outcome::Lost)]);
    assert!(commands.contains(&Command::Retire { generation: old, workers: vec![] }));
}

#[test]
fn a_staged_generation_can_be_given_up() {
    let (mut scheduler, current) = serving(1);
    let staged = scheduler.stage(plan(&[(1, 1)], 1));
    scheduler.worker_ready(Moment(1), staged, WorkerId(7));
    let retired = [Command::Retire { generation: staged, workers: vec![WorkerId(7)] }];
    assert_eq!(scheduler.discard(staged), retired);
    assert!(scheduler.discard(current).is_empty(), "the current one is not given up");
    assert_eq!(scheduler.current(), Some(current));
}

#[test]
fn a_ban_from_elsewhere_holds_until_it_is_lifted() {
    let (mut scheduler, generation) = serving(1);
    submit(&mut scheduler, 0, 2);
    let (waits, _) = submit(&mut scheduler, 0, 1);
    assert_eq!(scheduler.ban(FunctionId(1), 3), [Command::Answer { job: waits, outcome: Outcome::Banned }]);
    assert_eq!(scheduler.ban(FunctionId(1), 9), [], "it is banned already");
    assert_eq!(scheduler.submit(Moment(1), FunctionId(1)).unwrap_err(), Refusal::Banned { crashes: 3 });
    scheduler.lift(FunctionId(1));
    assert!(scheduler.banned().is_empty());
    submit(&mut scheduler, 2, 1);
    // Lifting forgets nothing of a function that was not banned: one crash more is the second.
    scheduler.worker_died(Moment(3), WorkerId(1));
    scheduler.lift(FunctionId(2));
    scheduler.worker_ready(Moment(4), generation, WorkerId(2));
    scheduler.worker_died(Moment(5), WorkerId(2));
    scheduler.worker_ready(Moment(6), generation, WorkerId(3));
    submit(&mut scheduler, 7, 2);
    scheduler.worker_died(Moment(8), WorkerId(3));
    assert_eq!(scheduler.banned(), [(FunctionId(2), 2)]);
}
