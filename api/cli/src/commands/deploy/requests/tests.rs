#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use super::*;

#[test]
fn a_deployer_who_waits_is_told_the_way_the_nearest_version_and_the_command() {
    let request = serde_json::json!({
        "id": 3, "tenant": "default", "name": "regex-lite", "requirement": "=0.1.5", "features": ["string"],
        "default_features": false, "status": "reviewing", "created_at": "2026-11-22T00:00:00Z",
        "nearest": { "version": "0.1.6", "features": ["std"], "decided_by": "seed" },
        "members": [
            { "name": "regex-lite", "version": "0.1.5", "path": ["regex-lite"], "review": 7, "state": "open",
              "reading": { "lines": 900, "delta": { "from": "0.1.6", "added": 12, "removed": 40, "files": 3 } } },
            { "name": "memchr", "version": "2.7.4", "path": ["regex-lite", "memchr"] },
            { "name": "aho", "version": "1.0.0", "path": ["regex-lite", "aho"], "review": 5, "state": "approved" },
        ],
    });
    let deployment = serde_json::json!({
        "id": "0199a0a0-0000-7000-8000-000000000000", "tenant": "default", "function": "search", "state": "waiting",
        "created_at": "2026-11-22T00:00:00Z", "updated_at": "2026-11-22T00:00:00Z",
        "source_digest": "00".repeat(32), "source_bytes": 1, "attempts": 1,
        "review_url": "http://127.0.0.1/reviews/7", "requests": [request],
    });
    let said = lines(&serde_json::from_value(deployment).unwrap());
    assert_eq!(
        said,
        [
            "search -> regex-lite =0.1.5: request 3 is reviewing",
            "  nearest allowed version: 0.1.6 with the features std (decided by seed)",
            "  regex-lite 0.1.5 (review 7)",
            "    delta from 0.1.6: +12 -40 lines in 3 files; 900 lines in all",
            "  asked for by this deploy; by hand: mfaas crate request 'regex-lite@=0.1.5' --features string --no-default-features",
            "reviewers decide at http://127.0.0.1/reviews/7; then the deployment goes on by itself",
        ]
    );
}
