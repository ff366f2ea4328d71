//! A crate of which another version ships: what is asked about is compared with it. With the real registry and the
//! real sandbox.
#![allow(clippy::print_stdout, reason = "its words are shown")]

use std::time::Duration;

use mfaas_harness::{Program, Stack, wait_for};
use serde_json::Value;

/// Time for two resolutions, downloads and compiles.
const COMPARED_WITHIN: Duration = Duration::from_secs(600);

#[test]
fn what_changed_since_what_ships_is_said() {
    let stack = Stack::start_with_few_crates(&["--default-access", "public"]);
    let alice = stack.reviewer("alice");
    let _ = stack.crates(&stack.token(), &["request", "strsim@=0.10.0"]).ok();
    let id = wait_for("a review", COMPARED_WITHIN, || {
        let queue = stack.review(&alice, &["list"]).ok().json();
        let found = queue["items"].as_array().unwrap().iter().find(|review| review["name"] == "strsim");
        found.map(|review| review["id"].to_string())
    });
    let shown = wait_for("the comparison", COMPARED_WITHIN, || {
        let shown = stack.review(&alice, &["show", &id]).ok().json();
        (shown["review"]["no_delta"] != "nobody has compared it yet").then_some(shown)
    });
    let (view, delta) = (&shown["review"], &shown["review"]["delta"]);
    let log = stack.log(Program::Acquirer);
    assert_eq!(
        (&delta["from"], &delta["reviewed"], &delta["stands"]),
        (&Value::from("0.11.1"), &Value::from(false), &Value::from(true)),
        "{view}\n{log}"
    );
    let number = |value: &Value| value.as_u64().unwrap();
    assert!(number(&delta["added"]) > 0 && number(&delta["removed"]) > 0, "{delta}");
    assert!(number(&view["whole"]["lines"]) > number(&delta["added"]), "{view}");
    let changed = delta["changes"].as_array().unwrap();
    assert!(
        changed.iter().any(|file| file["path"] == "src/lib.rs" && file["change"] == "changed"),
        "{delta}"
    );
    // What ships was asked the same questions: both answers are known, so neither differs for want of one.
    assert_eq!(
        delta["facts"]["compiler"],
        serde_json::json!({ "from": { "errors": 0 }, "to": { "errors": 0 } })
    );
    let text = stack.cli_with(["review", "show", &id], &[("MFAAS_TOKEN", &alice)]).ok().stdout;
    assert!(text.contains("from 0.11.1, allowed by seed, which nobody of this site has looked at"), "{text}");
    println!("{text}");
}
