//! Which images are in their slabs.

use super::*;
use crate::Standing;

#[test]
fn a_cold_function_is_loaded_with_its_first_call() {
    let mut scheduler = serving(1);
    let cold = Loaded { residency: Residency::OnDemand, ..function(3) };
    assert!(with(|commands| scheduler.define(FunctionId(3), cold, commands).unwrap()).is_empty());
    let (first, commands) = submit(&mut scheduler, 0, 3);
    assert_eq!(commands, [Command::Load { function: FunctionId(3), slab: SLAB }]);
    let load = commands;
    let (second, commands) = submit(&mut scheduler, 0, 3);
    assert!(commands.is_empty(), "it is asked for once");
    assert_eq!(complete_loads(&mut scheduler, 5, &load), [start(0, first, 3)]);
    assert_eq!(completed(&mut scheduler, 6, 0, first)[1], start(0, second, 3));
}

#[test]
fn what_cannot_be_loaded_is_refused_until_it_is_defined_again() {
    let mut scheduler = serving(1);
    let cold = Loaded { residency: Residency::OnDemand, ..function(3) };
    scheduler.define(FunctionId(3), cold, &mut Commands::new()).unwrap();
    let (job, _) = submit(&mut scheduler, 0, 3);
    let failed = with(|out| scheduler.load_failed(FunctionId(3), SLAB, out));
    assert_eq!(answers(&failed), [(job, Outcome::LoadFailed)]);
    assert_eq!(refused(&mut scheduler, 2, 3), Refusal::NotLoadable);
    define_as(&mut scheduler, 3, function(3));
    submit(&mut scheduler, 3, 3);
}

#[test]
fn the_least_recently_used_idle_function_makes_room() {
    let mut scheduler = shared(LIMITS);
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
    let unload = Command::Unload { function: FunctionId(3), slot: 3, slab: SLAB };
    assert_eq!(commands[..2], [unload, Command::Load { function: FunctionId(10), slab: SLAB }]);
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
    assert_eq!(commands, [Command::Unload { function: FunctionId(2), slot: 2, slab: SLAB }]);
    assert!(unloaded(&mut scheduler, 2).is_empty());
    let commands = completed(&mut scheduler, 2, 0, running);
    let reclaim = |slot| Command::Reclaim { slot, slab: SLAB };
    let unload = Command::Unload { function: FunctionId(1), slot: 1, slab: SLAB };
    assert_eq!(commands[0], reclaim(2), "the call that could have jumped there ended");
    assert_eq!(commands[2..], [unload, Command::Load { function: FunctionId(3), slab: SLAB }]);
    assert_eq!(unloaded(&mut scheduler, 1), [reclaim(1)]);
}

#[test]
fn an_image_that_fits_nowhere_takes_the_place_of_another() {
    let mut scheduler = serving(1);
    let cold = Loaded { residency: Residency::OnDemand, ..function(3) };
    scheduler.define(FunctionId(3), cold, &mut Commands::new()).unwrap();
    submit(&mut scheduler, 0, 3);
    let no_room = |scheduler: &mut Scheduler| with(|out| scheduler.no_room(FunctionId(3), SLAB, out));
    for victim in [1, 2] {
        let unload = Command::Unload { function: FunctionId(victim), slot: victim, slab: SLAB };
        let reclaim = Command::Reclaim { slot: victim, slab: SLAB };
        let load = Command::Load { function: FunctionId(3), slab: SLAB };
        assert_eq!(no_room(&mut scheduler), [unload]);
        assert_eq!(unloaded(&mut scheduler, victim), [reclaim, load], "in the room that it got back");
    }
    assert_eq!(answers(&no_room(&mut scheduler))[0].1, Outcome::LoadFailed, "the slab is empty");
}

/// It is loaded when somebody calls it.
#[test]
fn an_image_that_nobody_waits_for_takes_nobodys_place() {
    let mut scheduler = serving(1);
    let load = Command::Load { function: FunctionId(3), slab: SLAB };
    assert_eq!(with(|out| scheduler.define(FunctionId(3), function(3), out).unwrap()), [load]);
    let mut commands = Commands::new();
    let never_fits = scheduler.no_room(FunctionId(3), SLAB, &mut commands);
    assert_eq!((never_fits, &commands[..]), (Some(false), &[][..]));
    assert_eq!(scheduler.standing(FunctionId(3)), Standing::Cold);
    assert_eq!(submit(&mut scheduler, 0, 3).1, [load]);
}

