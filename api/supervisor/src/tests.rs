#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::process::Command;
use std::time::Duration;

use crate::identity::Identities;
use crate::state::wait_until;
use crate::{Addresses, Home, Phase, State, is_supervised, stop_everything};

/// In the place of a supervisor: holds the home's lock until it is asked to stop, and ends half a second later.
const ENDS_SLOWLY: &str =
    "exec 9>\"$1\"; flock 9; trap 'flock -u 9; sleep 0.5; exit' TERM; while :; do sleep 0.02; done";

#[test]
fn a_supervisor_is_waited_for_until_its_process_has_ended() {
    let place = tempfile::tempdir().unwrap();
    let home = Home::at(place.path());
    home.prepare(&Identities::OneUid).unwrap();
    let mut supervisor = Command::new("sh")
        .args(["-c", ENDS_SLOWLY, "sh"])
        .arg(home.run().join("up.lock"))
        .env("HOLDS", home.root())
        .spawn()
        .unwrap();
    let state = State {
        pid: i32::try_from(supervisor.id()).unwrap(),
        version: String::new(),
        phase: Phase::Ready,
        one_uid: true,
        steps: vec![],
        failure: None,
        programs: vec![],
        addresses: Addresses::default(),
        profile: None,
        toolchain: None,
    };
    state.save(&home).unwrap();
    assert!(wait_until(Duration::from_secs(10), || is_supervised(&home)).unwrap());
    let left = stop_everything(&home);
    supervisor.wait().unwrap();
    assert_eq!(left.unwrap(), Vec::<String>::new());
}
