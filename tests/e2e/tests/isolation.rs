//! Builds beside calls, on the isolation controller that `mfaas up` starts: who is placed where, and a build that is ended for
//! want of memory. What the controller does with its groups is tested where it lives.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::path::{Path, PathBuf};
use std::time::Duration;

use mfaas_harness::{Program, Stack, pack_directory, package, wait_for};
use serde_json::Value;

/// As root it is there without a word.
const WITH_ISOLATION: &[&str] = &["--isolation", "idle-class"];
/// What a deploy may take here.
const DEPLOY_MAX: Duration = Duration::from_secs(120);

/// The compiler evaluates it in 400 MB of memory, more than the least that a secondary can be given, and nothing of it is left.
/// Again and again, for some seconds: the controller has to look meanwhile.
const HUNGRY: &str = "struct Room<const N: usize>;\n\
    impl<const N: usize> Room<N> {\n\
        const BYTES: usize = { let room = [1u8; 400 << 20]; room[N] as usize + room.len() };\n\
    }\n\
    const BYTES: usize = Room::<0>::BYTES + Room::<1>::BYTES + Room::<2>::BYTES + Room::<3>::BYTES\n\
        + Room::<4>::BYTES + Room::<5>::BYTES + Room::<6>::BYTES + Room::<7>::BYTES;\n\
    pub fn handle(_request: &[u8]) -> Vec<u8> { (BYTES as u64).to_le_bytes().to_vec() }\n";

fn socket(stack: &Stack) -> PathBuf {
    stack.home().join("run/isolation/socket")
}

fn isolation(stack: &Stack, arguments: &[&str]) -> Value {
    let socket = socket(stack);
    let asked = ["--json", "node", "isolation", "--socket", socket.to_str().unwrap()];
    stack.cli(asked.iter().chain(arguments)).ok().json()
}

fn attempts_of(stack: &Stack, id: &str) -> i32 {
    let query = "SELECT attempt FROM builds WHERE deployment_id = $1::text::uuid";
    stack.sql().query_one(query, &[&id]).unwrap().get(0)
}

fn hungry(name: &str) -> Vec<u8> {
    pack_directory(package(name, HUNGRY, "").path())
}

#[test]
fn builders_are_secondary_and_the_node_is_primary() {
    let stack = Stack::start_with(WITH_ISOLATION);
    let role_of = |program: Program| {
        let pid = i64::from(stack.pid(program).as_raw_nonzero().get());
        let status = isolation(&stack, &["status"]);
        let members = status["members"].as_array().unwrap().clone();
        members.into_iter().find(|member| member["pid"] == pid).map(|member| member["role"].clone())
    };
    assert_eq!(role_of(Program::Builder), Some("secondary".into()));
    assert_eq!(role_of(Program::Acquirer), Some("secondary".into()));
    wait_for("the node to be primary", DEPLOY_MAX, || {
        (role_of(Program::Node) == Some("primary".into())).then_some(())
    });

    // The kill switch holds while everything starts anew.
    let _ = isolation(&stack, &["off"]);
    let _ = stack.down().ok();
    stack.up();
    assert_eq!(isolation(&stack, &["status"])["off"], true);
    let _ = isolation(&stack, &["on"]);
    assert_eq!(isolation(&stack, &["status"])["off"], false);
}

/// An operator's word reaches the controller of the machine, and what that says reaches the operator.
#[test]
fn what_the_site_wants_is_put_into_force_on_its_machines() {
    let stack = Stack::start_with(WITH_ISOLATION);
    let site = |arguments: &[&str]| {
        let asked = ["--json", "node", "isolation", "--site"];
        stack.cli(asked.iter().chain(arguments)).ok().json()
    };
    let revision = site(&["set", "--mode", "real-time"])["revision"].clone();
    wait_for("the node to say so", DEPLOY_MAX, || {
        let status = site(&["status"]);
        let said = &status["nodes"][0]["isolation"]["controller"];
        (said["revision"] == revision && said["mode"] == "real-time").then_some(())
    });
    assert_eq!(isolation(&stack, &["status"])["mode"], "real-time");
    let _ = site(&["off"]);
    wait_for("the kill switch", DEPLOY_MAX, || (isolation(&stack, &["status"])["off"] == true).then_some(()));
}

/// Its build begins again when there is memory, and no attempt was counted. The twin without the limit is never ended.
#[test]
fn a_build_that_is_ended_for_want_of_memory_is_queued_again() {
    let stack = Stack::start_with(WITH_ISOLATION);
    let twin = stack.upload("twin", hungry("twin"));
    assert_eq!(stack.settled(&twin)["state"], "admitted");
    assert_eq!((isolation(&stack, &["status"])["killed"].as_u64(), attempts_of(&stack, &twin)), (Some(0), 1));

    let _ = isolation(&stack, &["set", "--memory", "268435456"]);
    let id = stack.upload("hungry", hungry("hungry"));
    wait_for("its sandbox to be ended", DEPLOY_MAX, || {
        (isolation(&stack, &["status"])["killed"].as_u64() > Some(0)).then_some(())
    });
    let _ = isolation(&stack, &["set", "--memory", "none"]);
    let view = stack.settled(&id);
    assert_eq!((&view["state"], attempts_of(&stack, &id)), (&"admitted".into(), 1), "{view}");
    let log = stack.log(Program::Builder);
    assert!(log.contains("the isolation controller ended it"), "{log}");
}

/// A controller that is away is no reason to build without one.
#[test]
fn a_builder_that_names_a_controller_does_not_build_without_it() {
    let stack = Stack::start_with(WITH_ISOLATION);
    let gone = |path: &Path| std::fs::rename(path, path.with_extension("gone")).unwrap();
    gone(&socket(&stack));
    let id = stack.upload("hungry", hungry("hungry"));
    wait_for("the builder to say so", DEPLOY_MAX, || {
        stack.log(Program::Builder).contains("the isolation controller").then_some(())
    });
    assert_ne!(stack.deployment(&id)["state"], "admitted");
    std::fs::rename(socket(&stack).with_extension("gone"), socket(&stack)).unwrap();
    let view = stack.settled(&id);
    assert_eq!((&view["state"], attempts_of(&stack, &id)), (&"admitted".into(), 1), "{view}");
}
