#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use chrono::Utc;
use mfaas_catalog::{EventEnd, Trigger, WaitingEvent, WatchedChanges};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{again_or_failed, lost, pause_after, site_call};

fn event(tries: u32) -> WaitingEvent {
    WaitingEvent {
        id: 7,
        trigger: Uuid::nil(),
        tenant: "a".to_owned(),
        name: b"in/cat \"1\".jpg".to_vec(),
        event: "put".to_owned(),
        bytes: Some(12),
        changed_at_ms: 1_764_331_200_250,
        tries,
    }
}

#[test]
fn calls_in_vain_are_repeated_later_each_time_and_eight_in_all() {
    let pauses: Vec<u64> = (1..9).map(|tries| pause_after(tries).as_secs()).collect();
    assert_eq!(pauses, [5, 20, 80, 320, 1_280, 3_600, 3_600, 3_600]);
    assert_eq!(pause_after(u32::MAX).as_secs(), 3_600);
    assert_eq!(again_or_failed(&event(7), lost()).0, EventEnd::Again(pause_after(7)));
    assert_eq!(again_or_failed(&event(8), lost()).0, EventEnd::Failed);
}

#[test]
fn an_event_is_sent_as_it_is_documented() {
    let changes = WatchedChanges {
        resource: "photos".parse().unwrap(),
        prefix: "in/".to_owned(),
        on_put: true,
        on_delete: true,
    };
    let trigger = Trigger {
        id: Uuid::nil(),
        tenant: "a".parse().unwrap(),
        function: "resize".parse().unwrap(),
        name: "uploads".parse().unwrap(),
        changes,
        set_at: Utc::now(),
        set_by: "a".to_owned(),
        is_granted: true,
    };
    let put = site_call(&trigger, &event(1)).unwrap();
    assert_eq!((put.caller.as_str(), put.function.as_str()), ("trigger/uploads", "resize"));
    assert_eq!(put.headers["content-type"], "application/json");
    let sent: Value = serde_json::from_str(&put.body).unwrap();
    assert_eq!(
        sent,
        json!({"id": 7, "resource": "photos", "name": "in/cat \"1\".jpg", "event": "put", "size": 12,
            "changed_at": "2025-11-28T12:00:00.250Z"})
    );
    let deleted = WaitingEvent { event: "delete".to_owned(), bytes: None, ..event(2) };
    let sent: Value = serde_json::from_str(&site_call(&trigger, &deleted).unwrap().body).unwrap();
    assert_eq!((&sent["event"], sent.get("size")), (&json!("delete"), None));
}
