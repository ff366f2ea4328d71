//! Assets: bytes that an operator makes of a file, which functions read without asking for them.

use std::path::Path;
use std::time::Duration;

use mfaas_harness::{Answer, Program, Stack, package, wait_for};

/// Looks a byte up, without waiting for anything.
const READER: &str = "\
use mfaas::{Asset, Binding};

pub struct Model;

impl Binding for Model {
    const NAME: &'static str = \"model\";
    type Value = ();
}

pub fn handle(at: String, model: Asset<Model>) -> String {
    let at: usize = at.parse().unwrap_or(usize::MAX);
    match model.get(at) {
        Some(byte) => format!(\"{byte} of {}\", model.len()),
        None => \"none\".to_owned(),
    }
}
";

const BINDS: &str = "[package.metadata.mfaas.bindings.model]\nkind = \"asset\"\n\n\
                     [dependencies]\nmfaas = \"0.1\"\n";

const BYTES: usize = 3 << 20;

fn model() -> Vec<u8> {
    (0..BYTES).map(|at| (at % 251) as u8).collect()
}

fn ask(stack: &Stack, function: &str, at: &str) -> Answer {
    let url = format!("{}/f/default/{function}", stack.ingress());
    stack.request("POST", &url, &[], at.as_bytes().to_vec())
}

fn call(stack: &Stack, function: &str, at: &str) -> String {
    ask(stack, function, at).text()
}

fn create(stack: &Stack, name: &str, file: &Path) -> mfaas_harness::Run {
    let file = file.to_str().unwrap();
    stack.cli(["resource", "create", name, "--kind", "asset", "--file", file])
}

#[test]
fn a_function_reads_its_asset_and_has_it_again_after_a_restart() {
    let stack = Stack::start();
    let directory = tempfile::tempdir().unwrap();
    let (file, other) = (directory.path().join("model.bin"), directory.path().join("other.bin"));
    std::fs::write(&file, model()).unwrap();
    std::fs::write(&other, b"other bytes").unwrap();
    let reader = package("reader", READER, BINDS);
    let refused = |code: &str| {
        let report = stack.cli(["deploy", "--json", reader.path().to_str().unwrap()]).exits(3).json();
        assert_eq!(report["diagnostics"][0]["code"], code, "{report}");
    };
    refused("MF1201");
    let made = create(&stack, "model", &file).ok();
    assert!(made.stdout.contains(&format!("{BYTES} bytes, sha256 ")), "{}", made.stdout);
    let _ = create(&stack, "model", &file).ok();
    let conflict = create(&stack, "model", &other);
    assert!(conflict.code != 0 && conflict.stderr.contains("other bytes"), "{}", conflict.stderr);
    for wrong in [vec!["--kind", "asset"], vec!["--kind", "kv", "--file", file.to_str().unwrap()]] {
        let run = stack.cli(["resource", "create", "more"].into_iter().chain(wrong));
        assert!(run.code != 0 && run.stderr.contains("MF1221"), "{}", run.stderr);
    }
    refused("MF1201");
    let _ = stack.cli(["resource", "grant", "model", "--tenant", "default", "--access", "read"]).ok();
    let deployed = stack.deploy(reader.path()).ok();
    assert!(deployed.stderr.contains("now also reads asset `model`"), "{}", deployed.stderr);
    let last = BYTES - 1;
    let expected = format!("{} of {BYTES}", last % 251);
    assert_eq!(call(&stack, "reader", &last.to_string()), expected);
    assert_eq!(call(&stack, "reader", &BYTES.to_string()), "none");

    // Another function has the same bytes.
    let second = package("second", READER, BINDS);
    let _ = stack.deploy(second.path()).ok();
    assert_eq!(call(&stack, "second", "7"), format!("7 of {BYTES}"));

    stack.kill(Program::Node);
    wait_for("the node to serve it again", Duration::from_secs(30), || {
        (call(&stack, "reader", &last.to_string()) == expected).then_some(())
    });

    // Without its grant it is not served: who has no token hears what of any name that is not there.
    let _ = stack.cli(["resource", "revoke", "model", "--tenant", "default"]).ok();
    wait_for("the version to be gone", Duration::from_secs(30), || {
        let answer = ask(&stack, "reader", "7");
        (answer.status != 200).then(|| assert_eq!((answer.status, answer.code().as_str()), (401, "MF0816")))
    });
    let _ = stack.cli(["resource", "grant", "model", "--tenant", "default", "--access", "read"]).ok();
    wait_for("the version to be back", Duration::from_secs(30), || {
        (call(&stack, "reader", "7") == format!("7 of {BYTES}")).then_some(())
    });
}

#[test]
fn an_asset_is_read_as_its_manifest_declares_it() {
    let stack = Stack::start();
    let dependencies = "\n[dependencies]\nmfaas = \"0.1\"\n";
    let undeclared = package("reader", READER, dependencies);
    let report = stack.cli(["deploy", "--json", undeclared.path().to_str().unwrap()]).exits(5).json();
    let message = "the handler takes the binding `model`, which Cargo.toml does not declare";
    assert_eq!(report["diagnostics"][0]["message"], message, "{report}");
    let written = "[package.metadata.mfaas.bindings.model]\nkind = \"asset\"\naccess = \"write\"\n";
    let written = package("reader", READER, &format!("{written}{dependencies}"));
    let report = stack.cli(["deploy", "--json", written.path().to_str().unwrap()]).exits(3).json();
    assert!(report.to_string().contains("an asset never changes"), "{report}");
}
