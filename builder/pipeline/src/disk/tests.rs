//! Directories with room, without, and none.

#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;

#[test]
fn a_directory_has_room_up_to_what_its_disk_has() {
    let directory = tempfile::tempdir().unwrap();
    has_room(directory.path(), 1, 1).unwrap();
    takes_bytes(directory.path()).unwrap();
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "a probe leaves nothing behind");
    let error = has_room(directory.path(), u64::MAX, 1).unwrap_err();
    assert!(matches!(&error, BuilderError::Scratch { path, .. } if path == directory.path()), "{error}");
    assert!(error.to_string().ends_with(&format!("{} are needed", u64::MAX)) && error.is_of_the_machine());
}

#[test]
fn a_directory_that_is_gone_or_read_only_takes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let gone = directory.path().join("gone");
    assert!(has_room(&gone, 1, 1).is_err());
    assert!(takes_bytes(&gone).unwrap_err().to_string().contains("No such file or directory (os error 2)"));
    // Nobody makes files there, not even root.
    assert!(takes_bytes(Path::new("/proc/self")).is_err());
}
