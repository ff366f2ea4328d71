//! Every hostile case that is admitted, called on a node beside a benign function: whatever it
//! does to itself, its neighbour answers right, and the host is as it was.

use std::{fs, path::Path};

use mfaas_harness::{Stack, checkout, package};

/// Where hostile samples try to leave a mark.
const MARK: &str = "/opt/mfaas-probe";
/// Calls of each: what one leaves behind would show in the next.
const CALLS: usize = 3;
const NEIGHBOUR: &str = "use std::collections::HashMap;\n\
    pub fn handle(request: &[u8]) -> Vec<u8> {\n    let mut counts: HashMap<u8, usize> = HashMap::new();\n    \
    for byte in request { *counts.entry(*byte).or_default() += 1; }\n    \
    let mut all: Vec<_> = counts.into_iter().collect();\n    all.sort();\n    format!(\"{all:?}\").into_bytes()\n}\n";

#[test]
fn what_is_admitted_harms_nobody_else() {
    let stack = Stack::start();
    let neighbour = package("neighbour", NEIGHBOUR, "[package.metadata.mfaas]\nbudget = \"20ms\"\n");
    let _ = stack.deploy(neighbour.path()).ok();
    let cases = admitted();
    assert!(cases.len() >= 15, "only {} cases are admitted: {cases:?}", cases.len());
    for case in &cases {
        beside(&stack, case);
    }
    assert!(!Path::new(MARK).exists());
    assert!(stack.workers().len() >= 2, "{} workers are left", stack.workers().len());
    stack.invariants();
}

/// The cases whose folders say that nothing stops them before they run.
fn admitted() -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(checkout().join("tests/hostile"))
        .unwrap()
        .flatten()
        .filter(|entry| {
            let text = fs::read_to_string(entry.path().join("expect.toml")).unwrap_or_default();
            let expected: toml::Table = text.parse().unwrap();
            !expected.contains_key("stopped_by")
                && expected.get("end").and_then(toml::Value::as_str) == Some("image")
        })
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

fn beside(stack: &Stack, case: &str) {
    let directory = checkout().join("tests/hostile").join(case).join("package");
    let manifest: toml::Table = fs::read_to_string(directory.join("Cargo.toml")).unwrap().parse().unwrap();
    let name = manifest["package"]["name"].as_str().unwrap();
    // Exit code 0: a node serves it.
    let _ = stack.deploy(&directory).ok();
    for _ in 0..CALLS {
        // Any answer is right, if it is one: a status and a code of ours, or the function's bytes.
        let answer =
            stack.request("POST", &format!("{}/f/default/{name}", stack.ingress()), &[], b"x".to_vec());
        assert!(
            answer.status == 200 || answer.code().starts_with("MF08"),
            "{case}: {} {}",
            answer.status,
            answer.text()
        );
        let answer =
            stack.request("POST", &format!("{}/f/default/neighbour", stack.ingress()), &[], b"abca".to_vec());
        assert_eq!(
            (answer.status, answer.text().as_str()),
            (200, "[(97, 2), (98, 1), (99, 1)]"),
            "beside {case}"
        );
    }
}
