#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mfaas_dispatch::{CordonId, WorkerId};

use super::Crew;
use crate::cores::Cores;
use crate::serving::intake::intake;

/// A crew that never gets a slab, so that its keepers wait and no process is started.
fn crew(places_max: usize) -> Arc<Crew> {
    let (intake, _outlet, _lives) = intake();
    Arc::new(Crew::new(PathBuf::new(), Cores::default(), places_max, intake, Arc::default()))
}

/// Cordon, wish and life of each place.
fn places(crew: &Crew) -> Vec<(u32, bool, u32)> {
    crew.lock().places.iter().map(|place| (place.cordon.0, place.wanted, place.life)).collect()
}

/// Waits until the keepers have come to this.
fn settles(crew: &Crew, expected: &[(u32, bool, u32)]) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while places(crew) != expected || crew.lock().places.iter().any(|place| place.vacant == place.wanted) {
        assert!(Instant::now() < deadline, "{:?} is not {expected:?}", places(crew));
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn worker(place: u16, life: u32) -> WorkerId {
    WorkerId { place, life }
}

#[test]
fn there_are_never_more_places_than_allowed_and_who_finds_none_waits() {
    let crew = crew(2);
    crew.man(CordonId::SHARED, 1).unwrap();
    crew.unpark(CordonId(1), 1);
    crew.unpark(CordonId(2), 1);
    crew.unpark(CordonId(2), 1);
    settles(&crew, &[(0, true, 0), (1, true, 0)]);
    assert_eq!(crew.lock().waiting, [CordonId(2)], "once");
    crew.park(worker(1, 0));
    settles(&crew, &[(0, true, 0), (2, true, 1)]);
    assert!(crew.lock().waiting.is_empty());
    // News of the worker that was there before mean nothing to the one that comes.
    crew.park(worker(1, 0));
    settles(&crew, &[(0, true, 0), (2, true, 1)]);
    crew.close();
}

#[test]
fn a_parked_place_is_its_cordons_until_another_needs_it() {
    let crew = crew(4);
    crew.unpark(CordonId(1), 1);
    crew.park(worker(0, 0));
    settles(&crew, &[(1, false, 0)]);
    crew.unpark(CordonId(1), 1);
    settles(&crew, &[(1, true, 0)]);
    crew.park(worker(0, 0));
    settles(&crew, &[(1, false, 0)]);
    crew.unpark(CordonId(2), 1);
    settles(&crew, &[(2, true, 1)]);
    // Its place is another's now, so it gets a new one.
    crew.unpark(CordonId(1), 1);
    settles(&crew, &[(2, true, 1), (1, true, 0)]);
    crew.close();
}
