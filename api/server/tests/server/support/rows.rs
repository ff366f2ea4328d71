//! Rows that builder and signer would have made. The server only reads them.

use mfaas_ident::Digest;
use serde_json::{Value, json};

use super::Database;

/// Admits version 1 of a function out of a deployment, with `artifact` as its digest and `live`
/// on it.
pub(crate) fn admitted_version(
    db: &Database,
    tenant: &str,
    function: &str,
    deployment: &str,
    artifact: &str,
) {
    let statement = "5".repeat(64);
    db.sql(&format!(
        "INSERT INTO artifacts (digest, bytes, toolchain) VALUES ('{artifact}', 3, '{artifact}');
         INSERT INTO statements (digest, artifact, envelope) VALUES ('{statement}', '{artifact}', '{{\"signed\": true}}');
         INSERT INTO functions (tenant, name, last_version) VALUES ('{tenant}', '{function}', 1);
         UPDATE deployments SET state = 'building' WHERE id = '{deployment}';
         UPDATE deployments SET state = 'built' WHERE id = '{deployment}';
         UPDATE deployments SET state = 'admitted', version = 1 WHERE id = '{deployment}';
         INSERT INTO versions (tenant, function, version, deployment_id, artifact, statement, source_digest, handler,
                               budget_us, memory_bytes, toolchain, abi_version, policy_version, idempotent, isolation)
         SELECT tenant, function, 1, id, '{artifact}', '{statement}', source_digest, 'handle', 1000, 4194304,
                '{artifact}', 1, 1, true, 'process' FROM deployments WHERE id = '{deployment}';
         INSERT INTO aliases (tenant, function, alias, version) VALUES ('{tenant}', '{function}', 'live', 1);"
    ));
}

/// Refuses a deployment for a finding whose source line is `text`, with the events of it.
pub(crate) fn refused_deployment(db: &Database, deployment: &str, text: &str) {
    let diagnostic = json!({
        "code": "MF0301", "level": "error", "message": "`unsafe` is not available", "hint": "Remove it.",
        "rendered": "", "layer": "lexer",
        "span": {"file": "src/lib.rs", "line": 3, "column": 1, "end_column": 7, "text": text},
    });
    let started = json!({"stage": "audit", "kind": "started"});
    let refused = json!({"stage": "audit", "kind": "state", "state": "refused", "diagnostics": [diagnostic]});
    let quoted = |value: &serde_json::Value| value.to_string().replace('\'', "''");
    db.sql(&format!(
        "UPDATE deployments SET state = 'building' WHERE id = '{deployment}';
         SELECT append_event('{deployment}', '{started}');
         UPDATE deployments SET state = 'refused', diagnostics = '{diagnostics}' WHERE id = '{deployment}';
         SELECT append_event('{deployment}', '{refused}');",
        started = quoted(&started),
        diagnostics = quoted(&json!([diagnostic])),
        refused = quoted(&refused),
    ));
}

/// What the acquirer writes about a crate `left-pad 1.2.3` that somebody asked for.
pub(crate) struct AskedFor<'a> {
    pub(crate) people: u8,
    pub(crate) report: &'a Value,
    pub(crate) judgement: &'a Value,
    /// Path and blob of each text.
    pub(crate) files: &'a [(String, Digest)],
    pub(crate) requirement: &'a str,
    /// The deployment that waits.
    pub(crate) deployment: &'a str,
}