#[test]
fn that_an_image_found_no_room_in_a_slab_that_is_gone_means_nothing() {
    let mut scheduler = serving(1);
    with(|out| scheduler.define(FunctionId(3), function(3), out).unwrap());
    with(|out| scheduler.renew(out));
    let mut commands = Commands::new();
    assert_eq!(scheduler.no_room(FunctionId(3), SLAB, &mut commands), None);
    assert_eq!((&commands[..], scheduler.standing(FunctionId(3))), (&[][..], Standing::Coming));
}

/// Others that find no room wait for the same, also where nothing else is left: that is no fault of theirs.
#[test]
fn nothing_else_leaves_while_room_comes_back() {
    let mut scheduler = serving(1);
    let cold = Loaded { residency: Residency::OnDemand, ..function(3) };
    for number in [3, 4, 5] {
        scheduler.define(FunctionId(number), cold, &mut Commands::new()).unwrap();
        submit(&mut scheduler, 0, number);
    }
    let unload = |number| Command::Unload { function: FunctionId(number), slot: number, slab: SLAB };
    assert_eq!(with(|out| scheduler.no_room(FunctionId(3), SLAB, out)), [unload(1)]);
    assert_eq!(with(|out| scheduler.no_room(FunctionId(4), SLAB, out)), [], "2 stays");
    assert_eq!(with(|out| scheduler.retire(FunctionId(2), out)), [unload(2)]);
    assert_eq!(with(|out| scheduler.no_room(FunctionId(5), SLAB, out)), [], "it may fit in a moment");
    let load = |number| Command::Load { function: FunctionId(number), slab: SLAB };
    let commands = unloaded(&mut scheduler, 1);
    assert_eq!(commands, [Command::Reclaim { slot: 1, slab: SLAB }, load(5), load(4), load(3)]);
    assert_eq!(unloaded(&mut scheduler, 1), [], "once");
}

/// A tenant fills its window and keeps it busy: that is nobody else's matter.
#[test]
fn who_waits_for_room_of_a_slab_does_not_keep_others_from_theirs() {
    let mut scheduler = shared(LIMITS);
    let cold = |tenant| Loaded { residency: Residency::OnDemand, ..own(tenant) };
    define_as(&mut scheduler, 3, own(3));
    for (number, tenant) in [(4, 3), (5, 3), (6, 6)] {
        scheduler.define(FunctionId(number), cold(tenant), &mut Commands::new()).unwrap();
    }
    submit(&mut scheduler, 0, 4);
    submit(&mut scheduler, 0, 5);
    let slab = SlabId { number: 3, life: 0 };
    let unload = Command::Unload { function: FunctionId(3), slot: 3, slab };
    assert_eq!(with(|out| scheduler.no_room(FunctionId(5), slab, out)), [unload]);
    assert_eq!(with(|out| scheduler.no_room(FunctionId(4), slab, out)), []);
    let load = |function, slab| Command::Load { function: FunctionId(function), slab };
    let (_, commands) = submit(&mut scheduler, 1, 6);
    assert_eq!(commands, [load(6, SlabId { number: 6, life: 0 })]);
    let commands = with(|out| scheduler.unloaded(slab, 3, out));
    assert_eq!(
        commands,
        [Command::Reclaim { slot: 3, slab }, load(4, slab), load(5, slab)],
        "in their order"
    );
}

/// The loader has other things to do first; meanwhile any call may jump into the image.
#[test]
fn a_call_that_began_before_the_traps_stood_is_waited_for() {
    let mut scheduler = serving(1);
    let cold = Loaded { residency: Residency::OnDemand, ..function(3) };
    scheduler.define(FunctionId(3), cold, &mut Commands::new()).unwrap();
    submit(&mut scheduler, 0, 3);
    let commands = with(|out| scheduler.no_room(FunctionId(3), SLAB, out));
    assert_eq!(
        commands,
        [Command::Unload { function: FunctionId(1), slot: 1, slab: SLAB }],
        "nobody is busy"
    );
    let (inside, commands) = submit(&mut scheduler, 1, 2);
    assert_eq!(commands, [start(0, inside, 2)]);
    assert!(unloaded(&mut scheduler, 1).is_empty(), "it may be there");
    let commands = completed(&mut scheduler, 2, 0, inside);
    let load = Command::Load { function: FunctionId(3), slab: SLAB };
    assert_eq!(commands[..2], [Command::Reclaim { slot: 1, slab: SLAB }, load]);
}

