//! What programs show and log of a deployment, from its upload to its load on a node.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    time::Duration,
};

use mfaas_harness::{Program, Stack, checkout, package, wait_for};
use serde_json::Value;

const ECHO: &str = "pub fn handle(r: &[u8]) -> Vec<u8> {\n    r.to_vec()\n}\n";

/// What each program shows now, by the ready file that says where.
fn scrape(stack: &Stack) -> BTreeMap<&'static str, String> {
    let programs = ["server", "signer", "builder", "acquirer", "node"];
    let shown = programs.map(|program| {
        let path = stack.home().join(format!("run/{program}/ready.json"));
        let ready: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        let address = ready["metrics"].as_str().unwrap_or_else(|| panic!("{program}: {ready}")).to_owned();
        let answer = stack.request("GET", &format!("http://{address}/metrics"), &[], vec![]);
        assert_eq!(answer.status, 200, "{program}");
        (program, answer.text())
    });
    shown.into()
}

/// The value of a series, which stands before it in its line.
fn value(text: &str, series: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix(series)?.trim().parse().ok())
}

/// Names of ours in the exposition, from the lines that give their types.
fn names(text: &str) -> BTreeSet<&str> {
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    types.filter(|name| name.starts_with("mfaas_")).collect()
}

#[test]
fn every_program_shows_its_part_of_a_deployment_and_logs_it_once() {
    let stack = &Stack::start_with(&["--default-access", "public", "--metrics-listen", "127.0.0.1:0"]);
    let package = package("shown", ECHO, "");
    let report = stack.cli(["deploy", "--json", package.path().to_str().unwrap()]).ok().json();
    assert_eq!(stack.invoke("shown", "x").ok().stdout, "x");
    let deployment = report["id"].as_str().unwrap();

    let expected = [
        ("server", "mfaas_push_seconds_count ", 1.0),
        ("server", "mfaas_blob_request_seconds_count{operation=\"publish\"} ", 1.0),
        ("signer", "mfaas_signings_total{outcome=\"admitted\"} ", 1.0),
        ("signer", "mfaas_sign_seconds_count ", 1.0),
        ("signer", "mfaas_sign_wait_seconds_count ", 1.0),
        ("signer", "mfaas_serving_set_sign_seconds_count ", 1.0),
        ("signer", "mfaas_serving_set_epoch ", 2.0),
        ("signer", "mfaas_blob_request_seconds_count{operation=\"get\"} ", 2.0),
        ("builder", "mfaas_builds_total{outcome=\"built\"} ", 1.0),
        ("builder", "mfaas_build_seconds_count{outcome=\"built\"} ", 1.0),
        ("builder", "mfaas_builder_well ", 1.0),
        ("builder", "mfaas_build_leases_max ", 1.0),
        ("builder", "mfaas_dependency_cache_lookups_total{place=\"open\"} ", 1.0),
        ("builder", "mfaas_database_connections_max ", 4.0),
        ("builder", "mfaas_blob_request_seconds_count{operation=\"put\"} ", 1.0),
        ("acquirer", "mfaas_acquirer_active ", 1.0),
        ("node", "mfaas_version_loads_total{outcome=\"loaded\"} ", 1.0),
        ("node", "mfaas_version_obtain_seconds_count ", 1.0),
        ("node", "mfaas_function_run_seconds_count{tenant=\"default\",function=\"shown\"} ", 1.0),
    ];
    // A node's report, and the acquirer's place, come a moment later.
    let shown = wait_for("every program to show its part", Duration::from_secs(60), || {
        let shown = scrape(stack);
        let is_there = |(program, series, least): &(&str, &str, f64)| {
            value(&shown[program], series).is_some_and(|found| found >= *least)
        };
        expected.iter().all(is_there).then_some(shown)
    });
    assert_eq!(value(&shown["builder"], "mfaas_build_leases_held "), Some(0.0), "it was given back");
    assert_eq!(value(&shown["builder"], "mfaas_build_leases_lost_total "), Some(0.0));

    let documents = fs::read_to_string(checkout().join("docs/metrics.md")).unwrap();
    for (program, text) in &shown {
        let build = format!("mfaas_build_info{{program=\"mfaas-{program}\",version=\"");
        assert!(text.contains(&build), "{program}: {text}");
        assert!(value(text, "process_resident_memory_bytes ").is_some_and(|bytes| bytes > 1e6), "{program}");
        for name in names(text) {
            assert!(text.contains(&format!("# HELP {name} ")), "{program}: {name} has no HELP");
            assert!(
                documents.contains(&format!("| `{name}` |")),
                "docs/metrics.md lacks {name} of {program}"
            );
        }
    }
    let ingress = stack.request("GET", &format!("{}/metrics", stack.ingress()), &[], vec![]);
    assert_eq!(ingress.status, 404, "the ingress does not name tenants any more");

    log_lines(stack, deployment);
}

/// One line of each program that says what it did with the deployment.
fn log_lines(stack: &Stack, deployment: &str) {
    let id = format!("deployment={deployment}");
    let line = |program: Program, text: &str| {
        let log = stack.log(program);
        let lines: Vec<&str> = log.lines().filter(|line| line.contains(text) && line.contains(&id)).collect();
        assert_eq!(lines.len(), 1, "`{text}`: {log}");
        lines[0].to_owned()
    };
    let _ = line(Program::Server, "a deployment was received");
    let accepted = line(Program::Signer, "a deployment is accepted");
    let loaded = line(Program::Node, "a version is loaded");
    let epoch = |line: &str| line.split("epoch=").nth(1).unwrap().split(' ').next().unwrap().to_owned();
    assert_eq!(epoch(&accepted), epoch(&loaded), "{accepted}\n{loaded}");
    assert!(loaded.contains("function=default/shown@1"), "{loaded}");
}
