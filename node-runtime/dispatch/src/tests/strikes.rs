//! Whose the death of a worker is: suspects, strikes and bans.

use super::*;

/// A call of the function runs alone in the pool's first worker, which falls; what followed, and when.
fn crash(scheduler: &mut Scheduler, at: &mut u64, number: u32) -> Commands {
    let (job, mut commands) = submit(scheduler, *at, number);
    *at += PAUSE;
    for _ in 0..3 {
        commands.extend(ready(scheduler, *at, &commands.clone()));
        if let Some((id, _)) = starts(&commands).into_iter().find(|(_, started)| *started == job) {
            *at += PAUSE;
            return with(|out| scheduler.worker_died(Moment(*at), id, out));
        }
        *at += PAUSE;
        commands = tick(scheduler, *at);
    }
    panic!("{number} was never started: {commands:?}");
}

fn ban(number: u32, crashes: u32) -> Command {
    Command::Ban { function: FunctionId(number), crashes }
}

fn suspect(number: u32) -> Command {
    Command::Suspect { function: FunctionId(number) }
}

#[test]
fn a_function_on_the_core_in_repeated_crashes_is_banned_until_it_is_lifted() {
    let mut scheduler = serving(1);
    submit(&mut scheduler, 0, 1);
    died(&mut scheduler, 1, 0, 1);
    assert_eq!(man(&mut scheduler, 1 + PAUSE).len(), 1);
    submit(&mut scheduler, 30_000, 1);
    let (waits, _) = submit(&mut scheduler, 30_000, 1);
    let (innocent, _) = submit(&mut scheduler, 30_000, 2);
    let commands = died(&mut scheduler, 30_001, 0, 2);
    assert!(commands.contains(&ban(1, 2)));
    assert!(answers(&commands).contains(&(waits, Outcome::Banned)));
    assert_eq!(refused(&mut scheduler, 30_002, 1), Refusal::Banned { crashes: 2 });
    assert_eq!(starts(&man(&mut scheduler, 30_001 + PAUSE)), [(worker(0, 3), innocent)]);
    assert_eq!(scheduler.banned().collect::<Vec<_>>(), [(FunctionId(1), 2)]);
    scheduler.lift(FunctionId(1));
    submit(&mut scheduler, 60_000, 1);
}

#[test]
fn a_ban_from_outside_counts_before_the_function_is_known() {
    let mut scheduler = shared(LIMITS);
    scheduler.ban(FunctionId(3), 5, &mut Commands::new()).unwrap();
    define(&mut scheduler, 3, 1);
    assert_eq!(refused(&mut scheduler, 1, 3), Refusal::Banned { crashes: 5 });
    let beyond = scheduler.ban(FunctionId(64), 5, &mut Commands::new()).unwrap_err();
    assert_eq!(beyond, Misuse::TooMany { what: "function", number: 64, limit: 64 });
}

#[test]
fn crashes_far_apart_and_spent_budgets_do_not_add_up() {
    let mut scheduler = serving(1);
    let mut at = 0;
    for _ in 0..3 {
        assert!(!crash(&mut scheduler, &mut at, 1).contains(&ban(1, 2)));
        at += LIMITS.crash_window_us;
        man(&mut scheduler, at);
    }
    for at in at..at + 10 {
        let (job, _) = submit(&mut scheduler, at, 1);
        let id = worker(0, 4);
        scheduler.completed(Moment(at), id, job, 1, true, &mut Commands::new());
    }
    assert_eq!(scheduler.banned().count(), 0);
    assert_eq!((scheduler.snapshot().kills, scheduler.snapshot().crashes), (10, 3));
}

#[test]
fn a_worker_that_ran_several_strikes_nobody_and_its_author_is_banned_by_crashes_of_its_own() {
    let mut scheduler = serving(1);
    // 1 damages the worker, and it falls in a call of 2, again and again.
    for life in 1..4 {
        let at = u64::from(life) * 400_000;
        man(&mut scheduler, at);
        let (damages, _) = submit(&mut scheduler, at, 1);
        completed_by(&mut scheduler, at + 1, worker(0, life), damages);
        submit(&mut scheduler, at + 2, 2);
        let commands = died(&mut scheduler, at + 3, 0, life);
        assert!(commands.contains(&suspect(1)) && commands.contains(&suspect(2)), "{commands:?}");
        assert_eq!((scheduler.banned().count(), scheduler.snapshot().suspects), (0, 2));
        man(&mut scheduler, at + 350_000);
        assert_eq!(scheduler.snapshot().suspects, 0, "nothing fell meanwhile");
    }
    let mut at = 1_700_000;
    man(&mut scheduler, at);
    let (damages, _) = submit(&mut scheduler, at, 1);
    completed_by(&mut scheduler, at + 1, worker(0, 4), damages);
    submit(&mut scheduler, at + 2, 2);
    died(&mut scheduler, at + 3, 0, 4);
    // Now each runs alone, and the victim's calls end well.
    let (fine, commands) = submit(&mut scheduler, at + 4, 2);
    let alone = PoolKey { slab: 0, kind: PoolKind::Alone(FunctionId(2)) };
    assert_eq!(spawns(&commands)[0].1, alone);
    let (id, _) = spawns(&commands)[0];
    assert_eq!(starts(&ready(&mut scheduler, at + 5, &commands)), [(id, fine)]);
    completed_by(&mut scheduler, at + 6, id, fine);
    assert!(!crash(&mut scheduler, &mut at, 1).contains(&ban(1, 1)));
    assert!(crash(&mut scheduler, &mut at, 1).contains(&ban(1, 2)));
    assert_eq!(scheduler.banned().collect::<Vec<_>>(), [(FunctionId(1), 2)], "the author and nobody else");
}

