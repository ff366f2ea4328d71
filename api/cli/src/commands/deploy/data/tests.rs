#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use mfaas_ident::Bindings;

use super::{DataChange, changes};

/// Bindings of `name resource access`.
fn bindings(rows: &[(&str, &str, &str)]) -> Bindings {
    let row = |(name, resource, access): &(&str, &str, &str)| {
        let binding = serde_json::json!({"kind": "kv", "resource": resource, "access": access});
        (name.parse().unwrap(), serde_json::from_value(binding).unwrap())
    };
    rows.iter().map(row).collect()
}

fn lines(before: &[(&str, &str, &str)], after: &[(&str, &str, &str)]) -> Vec<String> {
    changes(&bindings(before), &bindings(after)).iter().map(DataChange::line).collect()
}

#[test]
fn what_is_new_wider_narrower_and_gone_has_a_line_each() {
    let before =
        [("a", "gone", "write"), ("b", "links", "read"), ("c", "hits", "write"), ("d", "same", "read")];
    let after =
        [("b", "links", "write"), ("c", "hits", "read"), ("d", "same", "read"), ("e", "fresh", "read")];
    let said = lines(&before, &after);
    let expected = [
        "now also reads kv `fresh`",
        "no longer reaches kv `gone`",
        "no longer writes kv `hits`",
        "now also writes kv `links`",
    ];
    assert_eq!(said, expected);
    assert_eq!(lines(&[], &[("a", "links", "write")]), ["now also writes kv `links`"]);
}

#[test]
fn another_name_for_the_same_resource_is_no_change() {
    let write = ("a", "links", "write");
    assert_eq!(lines(&[write], &[("z", "links", "write")]), [""; 0]);
    assert_eq!(lines(&[write], &[write, ("b", "links", "read")]), [""; 0], "it writes already");
    assert_eq!(
        lines(&[write, ("b", "links", "read")], &[("b", "links", "read")]),
        ["no longer writes kv `links`"]
    );
}

#[test]
fn functions_that_are_called_now_or_no_longer_have_a_line_each() {
    let calling = |functions: &[&str]| -> Bindings {
        let row = |name: &&str| {
            let binding = serde_json::json!({"kind": "function", "function": name});
            (name.parse().unwrap(), serde_json::from_value(binding).unwrap())
        };
        functions.iter().map(row).collect()
    };
    let changes = changes(&calling(&["geo", "rank"]), &calling(&["rank", "rate"]));
    let said: Vec<String> = changes.iter().map(DataChange::line).collect();
    assert_eq!(said, ["no longer calls `geo`", "now also calls `rate`"]);
    let expected =
        serde_json::json!({"kind": "function", "function": "rate", "before": false, "after": true});
    assert_eq!(serde_json::to_value(&changes[1]).unwrap(), expected);
}

#[test]
fn programs_read_what_it_was_and_what_it_is() {
    let changes = changes(&Bindings::new(), &bindings(&[("a", "links", "read")]));
    let expected = serde_json::json!([{"kind": "kv", "resource": "links", "before": null, "after": "read"}]);
    assert_eq!(serde_json::to_value(changes).unwrap(), expected);
}
