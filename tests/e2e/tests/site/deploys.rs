//! From source to answer: deploy, deploy again, go back, restart, delete; what a build repeats, what a manifest
//! declares, and the examples as their documents have them.

use std::{
    path::Path,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    time::Duration,
};

use mfaas_harness::{Stack, checkout, package, programs, wait_for};
use serde_json::Value;

const ONE: &str = "pub fn handle(_request: &[u8]) -> Vec<u8> {\n    b\"one\".to_vec()\n}\n";
const TWO: &str = "pub fn handle(_request: &[u8]) -> Vec<u8> {\n    b\"two\".to_vec()\n}\n";

/// One function from its first version to its end, across a restart of everything.
#[test]
fn versions_move_without_a_failed_call_until_the_function_is_deleted() {
    let stack = Stack::start();
    first_deploy(&stack);
    second_version_without_a_failed_call(&stack);
    rollback_and_versions(&stack);
    whole_installation_restarts(&stack);
    delete(&stack);
    stack.invariants();
}

fn first_deploy(stack: &Stack) {
    let package = package("shout", ONE, "");
    let run = stack.cli(["deploy", "--json", package.path().to_str().unwrap()]).ok();
    let report = run.json();
    assert_eq!(report["state"], "admitted", "{report}");
    assert_eq!(report["version"], 1);
    assert_eq!(stack.invoke("shout", "x").ok().stdout, "one");
    let home = std::process::Command::new(programs().join("mfaas"))
        .args(["invoke", "shout", "--data", "x"])
        .env_remove("MFAAS_PROFILE_FILE")
        .env("MFAAS_HOME", stack.home())
        .output()
        .unwrap();
    assert_eq!(home.stdout, b"one", "who names the home needs nothing else: {home:?}");

    let id = report["id"].as_str().or(report["deployment"]["id"].as_str()).unwrap_or_default().to_owned();
    let events = events(stack, &id);
    for stage in ["unpack", "audit", "dependencies", "expand", "compile", "link", "inspect", "load", "sign"] {
        let finished = events.iter().find(|event| event["stage"] == stage && event["kind"] == "finished");
        assert!(
            finished.is_some_and(|event| event["wall_ms"].is_number()),
            "no finished {stage} in {events:?}"
        );
    }
    let numbers: Vec<i64> = events.iter().map(|event| event["seq"].as_i64().unwrap()).collect();
    assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{numbers:?}");
    assert_eq!(events.last().unwrap()["state"], "admitted");

    let answer =
        stack.request("POST", &format!("{}/f/default/shout", stack.ingress()), &[("cookie", "a=b")], vec![]);
    assert_eq!((answer.status, answer.text().as_str()), (200, "one"), "{answer:?}");
    assert_eq!(answer.headers["mfaas-version"], "1");
    assert!(["warm", "cold"].contains(&answer.headers["mfaas-start"].as_str()));
    assert!(answer.headers["server-timing"].contains("run;dur="), "{answer:?}");
    assert!(answer.headers["content-security-policy"].contains("sandbox"));
    assert_eq!(answer.headers["x-content-type-options"], "nosniff");
}

/// The events of a finished deployment, read from the stream.
fn events(stack: &Stack, id: &str) -> Vec<Value> {
    let answer = stack.api("GET", &format!("/v1/deployments/{id}/events"), vec![]);
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer
        .text()
        .lines()
        .filter_map(|line| line.strip_prefix("data:"))
        .map(|data| serde_json::from_str(data.trim()).unwrap())
        .collect()
}

fn second_version_without_a_failed_call(stack: &Stack) {
    let package = package("shout", TWO, "");
    let stop = AtomicBool::new(false);
    let (ones, twos) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let url = format!("{}/f/default/shout", stack.ingress());
    std::thread::scope(|scope| {
        let caller = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let answer = stack.request("POST", &url, &[], vec![]);
                assert_eq!(answer.status, 200, "a call failed while the alias moved: {}", answer.text());
                match answer.text().as_str() {
                    "one" => {
                        assert_eq!(twos.load(Ordering::Relaxed), 0, "version 1 answered after version 2 did");
                        ones.fetch_add(1, Ordering::Relaxed)
                    }
                    "two" => twos.fetch_add(1, Ordering::Relaxed),
                    other => panic!("answered {other}"),
                };
            }
        });
        let _ = stack.deploy(package.path()).ok();
        wait_for("calls on version 2", Duration::from_secs(30), || {
            (twos.load(Ordering::Relaxed) > 20 || caller.is_finished()).then_some(())
        });
        stop.store(true, Ordering::Relaxed);
        caller.join().unwrap();
    });
    assert!(ones.into_inner() > 0 && twos.into_inner() > 20);
}

fn rollback_and_versions(stack: &Stack) {
    let _ = stack.cli(["rollback", "shout"]).ok();
    wait_for("version 1 to be live again", Duration::from_secs(30), || {
        (stack.invoke("shout", "x").ok().stdout == "one").then_some(())
    });
    assert_eq!(stack.invoke("shout@2", "x").ok().stdout, "two");
    let versions = stack.cli(["versions", "shout", "--json"]).ok().json();
    let numbers: Vec<i64> = versions["items"]
        .as_array()
        .or(versions.as_array())
        .unwrap()
        .iter()
        .map(|v| v["version"].as_i64().unwrap())
        .collect();
    assert!(numbers.contains(&1) && numbers.contains(&2), "{versions}");
    // Who shows no token hears the same of what is not there as of what is closed.
    let unknown = stack.request("POST", &format!("{}/f/default/shout@9", stack.ingress()), &[], vec![]);
    assert_eq!((unknown.status, unknown.code().as_str()), (401, "MF0816"));
}

