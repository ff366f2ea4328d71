//! A trial under seccomp filters as containers have them, each of which denies one system call.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::process::{Command, ExitCode, Stdio};

use mfaas_sandbox::{Level, Tried, try_out};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};

use crate::Test;
use crate::setup::this_executable;

pub(crate) const TESTS: &[Test] = &[
    (
        "a_machine_that_denies_nothing_reaches_a_full_sandbox",
        a_machine_that_denies_nothing_reaches_a_full_sandbox,
    ),
    ("each_denied_call_is_named", each_denied_call_is_named),
    ("a_sandbox_needs_no_name", a_sandbox_needs_no_name),
];

/// The argument that makes this executable try out a sandbox where a call is denied.
pub(crate) const DENIED: &str = "try-out-where-denied";

/// What a container's profile has to add to what engines allow by default, by the names that profiles have.
const CALLS: &[(&str, i64)] = &[
    ("unshare", libc::SYS_unshare),
    ("mount", libc::SYS_mount),
    ("open_tree", libc::SYS_open_tree),
    ("mount_setattr", libc::SYS_mount_setattr),
    ("fsopen", libc::SYS_fsopen),
    ("fsconfig", libc::SYS_fsconfig),
    ("fsmount", libc::SYS_fsmount),
    ("move_mount", libc::SYS_move_mount),
    ("pivot_root", libc::SYS_pivot_root),
    ("umount2", libc::SYS_umount2),
];

/// `try-out-where-denied NUMBER ERRNO`: what comes of it, on the standard output.
pub(crate) fn denied(arguments: &[String]) -> ExitCode {
    let (call, errno) = (arguments[0].parse().unwrap(), arguments[1].parse().unwrap());
    let rules = BTreeMap::from([(call, Vec::new())]);
    let (others, this) = (SeccompAction::Allow, SeccompAction::Errno(errno));
    let filter = SeccompFilter::new(rules, others, this, TargetArch::x86_64).unwrap();
    seccompiler::apply_filter(&BpfProgram::try_from(filter).unwrap()).unwrap();
    let Tried { level, missing } = try_out(&this_executable()).unwrap();
    println!("{level} {}", missing.unwrap_or_default());
    ExitCode::SUCCESS
}

fn where_denied(call: i64, errno: i32) -> String {
    let mut child = Command::new(this_executable())
        .args([DENIED.to_owned(), call.to_string(), errno.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(child.wait().unwrap().success(), "{said}");
    said
}

fn a_machine_that_denies_nothing_reaches_a_full_sandbox() {
    assert_eq!(try_out(&this_executable()).unwrap(), Tried { level: Level::Full, missing: None });
}

fn each_denied_call_is_named() {
    for (name, number) in CALLS {
        for errno in [libc::EPERM, libc::ENOSYS] {
            let said = where_denied(*number, errno);
            assert!(said.starts_with("landlock ") && said.contains(&format!("({name})")), "{name}: {said}");
        }
    }
}

/// Some profiles deny it. A private namespace keeps the machine's name then, which is no secret.
fn a_sandbox_needs_no_name() {
    for errno in [libc::EPERM, libc::ENOSYS] {
        assert_eq!(where_denied(libc::SYS_sethostname, errno).trim(), "full");
    }
}
