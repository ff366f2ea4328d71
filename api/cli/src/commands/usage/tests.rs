#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use mfaas_wire::UsageView;

use super::{moment, text};

fn view(by: &str, calls: u64) -> UsageView {
    serde_json::from_value(serde_json::json!({
        "since": "2027-01-02T03:00:00Z", "until": "2027-01-03T03:00:00Z", "by": by, "truncated": false,
        "rows": [{
            "from": "2027-01-02T03:00:00Z", "tenant": "acme", "function": "hello", "version": 3, "calls": calls,
            "cpu_ns": 1_500_000, "run_ns": 2_000_000, "run_ns_max": 12_340, "queue_ns": 500_000,
            "memory_bytes_max": 1_025, "kills": {"over_budget": 1, "panicked": 2},
        }],
    }))
    .unwrap()
}

#[test]
fn a_person_reads_one_line_for_each_version() {
    let shown = text(&view("total", 1_000));
    let expected = "\
FUNCTION      CALLS  CPU TIME  MEAN RUN  MAX RUN  MEAN WAIT  MAX MEMORY  KILLS
acme/hello@3  1000   1.50 ms   2.00 µs   12.3 µs  500 ns     2 KiB       1 over_budget, 2 panicked";
    assert_eq!(shown, expected);
    assert!(text(&view("hour", 1_000)).contains("\n2027-01-02 03:00  acme/hello@3"));
    assert!(text(&view("day", 0)).contains("\n2027-01-02  acme/hello@3"), "no call is no division by zero");
    let nothing = UsageView { rows: Vec::new(), ..view("total", 0) };
    assert_eq!(text(&nothing), "nothing was called");
}

#[test]
fn a_moment_needs_no_escaping() {
    for good in ["24h", "7d", "2027-01-02T03:00:00Z"] {
        assert_eq!(moment(good).as_deref(), Ok(good));
    }
    for bad in ["", "24h&tenant=other", "2027-01-02T03:00:00+01:00", "1 h", "ä"] {
        assert!(moment(bad).is_err(), "{bad}");
    }
}