/// Opens its review and answers with its number.
pub(crate) fn open_review(db: &Database, asked: &AskedFor<'_>) -> i64 {
    let quoted = |text: &str| text.replace('\'', "''");
    let (checksum, key, deployment) = ("c".repeat(64), "d".repeat(64), asked.deployment);
    let (report, judgement) = (quoted(&asked.report.to_string()), quoted(&asked.judgement.to_string()));
    let row = |(path, blob): &(String, Digest)| format!("('{checksum}', '{}', '{blob}', 9)", quoted(path));
    let files: Vec<String> = asked.files.iter().map(row).collect();
    db.sql(&format!(
        "UPDATE deployments SET state = 'building' WHERE id = '{deployment}';
         UPDATE deployments SET state = 'waiting' WHERE id = '{deployment}';
         INSERT INTO crate_archives (checksum, name, version, bytes) VALUES ('{checksum}', 'left-pad', '1.2.3', 9);
         INSERT INTO crate_files (checksum, path, blob, bytes) VALUES {files};
         INSERT INTO crate_reports (key, checksum, report) VALUES ('{key}', '{checksum}', '{report}');
         INSERT INTO reviews (name, version, checksum, features, toolchain, report, people, rules_revision, judgement)
         VALUES ('left-pad', '1.2.3', '{checksum}', '{{std}}', '{key}', '{key}', {people}, 'test', '{judgement}');
         INSERT INTO crate_requests (deployment_id, tenant, name, requirement, features, code, status, chosen)
         SELECT id, tenant, 'left-pad', '{requirement}', '{{}}', 'MF0204', 'reviewing', '1.2.3'
         FROM deployments WHERE id = '{deployment}';
         INSERT INTO request_members (request_id, name, version, checksum, features, path, review_id)
         SELECT q.id, 'left-pad', '1.2.3', '{checksum}', '{{std}}', '{{left-pad}}', r.id
         FROM crate_requests q, reviews r;",
        files = files.join(", "),
        people = asked.people,
        requirement = quoted(asked.requirement),
    ));
    db.sql("SELECT max(id) FROM reviews").parse().unwrap()
}

/// A place in a file of a crate.
pub(crate) fn span(file: &str, line: u32, columns: (u32, u32), text: &str) -> Value {
    json!({ "file": file, "line": line, "column": columns.0, "end_column": columns.1, "text": text })
}

/// A file of a crate with hotspots of the keyword `unsafe`, which geiger counts, too.
pub(crate) fn source_file(path: &str, role: &str, hotspots: &[Value]) -> Value {
    let (none, some) = (json!({"safe": 0, "unsafe": 0}), json!({"safe": 0, "unsafe": hotspots.len()}));
    let counts = json!({ "functions": none, "exprs": some, "impls": none, "traits": none, "methods": none });
    json!({
        "path": path, "role": role, "bytes": 9,
        "geiger": { "counted": { "counts": counts, "forbids_unsafe": false } },
        "tokens": { "tokens": 9, "counts": { "unsafe": hotspots.len() }, "spots": hotspots },
    })
}

/// A report about these files; everything in words is `words`.
pub(crate) fn crate_report(files: &[Value], compiler: &Value, words: &[String]) -> Value {
    let none = json!({"safe": 0, "unsafe": 0});
    let first = words.first().cloned().unwrap_or_default();
    let touched =
        words.iter().map(|word| json!({ "path": word, "span": span("src/lib.rs", 1, (1, 2), word) }));
    json!({
        "revision": 1, "name": "left-pad", "version": "1.2.3", "checksum": "c".repeat(64),
        "features": ["std"], "target": "x86_64-unknown-linux-gnu",
        "archive": { "bytes": 9, "unpacked_bytes": 9, "files": 2,
                     "binaries": [{ "path": "x.bin", "kind": "unknown" }], "native_sources": [], "unread": words },
        "source": {
            "package": "left-pad 1.2.3", "files": files, "exported_macros": [], "proc_macro": false,
            "build_script": false, "unread": words,
            "summary": { "unsafe": "unknown", "reasons": words, "token_spots": 2, "geiger": {
                "functions": none, "exprs": {"safe": 0, "unsafe": 3}, "impls": none, "traits": none, "methods": none,
            } },
        },
        "compiler": compiler,
        "touches": { "classes": [{ "class": "fs", "count": 30, "spots": touched.collect::<Vec<_>>() }], "unread": words },
        "shapes": { "shapes": [], "unread": words },
        "licence": { "expression": first, "file": null },
        "kind": { "proc_macro": false, "build_script": false, "links": first, "edition": first },
        "published": null, "yanked": null,
        "needs": [{ "name": "memchr", "version": "2.0.0", "checksum": "e".repeat(64) }],
    })
}
