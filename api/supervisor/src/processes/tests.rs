#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::process::Command;

use super::{Stat, descendants, leftovers, parse_stat, start_ticks};

#[test]
fn a_command_name_cannot_shift_the_fields() {
    let line = "42 (a) R 1 (b) S 7 42 42 0 -1 4194304 1 2 3 4 10 20 30 40 20 0 1 0 5555 1 2 3";
    assert_eq!(parse_stat(line), Some(Stat { parent: 7, ended: false, stopped: false, start_ticks: 5555 }));
    assert!(parse_stat("42 (zombie) Z 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 9").unwrap().ended);
    for broken in ["", "42", "42 (x", "42 (x) R", "42 (x) R 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 a"] {
        assert_eq!(parse_stat(broken), None, "{broken:?}");
    }
}

#[test]
fn a_child_is_a_descendant_and_is_found_by_its_directory_until_it_ends() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = Command::new("sleep").arg("60").current_dir(dir.path()).spawn().unwrap();
    let pid = child.id().try_into().unwrap();
    assert!(start_ticks(pid).is_some());
    assert!(descendants(std::process::id().try_into().unwrap()).contains(&pid));
    let left = leftovers(&[dir.path()]);
    assert!(left.iter().any(|line| line.contains(&format!("process {pid} "))), "{left:?}");
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(start_ticks(pid), None);
    assert_eq!(leftovers(&[dir.path()]), Vec::<String>::new());
}

#[test]
fn a_program_is_found_by_its_variables_but_not_by_those_of_a_shell() {
    let dir = tempfile::tempdir().unwrap();
    for (variable, is_left) in [("MFAAS_BLOBS", true), ("MFAAS_HOME", false), ("MFAAS_PROFILE_FILE", false)] {
        let mut child = Command::new("sleep").arg("60").env(variable, dir.path().join("x")).spawn().unwrap();
        let left = leftovers(&[dir.path()]);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(left.len(), usize::from(is_left), "{variable}: {left:?}");
    }
}

#[test]
fn a_socket_below_the_place_is_left_over() {
    let dir = tempfile::tempdir().unwrap();
    let listener = std::os::unix::net::UnixListener::bind(dir.path().join("s")).unwrap();
    assert!(leftovers(&[dir.path()]).iter().any(|line| line.starts_with("socket ")));
    drop(listener);
    assert_eq!(leftovers(&[dir.path()]), Vec::<String>::new());
}
