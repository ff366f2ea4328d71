//! Rows that builder and signer would have made. The server only reads them.

use serde_json::json;

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
                               budget_us, memory_bytes, toolchain, abi_version, policy_version)
         SELECT tenant, function, 1, id, '{artifact}', '{statement}', source_digest, 'handle', 1000, 4194304,
                '{artifact}', 1, 1 FROM deployments WHERE id = '{deployment}';
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
