#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

//! Processes of this machine, and texts of its kernel.

use std::process::{Child, Command};

use mfaas_confine::SchedulingClass;

use super::{Stat, is_in_background, is_or_descends, parse, set_class, stat, tree};

/// Ends with the test.
struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_name_with_brackets_and_spaces_is_a_name() {
    let text = "7 (a) b (c) S 5 1 1 0 -1 0 0 0 0 0 1 20 300 4000 20 0 1 0 4242 1000 33 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 5 0\n";
    let found = parse(text).unwrap();
    assert_eq!(
        found,
        Stat { name: "a) b (c".to_owned(), parent: 5, cpu_ticks: 4321, started: 4242, pages: 33, policy: 5 }
    );
    assert_eq!(parse("7 (cut) S 5"), None);
}

#[test]
fn a_child_descends_from_its_parent_and_not_the_other_way_round() {
    let child = Ends(Command::new("sleep").arg("60").spawn().unwrap());
    let (own, pid) = (std::process::id(), child.0.id());
    assert!(is_or_descends(pid, own));
    assert!(is_or_descends(own, own));
    assert!(!is_or_descends(own, pid));
    assert!(tree(own).iter().any(|(one, _)| *one == pid));
    assert_eq!(tree(pid).len(), 1);
    assert_eq!(stat(pid).unwrap().parent, own);
}

/// Threads have names of their own.
#[test]
fn threads_that_work_in_the_background_say_so_by_their_names() {
    let is_background = |name: &str| {
        let thread = std::thread::Builder::new().name(name.to_owned());
        let ask = || is_in_background(std::process::id(), rustix::thread::gettid());
        thread.spawn(ask).unwrap().join().unwrap()
    };
    assert!(is_background("bulk-dispatcher"));
    assert!(!is_background("dispatcher"));
}

/// One that is alone may be put where nothing else runs, and back only by who may.
#[test]
fn a_process_is_put_into_a_class() {
    let child = Ends(Command::new("sleep").arg("60").spawn().unwrap());
    set_class(child.0.id(), SchedulingClass::Idle).unwrap();
    assert_eq!(stat(child.0.id()).unwrap().policy, SchedulingClass::Idle.policy());
}
