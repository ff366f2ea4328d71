#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use mfaas_isolation_client::{Cores, Limit, Mechanism, Member, Mode, Role, Status};

use super::{drawing, memory, tell};
use crate::failure::Failure;

#[test]
fn a_status_is_drawn_without_the_controls_of_a_terminal() {
    let status = Status {
        mode: Mode::Blind,
        cores: Cores { all: "0-7".to_owned(), idle: Some(3), buffer: 2, ..Cores::default() },
        memory_bytes: Some(5 << 20),
        members: vec![Member { pid: 7, name: "ru\u{1b}[2Jstc".to_owned(), role: Role::Secondary }],
        mechanisms: vec![Mechanism {
            name: "cores of a group".to_owned(),
            by: None,
            missing: Some("why\nnot".to_owned()),
        }],
        ..Status::default()
    };
    let drawn = drawing(&status);
    for part in ["blind", "0-7", "stands still", "3, 2 are kept idle", "5 MiB of -", "in force"] {
        assert!(drawn.contains(part), "{part}:\n{drawn}");
    }
    assert!(!drawn.contains('\u{1b}'), "{drawn}");
    assert!(drawing(&Status { off: true, ..status }).contains("lifted"));
}

#[test]
fn memory_is_bytes_or_none() {
    assert_eq!(memory("1024"), Ok(Limit::At(1024)));
    assert_eq!(memory("none"), Ok(Limit::None));
    assert!(memory("1G").is_err());
}

#[test]
fn where_nobody_listens_there_is_a_code() {
    let error = tell("/nowhere/socket".as_ref(), &mfaas_isolation_client::Request::Off).unwrap_err();
    assert!(matches!(&error, Failure::Problem(problem) if problem.code == "MF1105"), "{error:?}");
}
