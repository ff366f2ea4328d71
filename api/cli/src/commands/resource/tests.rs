#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use mfaas_wire::ResourceView;

use super::text;

fn resource(name: &str, more: serde_json::Value) -> ResourceView {
    let mut json = serde_json::json!({"name": name, "kind": "kv", "created_at": "2027-01-02T03:04:05Z"});
    json.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    serde_json::from_value(json).unwrap()
}

fn lines(items: &[ResourceView]) -> Vec<Vec<String>> {
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect();
    text(items).lines().map(words).collect()
}

#[test]
fn an_operator_reads_a_line_for_each_grant_and_a_tenant_one_for_each_resource() {
    let grants = serde_json::json!({"grants": [
        {"tenant": "acme", "access": "read", "granted_at": "2027-02-03T04:05:06Z", "granted_by": "token:x"},
        {"tenant": "umbrella", "access": "write", "granted_at": "2027-02-04T04:05:06Z", "granted_by": "token:x"},
    ]});
    let all = [resource("hits", serde_json::json!({})), resource("links", grants)];
    let read = lines(&all);
    assert_eq!(read[1], ["hits", "kv", "-", "-", "2027-01-02", "03:04"]);
    assert_eq!(read[2], ["links", "kv", "acme", "read", "2027-02-03", "04:05"]);
    assert_eq!(read[3], ["links", "kv", "umbrella", "write", "2027-02-04", "04:05"]);
    let own = [resource("links", serde_json::json!({"access": "write"}))];
    assert_eq!(lines(&own)[1], ["links", "kv", "write"]);
    assert!(text(&[]).contains("an operator"));
    // What an asset consists of has a column where there is one.
    let digest = "ab".repeat(32);
    let asset =
        serde_json::json!({"kind": "asset", "access": "read", "content": {"digest": digest, "bytes": 7}});
    let read = lines(&[own[0].clone(), resource("model", asset)]);
    assert_eq!(read[1], ["links", "kv", "write", "-"]);
    assert_eq!(read[2], ["model", "asset", "read", "7", "B", "abababababab"]);
}
