//! Calls that wait for what they asked their node for: who they are to others, and how they end.

use std::collections::BTreeSet;

use super::*;

fn suspended(scheduler: &mut Scheduler, at: u64, place: u16, job: JobId, cpu_us: u64) -> Commands {
    let mut commands = Commands::new();
    let is_suspended = scheduler.suspended(Moment(at), worker(place, 1), job, cpu_us, 0, &mut commands);
    let is_answered = answers(&commands).iter().any(|(answered, _)| *answered == job);
    assert!(!(is_suspended && is_answered), "{commands:?}");
    commands
}

fn resume(scheduler: &mut Scheduler, at: u64, job: JobId) -> Commands {
    with(|commands| scheduler.resume(Moment(at), job, commands))
}

/// A job of function 1 that waits since 10.
fn one_suspended(scheduler: &mut Scheduler) -> JobId {
    let (job, _) = submit(scheduler, 0, 1);
    assert!(suspended(scheduler, 10, 0, job, 10).is_empty());
    job
}

#[test]
fn a_call_that_waits_holds_no_worker_and_goes_on_with_what_is_left_of_its_budget() {
    let mut scheduler = serving(1);
    let (job, _) = submit(&mut scheduler, 0, 1);
    let (other, commands) = submit(&mut scheduler, 1, 2);
    assert!(commands.is_empty(), "a millisecond stands before it");
    assert_eq!(suspended(&mut scheduler, 600, 0, job, 600), [start(0, other, 2)]);
    let counts = scheduler.snapshot();
    assert_eq!((counts.suspended, counts.running, counts.waiting), (1, 1, 0));
    assert!(resume(&mut scheduler, 700, job).is_empty(), "the worker is taken");
    assert!(resume(&mut scheduler, 701, job).is_empty(), "it is told once");
    let commands = completed(&mut scheduler, 800, 0, other);
    assert_eq!(starts(&commands), [(worker(0, 1), job)]);
    assert!(suspended(&mut scheduler, 900, 0, job, 100).is_empty());
    assert_eq!(resume(&mut scheduler, 950, job), [start(0, job, 1)], "at once where a worker is free");
    // It has used 700 of its 1,000 µs.
    let commands = suspended(&mut scheduler, 1_300, 0, job, 295);
    assert_eq!(answers(&commands), [(job, Outcome::OverBudget)]);
    assert!(scheduler.is_idle());
}

#[test]
fn a_call_may_wait_as_long_as_a_call_may_take() {
    let mut scheduler = serving(1);
    let job = one_suspended(&mut scheduler);
    let mut commands = Commands::new();
    let hasty = scheduler.submit(Moment(20), FunctionId(2), Some(Moment(5_000)), &mut commands).unwrap();
    assert!(suspended(&mut scheduler, 30, 0, hasty, 10).is_empty());
    assert_eq!(scheduler.next_deadline(), Some(Moment(5_000)));
    assert!(tick(&mut scheduler, 4_999).is_empty());
    assert_eq!(answers(&tick(&mut scheduler, 5_000)), [(hasty, Outcome::DeadlinePassed)]);
    assert_eq!(scheduler.next_deadline(), Some(Moment(400_000)));
    assert_eq!(answers(&tick(&mut scheduler, 400_000)), [(job, Outcome::TookTooLong)]);
    assert!(resume(&mut scheduler, 400_001, job).is_empty(), "it was answered");
    assert!(scheduler.is_idle());
    let (late, _) = submit(&mut scheduler, 500_000, 1);
    let commands = suspended(&mut scheduler, 900_000, 0, late, 10);
    assert_eq!(answers(&commands), [(late, Outcome::TookTooLong)], "it has taken as long already");
}

