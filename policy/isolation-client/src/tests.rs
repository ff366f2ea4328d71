#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

//! One line each way.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixListener;
use std::thread;

use crate::{Change, ClientError, Mode, Request, Response, Role, ask, join_secondary};

/// A controller that answers one request with this text, and what it was asked.
fn answering(answer: &'static str) -> (tempfile::TempDir, thread::JoinHandle<String>) {
    let dir = tempfile::tempdir().unwrap();
    let listener = UnixListener::bind(dir.path().join("socket")).unwrap();
    let asked = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut line = String::new();
        BufReader::new(stream.try_clone().unwrap()).read_line(&mut line).unwrap();
        stream.write_all(answer.as_bytes()).unwrap();
        line
    });
    (dir, asked)
}

#[test]
fn a_program_asks_for_itself() {
    let (dir, asked) = answering("{\"response\":\"done\"}\n");
    join_secondary(&dir.path().join("socket")).unwrap();
    let line = asked.join().unwrap();
    let asked: Request = serde_json::from_str(&line).unwrap();
    assert_eq!(
        asked,
        Request::Place { pid: std::process::id(), role: Role::Secondary, may_stop: false, own_cores: vec![] }
    );
}

#[test]
fn what_is_refused_says_why() {
    let (dir, _asked) =
        answering("{\"response\":\"refused\",\"code\":\"MF1101\",\"reason\":\"not yours\"}\n");
    let refused = ask(&dir.path().join("socket"), &Request::Off).unwrap_err();
    assert_eq!(refused.to_string(), "MF1101: not yours");
}

#[test]
fn half_an_answer_is_none() {
    let (dir, _asked) = answering("{\"response\":\"done\"}");
    let error = ask(&dir.path().join("socket"), &Request::Status).unwrap_err();
    assert!(matches!(error, ClientError::Answer { .. }), "{error}");
    let error = ask(&dir.path().join("nobody"), &Request::Status).unwrap_err();
    assert!(matches!(error, ClientError::Away { .. }), "{error}");
}

#[test]
fn a_newer_side_may_say_more() {
    let newer = r#"{"response":"status","off":true,"temperature":3}"#;
    let Response::Status(status) = serde_json::from_str(newer).unwrap() else { panic!("no status") };
    assert!(status.off);
    let change: Change = serde_json::from_str(r#"{"mode":"blind","colour":1}"#).unwrap();
    assert_eq!(change, Change { mode: Some(Mode::Blind), ..Change::default() });
}

#[test]
fn modes_are_read_as_they_are_written() {
    for mode in Mode::ALL {
        assert_eq!(mode.to_string().parse(), Ok(mode));
        assert_eq!(serde_json::to_value(mode).unwrap(), mode.as_str());
    }
    assert!("idle".parse::<Mode>().is_err());
}
