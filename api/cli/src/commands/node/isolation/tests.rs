#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use mfaas_isolation_client::{Cores, Limit, Mechanism, Member, Mode, Role, Status};

use mfaas_wire::{IsolationSettings, NodeView, SiteIsolationView};

use super::{IsolationCommand, change as change_for_site, drawing, in_short, memory, site, tell};
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

#[test]
fn what_is_set_for_the_site_is_what_was_named() {
    let change = |command| change_for_site(&command).map(Option::unwrap);
    let set = |memory| IsolationCommand::Set { mode: Some(Mode::Blind), buffer_cores: None, memory };
    let blind = IsolationSettings { mode: Some(Mode::Blind), ..IsolationSettings::default() };
    assert_eq!(change(set(None)).unwrap(), blind);
    let free = IsolationSettings { memory_bytes: Some(0), ..blind.clone() };
    assert_eq!(change(set(Some(Limit::None))).unwrap(), free);
    let off = change(IsolationCommand::Off).unwrap();
    assert_eq!(off, IsolationSettings { off: Some(true), ..IsolationSettings::default() });
    let nothing = IsolationCommand::Set { mode: None, buffer_cores: None, memory: None };
    assert!(matches!(change_for_site(&nothing), Err(Failure::Usage(_))));
    assert!(change_for_site(&IsolationCommand::Status).unwrap().is_none());
}

#[test]
fn machines_are_shown_beside_what_the_site_wants() {
    let node = |isolation: serde_json::Value| -> NodeView {
        let node = serde_json::json!({
            "name": "node-1", "state": "ready", "cordoned": false, "joined_at": "2027-01-01T00:00:00Z",
            "desired_epoch": 1, "loaded": 0, "workers": 0, "isolation": isolation,
        });
        serde_json::from_value(node).unwrap()
    };
    let at = "2027-01-01T00:00:00Z";
    let mut said = serde_json::json!({
        "mode": "blind", "off": false, "cores": 8, "buffer_cores": 2, "secondary_cores": 5, "killed": 3,
        "primary_used_cores": 0.42, "secondary_used_cores": 4.0, "revision": 6,
    });
    let refused = serde_json::json!({"revision": 7, "code": "MF1103", "message": "too many"});
    let view = node(serde_json::json!({"at": at, "controller": said, "refused": refused}));
    assert_eq!(in_short(&view), "blind 5/8");
    let settings = IsolationSettings { buffer_cores: Some(9), ..IsolationSettings::default() };
    let site = SiteIsolationView { revision: 7, settings, set_by: None, set_at: None };
    let drawn = site::drawing(&site, &[view]);
    for part in ["0.42 cores", "4.00 cores", "MF1103 too many", "blind 5/8", "9"] {
        assert!(drawn.contains(part), "{part}:\n{drawn}");
    }
    said["off"] = true.into();
    assert_eq!(in_short(&node(serde_json::json!({"at": at, "controller": said}))), "off");
    assert_eq!(in_short(&node(serde_json::json!({ "at": at }))), "unknown");
    assert_eq!(in_short(&node(serde_json::Value::Null)), "-");
}
