//! What a sandboxed command can reach. Every refusal has a twin outside, or with one layer taken off,
//! that shows that the attempt itself works.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use mfaas_confine::{AblationToken, Layer};
use mfaas_sandbox::{Access, Cancel, Exit, Level, SandboxError, SandboxSpec};

use crate::probes::{PROBE, REFUSED};
use crate::setup::{PRODUCTION, in_place, mount, probe_spec, run, sandbox, text, this_executable};

pub(crate) const TESTS: &[crate::Test] = &[
    ("files_of_the_host_cannot_be_read_or_seen", files_of_the_host_cannot_be_read_or_seen),
    ("landlock_alone_keeps_files_from_being_read", landlock_alone_keeps_files_from_being_read),
    ("only_the_work_directory_can_be_written", only_the_work_directory_can_be_written),
    ("what_was_written_cannot_be_executed", what_was_written_cannot_be_executed),
    ("the_network_is_not_there", the_network_is_not_there),
    ("processes_of_the_host_cannot_be_signalled", processes_of_the_host_cannot_be_signalled),
    ("environment_and_input_are_empty", environment_and_input_are_empty),
    ("a_weaker_sandbox_is_refused_or_reported", a_weaker_sandbox_is_refused_or_reported),
    ("a_production_helper_takes_no_layer_off", a_production_helper_takes_no_layer_off),
    ("an_incomplete_spec_is_refused", an_incomplete_spec_is_refused),
    ("a_missing_program_is_refused", a_missing_program_is_refused),
    ("mounts_of_the_host_stay_as_they_are", mounts_of_the_host_stay_as_they_are),
];

fn work() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

/// The probe's answer outside of any sandbox.
fn outside(probe: &[&str]) -> bool {
    Command::new(this_executable()).arg(PROBE).args(probe).status().unwrap().success()
}

fn inside(probe: &[&str]) -> Exit {
    run(probe_spec(work().path(), probe)).exit
}

const CAN: Exit = Exit::Code(0);
const CANNOT: Exit = Exit::Code(REFUSED as i32);

fn without(spec: SandboxSpec, layer: Layer) -> Exit {
    let token = AblationToken::for_tests();
    sandbox(spec).without(&token, layer).run(&Cancel::new()).unwrap().exit
}

fn files_of_the_host_cannot_be_read_or_seen() {
    for path in ["/etc/passwd", "/proc/self/environ", "/proc/1/status", "/usr", "/home"] {
        assert!(outside(&["see", path]), "{path} is there");
        assert_eq!(inside(&["see", path]), CANNOT, "{path}");
        assert_eq!(inside(&["read", path]), CANNOT, "{path}");
    }
    // landlock does not hide names: that is what the namespaces are for.
    let place = work();
    let spec = || in_place(probe_spec(place.path(), &["see", "/etc/passwd"]), place.path());
    assert_eq!(run(SandboxSpec { level: Level::Full, ..spec() }).exit, CANNOT);
    assert_eq!(without(spec(), Layer::Namespaces), CAN);
}

fn landlock_alone_keeps_files_from_being_read() {
    let place = work();
    let spec = || in_place(probe_spec(place.path(), &["read", "/etc/passwd"]), place.path());
    let token = AblationToken::for_tests();
    let outcome = sandbox(spec()).without(&token, Layer::Namespaces).run(&Cancel::new()).unwrap();
    assert_eq!((outcome.exit, outcome.level), (CANNOT, Level::Landlock));
    assert!(outside(&["read", "/etc/passwd"]));
}

fn only_the_work_directory_can_be_written() {
    let place = work();
    assert_eq!(run(probe_spec(place.path(), &["write", "/scratch/here"])).exit, CAN);
    assert_eq!(std::fs::read_to_string(place.path().join("here")).unwrap(), "written");
    assert_eq!(inside(&["write", "/tmp/scratch"]), CAN);
    for path in ["/new", "/probe", "/dev/new", "/lib/new", "/scratch/../new"] {
        assert_eq!(inside(&["write", path]), CANNOT, "{path}");
    }
    let readable = work();
    let mut spec = probe_spec(place.path(), &["write", "/readable/file"]);
    spec.mounts.push(mount(readable.path(), "/readable", Access::Read));
    assert_eq!(run(spec.clone()).exit, CANNOT);
    assert_eq!(without(spec, Layer::Landlock), CANNOT, "the mount itself is read-only");
}