#[test]
fn so_many_calls_of_a_tenant_and_of_all_may_wait() {
    let mut scheduler = serving(1);
    let wait = |scheduler: &mut Scheduler, function| {
        let (job, _) = submit(scheduler, 0, function);
        (job, answers(&suspended(scheduler, 1, 0, job, 1)))
    };
    let own: Vec<_> = (0..3).map(|_| wait(&mut scheduler, 1)).collect();
    assert!(own.iter().all(|(_, answers)| answers.is_empty()));
    let (job, answered) = wait(&mut scheduler, 1);
    assert_eq!(answered, [(job, Outcome::TooManySuspended)], "the tenant's share is 3");
    assert!(wait(&mut scheduler, 2).1.is_empty());
    let (job, answered) = wait(&mut scheduler, 2);
    assert_eq!(answered, [(job, Outcome::TooManySuspended)], "the node's is 4");
    assert_eq!(starts(&resume(&mut scheduler, 2, own[0].0)).len(), 1);
    assert_eq!(answers(&completed(&mut scheduler, 3, 0, own[0].0)), [(own[0].0, Outcome::Finished)]);
    assert!(wait(&mut scheduler, 1).1.is_empty(), "there is room again");
}

#[test]
fn a_retired_function_lets_its_calls_go_on_and_a_revoked_or_banned_one_does_not() {
    let mut scheduler = serving(1);
    let job = one_suspended(&mut scheduler);
    assert!(with(|out| scheduler.retire(FunctionId(1), out)).is_empty(), "its image is needed");
    assert_eq!(resume(&mut scheduler, 20, job), [start(0, job, 1)]);
    let unload = Command::Unload { function: FunctionId(1), slot: 1, slab: SLAB };
    assert_eq!(
        completed(&mut scheduler, 30, 0, job),
        [Command::Answer { job, outcome: Outcome::Finished }, unload]
    );

    let mut scheduler = serving(1);
    let job = one_suspended(&mut scheduler);
    let (runs, _) = submit(&mut scheduler, 20, 1);
    let commands = with(|out| scheduler.withdraw(FunctionId(1), out));
    assert_eq!(commands, [Command::Answer { job, outcome: Outcome::Withdrawn }]);
    with(|out| scheduler.retire(FunctionId(1), out));
    let commands = suspended(&mut scheduler, 30, 0, runs, 10);
    assert_eq!(commands, [Command::Answer { job: runs, outcome: Outcome::Withdrawn }, unload]);

    let mut scheduler = serving(1);
    let job = one_suspended(&mut scheduler);
    let (runs, _) = submit(&mut scheduler, 20, 1);
    let commands = with(|out| scheduler.ban(FunctionId(1), 1, out).unwrap());
    assert_eq!(answers(&commands), [(job, Outcome::Banned)]);
    assert_eq!(answers(&suspended(&mut scheduler, 30, 0, runs, 10)), [(runs, Outcome::Banned)]);
}

/// Its memory has addresses of an image that is nowhere now.
#[test]
fn a_call_goes_on_with_the_image_that_it_waited_in_or_not_at_all() {
    let mut scheduler = serving(1);
    let job = one_suspended(&mut scheduler);
    let (runs, _) = submit(&mut scheduler, 20, 1);
    let mut commands = with(|out| scheduler.renew(out));
    assert_eq!(answers(&commands), [(job, Outcome::Lost)]);
    commands.retain(|command| matches!(command, Command::Load { .. }));
    for command in &commands {
        let Command::Load { function, slab } = *command else { continue };
        scheduler.loaded(Moment(25), function, slab, function.0, 10, &mut Commands::new());
    }
    let commands = suspended(&mut scheduler, 30, 0, runs, 10);
    assert_eq!(answers(&commands), [(runs, Outcome::Lost)], "it ran in the former one");
}

/// What has waited is not what the caller sent: even a call that may run twice does not.
#[test]
fn a_call_that_has_waited_dies_with_its_worker() {
    let mut scheduler = shared(LIMITS);
    define_as(&mut scheduler, 1, Loaded { idempotent: true, ..function(1) });
    let job = one_suspended(&mut scheduler);
    assert_eq!(starts(&resume(&mut scheduler, 20, job)).len(), 1);
    assert_eq!(answers(&died(&mut scheduler, 30, 0, 1)), [(job, Outcome::Lost)]);
}

