use std::path::PathBuf;

use mfaas_rules::codes;

use super::*;

/// What ends requests for good, and revokes what reviewers have allowed, must not follow from our own disk.
#[test]
fn a_fault_of_the_machine_is_never_about_crates() {
    let path = || PathBuf::from("/deps");
    let full = || std::io::Error::from(std::io::ErrorKind::StorageFull);
    let problem = || "it is damaged".to_owned();
    for error in [
        BuilderError::Deps { path: path(), problem: problem() },
        BuilderError::Toolchain { path: path(), problem: problem() },
        BuilderError::Scratch { path: path(), problem: problem() },
        BuilderError::io(path())(full()),
        BuilderError::product(path())(full()),
        AcquireError::Network { reason: problem() }.into(),
    ] {
        assert!(!is_about_crates(&error), "{error}");
    }
    for error in [
        AcquireError::Other { reason: problem() }.into(),
        BuilderError::Command { command: "cargo", problem: problem() },
        BuilderError::Unit { code: codes::MF0411, problem: problem() },
        BuilderError::product(path())(std::io::ErrorKind::NotFound.into()),
    ] {
        assert!(is_about_crates(&error), "{error}");
    }
}

#[test]
fn the_reason_begins_at_the_first_error() {
    let text = "cargo failed: Code(101)\n   Compiling memchr v2\nerror[E0433]: cannot find `env` in `std`\n --> src/lib.rs:1:10\n";
    assert!(first_error(text).starts_with("error[E0433]: cannot find `env` in `std`\n --> src"));
    assert_eq!(first_error("the disk is full"), "the disk is full");
}