/// Its worker has begun the second of them, and the end of the first is not known yet.
#[test]
fn every_call_that_a_worker_had_when_the_traps_stood_is_waited_for() {
    for dies in [false, true] {
        let mut scheduler = shared(LIMITS);
        let short = Loaded { budget: Budget::from_micros(50).unwrap(), ..function(1) };
        define_as(&mut scheduler, 1, short);
        define(&mut scheduler, 2, 2);
        let (first, _) = submit(&mut scheduler, 0, 1);
        let (second, commands) = submit(&mut scheduler, 0, 1);
        assert_eq!(commands, [start(0, second, 1)], "behind the first");
        let commands = with(|out| scheduler.retire(FunctionId(2), out));
        assert_eq!(commands, [Command::Unload { function: FunctionId(2), slot: 2, slab: SLAB }]);
        assert!(unloaded(&mut scheduler, 2).is_empty());
        let (third, commands) = submit(&mut scheduler, 1, 1);
        assert_eq!(commands, [start(0, third, 1)], "it finds traps");
        assert_eq!(completed(&mut scheduler, 2, 0, first).len(), 1, "the second may be there");
        let commands =
            if dies { died(&mut scheduler, 3, 0, 1) } else { completed(&mut scheduler, 3, 0, second) };
        assert_eq!(commands[0], Command::Reclaim { slot: 2, slab: SLAB }, "the third is not waited for");
    }
}

/// Workers of all kinds map the slab, also those in which one function runs alone.
#[test]
fn workers_of_every_pool_of_the_slab_are_waited_for_and_no_others() {
    let mut scheduler = shared(LIMITS);
    let long = PoolKey { slab: 3, kind: PoolKind::Long };
    define_as(&mut scheduler, 3, own(3));
    define_as(&mut scheduler, 4, own(3));
    define_as(&mut scheduler, 5, Loaded { pool: long, ..own(3) });
    define_as(&mut scheduler, 6, own(6));
    let mut started = Vec::new();
    for number in [3, 5, 6] {
        let (job, commands) = submit(&mut scheduler, 0, number);
        let (id, _) = spawns(&commands)[0];
        assert_eq!(starts(&ready(&mut scheduler, 0, &commands)), [(id, job)]);
        started.push((id, job));
    }
    let slab = SlabId { number: 3, life: 0 };
    with(|out| scheduler.retire(FunctionId(4), out));
    assert!(with(|out| scheduler.unloaded(slab, 4, out)).is_empty());
    let reclaims = |commands: &Commands| commands.contains(&Command::Reclaim { slot: 4, slab });
    let (short, job) = started[0];
    // It says nonsense and is doomed, which does not end what runs there.
    let commands = completed_by(&mut scheduler, 1, short, JobId(1 << 40));
    assert!(matches!(commands[..], [Command::Kill { .. }]), "{commands:?}");
    assert!(!reclaims(&completed_by(&mut scheduler, 2, started[1].0, started[1].1)), "{job:?} runs");
    let commands = with(|out| scheduler.worker_died(Moment(3), short, out));
    assert!(reclaims(&commands), "{commands:?}");
}

#[test]
fn what_a_former_loader_unloaded_means_nothing() {
    let mut scheduler = serving(1);
    with(|out| scheduler.retire(FunctionId(1), out));
    with(|out| scheduler.renew(out));
    assert!(unloaded(&mut scheduler, 1).is_empty());
    assert!(unloaded(&mut scheduler, 9).is_empty(), "nothing was there");
}

