//! A site that loses what it knew, or everything but its keys, and goes on from a backup.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use mfaas_harness::{Run, Stack, package, wait_for};

/// What a backup never has, as operators keep it.
const KEYS: [&str; 3] = ["root-key", "signer", "server"];

fn source(answer: &str) -> String {
    format!("pub fn handle(_: &[u8]) -> Vec<u8> {{\n    b\"{answer}\".to_vec()\n}}\n")
}

fn deploy(stack: &Stack, function: &str, answer: &str) {
    let _ = stack.deploy(package(function, &source(answer), "").path()).ok();
}

fn answers(stack: &Stack, function: &str, answer: &str) {
    assert_eq!(stack.invoke(function, "").ok().stdout, answer, "{function}");
}

/// `mfaas COMMAND DIRECTORY` for the stack's home.
fn keeping(stack: &Stack, command: &str, directory: &Path, more: &[&str]) -> Run {
    let (directory, home) = (directory.to_str().unwrap(), stack.home().to_str().unwrap());
    stack.cli([&[command, directory, "--home", home], more].concat())
}

fn refused(run: &Run, code: &str) {
    assert!(run.code != 0 && run.stderr.contains(code), "{code}: {}\n{}", run.stdout, run.stderr);
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").args([from, to]).status().unwrap();
    assert!(copied.success(), "{}", from.display());
}

fn epoch_of_node(stack: &Stack) -> i64 {
    stack.sql().query_one("SELECT max(epoch) FROM node_reports", &[]).unwrap().get(0)
}

/// Versions of a function, as the command line lists them.
fn versions(stack: &Stack) -> String {
    stack.cli(["versions", "kept", "--json"]).ok().stdout
}

#[test]
fn a_site_goes_on_from_its_backup() {
    let stack = Stack::start();
    let outside = tempfile::tempdir().unwrap();
    let (backups, keys) = (outside.path().join("backups"), outside.path().join("keys"));
    fs::create_dir(&keys).unwrap();
    for name in KEYS {
        copy(&stack.home().join(name), &keys.join(name));
    }
    deploy(&stack, "kept", "one");
    let listed = versions(&stack);
    let _ = keeping(&stack, "backup", &backups, &[]).ok();
    the_node_follows_a_site_that_went_back(&stack, &backups, &listed);
    everything_but_the_keys_is_lost(&stack, &backups, &keys, &listed);
}

/// What came after the backup is forgotten, and a node that has seen it follows what is signed now.
fn the_node_follows_a_site_that_went_back(stack: &Stack, backups: &Path, listed: &str) {
    deploy(stack, "kept", "two");
    deploy(stack, "later", "later");
    answers(stack, "kept", "two");
    let seen = epoch_of_node(stack);
    refused(&keeping(stack, "restore", backups, &["--replace"]), "mfaas down");
    assert_eq!(stack.down().code, 0);
    refused(&keeping(stack, "restore", backups, &[]), "MF1003");
    let _ = keeping(stack, "restore", backups, &["--replace"]).ok();
    stack.up();
    wait_for("the node to follow", Duration::from_secs(60), || {
        (stack.invoke("kept", "").stdout == "one").then_some(())
    });
    assert_ne!(stack.invoke("later", "").code, 0, "what came after the backup is gone");
    assert_eq!(versions(stack), listed);
    wait_for("a later epoch", Duration::from_secs(60), || (epoch_of_node(stack) > seen).then_some(()));
    deploy(stack, "kept", "three");
    answers(stack, "kept", "three");
}

fn everything_but_the_keys_is_lost(stack: &Stack, backups: &Path, keys: &Path, listed: &str) {
    assert_eq!(stack.down().code, 0);
    for entry in fs::read_dir(stack.home()).unwrap().flatten() {
        match entry.file_type().unwrap().is_dir() {
            true => fs::remove_dir_all(entry.path()).unwrap(),
            false => fs::remove_file(entry.path()).unwrap(),
        }
    }
    refused(&keeping(stack, "restore", backups, &[]), "MF1006");
    for name in KEYS {
        copy(&keys.join(name), &stack.home().join(name));
    }
    let _ = keeping(stack, "restore", backups, &[]).ok();
    // As a restore leaves it that was killed: nobody takes the empty database for the site.
    fs::write(stack.home().join("restoring"), "").unwrap();
    refused(&stack.cli(["up", "--home", stack.home().to_str().unwrap()]), "MF1005");
    fs::remove_file(stack.home().join("restoring")).unwrap();
    // Made anew by `mfaas up`, or linked by the harness where they are not there yet.
    for made in ["toolchains", "vendor", "deps"] {
        fs::remove_dir(stack.home().join(made)).unwrap();
    }
    stack.up();
    answers(stack, "kept", "one");
    assert_eq!(versions(stack), listed);
    deploy(stack, "kept", "four");
    answers(stack, "kept", "four");
    let verified = stack.cli(["audit", "--verify", "--all"]);
    assert_eq!(verified.code, 0, "{}", verified.stderr);
}
