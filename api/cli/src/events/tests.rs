#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use mfaas_wire::EventKind;

use super::{EVENT_BYTES_MAX, Parser};

const STREAM: &str = ": hello\n\nid: 7\nevent: started\ndata: {\"seq\":7,\"at\":\"2026-01-02T03:04:05Z\",\r\ndata: \"stage\":\"unpack\",\"kind\":\"started\"}\n\nid: 8\ndata: {\"seq\":8,\"at\":\"2026-01-02T03:04:06Z\",\"stage\":\"unpack\",\"kind\":\"finished\",\"wall_ms\":1.5}\n\n";

#[test]
fn events_arrive_whole_wherever_the_bytes_are_cut() {
    for size in [1, 2, 3, 7, 64, STREAM.len()] {
        let mut parser = Parser::default();
        let mut events = Vec::new();
        for piece in STREAM.as_bytes().chunks(size) {
            events.extend(parser.push(piece).unwrap());
        }
        assert_eq!(events.iter().map(|event| event.seq).collect::<Vec<_>>(), [7, 8], "pieces of {size}");
        assert_eq!(events[1].kind, EventKind::Finished);
        assert_eq!(parser.last_id(), Some("8"));
    }
}

#[test]
fn a_half_event_is_forgotten_when_the_connection_breaks() {
    let mut parser = Parser::default();
    let cut = STREAM.len() - 20;
    assert_eq!(parser.push(&STREAM.as_bytes()[..cut]).unwrap().len(), 1);
    assert_eq!(parser.last_id(), Some("7"));
    parser.reconnect();
    let events = parser.push(STREAM.as_bytes()).unwrap();
    assert_eq!(events.len(), 2);
}

#[test]
fn what_is_no_event_or_never_ends_is_refused() {
    assert!(Parser::default().push(b"data: {}\n\n").is_err());
    assert!(Parser::default().push(&vec![b'a'; EVENT_BYTES_MAX + 1]).is_err());
}
