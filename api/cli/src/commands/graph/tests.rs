#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use mfaas_ident::{CalleeName, VersionNumber};

use super::{Node, Shown, text};

fn name(name: &str) -> CalleeName {
    CalleeName::parse(name).unwrap()
}

fn node(function: &str, calls: &[&str]) -> Node {
    let live_version = Some(VersionNumber::FIRST);
    Node { function: name(function), live_version, calls: calls.iter().map(|callee| name(callee)).collect() }
}

#[test]
fn what_a_function_calls_stands_below_it_once() {
    let mut functions = vec![
        node("search", &["geo", "profile", "rate"]),
        node("geo", &["store", "travel/maps"]),
        node("rate", &["geo", "store"]),
        node("store", &[]),
    ];
    functions.push(Node { live_version: None, ..node("profile", &[]) });
    functions.push(Node { live_version: None, ..node("travel/maps", &[]) });
    let expected = "search\n  geo\n    store\n    travel/maps (of another tenant)\n  profile (has no live version)\n  rate\n    geo (see above)\n    store";
    assert_eq!(text(&name("search"), &functions), expected);
    assert_eq!(text(&name("store"), &functions), "store");
}

#[test]
fn versions_that_call_each_other_in_a_circle_are_drawn_once() {
    let functions = [node("a", &["b"]), node("b", &["a"])];
    assert_eq!(text(&name("a"), &functions), "a\n  b\n    a (see above)");
}

#[test]
fn programs_read_each_function_with_what_it_calls() {
    let shown = Shown { functions: vec![node("search", &["geo"])] };
    let expected =
        serde_json::json!({"functions": [{"function": "search", "live_version": 1, "calls": ["geo"]}]});
    assert_eq!(serde_json::to_value(shown).unwrap(), expected);
}