#[test]
fn a_worker_that_dies_takes_no_call_with_it_that_waits() {
    let mut scheduler = serving(1);
    let job = one_suspended(&mut scheduler);
    assert!(answers(&died(&mut scheduler, 20, 0, 1)).is_empty());
    assert!(resume(&mut scheduler, 30, job).is_empty(), "no worker is there");
    assert_eq!(starts(&man(&mut scheduler, 20 + PAUSE)), [(worker(0, 2), job)]);
}

/// A call that does little but wait, with much memory, is charged what that costs the node.
#[test]
fn moving_the_memory_of_a_call_counts_against_its_budget_and_its_tenant() {
    let mut scheduler = serving(1);
    let (job, _) = submit(&mut scheduler, 0, 1);
    let mut commands = Commands::new();
    for at in [10, 30] {
        assert!(scheduler.suspended(Moment(at), worker(0, 1), job, 1, 450, &mut commands), "{commands:?}");
        assert_eq!(starts(&resume(&mut scheduler, at + 10, job)).len(), 1);
    }
    assert!(!scheduler.suspended(Moment(50), worker(0, 1), job, 1, 450, &mut commands));
    assert_eq!(answers(&commands), [(job, Outcome::OverBudget)], "of a millisecond");
    let of_it = scheduler.queues.iter().filter(|(_, queue)| queue.tenant == 1);
    assert!(of_it.map(|(_, queue)| queue.used_us()).sum::<u64>() >= 3 * 450, "its next calls come later");
}

#[test]
fn what_can_never_go_on_is_given_up() {
    let mut scheduler = serving(1);
    let job = one_suspended(&mut scheduler);
    let commands = with(|out| scheduler.give_up(job, Outcome::Stuck, out));
    assert_eq!(answers(&commands), [(job, Outcome::Stuck)]);
    assert!(with(|out| scheduler.give_up(job, Outcome::Stuck, out)).is_empty());
    assert!(scheduler.is_idle());
}

#[test]
fn a_worker_that_suspends_another_call_is_killed_and_not_believed() {
    let mut scheduler = serving(2);
    let (first, _) = submit(&mut scheduler, 0, 1);
    let (second, _) = submit(&mut scheduler, 0, 2);
    let kill = Command::Kill { worker: worker(0, 1), reason: KillReason::Violation };
    assert_eq!(suspended(&mut scheduler, 1, 0, second, 1), [kill]);
    assert_eq!(answers(&died(&mut scheduler, 2, 0, 1)), [(first, Outcome::Lost)]);
}

/// Where nobody starts workers any more, what was suspended is lost when it would go on.
#[test]
fn a_stopping_node_lets_calls_go_on_while_it_has_workers() {
    let mut scheduler = serving(1);
    let (first, second) = (one_suspended(&mut scheduler), one_suspended(&mut scheduler));
    assert!(with(|out| scheduler.stop(out)).is_empty());
    assert_eq!(starts(&resume(&mut scheduler, 20, first)).len(), 1);
    assert_eq!(answers(&completed(&mut scheduler, 30, 0, first)), [(first, Outcome::Finished)]);
    assert!(answers(&died(&mut scheduler, 40, 0, 1)).is_empty());
    assert_eq!(answers(&resume(&mut scheduler, 50, second)), [(second, Outcome::Lost)]);
    assert!(scheduler.is_idle());
}

