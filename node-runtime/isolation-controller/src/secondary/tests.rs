#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

//! An id that is another's by the time its process is moved. As anybody but root there are no groups, and classes alone.

use std::process::{Child, Command};

use mfaas_confine::SchedulingClass;

use super::{Origin, Secondary};
use crate::groups::{Groups, Naming};
use crate::members::Members;
use crate::processes::{self, Process, Stat};

/// Ends with the test.
struct Ends(Child);

impl Ends {
    fn start() -> Self {
        Self(Command::new("sleep").arg("60").spawn().unwrap())
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Its groups, and the number of its class.
    fn place(&self) -> (String, u64) {
        let groups = std::fs::read_to_string(format!("/proc/{}/cgroup", self.pid())).unwrap();
        (groups, processes::stat(self.pid()).unwrap().policy)
    }
}

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// With the groups of this machine, and without.
fn both(test: &str) -> [Secondary; 2] {
    let name = format!("mfaas-test-{test}-{}", std::process::id());
    let without = Secondary { groups: Groups::default(), members: Members::default() };
    let naming = Naming { name: &name, moves_primary: false, marks_egress: false };
    [Secondary::recall(naming, Vec::new()), without]
}

/// A process that has ended, whose id a stranger has.
fn ended(stranger: &Ends) -> Process {
    let first = Ends::start();
    let process = Process::open(first.pid()).unwrap();
    drop(first);
    process.with_id_of(stranger.pid())
}

#[test]
fn a_stranger_that_has_the_id_by_now_is_put_back() {
    for secondary in both("stranger") {
        let stranger = Ends::start();
        let before = stranger.place();
        let refused = secondary.place(&ended(&stranger), true, true).unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::NotFound, "{refused}");
        assert_eq!(stranger.place(), before);
        // The same of one that lives moves it.
        secondary.place(&Process::open(stranger.pid()).unwrap(), true, true).unwrap();
        assert_ne!(stranger.place(), before);
        drop(stranger);
        secondary.groups.remove();
    }
}

#[test]
fn a_stranger_that_began_after_we_looked_goes_where_its_parent_is() {
    for secondary in both("later") {
        let stranger = Ends::start();
        let before = stranger.place();
        secondary.place(&Process::open(stranger.pid()).unwrap(), true, true).unwrap();
        // We looked when another one had its id, which was in the secondary.
        let looked = Origin::of(stranger.pid()).unwrap();
        let looked = Origin { stat: Stat { started: looked.stat.started - 1, ..looked.stat }, ..looked };
        secondary.put_back(stranger.pid(), looked).unwrap();
        assert_eq!(stranger.place(), before);
        drop(stranger);
        secondary.groups.remove();
    }
}

/// Nobody is there to be moved, and nothing else is.
#[test]
fn what_has_ended_is_not_placed() {
    for secondary in both("ended") {
        let ends = Ends::start();
        let process = Process::open(ends.pid()).unwrap();
        assert!(process.lives());
        drop(ends);
        assert!(!process.lives());
        assert!(secondary.place(&process, true, true).is_err());
        secondary.groups.remove();
    }
}

#[test]
fn classes_are_known_by_the_kernels_numbers() {
    assert_eq!(
        [0, 5, 2, 1].map(SchedulingClass::of),
        [Some(SchedulingClass::Other), Some(SchedulingClass::Idle), Some(SchedulingClass::RealTime), None]
    );
}
