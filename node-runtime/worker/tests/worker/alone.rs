//! The program without a node: `--probe` and `--call`.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use crate::{WORKER, toolchain};

/// A file that goes away with its directory.
struct Image {
    _directory: tempfile::TempDir,
    path: PathBuf,
}

fn image(bytes: &[u8]) -> Image {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("function.so");
    std::fs::write(&path, bytes).expect("written");
    Image { _directory: directory, path }
}

fn run(option: &str, image: &Image, more: &[&str], body: &[u8]) -> Output {
    let mut child = Command::new(WORKER)
        .arg(option)
        .arg(&image.path)
        .args(more)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    // It may not read its input at all.
    let _ = child.stdin.take().expect("piped").write_all(body);
    child.wait_with_output().expect("it ends")
}

#[test]
fn a_function_passes_the_probe() {
    let output = run("--probe", &image(toolchain::tenant()), &[], b"");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(answer["loads"], true);
}

#[test]
fn anything_else_does_not() {
    let mut cut = toolchain::tenant().to_vec();
    cut.truncate(cut.len() / 2);
    for bytes in [b"".to_vec(), b"#!/bin/sh".to_vec(), cut] {
        let output = run("--probe", &image(&bytes), &[], b"");
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(output.stderr.starts_with(b"mfaas-worker: load the image: "), "{output:?}");
    }
}

#[test]
fn a_developer_sees_answers_as_json() {
    let output = run("--call", &image(toolchain::tenant()), &["--times", "2", "--budget", "100ms"], b"hello");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let lines: Vec<serde_json::Value> = output
        .stdout
        .split(|byte| *byte == b'\n')
        .filter_map(|line| serde_json::from_slice(line).ok())
        .collect();
    assert_eq!(lines.len(), 2);
    assert_eq!(
        (&lines[0]["body"], &lines[0]["cold"], &lines[1]["cold"]),
        (&"HELLO".into(), &true.into(), &false.into())
    );
}

#[test]
fn a_developer_sees_how_a_call_ended() {
    let more = ["--budget", "2ms", "--raw"];
    let output = run("--call", &image(toolchain::tenant()), &more, b"spin");
    assert_eq!((output.status.code(), &*output.stdout), (Some(7), &b""[..]));
    assert_eq!(output.stderr, b"over_budget: the budget of 2ms of CPU time is used up\n");
    let output = run("--call", &image(toolchain::tenant()), &["--raw", "--budget", "100ms"], b"hello");
    assert_eq!((output.status.code(), &*output.stdout), (Some(0), &b"HELLO"[..]));
}
