//! Two builders that have to make the same: real programs, each with a database role of its own.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::Duration;

use mfaas_harness::{Stack, package, wait_for};
use serde_json::{Value, json};

const SECOND: &str = "builder_two";

/// Uses a crate that brings others along, so that the claims name some.
fn source(text: &str) -> Vec<u8> {
    let source = format!(
        "pub fn handle(_: &[u8]) -> Vec<u8> {{ serde_json::to_vec(&[\"{text}\"]).unwrap_or_default() }}\n"
    );
    mfaas_harness::pack_directory(package("kept", &source, "[dependencies]\nserde_json = \"1\"\n").path())
}

/// A second builder with a role of its own; it ends with the test.
struct Second(Child);

impl Drop for Second {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn make_role(stack: &Stack) {
    let made = format!("CREATE ROLE {SECOND} LOGIN PASSWORD 'second' IN ROLE mfaas_builder");
    stack.sql().batch_execute(&made).unwrap();
}

/// What a directory of materials says is current.
fn current(stack: &Stack, part: &str) -> PathBuf {
    let directory = stack.home().join(part);
    let made: Value = serde_json::from_slice(&fs::read(directory.join("current.json")).unwrap()).unwrap();
    directory.join(made["id"].as_str().unwrap())
}

/// The same program as the one that `mfaas up` runs, beside it, with the other role's connection.
fn start_second(stack: &Stack) -> Second {
    let state = stack.state();
    let programs = state["programs"].as_array().unwrap().clone();
    let first =
        programs.iter().find(|program| program["name"] == "builder").unwrap()["pid"].as_i64().unwrap();
    let program = fs::read_link(format!("/proc/{first}/exe")).unwrap();
    let (home, work) = (stack.home(), stack.home().join("second"));
    fs::create_dir(&work).unwrap();
    fs::set_permissions(&work, fs::Permissions::from_mode(0o711)).unwrap();
    let database =
        format!("postgres:///mfaas?host={}&user={SECOND}&password=second", home.join("run/pg").display());
    let owner = fs::metadata(format!("/proc/{first}")).unwrap();
    std::os::unix::fs::chown(&work, Some(owner.uid()), Some(owner.gid())).unwrap();
    let child = Command::new(program)
        .uid(owner.uid())
        .gid(owner.gid())
        .arg("serve")
        .env_clear()
        .env("MFAAS_DATABASE_URL", database)
        .env("MFAAS_BLOBS_URL", format!("file://{}", home.join("blobs").display()))
        .env("MFAAS_TOOLCHAIN_DIR", current(stack, "toolchains"))
        .env("MFAAS_DEPS_DIR", current(stack, "deps"))
        .env("MFAAS_WORK_DIR", &work)
        .env("MFAAS_READY_FILE", work.join("ready.json"))
        .stderr(File::create(work.join("log")).unwrap())
        .spawn()
        .unwrap();
    let mut second = Second(child);
    wait_for("the second builder", Duration::from_secs(60), || {
        let log = || fs::read_to_string(work.join("log")).unwrap_or_default();
        assert!(second.0.try_wait().unwrap().is_none(), "it ended: {}", log());
        work.join("ready.json").is_file().then_some(())
    });
    second
}

/// Waits until the first builder's claim is kept and another one is asked for.
fn wait_for_first_claim(stack: &Stack, id: &str) {
    wait_for("the first claim", Duration::from_secs(120), || {
        let view = stack.deployment(id);
        assert!(!["failed", "refused", "admitted"].contains(&view["state"].as_str().unwrap()), "{view}");
        (view["state"] == "received" && view["diagnostics"][0]["code"] == "MF0609").then_some(())
    });
}

#[test]
fn what_two_builders_make_the_same_is_signed_and_what_one_alters_is_not() {
    let stack = Stack::start_with(&["--default-access", "public", "--builds-agreement", "2"]);
    make_role(&stack);
    // Nobody else is there: it waits, and says why.
    let id = stack.upload("kept", source("both"));
    wait_for_first_claim(&stack, &id);
    let view = stack.deployment(&id);
    let message = view["diagnostics"][0]["message"].as_str().unwrap();
    assert!(message.contains("No other builder is there"), "{view}");
    std::thread::sleep(Duration::from_secs(5));
    assert_eq!(
        stack.deployment(&id)["state"],
        "received",
        "the first builder does not answer for another one"
    );
    let second = start_second(&stack);
    let admitted = stack.settled(&id);
    assert_eq!(admitted["state"], "admitted", "{admitted}");
    let verified = stack.cli(["--json", "verify", "kept"]).ok().json();
    assert_eq!(verified["other"]["builders"], json!([SECOND, "mfaas_builder"]), "{verified}");
    let run =
        stack.deploy(package("again", "pub fn handle(r: &[u8]) -> Vec<u8> { r.to_vec() }\n", "").path());
    assert!(run.ok().stderr.contains("MF0609"), "whoever deploys is told what it waits for");
    drop(second);

    // The second builder is taken over: it hands in an artifact of its own choice, by its own connection.
    let id = stack.upload("kept", source("one alone"));
    wait_for_first_claim(&stack, &id);
    let before: i64 = count(&stack, "SELECT count(*) FROM statements");
    hand_in_another_functions_artifact(&stack, &id);
    let failed = stack.settled(&id);
    assert_eq!(failed["state"], "failed", "{failed}");
    assert_eq!(failed["diagnostics"][0]["code"], "MF0608", "{failed}");
    assert_eq!(count(&stack, "SELECT count(*) FROM statements"), before, "nothing is signed");
    let named = "SELECT count(*) FROM audit_log WHERE action = 'signing.disagreement'
                 AND detail #>> '{claims,0,builder}' = 'mfaas_builder' AND detail #>> '{claims,1,builder}' = 'builder_two'
                 AND detail #>> '{claims,0,artifact}' <> detail #>> '{claims,1,artifact}'";
    assert_eq!(count(&stack, named), 1);
    stack.invariants();
}

fn count(stack: &Stack, query: &str) -> i64 {
    stack.sql().query_one(query, &[]).unwrap().get(0)
}

/// Everything that the first builder claimed, but for the artifact: an admitted one, so that only its origin is wrong.
fn hand_in_another_functions_artifact(stack: &Stack, id: &str) {
    let first = "SELECT claim FROM build_claims WHERE deployment_id = $1::text::uuid";
    let mut claim: Value = stack.sql().query_one(first, &[&id]).unwrap().get(0);
    let other = "SELECT a.digest, a.bytes FROM artifacts a JOIN versions v ON v.artifact = a.digest WHERE v.function = 'again'";
    let row = stack.sql().query_one(other, &[]).unwrap();
    claim["artifact"] = row.get::<_, String>(0).into();
    claim["artifact_bytes"] = row.get::<_, i64>(1).into();
    let mut sql = postgres::Config::new()
        .host_path(stack.home().join("run/pg"))
        .user(SECOND)
        .password("second")
        .dbname("mfaas")
        .connect(postgres::NoTls)
        .unwrap();
    let take = "UPDATE builds SET lease_holder = 'x', lease_expires_at = now() + interval '1 minute', fencing_token = 0
                WHERE deployment_id = $1::text::uuid RETURNING fencing_token";
    let token: i64 = sql.query_one(take, &[&id]).unwrap().get(0);
    let building = "UPDATE deployments SET state = 'building', diagnostics = '[]' WHERE id = $1::text::uuid";
    sql.execute(building, &[&id]).unwrap();
    let mut end = sql.transaction().unwrap();
    let finish =
        "UPDATE builds SET claim = $2, committed_token = $3, finished_at = now(), lease_expires_at = NULL
                  WHERE deployment_id = $1::text::uuid";
    end.execute(finish, &[&id, &claim, &token]).unwrap();
    end.execute("UPDATE deployments SET state = 'built' WHERE id = $1::text::uuid", &[&id]).unwrap();
    let told = "SELECT append_audit('mfaas-builder:x', 'build.built', 'default', $1, $2)";
    end.execute(told, &[&id, &json!({ "token": token })]).unwrap();
    end.commit().unwrap();
}
