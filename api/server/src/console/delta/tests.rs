#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use chrono::{DateTime, Utc};
use mfaas_rules::crate_facts::Volume;
use serde_json::json;

use super::*;

fn found(decided_by: &str, stands: bool, added: u64) -> ReviewDelta {
    let side = |version: &str| json!({ "version": version, "checksum": "a".repeat(64), "features": [], "unkept": 2 });
    let same = json!({ "from": false, "to": false });
    let none = json!({ "came": [], "went": [] });
    let delta = json!({
        "revision": 1, "from": side("1.0.3"), "to": side("1.1.0"),
        "code": { "files": 4, "added": added, "removed": 33 }, "other": { "files": 0, "added": 0, "removed": 0 },
        "files": [{ "path": "src/lib.rs", "change": "changed", "code": true, "added": 7, "removed": 9, "whole": "too large" }],
        "facts": {
            "touches": [{ "class": "net", "places": { "from": 0, "to": 1200 } }],
            "spots": [{ "kind": "unsafe", "count": { "from": 3, "to": 2 } }],
            "geiger": { "from": 0, "to": null }, "compiler": { "from": "unknown", "to": { "errors": 1 } },
            "shapes": { "from": 0, "to": 0 }, "proc_macro": same, "build_script": { "from": false, "to": true },
            "links": { "from": null, "to": "z\u{1b}" }, "edition": { "from": null, "to": null },
            "licence": { "from": null, "to": null }, "features": { "came": ["std"], "went": [] }, "macros": none,
            "binaries": none, "native_sources": none,
            "needs_came": [{ "name": "a", "version": "1.0.0" }], "needs_went": [{ "name": "b", "version": "2.0.0" }],
            "needs_changed": [{ "name": "c", "version": { "from": "1.0.0", "to": "1.0.0" },
                "checksum": { "from": "a".repeat(64), "to": "b".repeat(64) } }],
        },
    });
    ReviewDelta {
        volumes: Some(Volumes {
            code: Volume { files: 70, lines: 3_412 },
            other: Volume::default(),
            unkept: 2,
        }),
        baseline: Some(Baseline {
            version: "1.0.3".parse().unwrap(),
            checksum: Digest::of(b"base"),
            features: Vec::new(),
            tenant: None,
            decided_by: decided_by.to_owned(),
            decided_at: DateTime::<Utc>::UNIX_EPOCH,
        }),
        stands,
        delta: Some(serde_json::from_value(delta).unwrap()),
        problem: String::new(),
    }
}

#[test]
fn the_cheapest_path_begins_where_a_reviewer_has_been() {
    let of = |found: &ReviewDelta| reading(Some(found));
    let reviewed = of(&found("ann, bob", true, 120));
    assert_eq!(reviewed.cheapest, "read what changed since 1.0.3: 153 lines instead of 3,412");
    assert_eq!(
        reviewed.whole,
        "3,412 lines in 70 files, and 0 lines in 0 others (tests, documents, data); 2 files are no text"
    );
    let delta = reviewed.delta.unwrap();
    assert!(
        delta.contains("from 1.0.3, allowed by ann, bob on 1970")
            && delta.contains("+120 −33 lines in 4 files"),
        "{delta}"
    );
    assert!(reviewed.left_out.unwrap().starts_with("1 files could not be compared"));
    assert_eq!((reviewed.warning, reviewed.problem), (None, None));
    let shipped = of(&found("seed", true, 120));
    assert_eq!(shipped.cheapest, "full review, 3,412 lines");
    assert!(shipped.warning.unwrap().contains("nobody of this site has looked at it"));
    assert!(of(&found("ann", false, 120)).warning.unwrap().contains("allowed no more"));
    assert_eq!(
        of(&found("ann", true, 9_999)).cheapest,
        "full review, 3,412 lines",
        "more lines than the whole"
    );
}

#[test]
fn without_a_delta_there_is_a_reason() {
    assert!(reading(None).problem.unwrap().contains("nobody has compared"));
    let problem = ReviewDelta {
        delta: None,
        baseline: None,
        problem: "no other\u{202e}".to_owned(),
        ..found("a", true, 1)
    };
    let shown = reading(Some(&problem));
    assert_eq!((shown.delta, shown.problem.as_deref()), (None, Some("no other\\u{202e}")));
    assert!(Base::of(Some(&problem)).is_none());
}

#[test]
fn what_came_is_told_from_what_went() {
    let found = found("ann", true, 1);
    let facts = &found.delta.as_ref().unwrap().facts;
    let rows: Vec<_> = capabilities(facts)
        .into_iter()
        .map(|row| format!("{}: {} → {} ({})", row.what, row.before, row.now, row.tone))
        .collect();
    assert_eq!(
        rows,
        [
            "build script: no → yes (bad)",
            "stands for a native library: – → z\\u{1b} (bad)",
            "unsafe code, says the compiler: unknown → 1 errors (wait)",
            "unsafe items, says geiger: 0 → unknown (bad)",
            "the keyword unsafe: 3 → 2 (good)",
            "reaches for: network: 0 → 1,200 (bad)",
            "features that it was looked at with: – → std (bad)",
        ]
    );
    let needs: Vec<_> = dependencies(facts)
        .into_iter()
        .map(|row| format!("{} {} {}", row.what, row.before, row.now))
        .collect();
    assert_eq!(needs, ["a – 1.0.0", "c 1.0.0 1.0.0, with other bytes", "b 2.0.0 –"]);
}

#[test]
fn thousands_stand_apart() {
    let shown: Vec<_> = [0, 999, 1_000, 1_234_567].map(grouped).into();
    assert_eq!(shown, ["0", "999", "1,000", "1,234,567"]);
}