/// Whatever the path and the time.
#[test]
fn two_builds_of_one_source_are_the_same_bytes() {
    let stack = Stack::start();
    let again = package("again", ONE, "");
    let _ = stack.deploy(again.path()).ok();
    let elsewhere = package("again", ONE, "");
    let _ = stack.deploy(elsewhere.path()).ok();
    let mut sql = stack.sql();
    let rows =
        sql.query("SELECT artifact FROM versions WHERE function = 'again' ORDER BY version", &[]).unwrap();
    let digests: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(digests.len(), 2);
    assert_eq!(digests[0], digests[1], "two builds of one source differ");
    for version in ["again@1", "again@2"] {
        let _ = stack.cli(["verify", version]).ok();
    }
}

#[test]
fn what_a_manifest_declares_is_signed_shown_and_kept() {
    let stack = Stack::start();
    let manifest = "[package.metadata.mfaas]\nidempotent = true\nisolation = \"process\"\n";
    let own = package("own", ONE, manifest);
    let _ = stack.deploy(own.path()).ok();
    assert_eq!(stack.invoke("own", "x").ok().stdout, "one");
    let proof = stack.cli(["verify", "own", "--json"]).ok().json();
    assert_eq!((&proof["idempotent"], proof["isolation"].as_str()), (&Value::Bool(true), Some("process")));
    let shown = stack.cli(["versions", "own", "--json"]).ok().json();
    assert_eq!(
        (&shown["items"][0]["idempotent"], &shown["items"][0]["isolation"]),
        (&proof["idempotent"], &proof["isolation"])
    );
    let plain = package("plain", ONE, "");
    let _ = stack.deploy(plain.path()).ok();
    let shared = stack.cli(["verify", "plain", "--json"]).ok().json();
    assert_eq!((&shared["idempotent"], shared["isolation"].as_str()), (&Value::Bool(false), Some("shared")));
    let wrong = package("wrong", ONE, "[package.metadata.mfaas]\nisolation = \"thread\"\n");
    let run = stack.cli(["deploy", "--json", wrong.path().to_str().unwrap()]);
    let report = run.exits(3).json();
    assert_eq!(report["diagnostics"][0]["code"], "MF0207", "{report}");
}

/// Each example shows at least one call and its answer at its beginning.
#[test]
fn examples_answer_as_their_documents_say() {
    let stack = Stack::start();
    for example in std::fs::read_dir(checkout().join("examples")).unwrap() {
        let example = example.unwrap().path();
        let source = std::fs::read_to_string(example.join("src/lib.rs")).unwrap();
        let shown = shown_calls(&source);
        assert!(!shown.is_empty(), "{} shows no call", example.display());
        for (resource, kind) in resources(&example) {
            stack.grant(&resource, &kind, "write");
        }
        let _ = stack.deploy(&example).ok();
        for (command, answer) in shown {
            let answered = stack.shell(&command, &example).ok().stdout;
            assert_eq!(answered.trim_end(), answer.trim_end(), "{command}");
        }
    }
}

/// What the package binds, each under the resource's own name, and its kind.
fn resources(package: &Path) -> Vec<(String, String)> {
    let manifest = std::fs::read_to_string(package.join("Cargo.toml")).unwrap();
    let manifest: toml::Table = manifest.parse().unwrap();
    let bindings = || manifest["package"].get("metadata")?.get("mfaas")?.get("bindings")?.as_table();
    let kind = |binding: &toml::Value| binding["kind"].as_str().unwrap().to_owned();
    bindings().into_iter().flatten().map(|(name, binding)| (name.clone(), kind(binding))).collect()
}

/// Each `mfaas …` behind a `$` in the crate's documentation, and the lines below it.
fn shown_calls(source: &str) -> Vec<(String, String)> {
    let lines = source.lines().filter_map(|line| line.strip_prefix("//!")).map(str::trim_start);
    let consoles: Vec<&str> = lines.skip_while(|line| *line != "```console").skip(1).collect();
    let mut calls: Vec<(String, String)> = Vec::new();
    for line in consoles.into_iter().take_while(|line| *line != "```") {
        if let Some(command) = line.strip_prefix("$ ") {
            assert!(command.starts_with("mfaas "), "{command}");
            calls.push((command.to_owned(), String::new()));
        } else {
            let (_, answer) = calls.last_mut().unwrap();
            *answer += &format!("{line}\n");
        }
    }
    calls
}

/// Everything stops and starts again; what was served is served.
fn whole_installation_restarts(stack: &Stack) {
    let _ = stack.down().ok();
    stack.up();
    assert_eq!(stack.invoke("shout", "x").ok().stdout, "one");
    assert_eq!(stack.invoke("shout@2", "x").ok().stdout, "two");
}

fn delete(stack: &Stack) {
    let _ = stack.cli(["delete", "shout", "--yes"]).ok();
    wait_for("the node to drop it", Duration::from_secs(30), || {
        let answer = stack.request("POST", &format!("{}/f/default/shout", stack.ingress()), &[], vec![]);
        (answer.status == 401).then_some(())
    });
    let answer = stack.api("GET", "/v1/functions/shout", vec![]);
    assert_eq!((answer.status, answer.code().as_str()), (404, "MF0903"));
}
