#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use super::TraceParent;

/// The example of the standard.
const EXAMPLE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

#[test]
fn a_header_is_read_and_written_back() {
    let parent = TraceParent::parse(EXAMPLE).unwrap();
    assert_eq!(parent.to_string(), EXAMPLE);
    assert_eq!(parent.trace_id(), "4bf92f3577b34da6a3ce929d0e0e4736");
    assert_eq!(parent.span(), [0, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 0x02, 0xb7]);
    assert!(parent.is_sampled());
    let unsampled = TraceParent::parse(&EXAMPLE.replace("-01", "-00")).unwrap();
    assert!(!unsampled.is_sampled() && unsampled.to_string().ends_with("-00"));
    // Other flags are nobody's yet, and what a later version has behind them is passed over.
    assert!(TraceParent::parse(&EXAMPLE.replace("-01", "-ff")).unwrap().to_string().ends_with("-01"));
    let later = format!("{}-what-comes", EXAMPLE.replacen("00", "cc", 1));
    assert_eq!(TraceParent::parse(&later).unwrap(), parent);
}

#[test]
fn what_is_no_header_is_refused() {
    let wrong = [
        "",
        "00",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01x",
        "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01x",
        "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
        "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
        "00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e473é-00f067aa0ba902b7-01",
        "0x-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    ];
    for text in wrong {
        assert!(TraceParent::parse(text).is_err(), "{text}");
    }
}