#[test]
fn a_new_version_for_every_two_crashes_does_not_help() {
    let limits = Limits { crashes_before_ban: 3, crash_window_us: 60_000_000, ..LIMITS };
    let mut scheduler = Scheduler::new(Limits { shared_workers: 0, ..limits });
    let mut at = 0;
    for number in 1..4 {
        define_as(&mut scheduler, number, own(7));
        for _ in 0..2 {
            let commands = crash(&mut scheduler, &mut at, number);
            assert!(!commands.iter().any(|command| matches!(command, Command::Ban { .. })));
        }
        with(|out| scheduler.retire(FunctionId(number), out));
    }
    define_as(&mut scheduler, 4, own(7));
    define_as(&mut scheduler, 5, own(8));
    assert!(crash(&mut scheduler, &mut at, 4).contains(&ban(4, 1)));
    assert!(!crash(&mut scheduler, &mut at, 5).contains(&ban(5, 1)), "another tenant's");
}

#[test]
fn a_suspect_that_is_defined_again_stays_alone_and_comes_home_to_where_it_is_wanted() {
    let mut scheduler = serving(1);
    let (first, _) = submit(&mut scheduler, 0, 1);
    completed(&mut scheduler, 1, 0, first);
    submit(&mut scheduler, 2, 2);
    let (waits, _) = submit(&mut scheduler, 2, 1);
    let commands = died(&mut scheduler, 3, 0, 1);
    let alone = PoolKey { slab: 0, kind: PoolKind::Alone(FunctionId(1)) };
    let (id, pool) = spawns(&commands)[0];
    assert_eq!(pool, alone, "what waited moves with it");
    let long = Loaded { pool: PoolKey { slab: 0, kind: PoolKind::Long }, ..function(1) };
    assert!(with(|out| scheduler.define(FunctionId(1), long, out).unwrap()).is_empty());
    assert_eq!(starts(&ready(&mut scheduler, 4, &commands)), [(id, waits)]);
    completed_by(&mut scheduler, 5, id, waits);
    man(&mut scheduler, 3 + LIMITS.suspect_us - 1);
    assert_eq!(scheduler.snapshot().suspects, 2);
    assert!(scheduler.next_deadline().unwrap() <= Moment(3 + LIMITS.suspect_us + 1_000));
    let commands = man(&mut scheduler, 1_003 + LIMITS.suspect_us);
    assert_eq!(scheduler.snapshot().suspects, 0);
    assert!(commands.contains(&Command::Stop { worker: id }), "nobody runs there any more: {commands:?}");
    let (_, commands) = submit(&mut scheduler, 400_000, 1);
    assert_eq!(spawns(&commands)[0].1, long.pool);
}

#[test]
fn what_a_crash_used_is_charged_and_what_stood_behind_it_is_not() {
    let mut scheduler = shared(LIMITS);
    let short = Loaded { budget: Budget::from_micros(80).unwrap(), ..function(1) };
    define_as(&mut scheduler, 1, short);
    (0..3).for_each(|_| drop(submit(&mut scheduler, 0, 1)));
    died(&mut scheduler, 5_000, 0, 1);
    let used: u64 = scheduler.queues.iter().map(|(_, queue)| queue.used_us()).sum();
    assert_eq!(used, 80, "its budget at most");
}

#[test]
fn a_worker_of_one_tenant_that_ran_more_than_is_remembered_is_still_the_tenants_crash() {
    let limits = Limits { crashes_before_ban: 9, tenant_crashes_before_ban: 1, ..LIMITS };
    let mut scheduler = Scheduler::new(Limits { shared_workers: 0, ..limits });
    (1..=9).for_each(|number| define_as(&mut scheduler, number, own(7)));
    let (first, commands) = submit(&mut scheduler, 0, 1);
    let (id, _) = spawns(&commands)[0];
    ready(&mut scheduler, 0, &commands);
    completed_by(&mut scheduler, 1, id, first);
    for number in 2..9 {
        let (job, _) = submit(&mut scheduler, u64::from(number), number);
        completed_by(&mut scheduler, u64::from(number) + 1, id, job);
    }
    submit(&mut scheduler, 20, 9);
    let commands = with(|out| scheduler.worker_died(Moment(21), id, out));
    let suspects = commands.iter().filter(|command| matches!(command, Command::Suspect { .. })).count();
    assert_eq!(suspects, 8, "those that it ran last");
    let mut at = 30;
    assert!(crash(&mut scheduler, &mut at, 9).contains(&ban(9, 1)), "the tenant's second");
}
