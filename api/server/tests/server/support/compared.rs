//! What the acquirer writes about a comparison. The server only reads it.

use mfaas_ident::Digest;
use serde_json::{Value, json};

use super::Server;

/// What the acquirer writes about a comparison with left-pad 1.0.3, whose texts are these blobs.
pub(crate) fn compared(
    server: &Server,
    review: i64,
    old: &[(String, Digest)],
    delta: &Value,
    decided_by: &str,
) {
    let from = "b".repeat(64);
    let row = |(path, blob): &(String, Digest)| format!("('{from}', '{path}', '{blob}', 9)");
    let rows: Vec<String> = old.iter().map(row).collect();
    let quoted = |text: &str| text.replace('\'', "''");
    let volumes =
        json!({ "code": { "files": 70, "lines": 3_412 }, "other": { "files": 1, "lines": 2 }, "unkept": 1 });
    server.db.sql(&format!(
        "INSERT INTO crate_archives (checksum, name, version, bytes) VALUES ('{from}', 'left-pad', '1.0.3', 9);
         INSERT INTO crate_files (checksum, path, blob, bytes) VALUES {rows};
         INSERT INTO crates (name, version, checksum, features, direct, status, decided_by, reason)
         VALUES ('left-pad', '1.0.3', '{from}', '{{}}', true, 'allowed', 'seed', 'looked at');
         ALTER TABLE crates DISABLE TRIGGER crates_decided;
         UPDATE crates SET decided_by = '{decided_by}';
         INSERT INTO crate_deltas (key, from_checksum, to_checksum, delta)
         VALUES ('{from}', '{from}', '{to}', '{delta}');
         INSERT INTO review_deltas (review_id, volumes, from_version, from_checksum, from_features, from_scope,
                                    decided_by, decided_at, delta)
         VALUES ({review}, '{volumes}', '1.0.3', '{from}', '{{}}', '', '{decided_by}', now(), '{from}');",
        rows = rows.join(", "),
        to = "c".repeat(64),
        delta = quoted(&delta.to_string()),
    ));
}

/// A file that differs.
pub(crate) fn file_delta(path: &str, change: &str, added: u64, removed: u64) -> Value {
    json!({ "path": path, "change": change, "code": true, "added": added, "removed": removed })
}

/// A comparison of left-pad 1.0.3 and 1.2.3; everything in words is `words`.
pub(crate) fn delta(files: &[Value], words: &[String]) -> Value {
    let side = |version: &str, checksum: &str| json!({ "version": version, "checksum": checksum.repeat(64), "features": [], "unkept": 1 });
    let same = json!({ "from": false, "to": false });
    let first = words.first();
    json!({
        "revision": 1, "from": side("1.0.3", "b"), "to": side("1.2.3", "c"),
        "code": { "files": 4, "added": 120, "removed": 33 }, "other": { "files": 0, "added": 0, "removed": 0 },
        "files": files,
        "facts": {
            "touches": [{ "class": "net", "places": { "from": 0, "to": 3 } }], "spots": [],
            "geiger": { "from": 0, "to": null }, "compiler": { "from": { "errors": 0 }, "to": { "errors": 4 } },
            "shapes": { "from": 0, "to": 0 }, "proc_macro": same, "build_script": { "from": false, "to": true },
            "links": { "from": null, "to": first }, "edition": { "from": null, "to": null },
            "licence": { "from": first, "to": null }, "features": { "came": words, "went": words },
            "macros": { "came": words, "went": [] }, "binaries": { "came": words, "went": [] },
            "native_sources": { "came": [], "went": words },
            "needs_came": [{ "name": "itoa", "version": "1.0.0" }], "needs_went": [],
            "needs_changed": [{ "name": "memchr", "version": { "from": "1.9.0", "to": "2.0.0" },
                                "checksum": { "from": "a".repeat(64), "to": "b".repeat(64) } }],
        },
    })
}
