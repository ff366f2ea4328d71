#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use super::{CALL_LINES_MAX, Full, LogSink, QUEUE};
use crate::agent::testing::key;
use crate::image::ImageKey;
use mfaas_abi::{Level, log_entry_header};
use mfaas_delivery::{LOG_LINES_MAX, LogLevel, LogLine};
use mfaas_ident::TenantName;

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
    let lines = sink.batch(uuid::Uuid::nil()).unwrap().lines;
    assert_eq!(lines.len(), CALL_LINES_MAX + 1);
    assert_eq!(lines[CALL_LINES_MAX].text, "50 more lines of this call were dropped: a call leaves 200");
}

#[test]
fn a_full_lane_drops_its_oldest_and_the_function_reads_of_it() {
    let sink = LogSink::default();
    for number in 0..QUEUE.tenant_items_max + 10 {
        sink.node_line(&key("hello", 1), &number.to_string());
    }
    sink.calls_lost(&key("hello", 2), Full::Node, 7);
    let batch = sink.batch(uuid::Uuid::nil()).unwrap();
    assert_eq!((batch.first, batch.dropped, batch.lines.len()), (0, 10, LOG_LINES_MAX));
    let texts: Vec<_> = batch.lines.iter().take(3).map(|line| (line.version.get(), &*line.text)).collect();
    assert_eq!(
        texts,
        [
            (
                1,
                "10 lines of this function were dropped: more than 5000 lines or 2 MiB of its tenant's were waiting \
                 on this node"
            ),
            (
                2,
                "the lines of 7 calls of this function were dropped: more than 4096 calls or 16 MiB of all tenants', of \
                 which its own had the most, were waiting on this node"
            ),
            (1, "10"),
        ]
    );
    for more in 0..10_000 {
        sink.node_line(&key("hello", 1), &more.to_string());
    }
    assert_eq!(sink.batch(uuid::Uuid::nil()).unwrap(), batch, "what was offered stays what it was");
    sink.taken(&batch);
    let next = sink.batch(uuid::Uuid::nil()).unwrap();
    assert_eq!(next.first, LOG_LINES_MAX as u64);
    assert_eq!(next.dropped, 10_000 - (LOG_LINES_MAX as u64 - 2), "told once");
}

/// One function of another tenant than [`key`]'s.
fn neighbour() -> ImageKey {
    ImageKey { tenant: TenantName::parse("neighbour").unwrap(), ..key("quiet", 1) }
}

/// Everything that waits, in the order of its sending, with what the batches said was dropped.
fn drained(sink: &LogSink) -> (Vec<LogLine>, u64) {
    let (mut lines, mut dropped) = (Vec::new(), 0);
    while let Some(batch) = sink.batch(uuid::Uuid::nil()) {
        assert_eq!(batch.check(), Ok(()));
        sink.taken(&batch);
        dropped += batch.dropped;
        lines.extend(batch.lines);
    }
    (lines, dropped)
}

/// The flood of `log-flood`, and a line of a neighbour's now and then.
#[test]
fn a_flood_costs_a_neighbour_no_line() {
    let sink = LogSink::default();
    let flood = record(Level::Info, &"flood ".repeat(12)).repeat(CALL_LINES_MAX);
    for number in 0..60 {
        for _ in 0..20 {
            sink.function_lines(&key("flood", 1), &flood, b"");
        }
        sink.function_lines(&neighbour(), &record(Level::Info, &format!("line {number}")), b"");
    }
    let (lines, dropped) = drained(&sink);
    let quiet: Vec<_> = lines.iter().filter(|line| line.tenant.as_str() == "neighbour").collect();
    assert_eq!(quiet.len(), 60, "{dropped} lines were dropped");
    assert!(quiet.iter().enumerate().all(|(number, line)| line.text == format!("line {number}")));
    assert!(dropped > 100_000, "the flood's own: {dropped}");
}
