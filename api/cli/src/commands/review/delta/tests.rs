#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use super::*;
use serde_json::json;

fn delta(reviewed: bool, stands: bool) -> DeltaView {
    serde_json::from_value(json!({
        "from": "1.0.3", "from_checksum": "a".repeat(64), "decided_by": "ann, bob\u{1b}[2J",
        "decided_at": "2026-01-01T00:00:00Z", "reviewed": reviewed, "stands": stands,
        "added": 120, "removed": 33, "files": 4, "other_added": 1, "other_removed": 2, "other_files": 1,
        "unkept_files": 1, "facts": {},
        "changes": [{ "path": "src/lib.rs", "change": "changed", "added": 7, "removed": 9, "whole": "too large" }],
    }))
    .unwrap()
}

#[test]
fn a_delta_says_who_stands_for_its_beginning() {
    let text = of_delta(&delta(true, true)).join("\n");
    assert!(text.contains("from 1.0.3, allowed by ann, bob\\u{1b}[2J: +120 -33 lines in 4 files"), "{text}");
    assert!(text.contains("changed  +7 -9  src/lib.rs (too large)") && text.contains("1 files are no text"));
    assert!(of_delta(&delta(false, true))[0].contains("nobody of this site has looked at"));
    assert!(of_delta(&delta(true, false))[0].contains("allowed NO MORE"));
}
