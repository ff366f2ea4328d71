//! Functions that a call calls where it is.

use super::*;

fn lend(scheduler: &mut Scheduler, place: u16, job: JobId, number: u32) -> Option<u32> {
    scheduler.lend(worker(place, 1), job, FunctionId(number))
}

/// Functions 1 and 2 of one tenant, 3 of another one, and a worker of all.
fn neighbours() -> Scheduler {
    let mut scheduler = shared(LIMITS);
    for (number, tenant) in [(1, 1), (2, 1), (3, 2)] {
        define(&mut scheduler, number, tenant);
    }
    man(&mut scheduler, 0);
    scheduler
}

#[test]
fn an_image_stays_as_long_as_the_call_is_on_its_core_that_may_call_it() {
    let mut scheduler = neighbours();
    let (job, _) = submit(&mut scheduler, 0, 1);
    assert_eq!(lend(&mut scheduler, 0, job, 2), Some(2));
    assert_eq!(lend(&mut scheduler, 0, job, 2), Some(2), "and once more");
    assert!(with(|out| scheduler.retire(FunctionId(2), out)).is_empty(), "it is needed");
    assert_eq!(lend(&mut scheduler, 0, job, 2), None, "what is retired is called no more");
    let commands = completed(&mut scheduler, 10, 0, job);
    assert!(
        commands.iter().any(|command| matches!(command, Command::Unload { function: FunctionId(2), .. })),
        "{commands:?}"
    );
}

#[test]
fn an_image_stays_until_the_worker_has_died_whose_call_may_call_it() {
    let mut scheduler = neighbours();
    let (job, _) = submit(&mut scheduler, 0, 1);
    assert_eq!(lend(&mut scheduler, 0, job, 2), Some(2));
    assert!(with(|out| scheduler.retire(FunctionId(2), out)).is_empty(), "it is needed");
    let commands = died(&mut scheduler, 10, 0, 1);
    let leaves = |command: &Command| matches!(command, Command::Unload { function: FunctionId(2), .. });
    assert!(commands.iter().any(leaves), "{commands:?}");
}

#[test]
fn who_may_not_be_called_by_a_call_where_it_is_is_not_lent() {
    let mut scheduler = neighbours();
    let (job, _) = submit(&mut scheduler, 0, 1);
    let (behind, _) = submit(&mut scheduler, 0, 1);
    for (number, why) in [(1, "itself"), (3, "another tenant's"), (4, "not defined"), (99, "beyond all")] {
        assert_eq!(lend(&mut scheduler, 0, job, number), None, "{why}");
    }
    assert_eq!(lend(&mut scheduler, 0, behind, 2), None, "it is not on the core");
    assert_eq!(lend(&mut scheduler, 1, job, 2), None, "it is in another worker");
    assert_eq!(scheduler.lend(worker(0, 2), job, FunctionId(2)), None, "or in another life of it");
    define_as(&mut scheduler, 5, Loaded { pool: PoolKey { slab: 0, kind: PoolKind::Long }, ..function(1) });
    assert_eq!(lend(&mut scheduler, 0, job, 5), None, "it runs in another pool");
    scheduler.ban(FunctionId(2), 1, &mut Commands::new()).unwrap();
    assert_eq!(lend(&mut scheduler, 0, job, 2), None, "it is banned");
    scheduler.lift(FunctionId(2));
    assert_eq!(lend(&mut scheduler, 0, job, 2), Some(2), "the twin");
    scheduler.renew(&mut Commands::new());
    assert_eq!(lend(&mut scheduler, 0, job, 2), None, "its slab is gone");
}

/// A worker dies in a call of 1, which may have called 2: both run alone, where the author falls again, and neither calls the other.
#[test]
fn a_death_is_owed_to_a_function_that_was_called_within_a_call_as_well() {
    let mut scheduler = neighbours();
    let (job, _) = submit(&mut scheduler, 0, 1);
    assert_eq!(lend(&mut scheduler, 0, job, 2), Some(2));
    let commands = died(&mut scheduler, 1, 0, 1);
    let suspects = |number| Command::Suspect { function: FunctionId(number) };
    assert!(commands.contains(&suspects(1)) && commands.contains(&suspects(2)), "{commands:?}");
    assert_eq!(scheduler.banned().count(), 0);
    let (job, commands) = submit(&mut scheduler, 2, 1);
    let (id, _) = spawns(&commands)[0];
    assert_eq!(starts(&ready(&mut scheduler, 3, &commands)), [(id, job)]);
    assert_eq!(scheduler.lend(id, job, FunctionId(2)), None);
}