/// Hostile code of a call that runs may stand in the image that left.
#[test]
fn room_comes_back_when_the_calls_of_then_have_ended() {
    let mut scheduler = serving(2);
    let cold = Loaded { residency: Residency::OnDemand, ..function(3) };
    scheduler.define(FunctionId(3), cold, &mut Commands::new()).unwrap();
    let (first, _) = submit(&mut scheduler, 0, 1);
    let (second, _) = submit(&mut scheduler, 0, 1);
    submit(&mut scheduler, 0, 3);
    let commands = with(|out| scheduler.no_room(FunctionId(3), SLAB, out));
    assert_eq!(commands, [Command::Unload { function: FunctionId(2), slot: 2, slab: SLAB }]);
    assert!(unloaded(&mut scheduler, 2).is_empty());
    let commands = completed(&mut scheduler, 1, 0, first);
    assert_eq!(
        commands,
        [Command::Answer { job: first, outcome: Outcome::Finished }],
        "the other still runs"
    );
    let commands = died(&mut scheduler, 2, 1, 1);
    let load = Command::Load { function: FunctionId(3), slab: SLAB };
    assert_eq!(commands[..2], [Command::Reclaim { slot: 2, slab: SLAB }, load], "{second:?} ran there");
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
fn new_slabs_replace_the_workers_and_load_again_what_was_used_last_first() {
    let mut scheduler = serving(2);
    let (running, _) = submit(&mut scheduler, 0, 1);
    let commands = with(|out| scheduler.renew(out));
    let slab = SlabId { number: 0, life: 1 };
    let load = |number| Command::Load { function: FunctionId(number), slab };
    assert_eq!(commands, [Command::Stop { worker: worker(1, 1) }, load(1), load(2)]);
    let (waits, commands) = submit(&mut scheduler, 1, 1);
    assert!(commands.is_empty());
    let stale = with(|out| scheduler.loaded(Moment(2), FunctionId(1), SLAB, 1, 10, out));
    assert!(stale.is_empty(), "news of the old slab");
    assert_eq!(scheduler.standing(FunctionId(1)), Standing::Coming);
    let commands = completed(&mut scheduler, 3, 0, running);
    assert_eq!(commands[0], Command::Stop { worker: worker(0, 1) });
    assert_eq!(commands[1..], [Command::Answer { job: running, outcome: Outcome::Finished }]);
    let mut asked = died(&mut scheduler, 4, 0, 1);
    asked.extend(with(|out| scheduler.loaded(Moment(5), FunctionId(1), slab, 7, 10, out)));
    let id = worker(0, 2);
    assert!(asked.contains(&Command::Spawn { worker: id, pool: PoolKey::SHARED, slab }), "{asked:?}");
    let late = with(|out| scheduler.worker_ready(Moment(1_006), id, SLAB, out).unwrap());
    assert_eq!(late[0], Command::Stop { worker: id }, "it maps the old slab");
    let mut commands = died(&mut scheduler, 1_007, 0, 2);
    commands.extend(late);
    commands.extend(tick(&mut scheduler, 3_000));
    commands.extend(ready(&mut scheduler, 3_000, &commands.clone()));
    assert!(starts(&commands).iter().any(|(_, job)| *job == waits), "{commands:?}");
}

#[test]
fn a_slab_that_nobody_needs_goes_away_and_comes_back_with_another_life() {
    let mut scheduler = shared(LIMITS);
    define_as(&mut scheduler, 3, own(3));
    let (job, commands) = submit(&mut scheduler, 0, 3);
    let (id, _) = spawns(&commands)[0];
    ready(&mut scheduler, 1, &commands);
    completed_by(&mut scheduler, 2, id, job);
    let slab = SlabId { number: 3, life: 0 };
    let commands = with(|out| scheduler.retire(FunctionId(3), out));
    let unload = Command::Unload { function: FunctionId(3), slot: 3, slab };
    assert_eq!(commands, [unload], "a worker maps it");
    assert_eq!(with(|out| scheduler.unloaded(slab, 3, out)), [Command::Reclaim { slot: 3, slab }]);
    assert_eq!(tick(&mut scheduler, 1_100), [Command::Stop { worker: id }]);
    let commands = with(|out| scheduler.worker_died(Moment(1_200), id, out));
    assert_eq!(commands, [Command::CloseSlab { slab }]);
    let next = SlabId { number: 3, life: 1 };
    let commands = with(|out| scheduler.define(FunctionId(3), own(3), out).unwrap());
    assert_eq!(commands, [Command::Load { function: FunctionId(3), slab: next }]);
    let stale = with(|out| scheduler.loaded(Moment(1_300), FunctionId(3), slab, 1, 10, out));
    assert!(stale.is_empty() && scheduler.standing(FunctionId(3)) == Standing::Coming);
    complete_loads(&mut scheduler, 1_400, &commands);
    let (_, commands) = submit(&mut scheduler, 1_500, 3);
    assert!(matches!(commands[..], [Command::Spawn { slab, .. }] if slab == next), "{commands:?}");
}

#[test]
fn a_function_changes_its_slab_only_when_nothing_of_it_is_in_the_old_one() {
    let mut scheduler = shared(LIMITS);
    define(&mut scheduler, 3, 3);
    let (running, _) = submit(&mut scheduler, 0, 3);
    let (waits, _) = submit(&mut scheduler, 0, 3);
    let moves = |scheduler: &mut Scheduler| scheduler.define(FunctionId(3), own(3), &mut Commands::new());
    assert_eq!(moves(&mut scheduler), Err(Misuse::NoSuchPool(own(3).pool)));
    // It does not fit any more after the loader's end, so that it is cold while its call waits.
    with(|out| scheduler.renew(out));
    with(|out| scheduler.load_failed(FunctionId(3), SlabId { number: 0, life: 1 }, out));
    assert_eq!(scheduler.standing(FunctionId(3)), Standing::Cold);
    assert_eq!(
        moves(&mut scheduler),
        Err(Misuse::NoSuchPool(own(3).pool)),
        "its call waits for shared workers"
    );
    let mut commands = completed(&mut scheduler, 1, 0, running);
    commands.extend(died(&mut scheduler, 2, 0, 1));
    assert_eq!(answers(&ready(&mut scheduler, 3, &commands)), [(waits, Outcome::LoadFailed)]);
    assert_eq!(moves(&mut scheduler), Ok(()));
}