/// They were accepted when there was room, and are bounded as what is suspended.
#[test]
fn calls_that_go_on_at_the_same_time_keep_nobody_else_out() {
    let mut scheduler = shared(Limits { waiting_max: 2, waiting_per_tenant: 2, ..LIMITS });
    define(&mut scheduler, 1, 1);
    define(&mut scheduler, 2, 2);
    let waiting: Vec<JobId> = (0..3).map(|_| one_suspended(&mut scheduler)).collect();
    let (runs, _) = submit(&mut scheduler, 20, 2);
    for job in &waiting {
        assert!(resume(&mut scheduler, 30, *job).is_empty(), "the worker is taken");
    }
    assert_eq!(scheduler.snapshot().waiting, 3);
    // Two of the other tenant find room, a third one does not; the tenant's own calls stand in its own way.
    let (first, second) = (submit(&mut scheduler, 31, 2).0, submit(&mut scheduler, 31, 2).0);
    assert!(matches!(refused(&mut scheduler, 31, 2), Refusal::QueueFull { .. }));
    assert!(matches!(refused(&mut scheduler, 31, 1), Refusal::QueueFull { .. }));
    let mut job = runs;
    for at in 40..46 {
        let commands = completed(&mut scheduler, at, 0, job);
        if let [(_, next)] = starts(&commands)[..] {
            job = next;
        }
    }
    assert!(scheduler.is_idle(), "{first:?} {second:?} {:?}", scheduler.snapshot());
    assert!(submit(&mut scheduler, 50, 1).1.len() == 1, "counts are as before");
}

#[test]
fn what_is_suspended_is_lost_when_no_worker_is_to_come() {
    let mut scheduler = serving(1);
    let (first, second) = (one_suspended(&mut scheduler), one_suspended(&mut scheduler));
    let commands = with(|out| scheduler.abandon_suspended(out));
    assert_eq!(answers(&commands), [(first, Outcome::Lost), (second, Outcome::Lost)]);
    assert!(scheduler.is_idle());
}

#[test]
fn a_node_whose_calls_all_wait_is_at_rest() {
    let mut scheduler = serving(1);
    assert!(scheduler.is_at_rest());
    let job = one_suspended(&mut scheduler);
    assert!(scheduler.is_at_rest() && !scheduler.is_idle());
    resume(&mut scheduler, 20, job);
    assert!(!scheduler.is_at_rest());
}

/// However many have taken too long: the rest is ended in the ticks after.
#[test]
fn one_tick_ends_a_part_of_what_has_taken_too_long() {
    const CALLS: usize = 150;
    let mut scheduler = shared(Limits { suspended_max: CALLS, suspended_per_tenant: CALLS, ..LIMITS });
    define(&mut scheduler, 1, 1);
    for _ in 0..CALLS {
        one_suspended(&mut scheduler);
    }
    let mut ended = Vec::new();
    while scheduler.next_deadline().is_some_and(|at| at <= Moment(400_000)) {
        ended.push(answers(&tick(&mut scheduler, 400_000)).len());
    }
    assert_eq!(ended, [64, 64, 22]);
    assert!(scheduler.is_idle());
}

/// One that waits has made a call: that one takes no longer than it may, is accepted while the node stops, and what it takes is its.
#[test]
fn a_call_that_another_one_makes_is_within_what_that_one_may() {
    let mut scheduler = serving(1);
    let mut commands = Commands::new();
    let parent = scheduler.submit(Moment(0), FunctionId(1), Some(Moment(5_000)), &mut commands).unwrap();
    assert!(suspended(&mut scheduler, 10, 0, parent, 10).is_empty());
    scheduler.stop(&mut commands);
    assert_eq!(
        scheduler.submit(Moment(11), FunctionId(2), None, &mut commands),
        Err(Refusal::NotServing),
        "nothing new"
    );
    let made = scheduler.submit_child(Moment(11), parent, FunctionId(2), &mut commands).unwrap();
    assert!(suspended(&mut scheduler, 20, 0, made, 9).is_empty());
    assert_eq!(answers(&tick(&mut scheduler, 4_999)), []);
    assert_eq!(
        scheduler.submit_child(Moment(5_000), parent, FunctionId(2), &mut commands),
        Err(Refusal::DeadlinePassed)
    );
    let ended: BTreeSet<_> = answers(&tick(&mut scheduler, 5_000)).into_iter().map(|(job, _)| job).collect();
    assert_eq!(ended, [parent, made].into());
    assert_eq!(
        scheduler.submit_child(Moment(5_001), parent, FunctionId(2), &mut commands),
        Err(Refusal::DeadlinePassed),
        "it was answered"
    );
    assert!(scheduler.is_idle());
}

