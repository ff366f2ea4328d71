#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use mfaas_dispatch::{PoolKey, PoolKind, SlabId, WorkerId};

use super::{STARTING_MAX, Wanted, WorkerSupervisor};
use crate::cores::Cores;
use crate::image::sealed_memory;
use crate::serving::Sharing;
use crate::serving::intake::{Event, Outlet, intake};
use crate::serving::process::WorkerKind;

const PATIENCE: Duration = Duration::from_secs(20);
/// Long enough that what must not happen would have.
const A_WHILE: Duration = Duration::from_millis(200);
const SLAB: SlabId = SlabId { number: 3, life: 2 };

/// A supervisor whose workers are this program.
fn supervisor(program: PathBuf) -> (Arc<WorkerSupervisor>, Outlet) {
    let (intake, outlet, _lives) = intake();
    let supervisor = WorkerSupervisor::new(
        program,
        Cores::default(),
        intake,
        Arc::default(),
        Sharing::Never,
        WorkerKind::MICRO,
        None,
    );
    (Arc::new(supervisor), outlet)
}

fn wanted(place: u16) -> Wanted {
    let pool = PoolKey { slab: SLAB.number, kind: PoolKind::Short };
    Wanted { id: WorkerId { place, life: 1 }, pool, slab: SLAB }
}

/// Waits until so many deaths were reported, and returns whose.
fn deaths(outlet: &mut Outlet, count: usize) -> BTreeSet<u16> {
    let deadline = Instant::now() + PATIENCE;
    let mut dead = BTreeSet::new();
    while dead.len() < count {
        match outlet.next() {
            Some(Event::Died(id)) => assert!(dead.insert(id.place), "{id:?} died twice"),
            Some(other) => panic!("{other:?}"),
            None => std::thread::sleep(Duration::from_millis(1)),
        }
        assert!(Instant::now() < deadline, "{dead:?}");
    }
    dead
}

fn ends(supervisor: &WorkerSupervisor) {
    let deadline = Instant::now() + PATIENCE;
    while !supervisor.is_gone() {
        assert!(Instant::now() < deadline, "{supervisor:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_worker_waits_for_its_slab_and_for_no_other() {
    let (supervisor, _outlet) = supervisor(PathBuf::new());
    let (result, received) = mpsc::channel();
    let waits = Arc::clone(&supervisor);
    let waiting = std::thread::spawn(move || result.send(waits.await_turn(SLAB).is_some()));
    let memory = || Some(sealed_memory(b"").unwrap());
    supervisor.give_slab(SlabId { number: SLAB.number + 1, ..SLAB }, memory());
    supervisor.give_slab(SlabId { life: SLAB.life - 1, ..SLAB }, memory());
    assert!(received.recv_timeout(A_WHILE).is_err(), "neither is its own");
    supervisor.give_slab(SLAB, memory());
    assert_eq!(received.recv_timeout(PATIENCE), Ok(true));
    waiting.join().unwrap().unwrap();
}

#[test]
fn a_worker_without_slab_or_process_is_reported_dead() {
    let memory = || Some(sealed_memory(b"").unwrap());
    let newer = SlabId { life: SLAB.life + 1, ..SLAB };
    for (why, slab, memory) in [
        ("it cannot be made", SLAB, None),
        ("its number has another life", newer, memory()),
        ("there is no such program", SLAB, memory()),
    ] {
        let (supervisor, mut outlet) = supervisor(PathBuf::from("/nonexistent/worker"));
        assert!(supervisor.spawn(wanted(5)));
        std::thread::sleep(A_WHILE);
        assert!(outlet.next().is_none(), "{why}: not before that is known");
        supervisor.give_slab(slab, memory);
        assert_eq!(deaths(&mut outlet, 1), BTreeSet::from([5]), "{why}");
        ends(&supervisor);
        assert_eq!(supervisor.lock().starting, 0, "{why}: others may start");
    }
}

/// Who asks is who reads reports: it hears of this at once.
#[test]
fn a_worker_without_a_thread_is_not_reported() {
    let (mut supervisor, mut outlet) = supervisor(PathBuf::new());
    // More than an address space has.
    Arc::get_mut(&mut supervisor).unwrap().stack_bytes = 1 << 50;
    assert!(!supervisor.spawn(wanted(5)));
    assert!(outlet.next().is_none());
    assert!(supervisor.is_gone());
}

#[test]
fn news_of_a_slabs_old_life_take_nothing_from_the_new_one() {
    let (supervisor, _outlet) = supervisor(PathBuf::new());
    supervisor.give_slab(SLAB, Some(sealed_memory(b"").unwrap()));
    supervisor.forget_slab(SlabId { life: SLAB.life - 1, ..SLAB });
    assert!(supervisor.await_turn(SLAB).is_some());
    supervisor.forget_slab(SLAB);
    assert!(supervisor.lock().slabs.is_empty());
}

#[test]
fn a_supervisor_that_closes_ends_all_that_wait_and_starts_none() {
    let (supervisor, mut outlet) = supervisor(PathBuf::new());
    assert!((0..6).all(|place| supervisor.spawn(wanted(place))));
    std::thread::sleep(A_WHILE);
    assert!(!supervisor.is_gone());
    supervisor.close();
    assert_eq!(deaths(&mut outlet, 6).len(), 6);
    ends(&supervisor);
    assert!(supervisor.spawn(wanted(6)));
    supervisor.give_slab(SLAB, Some(sealed_memory(b"").unwrap()));
    assert_eq!(deaths(&mut outlet, 1), BTreeSet::from([6]));
    ends(&supervisor);
}

/// A program that reports its start, and ends when it may.
fn slow_program(home: &Path) -> PathBuf {
    let (program, here) = (home.join("worker"), home.display());
    let script = format!(
        "#!/bin/sh\n: > {here}/started.$$\nwhile [ ! -e {here}/go ]; do /bin/sleep 0.01; done\nexit 1\n"
    );
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).unwrap();
    program
}

fn started(home: &Path) -> usize {
    let names = std::fs::read_dir(home).unwrap().map(|entry| entry.unwrap().file_name());
    names.filter(|name| name.to_str().unwrap().starts_with("started.")).count()
}

#[test]
fn few_start_at_a_time_and_the_others_come_after_them() {
    const MORE: usize = STARTING_MAX + 2;
    let home = tempfile::tempdir().unwrap();
    let (supervisor, mut outlet) = supervisor(slow_program(home.path()));
    supervisor.give_slab(SLAB, Some(sealed_memory(b"").unwrap()));
    assert!((0..MORE as u16).all(|place| supervisor.spawn(wanted(place))));
    let deadline = Instant::now() + PATIENCE;
    while started(home.path()) < STARTING_MAX {
        assert!(Instant::now() < deadline, "{}", started(home.path()));
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(A_WHILE);
    assert_eq!(started(home.path()), STARTING_MAX);
    std::fs::write(home.path().join("go"), "").unwrap();
    assert_eq!(deaths(&mut outlet, MORE).len(), MORE);
    assert_eq!(started(home.path()), MORE);
    ends(&supervisor);
}
