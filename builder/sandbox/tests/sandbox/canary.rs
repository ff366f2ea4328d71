//! Key material is never readable inside: as a file of any mode, or in the builder's variables. (Its
//! memory, its descriptors and its sockets: the table of probes in `mfaas-confine`.)

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use mfaas_confine::{AblationToken, Layer};
use mfaas_sandbox::{Cancel, Exit, Level, SandboxSpec};

use crate::limits::HOLD;
use crate::probes::{PROBE, REFUSED};
use crate::setup::{in_place, probe_spec, sandbox, text, this_executable};

pub(crate) const TESTS: &[crate::Test] = &[
    ("a_canary_is_nowhere_inside", a_canary_is_nowhere_inside),
    ("a_canary_next_door_is_kept_by_landlock_too", a_canary_next_door_is_kept_by_landlock_too),
];

/// In two halves, so that no argument holds the whole, and made while the test runs, so that no
/// program does.
fn halves() -> &'static [String; 2] {
    static HALVES: std::sync::OnceLock<[String; 2]> = std::sync::OnceLock::new();
    HALVES.get_or_init(|| {
        ["signing-key".to_owned(), format!("-{:016x}", u64::MAX / u64::from(std::process::id()))]
    })
}

fn canary() -> String {
    halves().concat()
}

/// The root cannot be listed inside, so the probe is told what to look into: what is there, and what
/// is on the host.
const ROOTS: [&str; 14] = [
    "/", "/scratch", "/probe", "/tmp", "/dev", "/lib", "/lib64", "/usr/lib", "/proc", "/sys", "/etc",
    "/home", "/root", "/var",
];
const CANNOT: Exit = Exit::Code(REFUSED as i32);

/// A work directory, and beside it keys of both modes.
fn keys() -> (tempfile::TempDir, std::path::PathBuf) {
    let place = tempfile::tempdir().unwrap();
    let work = place.path().join("work");
    std::fs::create_dir(&work).unwrap();
    for (name, mode) in [("key-0600", 0o600), ("key-0644", 0o644)] {
        let path = place.path().join(name);
        std::fs::write(&path, canary()).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    (place, work)
}

fn search(work: &std::path::Path, roots: &[&str]) -> SandboxSpec {
    probe_spec(work, &[&["search", &halves()[0], &halves()[1]], roots].concat())
}

/// The probe reads every file that it can see.
fn a_canary_is_nowhere_inside() {
    let (place, work) = keys();
    let outside = |roots: &[&str], variable: bool| {
        let mut command = Command::new(this_executable());
        command.args([PROBE, "search", &halves()[0], &halves()[1]]).args(roots).env_remove("MFAAS_KEY");
        if variable {
            command.env("MFAAS_KEY", canary());
        }
        command.output().unwrap().status.success()
    };
    let beside = place.path().to_str().unwrap();
    assert!(outside(&[beside], false), "the probe finds the files");
    assert!(outside(&[], true), "the probe finds the variable");
    assert!(!outside(&[work.to_str().unwrap()], false));
    // What the caller itself puts into the sandbox is found: the probe works in there.
    std::fs::write(work.join("handed-in"), canary()).unwrap();
    let outcome = sandbox(search(&work, &ROOTS)).run(&Cancel::new()).unwrap();
    assert_eq!(outcome.exit, Exit::Code(0), "{}", text(&outcome.stdout));
    std::fs::remove_file(work.join("handed-in")).unwrap();

    // A builder that has it in its variables.
    let mut builder = Command::new(this_executable());
    builder.args([HOLD, work.to_str().unwrap(), "search", &halves()[0], &halves()[1]]);
    builder.args(ROOTS).arg(beside);
    let output = builder.env("MFAAS_KEY", canary()).output().unwrap();
    let printed = text(&output.stdout);
    let (exit, files) = printed.split_once('|').unwrap();
    assert_eq!(exit, format!("{CANNOT:?}"));
    let files: u64 = files.split(' ').next().unwrap().parse().unwrap();
    assert!(files >= 1, "it has looked: {files}");
}

fn a_canary_next_door_is_kept_by_landlock_too() {
    let (place, work) = keys();
    let beside = place.path().to_str().unwrap().to_owned();
    let spec = |level| SandboxSpec { level, ..in_place(search(&work, &[&beside]), &work) };
    let token = AblationToken::for_tests();
    let without =
        |level, layer| sandbox(spec(level)).without(&token, layer).run(&Cancel::new()).unwrap().exit;
    assert_eq!(sandbox(spec(Level::Full)).run(&Cancel::new()).unwrap().exit, CANNOT);
    assert_eq!(without(Level::Landlock, Layer::Namespaces), CANNOT);
    assert_eq!(without(Level::Full, Layer::Landlock), CANNOT);
}