/// The call that made it waits, and has heard nothing of the first run.
#[test]
fn a_call_that_another_one_made_runs_again_once_if_its_worker_dies() {
    let mut scheduler = serving(1);
    let parent = one_suspended(&mut scheduler);
    let mut commands = Commands::new();
    let made = scheduler.submit_child(Moment(20), parent, FunctionId(2), &mut commands).unwrap();
    assert_eq!(starts(&commands), [(worker(0, 1), made)]);
    let commands = died(&mut scheduler, 30, 0, 1);
    assert_eq!(answers(&commands), []);
    // By itself: the worker may have died of it.
    let &[(alone, _)] = &spawns(&commands)[..] else { panic!("{commands:?}") };
    assert_eq!(starts(&ready(&mut scheduler, 40, &commands)), [(alone, made)]);
    let commands = with(|commands| scheduler.worker_died(Moment(50), alone, commands));
    assert_eq!(answers(&commands), [(made, Outcome::Lost)]);
}

/// It may have asked for something.
#[test]
fn a_call_that_another_one_made_and_that_has_waited_is_lost_with_its_worker() {
    let mut scheduler = serving(1);
    let parent = one_suspended(&mut scheduler);
    let made = scheduler.submit_child(Moment(20), parent, FunctionId(2), &mut Commands::new()).unwrap();
    assert!(suspended(&mut scheduler, 30, 0, made, 9).is_empty());
    assert_eq!(starts(&resume(&mut scheduler, 40, made)).len(), 1);
    assert_eq!(answers(&died(&mut scheduler, 50, 0, 1)), [(made, Outcome::Lost)]);
}

/// What nobody is left to run is lost, also if it came while the node stopped.
#[test]
fn a_call_that_is_made_when_no_worker_is_left_is_lost() {
    let mut scheduler = serving(1);
    let parent = one_suspended(&mut scheduler);
    let mut commands = Commands::new();
    scheduler.stop(&mut commands);
    scheduler.worker_died(Moment(20), worker(0, 1), &mut commands);
    commands.clear();
    let made = scheduler.submit_child(Moment(21), parent, FunctionId(2), &mut commands).unwrap();
    assert_eq!(answers(&commands), [(made, Outcome::Lost)]);
}

/// A worker says of its own jobs alone what they took, and no more than has passed.
#[test]
fn a_worker_is_believed_what_the_job_on_its_core_may_have_taken() {
    let mut scheduler = serving(1);
    let waits = one_suspended(&mut scheduler);
    let (runs, _) = submit(&mut scheduler, 20, 2);
    let believed = |job, cpu_us| scheduler.believed_us(Moment(50), worker(0, 1), job, cpu_us);
    assert_eq!((believed(runs, 5), believed(runs, 1_000)), (Some(5), Some(30)));
    assert_eq!(believed(waits, 5), None);
    assert_eq!(scheduler.believed_us(Moment(50), worker(0, 2), runs, 5), None);
    assert_eq!(scheduler.believed_us(Moment(50), worker(3, 1), runs, 5), None);
}

#[test]
fn a_call_whose_own_calls_used_up_its_budget_does_not_go_on() {
    let mut scheduler = serving(1);
    let parent = one_suspended(&mut scheduler);
    assert!(scheduler.charge(parent, 900));
    assert_eq!(scheduler.budget_us(parent), 90);
    assert_eq!(starts(&resume(&mut scheduler, 20, parent)).len(), 1);
    assert!(!scheduler.charge(parent, 10), "not while it runs");
    assert_eq!(scheduler.budget_us(parent), 90);
    assert!(suspended(&mut scheduler, 30, 0, parent, 10).is_empty());
    assert!(scheduler.charge(parent, 75));
    assert_eq!(answers(&resume(&mut scheduler, 40, parent)), [(parent, Outcome::OverBudget)]);
    assert!(scheduler.charge(parent, 1), "one that was answered has nothing left to lose");
    assert!(scheduler.is_idle());
}
