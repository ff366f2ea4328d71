use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

use super::{exit, read};
use crate::failure::Exit;

fn ended(outcome: &str, code: &str, status: i32) -> Exit {
    let diagnostics = if code.is_empty() {
        String::new()
    } else {
        format!(r#"{{"code":"{code}","level":"error","message":"m","rendered":"r","layer":"lexer"}}"#)
    };
    let text = format!(r#"{{"diagnostics":[{diagnostics}],"stages":[],"outcome":"{outcome}"}}"#);
    let status = ExitStatus::from_raw(status << 8);
    exit(&read(text.as_bytes(), status).unwrap_or_else(|failure| panic!("{failure}")), status)
}

#[test]
fn the_outcome_becomes_the_exit_code_of_a_deployment() {
    assert_eq!(ended("passed", "", 0), Exit::Ok);
    assert_eq!(ended("refused", "MF0301", 3), Exit::Refused);
    assert_eq!(ended("refused", "MF0407", 3), Exit::Refused);
    assert_eq!(ended("compile_error", "MF0404", 5), Exit::CompileError);
    assert_eq!(ended("waiting", "MF0204", 6), Exit::Waiting);
    assert_eq!(ended("incomplete", "", 1), Exit::Failed);
}

#[test]
fn what_is_not_understood_is_no_pass() {
    assert_eq!(ended("splendid", "", 0), Exit::Failed);
    assert_eq!(ended("passed", "", 1), Exit::Failed, "the builder says one thing and ends otherwise");
    assert!(read(b"{}", ExitStatus::from_raw(0)).is_err());
    assert!(read(b"passed", ExitStatus::from_raw(0)).is_err());
}
