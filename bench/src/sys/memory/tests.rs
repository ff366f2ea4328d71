#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::io::Write as _;
use std::process::{Command, Stdio};

use super::*;

#[test]
fn a_tree_holds_what_its_processes_do() {
    let own = std::process::id();
    let before = Held::by_tree(own).unwrap();
    let file = rustix::fs::memfd_create("bench", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    let mut file = std::fs::File::from(file);
    file.write_all(&vec![1; 64 << 20]).unwrap();
    let mut child = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap();
    let found = descendants(own).unwrap();
    assert!(found.contains(&Descendant { process: child.id(), name: "sleep".to_owned() }), "{found:?}");
    let with = Held::by_tree(own).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    // Nobody maps the file: its blocks count, once.
    assert!((60_000.0..80_000.0).contains(&(with.shared - before.shared)), "{before:?} {with:?}");
    assert!(with.stacks > 0.0 && with.tables > 0.0 && with.own > 0.0);
    assert!(Held::by_tree(u32::MAX).is_err());
    assert!(available_kib().unwrap() > 0.0);
}
