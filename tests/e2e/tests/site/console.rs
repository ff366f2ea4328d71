//! A review as people do it: in a browser, with the keyboard, with and without script, over the
//! real site. The pictures of the pages stay under `target/tmp/console`.
#![allow(clippy::print_stderr, reason = "figures are for people")]

use std::time::Duration;

use mfaas_harness::{Stack, browse, demand_browser, package, pictures, wait_for};
use serde_json::{Value, json};

/// Time for a resolution, downloads, and a build of everything that the site offers.
const ACQUIRED_WITHIN: Duration = Duration::from_secs(600);
/// The walk itself, and the acquirer behind it.
const WALKED_WITHIN: Duration = Duration::from_secs(900);
/// Pages that the script opens; fewer means that one was left out.
const PAGES: u64 = 24;
/// Rules of axe that every page has something for.
const RULES_MIN: u64 = 15;

/// A crate with unsafe code, which takes two people.
const DEPENDENCIES: &str = "[dependencies]\npercent-encoding = \"=2.3.1\"\n";
const SOURCE: &str = "use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
pub fn handle(request: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(request);
    utf8_percent_encode(&text, NON_ALPHANUMERIC).to_string().into_bytes()
}
";

#[test]
fn two_people_walk_a_review_in_a_browser_and_the_deployment_goes_on() {
    demand_browser();
    let stack = Stack::start_with_few_crates(&["--default-access", "public"]);
    let (alice, bob) = (stack.reviewer("alice"), stack.reviewer("bob"));
    let deployment = waits(&stack);
    wait_for("the review", ACQUIRED_WITHIN, || {
        let run = stack.cli_with(["review", "--json", "list"], &[("MFAAS_TOKEN", &alice)]);
        let queue = run.ok().json();
        queue["items"].as_array().unwrap().iter().any(|row| row["name"] == "percent-encoding").then_some(())
    });
    let directory = pictures(env!("CARGO_TARGET_TMPDIR"), "console");
    let config = json!({
        "url": stack.server(),
        "tokens": { "admin": stack.token(), "alice": alice, "bob": bob },
        "deployment": deployment,
        "function": "percent",
        "crate": "percent-encoding",
        "pictures": directory,
    });
    let found = browse("review_walk.mjs", &config, WALKED_WITHIN, |_| answers(&stack));
    judge(&found);
    eprintln!(
        "{} pages, {} pictures in {}, at least {} rules of axe; {} hotspots, {} of them walked with the keyboard; {} s, \
         of which {} s waited for the acquirer and the builder",
        found["pages"],
        found["pictures"],
        directory.display(),
        found["rules"],
        found["walked"]["hotspots"],
        found["walked"]["marked"],
        found["whole_s"],
        found["live"]["waited_s"],
    );
}

/// Deploys, and answers the id of the deployment, which waits.
fn waits(stack: &Stack) -> String {
    let package = package("percent", SOURCE, DEPENDENCIES);
    let run = stack.cli(["deploy", "--json", package.path().to_str().unwrap()]);
    assert_eq!(run.code, 6, "{}\n{}", run.stdout, run.stderr);
    run.json()["id"].as_str().unwrap().to_owned()
}

fn answers(stack: &Stack) {
    let answer = wait_for("the node", Duration::from_secs(60), || {
        let run = stack.invoke("percent", "a b");
        (run.code == 0).then_some(run.stdout)
    });
    assert_eq!(answer, "a%20b");
    // Another version, for the page that compares two.
    let package = package("percent", &format!("{SOURCE}// Once more.\n"), DEPENDENCIES);
    let run = stack.cli(["deploy", package.path().to_str().unwrap()]);
    assert_eq!(run.code, 0, "{}\n{}", run.stdout, run.stderr);
}

fn judge(found: &Value) {
    let violations = found["violations"].as_array().unwrap();
    assert!(violations.is_empty(), "axe objects:\n{}", lines(violations));
    assert_eq!((&found["pages"], &found["pictures"]), (&json!(PAGES), &json!(2 * PAGES)));
    assert!(found["rules"].as_u64().unwrap() >= RULES_MIN, "axe looked at nothing: {found}");
    // One hotspot was marked without script.
    let walked = &found["walked"];
    assert_eq!(walked["marked"].as_u64().unwrap() + 1, walked["hotspots"].as_u64().unwrap(), "{walked}");
    for (who, seen) in found["seen"].as_object().unwrap() {
        for (what, list) in seen.as_object().unwrap() {
            let list = list.as_array().unwrap();
            assert!(list.is_empty(), "{what} in the browser of {who}:\n{}", lines(list));
        }
    }
}

fn lines(list: &[Value]) -> String {
    list.iter().map(|line| line.as_str().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}
