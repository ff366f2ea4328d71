//! A crate that nobody has decided about: asked for by a deploy, found out about, decided by people, built,
//! and revoked again. With the real registry and the real sandbox.

use std::time::Duration;

use mfaas_harness::{Package, Program, Run, Stack, package, wait_for};
use serde_json::Value;

/// Time for a resolution, downloads, and two builds of everything that the site offers.
const ACQUIRED_WITHIN: Duration = Duration::from_secs(600);

/// A crate with unsafe code, which takes two people.
const PERCENT: &str = "[dependencies]\npercent-encoding = \"=2.3.1\"\n";
const PERCENT_SOURCE: &str = "use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
pub fn handle(request: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(request);
    utf8_percent_encode(&text, NON_ALPHANUMERIC).to_string().into_bytes()
}
";
const BASE32_SOURCE: &str = "pub fn handle(request: &[u8]) -> Vec<u8> {
    base32::encode(base32::Alphabet::Crockford, request).into_bytes()
}
";
/// As RustSec writes them; made up.
const ADVISORY: &str = "```toml
[advisory]
id = \"RUSTSEC-2099-0001\"
package = \"percent-encoding\"
date = \"2099-01-01\"
informational = \"unsound\"

[versions]
patched = [\">= 2.3.2\"]
```

# It does not encode the letter q

Made up for a test.
";
const PLAIN: &str = "pub fn handle(request: &[u8]) -> Vec<u8> {\n    request.to_vec()\n}\n";

#[test]
fn a_crate_is_asked_for_decided_about_used_and_revoked() {
    // What the rules may admit by themselves, they do.
    let stack = Stack::start_with_few_crates(&["--automatic-admission", "on"]);
    let (alice, bob) = (stack.reviewer("alice"), stack.reviewer("bob"));
    let id = waits(&stack, &package("percent", PERCENT_SOURCE, PERCENT));
    let review = open_review(&stack, &alice, "percent-encoding");
    two_people_who_did_not_ask(&stack, &review, &alice, &bob);
    goes_on_by_itself(&stack, &id);
    what_nobody_has_to_look_at_is_admitted_by_the_rules(&stack, &alice);
    a_no_ends_it_with_the_words(&stack, &alice);
    what_cannot_be_offered_is_said(&stack);
    what_does_not_compile_without_a_grant_is_said(&stack, &alice, &bob);
    the_decision_about_what_ships_is_taken_over(&stack, &alice);
    an_advisory_match_revokes_what_it_affects(&stack, &alice);
    the_record_holds_and_a_changed_row_is_found(&stack);
}

/// Deploys, and answers the id of the deployment, which waits.
fn waits(stack: &Stack, package: &Package) -> String {
    let run = stack.cli(["deploy", "--json", package.path().to_str().unwrap()]);
    assert_eq!(run.code, 6, "{}\n{}", run.stdout, run.stderr);
    let report = run.json();
    assert_eq!(report["state"], "waiting", "{report}");
    let request = &report["requests"][0];
    if request["name"] == "serde" {
        assert!(request["nearest"]["version"].as_str().unwrap().starts_with("1.0."), "{request}");
        assert!(run.stderr.contains("nearest allowed version: 1.0."), "{}", run.stderr);
    }
    let asks = format!(
        "mfaas crate request '{}@{}",
        request["name"].as_str().unwrap(),
        request["requirement"].as_str().unwrap()
    );
    assert!(run.stderr.contains(&asks), "{}", run.stderr);
    report["id"].as_str().unwrap().to_owned()
}

fn open_review(stack: &Stack, token: &str, name: &str) -> Value {
    wait_for(&format!("a review of {name}"), ACQUIRED_WITHIN, || {
        let queue = stack.review(token, &["list"]).ok().json();
        queue["items"].as_array().unwrap().iter().find(|review| review["name"] == name).cloned()
    })
}

fn two_people_who_did_not_ask(stack: &Stack, review: &Value, alice: &str, bob: &str) {
    let id = review["id"].to_string();
    assert_eq!((&review["people"], &review["waiting"]), (&Value::from(2), &Value::from(1)), "{review}");
    let shown = stack.review(alice, &["show", &id]).ok().json();
    assert_eq!(shown["report"]["checksum"], review["checksum"]);
    assert!(shown["report"]["compiler"]["unsafe"]["errors"].as_u64().unwrap() > 0, "{}", shown["report"]);
    assert_eq!(shown["review"]["trial"]["compiles"]["needs"], serde_json::json!([]), "{}", shown["review"]);
    let yes = ["approve", id.as_str(), "--note", "from_utf8_unchecked over ASCII that it wrote itself"];
    let own = stack.review(&stack.token(), &yes);
    assert_ne!(own.code, 0, "whoever asked has approved: {}", own.stdout);
    assert!(own.stderr.contains("the requester of a crate cannot decide"), "{}", own.stderr);
    // The acquirer dies between two steps, and nothing is lost.
    stack.kill(Program::Acquirer);
    assert_eq!(stack.review(alice, &yes).ok().json()["state"], "open");
    assert_ne!(stack.review(alice, &yes).code, 0, "one vote each");
    assert_eq!(stack.review(bob, &yes).ok().json()["state"], "approved");
    stack.kill(Program::Acquirer);
}

fn goes_on_by_itself(stack: &Stack, id: &str) {
    let view = wait_for("the deployment to go on", ACQUIRED_WITHIN, || {
        let view = stack.deployment(id);
        (view["state"] != "waiting").then(|| stack.settled(id))
    });
    assert_eq!(view["state"], "admitted", "{view}\n{}", stack.log(Program::Acquirer));
    let answer = wait_for("the node", Duration::from_secs(60), || {
        let run = stack.invoke("percent", "a b");
        (run.code == 0).then_some(run.stdout)
    });
    assert_eq!(answer, "a%20b");
    let run = checked(stack, &[]);
    assert_eq!(run.code, 6, "what ships does not have it: {}{}", run.stdout, run.stderr);
    let run = checked(stack, &["--site"]);
    assert_eq!(run.code, 1, "this machine has not compiled it: {}{}", run.stdout, run.stderr);
    assert!(run.stdout.contains("the site allows percent-encoding 2.3.1"), "{}", run.stdout);
}

/// What a developer's machine says about the function.
fn checked(stack: &Stack, options: &[&str]) -> Run {
    let package = package("percent", PERCENT_SOURCE, PERCENT);
    let home = stack.home().to_str().unwrap();
    let line = [&["check", "--json", "--home", home, package.path().to_str().unwrap()], options].concat();
    stack.cli(line)
}

/// A crate of safe code alone, beside another version of it that ships: the next deploy finds how far they differ.
fn what_nobody_has_to_look_at_is_admitted_by_the_rules(stack: &Stack, alice: &str) {
    let nothing = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(nothing.path().join("crates/other")).unwrap();
    let advisory = ADVISORY.replace("percent-encoding", "other");
    std::fs::write(nothing.path().join("crates/other/RUSTSEC-2099-0001.md"), advisory).unwrap();
    let path = nothing.path().to_str().unwrap();
    let _ = stack.crates(alice, &["advisories", path]).ok();

    let id = waits(stack, &package("thirty-two", BASE32_SOURCE, "[dependencies]\nbase32 = \"=0.4.0\"\n"));
    let view = wait_for("the deployment to go on", ACQUIRED_WITHIN, || {
        let view = stack.deployment(&id);
        (view["state"] != "waiting").then(|| stack.settled(&id))
    });
    assert_eq!(view["state"], "admitted", "{view}\n{}", stack.log(Program::Acquirer));
    let rows = stack.crates(alice, &["show", "base32"]).ok().json();
    let row = rows["items"].as_array().unwrap().iter().find(|row| row["version"] == "0.4.0").unwrap();
    assert!(row["decided_by"].as_str().unwrap().starts_with("rules crates-"), "{row}");
    // People are asked all the same when somebody wants people.
    let _ = stack.crates(&stack.token(), &["request", "base32@=0.4.0", "--override"]).ok();
    let review = open_review(stack, alice, "base32");
    let id = review["id"].to_string();
    let shown = wait_for("the comparison", ACQUIRED_WITHIN, || {
        let shown = stack.review(alice, &["show", &id]).ok().json();
        shown["review"]["delta"].is_object().then(|| shown["review"].clone())
    });
    let delta = &shown["delta"];
    assert_eq!(
        (&delta["from"], &delta["decided_by"]),
        (&Value::from("0.5.1"), &Value::from("seed")),
        "{delta}"
    );
    assert!(delta["added"].as_u64().unwrap() > 0 && delta["removed"].as_u64().unwrap() > 0, "{delta}");
    let _ = stack.review(alice, &["deny", &id, "--note", "0.5.1 ships"]).ok();
}

fn a_no_ends_it_with_the_words(stack: &Stack, alice: &str) {
    let id = waits(stack, &package("once", PLAIN, "[dependencies]\nlazy_static = \"=1.5.0\"\n"));
    let review = open_review(stack, alice, "lazy_static");
    let words = "std has LazyLock";
    let _ = stack.review(alice, &["deny", &review["id"].to_string(), "--note", words]).ok();
    let view = stack.settled(&id);
    assert_eq!(
        (&view["state"], &view["diagnostics"][0]["code"]),
        (&Value::from("refused"), &Value::from("MF0209"))
    );
    assert!(view["diagnostics"][0]["message"].as_str().unwrap().contains(words), "{view}");
    let again = stack.deploy(package("once", PLAIN, "[dependencies]\nlazy_static = \"=1.5.0\"\n").path());
    assert_eq!(again.code, 3, "it is decided: {}", again.stderr);
}

fn what_cannot_be_offered_is_said(stack: &Stack) {
    for (dependency, said) in [
        ("mfaas-no-such-crate = \"1\"", "no crate `mfaas-no-such-crate`"),
        ("serde = \"=1.0.100\"", "one resolution"),
    ] {
        let id = waits(stack, &package("nothing", PLAIN, &format!("[dependencies]\n{dependency}\n")));
        let view = wait_for("the request to fail", ACQUIRED_WITHIN, || {
            let view = stack.deployment(&id);
            (view["state"] != "waiting").then_some(view)
        });
        assert_eq!(view["diagnostics"][0]["code"], "MF0210", "{view}");
        assert!(view["diagnostics"][0]["message"].as_str().unwrap().contains(said), "{view}");
    }
}

/// It reaches for variables of the process, which nothing is granted by default.
fn what_does_not_compile_without_a_grant_is_said(stack: &Stack, alice: &str, bob: &str) {
    let id = waits(stack, &package("nothing", PLAIN, "[dependencies]\nhome = \"=0.5.11\"\n"));
    let review = open_review(stack, alice, "home");
    let number = review["id"].to_string();
    assert_eq!(review["trial"]["compiles"]["needs"], serde_json::json!(["real"]), "{review}");
    let yes = ["approve", number.as_str(), "--note", "only asks where the home is"];
    let run = stack.review(alice, &yes);
    assert!(run.code != 0 && run.stderr.contains("unless it is granted real"), "{}", run.stderr);
    let yes = [&yes[..], &["--grant", "real"]].concat();
    let _ = stack.review(alice, &yes).ok();
    if review["people"] == 2 {
        let _ = stack.review(bob, &yes).ok();
    }
    let view = wait_for("the deployment to go on", ACQUIRED_WITHIN, || {
        let view = stack.deployment(&id);
        (view["state"] != "waiting").then(|| stack.settled(&id))
    });
    assert_eq!(view["state"], "admitted", "nothing of it is linked: {view}");
}

/// What ships is decided by nobody of this site, until somebody takes the decision over.
fn the_decision_about_what_ships_is_taken_over(stack: &Stack, alice: &str) {
    let decided_by = || {
        let rows = stack.crates(alice, &["show", "fnv"]).ok().json();
        rows["items"].as_array().unwrap().iter().find(|row| row["status"] == "allowed").unwrap()["decided_by"]
            .clone()
    };
    assert_eq!(decided_by(), "seed");
    let _ = stack.crates(&stack.token(), &["request", "fnv", "--override"]).ok();
    let review = open_review(stack, alice, "fnv");
    assert_eq!(review["people"], 1, "{review}");
    let _ = stack.review(alice, &["approve", &review["id"].to_string(), "--note", "read every line"]).ok();
    assert_eq!(decided_by(), "alice");
    let exported = stack.cli(["crate", "export"]).ok().json();
    assert!(exported["decisions"].as_array().unwrap().iter().any(|row| row["name"] == "fnv"), "{exported}");
}

fn an_advisory_match_revokes_what_it_affects(stack: &Stack, alice: &str) {
    let which = ["revoke", "percent-encoding@2.3.1", "--reason", "a test of revocation", "--dry-run"];
    let dry = stack.crates(alice, &which).ok().json();
    assert_eq!(
        (&dry["done"], &dry["affected"][0]["function"]),
        (&Value::from(false), &Value::from("percent"))
    );

    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("crates/percent-encoding");
    std::fs::create_dir_all(&place).unwrap();
    std::fs::write(place.join("RUSTSEC-2099-0001.md"), ADVISORY).unwrap();
    let path = directory.path().to_str().unwrap();
    let dry = stack.crates(alice, &["advisories", path, "--dry-run"]).ok().json();
    let found = &dry["matches"][0];
    assert_eq!((&dry["done"], &found["advisory"]), (&Value::from(false), &Value::from("RUSTSEC-2099-0001")));
    assert_eq!(found["affected"][0]["function"], "percent", "{found}");
    assert_eq!(stack.invoke("percent", "x").ok().stdout, "x", "nothing has happened yet");

    let done = stack.crates(alice, &["advisories", path, "--unload"]).ok().json();
    assert_eq!(done["matches"][0]["affected"][0]["revoked"], true, "{done}");
    wait_for("nodes to unload it", Duration::from_secs(60), || {
        (stack.invoke("percent", "x").code != 0).then_some(())
    });
    let again = stack.deploy(package("percent", PERCENT_SOURCE, PERCENT).path());
    assert_eq!(again.code, 3, "{}", again.stderr);
    assert!(again.stderr.contains("RUSTSEC-2099-0001"), "{}", again.stderr);
    assert_eq!(checked(stack, &["--site"]).code, 3, "a developer's machine knows it at once");
    stack.invariants();
}

fn the_record_holds_and_a_changed_row_is_found(stack: &Stack) {
    let whole = stack.cli(["audit", "--verify", "--all", "--json"]).ok().json();
    assert!(whole["signed_row"].as_u64().is_some_and(|row| row > 0), "{whole}");
    let again = stack.cli(["audit", "--verify", "--json"]).ok().json();
    assert!(again["computed"].as_u64() < whole["computed"].as_u64(), "it goes on from there: {again}");
    let mut sql = stack.sql();
    sql.batch_execute("UPDATE audit_log SET actor = 'nobody' WHERE action = 'review.approved'").unwrap();
    let run = stack.cli(["audit", "--verify", "--all"]);
    assert_eq!(run.code, 9, "{}", run.stdout);
    // The whole chain anew, as who has the database can: it holds in itself, and is not what was signed.
    sql.batch_execute(
        "DO $$ DECLARE r audit_log%ROWTYPE; link text := repeat('0', 64); BEGIN
             FOR r IN SELECT * FROM audit_log ORDER BY seq LOOP
                 link := audit_hash(link, r.seq, r.at, r.role, r.actor, r.action, r.tenant, r.subject, r.detail);
                 UPDATE audit_log SET hash = link WHERE seq = r.seq;
             END LOOP;
             UPDATE audit_head SET hash = link;
         END $$",
    )
    .unwrap();
    for how in [&["audit", "--verify", "--all"][..], &["audit", "--verify"]] {
        let run = stack.cli(how);
        assert_eq!(run.code, 9, "{how:?}: {}", run.stdout);
        assert!(run.stdout.contains("is another one than"), "{}", run.stdout);
    }
}