fn what_was_written_cannot_be_executed() {
    let place = work();
    let copy = place.path().join("copy");
    std::fs::copy(this_executable(), &copy).unwrap();
    std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o755)).unwrap();
    assert!(outside(&["execute", copy.to_str().unwrap()]));
    assert_eq!(run(probe_spec(place.path(), &["execute", "/scratch/copy"])).exit, CANNOT);
    assert_eq!(run(probe_spec(place.path(), &["execute", "/probe"])).exit, CAN);
    // A mount that may be mapped as code is kept from execution by landlock alone.
    let mut spec = probe_spec(place.path(), &["execute", "/loadable/copy"]);
    spec.mounts.push(mount(place.path(), "/loadable", Access::Load));
    assert_eq!(run(spec.clone()).exit, CANNOT);
    assert_eq!(without(spec, Layer::Landlock), CAN);
}

fn the_network_is_not_there() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    assert!(outside(&["connect", &port]));
    assert_eq!(inside(&["connect", &port]), Exit::Denied);
    let place = work();
    assert_eq!(without(probe_spec(place.path(), &["connect", &port]), Layer::Seccomp), CANNOT);
}

fn processes_of_the_host_cannot_be_signalled() {
    let own = std::process::id().to_string();
    assert!(outside(&["signal", &own]));
    assert_eq!(inside(&["signal", &own]), CANNOT);
    let place = work();
    assert_eq!(without(probe_spec(place.path(), &["signal", &own]), Layer::Seccomp), CANNOT);
}

fn environment_and_input_are_empty() {
    assert!(!outside(&["environment"]));
    assert_eq!(inside(&["environment"]), CAN);
    assert_eq!(inside(&["input"]), CAN);
}

fn a_weaker_sandbox_is_refused_or_reported() {
    let token = AblationToken::for_tests();
    let place = work();
    let spec = || in_place(probe_spec(place.path(), &["nothing"]), place.path());
    let weaker = |spec| sandbox(spec).without(&token, Layer::Namespaces).run(&Cancel::new());
    assert_eq!(weaker(spec()).unwrap().level, Level::Landlock);
    let demanding = SandboxSpec { level: Level::Full, ..spec() };
    assert!(matches!(weaker(demanding), Err(SandboxError::Refused { .. })));
    // Mounts at other places cannot be had without namespaces.
    let elsewhere = SandboxSpec { level: Level::Landlock, ..probe_spec(place.path(), &["nothing"]) };
    assert!(matches!(weaker(elsewhere), Err(SandboxError::Refused { .. })));
}

fn a_production_helper_takes_no_layer_off() {
    let place = work();
    let token = AblationToken::for_tests();
    let helper = place.path().join("helper");
    let script = format!("#!/bin/sh\nexec {} {PRODUCTION}\n", this_executable().display());
    std::fs::write(&helper, script).unwrap();
    std::fs::set_permissions(&helper, std::fs::Permissions::from_mode(0o755)).unwrap();
    let new = || mfaas_sandbox::Sandbox::new(probe_spec(place.path(), &["nothing"]), &helper).unwrap();
    assert_eq!(new().run(&Cancel::new()).unwrap().exit, CAN);
    let refused = new().without(&token, Layer::Seccomp).run(&Cancel::new());
    assert!(matches!(refused, Err(SandboxError::Refused { .. })), "{refused:?}");
}

fn an_incomplete_spec_is_refused() {
    let place = work();
    let complete = probe_spec(place.path(), &["nothing"]);
    let mut unlimited = complete.clone();
    unlimited.limits.processes_max = 0;
    let nothing_to_execute = SandboxSpec { mounts: Vec::new(), ..complete.clone() };
    let mut climbing = complete;
    climbing.mounts.push(mount(place.path(), "/a/../b", Access::Read));
    for spec in [unlimited, nothing_to_execute, climbing] {
        let refused = mfaas_sandbox::Sandbox::new(spec, this_executable());
        assert!(matches!(refused, Err(SandboxError::Refused { .. })));
    }
}

fn a_missing_program_is_refused() {
    let place = work();
    let spec = SandboxSpec { program: Path::new("/absent").to_owned(), ..probe_spec(place.path(), &[]) };
    match sandbox(spec).run(&Cancel::new()) {
        Err(SandboxError::Refused { reason }) => assert!(reason.contains("executing"), "{reason}"),
        other => panic!("{other:?}"),
    }
    let mut spec = probe_spec(place.path(), &["nothing"]);
    spec.mounts.push(mount("/absent/source", "/source", Access::Read));
    assert!(matches!(sandbox(spec).run(&Cancel::new()), Err(SandboxError::Refused { .. })));
}

fn mounts_of_the_host_stay_as_they_are() {
    let mounts = || text(&std::fs::read("/proc/self/mountinfo").unwrap());
    let before = mounts();
    assert_eq!(inside(&["nothing"]), CAN);
    assert_eq!(before, mounts());
}
