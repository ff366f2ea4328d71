//! A developer's own cargo against the allowlist: it resolves and compiles what the builder accepts, knows
//! nothing else, and sees a revocation. A real cargo, outside of any sandbox, with a home of its
//! own.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use mfaas_harness::{Package, Program, Run, Stack, package, wait_for};
use serde_json::Value;
use tempfile::TempDir;

/// Time for the acquirer to fetch what ships, on a machine that does other things too.
const OFFERED_WITHIN: Duration = Duration::from_secs(300);

const DEPENDENCIES: &str = "[dependencies]\nmfaas = \"0.1\"\nregex = \"1\"\n\
                            serde = { version = \"1\", features = [\"derive\"] }\n";
const SOURCE: &str = "use mfaas::Json;
#[derive(serde::Deserialize)]
pub struct Asked { pattern: String, text: String }
pub fn handle(Json(asked): Json<Asked>) -> Result<Json<usize>, mfaas::Error> {
    let pattern = regex::Regex::new(&asked.pattern).map_err(|error| mfaas::Error::new(error.to_string()))?;
    mfaas::log!(\"{} bytes\", asked.text.len());
    Ok(Json(pattern.find_iter(&asked.text).count()))
}
";
const PLAIN: &str = "pub fn handle(request: &[u8]) -> Vec<u8> {\n    request.to_vec()\n}\n";

/// A developer's machine: cargo's home with the settings that `mfaas` prints, and a place to build in.
struct Machine {
    home: TempDir,
    token: String,
}

impl Machine {
    fn new(stack: &Stack) -> Self {
        let home = TempDir::new().unwrap();
        let printed = stack.cli(["crate", "--json", "cargo-config"]).ok().json();
        fs::write(home.path().join("config.toml"), printed["config"].as_str().unwrap()).unwrap();
        assert_eq!(printed["token_variable"], "CARGO_REGISTRIES_MFAAS_TOKEN");
        let token = stack.cli(["token", "create", "laptop", "--scopes", "read"]).ok().stdout;
        Self { home, token: token.trim().to_owned() }
    }

    fn cargo(&self, package: &Path, arguments: &[&str]) -> Run {
        let mut command = Command::new(std::env::var_os("CARGO").unwrap());
        // Nothing of the cargo that runs this test.
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("CARGO") || name == "RUSTFLAGS" {
                command.env_remove(name);
            }
        }
        command.env("CARGO_HOME", self.home.path()).env("CARGO_TARGET_DIR", self.home.path().join("target"));
        command.env("CARGO_TERM_COLOR", "never").env("NO_PROXY", "127.0.0.1,localhost");
        if !self.token.is_empty() {
            command.env("CARGO_REGISTRIES_MFAAS_TOKEN", &self.token);
        }
        let output = command.args(arguments).current_dir(package).output().unwrap();
        Run {
            code: output.status.code().unwrap(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

#[test]
fn a_developers_cargo_sees_what_the_builder_accepts_and_nothing_else() {
    let stack = Stack::start();
    everything_has_its_line(&stack);
    let machine = Machine::new(&stack);
    let package = package("records", SOURCE, DEPENDENCIES);
    it_compiles_what_is_allowed(&stack, &machine, &package);
    what_is_not_listed_does_not_resolve(&machine);
    nothing_is_told_without_a_token(&stack);
    revoked(&stack, &machine, &package);
    stack.invariants();
}

/// The acquirer has fetched what ships, and each archive has made a line.
fn everything_has_its_line(stack: &Stack) {
    wait_for("the index", OFFERED_WITHIN, || {
        let row = stack.sql().query_one(
            "SELECT (SELECT count(*) FROM crate_archives), (SELECT count(*) FROM index_entries)",
            &[],
        );
        let row = row.unwrap();
        let (archives, entries): (i64, i64) = (row.get(0), row.get(1));
        (archives > 50 && entries == archives + 3).then_some(())
    });
    let problems =
        stack.sql().query("SELECT name, problem FROM index_entries WHERE line IS NULL", &[]).unwrap();
    let problems: Vec<(String, String)> = problems.iter().map(|row| (row.get(0), row.get(1))).collect();
    assert!(problems.is_empty(), "{problems:?}\n{}", stack.log(Program::Acquirer));
}

fn it_compiles_what_is_allowed(stack: &Stack, machine: &Machine, package: &Package) {
    let _ = machine.cargo(package.path(), &["check"]).ok();
    let _ = machine.cargo(package.path(), &["add", "itoa"]).ok();
    let _ = machine.cargo(package.path(), &["check"]).ok();
    let rows = stack.cli(["crate", "--json", "list"]).ok().json();
    let is_allowed = |package: &toml::Value| {
        let (name, version) = (package["name"].as_str().unwrap(), package["version"].as_str().unwrap());
        let is_row =
            |row: &Value| row["name"] == name && row["version"] == version && row["status"] == "allowed";
        // The function itself and the parts of the SDK are no rows.
        ["records", "mfaas-abi", "mfaas-shim"].contains(&name)
            || rows["items"].as_array().unwrap().iter().any(is_row)
    };
    let lock: toml::Value =
        toml::from_str(&fs::read_to_string(package.path().join("Cargo.lock")).unwrap()).unwrap();
    let packages = lock["package"].as_array().unwrap();
    assert!(packages.len() > 10, "{packages:?}");
    let strangers: Vec<_> = packages.iter().filter(|package| !is_allowed(package)).collect();
    assert!(strangers.is_empty(), "{strangers:?}");
    // What resolved there is what the builder takes, as it lies there.
    let _ = stack.deploy(package.path()).ok();
    let asked = r#"{"pattern": "[a-c]", "text": "abcd"}"#;
    assert_eq!(stack.invoke("records", asked).ok().stdout.trim(), "3");
}

fn what_is_not_listed_does_not_resolve(machine: &Machine) {
    for (name, dependency) in [
        ("lazy_static", "lazy_static = \"1\""),
        ("serde", "serde = \"=1.0.100\""),
        ("mfaas-signer", "mfaas-signer = \"*\""),
    ] {
        let package = package("unlisted", PLAIN, &format!("[dependencies]\n{dependency}\n"));
        let run = machine.cargo(package.path(), &["generate-lockfile"]);
        assert_ne!(run.code, 0, "{dependency}: {}", run.stdout);
        assert!(run.stderr.contains(name) && run.stderr.contains("mfaas"), "{dependency}: {}", run.stderr);
    }
}

fn nothing_is_told_without_a_token(stack: &Stack) {
    let mut machine = Machine::new(stack);
    machine.token = String::new();
    let package = package("nobody", PLAIN, "[dependencies]\nitoa = \"1\"\n");
    let run = machine.cargo(package.path(), &["generate-lockfile"]);
    assert_ne!(run.code, 0);
    assert!(run.stderr.contains("token"), "{}", run.stderr);
}

fn revoked(stack: &Stack, machine: &Machine, package: &Package) {
    let lock = fs::read_to_string(package.path().join("Cargo.lock")).unwrap();
    let lock: toml::Value = toml::from_str(&lock).unwrap();
    let packages = lock["package"].as_array().unwrap();
    let regex = packages.iter().find(|package| package["name"].as_str() == Some("regex")).unwrap();
    let which = format!("regex@{}", regex["version"].as_str().unwrap());
    let reviewer = stack.cli(["token", "create", "rita", "--scopes", "read,review", "--person", "rita"]);
    let token = reviewer.ok().stdout.trim().to_owned();
    let line = ["crate", "revoke", &which, "--reason", "a test of revocation"];
    let _ = stack.cli_with(line, &[("MFAAS_TOKEN", &token)]).ok();
    // Another machine, and the one whose cargo has seen it.
    let fresh = Machine::new(stack);
    for (machine, what) in [(&fresh, "a fresh machine"), (machine, "the same machine")] {
        let _ = fs::remove_file(package.path().join("Cargo.lock"));
        let run = machine.cargo(package.path(), &["generate-lockfile"]);
        assert_ne!(run.code, 0, "{what} still resolves it: {}", run.stdout);
        assert!(run.stderr.contains("regex"), "{what}: {}", run.stderr);
    }
}
