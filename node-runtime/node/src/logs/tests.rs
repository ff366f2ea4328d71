#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use super::{CALL_LINES_MAX, LogSink, QUEUE_LINES_MAX};
use crate::agent::testing::key;
use mfaas_abi::{Level, log_entry_header};
use mfaas_delivery::{LOG_LINES_MAX, LogLevel};

fn record(level: Level, text: &str) -> Vec<u8> {
    let mut bytes = log_entry_header(level, text.len() as u16).to_vec();
    bytes.extend_from_slice(text.as_bytes());
    bytes
}

#[test]
fn lines_keep_their_order_and_numbers_and_are_sent_once() {
    let sink = LogSink::default();
    let boot = uuid::Uuid::from_u128(7);
    let records = [record(Level::Info, "one"), record(Level::Warn, "two")].concat();
    sink.function_lines(&key("hello", 1), &records, b"panicked");
    let batch = sink.batch(boot).unwrap();
    let texts: Vec<_> = batch.lines.iter().map(|line| (line.level, line.text.as_str())).collect();
    let wanted = [(LogLevel::Info, "one"), (LogLevel::Warn, "two"), (LogLevel::Error, "panicked")];
    assert_eq!(texts, wanted);
    assert_eq!(batch.check(), Ok(()));
    assert_eq!(sink.batch(boot).unwrap(), batch, "what was not taken is offered again, unchanged");
    sink.taken(&batch);
    assert_eq!(sink.batch(boot), None);
    sink.node_line(&key("hello", 1), "three");
    assert_eq!(sink.batch(boot).unwrap().first, 3);
}

#[test]
fn hostile_text_is_made_visible_and_bounded() {
    let sink = LogSink::default();
    let text = format!("\u{1b}[2J\u{202e}{}", "x".repeat(60_000));
    sink.function_lines(&key("hello", 1), &record(Level::Info, &text), b"\xff\xfe");
    let batch = sink.batch(uuid::Uuid::nil()).unwrap();
    assert!(batch.lines[0].text.starts_with("\\u{1b}[2J\\u{202e}xxx"));
    assert_eq!(batch.check(), Ok(()));
    let many = record(Level::Info, "y").repeat(CALL_LINES_MAX + 50);
    let sink = LogSink::default();
    sink.function_lines(&key("hello", 1), &many, b"");
    assert_eq!(sink.batch(uuid::Uuid::nil()).unwrap().lines.len(), CALL_LINES_MAX);
}

#[test]
fn a_full_queue_drops_the_oldest_and_says_how_many() {
    let sink = LogSink::default();
    for number in 0..QUEUE_LINES_MAX + 10 {
        sink.node_line(&key("hello", 1), &number.to_string());
    }
    let batch = sink.batch(uuid::Uuid::nil()).unwrap();
    assert_eq!((batch.first, batch.dropped, batch.lines.len()), (10, 10, LOG_LINES_MAX));
    assert_eq!(batch.lines[0].text, "10");
    sink.taken(&batch);
    let next = sink.batch(uuid::Uuid::nil()).unwrap();
    assert_eq!((next.first, next.dropped), (10 + LOG_LINES_MAX as u64, 0));
}
