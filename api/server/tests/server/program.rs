//! The program itself: its commands, its ready file, its end.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::support::Database;

fn server(db_url: &str, dir: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mfaas-server"));
    command
        .args(arguments)
        .env_clear()
        .env("MFAAS_DATABASE_URL", db_url)
        .env("MFAAS_BLOBS_URL", format!("file://{}", dir.join("blobs").display()))
        .env("MFAAS_TLS_DIR", dir.join("tls"))
        .env("MFAAS_LISTEN", "127.0.0.1:0")
        .env("MFAAS_NODE_LISTEN", "127.0.0.1:0")
        .env("MFAAS_READY_FILE", dir.join("ready.json"));
    command
}

fn run(db_url: &str, dir: &Path, arguments: &[&str]) -> Output {
    server(db_url, dir, arguments).output().unwrap()
}

fn ok(output: Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn wait_for(path: &Path) -> String {
    let until = Instant::now() + Duration::from_secs(20);
    while !path.exists() {
        assert!(Instant::now() < until, "{} did not appear", path.display());
        std::thread::sleep(Duration::from_millis(20));
    }
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn an_operator_sets_up_and_serves_and_stops() {
    let db = Database::empty();
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("blobs")).unwrap();
    let owner = db.url("postgres");
    let mut early =
        server(&owner, dir.path(), &[]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(1_500));
    assert!(early.try_wait().unwrap().is_none(), "it does not wait for a schema");
    assert!(!dir.path().join("ready.json").exists(), "it serves without a schema");
    Command::new("kill").args(["-TERM", &early.id().to_string()]).status().unwrap();
    assert!(early.wait().unwrap().success(), "SIGTERM ends one that waits with 0");
    for _ in 0..2 {
        ok(run(&owner, dir.path(), &["migrate"]));
    }
    let own = db.url("mfaas_server");
    let token = ok(run(
        &own,
        dir.path(),
        &["token", "create", "--tenant", "a", "--scopes", "read,deploy", "--name", "t"],
    ));
    let admin = ["token", "create", "--tenant", "a", "--role", "admin", "--name", "first"];
    let nameless = run(&own, dir.path(), &admin);
    let told = String::from_utf8(nameless.stderr).unwrap();
    assert!(!nameless.status.success() && told.contains("MF0913") && told.contains("--person"), "{told}");
    ok(run(&own, dir.path(), &[&admin[..], &["--person", "alice"]].concat()));
    assert!(token.starts_with("mfaas_") && token.len() == 6 + 32 + 1 + 64, "{token}");
    let seed = serde_json::json!({
        "format": 2, "toolchain": "0".repeat(64), "crates": [], "cache": "0".repeat(64), "closures": [],
    });
    std::fs::write(dir.path().join("allowlist.json"), seed.to_string()).unwrap();
    let list = dir.path().join("allowlist.json");
    let import = ["allowlist", "import", list.to_str().unwrap()];
    let denied = run(&own, dir.path(), &import);
    let told = String::from_utf8(denied.stderr).unwrap();
    assert!(!denied.status.success() && told.contains("only the owner"), "{told}");
    ok(run(&owner, dir.path(), &import));
    let tls = dir.path().join("tls");
    mfaas_authority::init(&dir.path().join("ca")).unwrap();
    mfaas_authority::certify_server(&dir.path().join("ca"), &tls, &std::collections::BTreeSet::new())
        .unwrap();
    serves_and_stops(&own, dir.path(), &token);
}

fn serves_and_stops(db_url: &str, dir: &Path, token: &str) {
    let (old, new) = half_uploads(&dir.join("blobs/incoming"));
    let log = std::fs::File::create(dir.join("log")).unwrap();
    let mut child = server(db_url, dir, &[]).stderr(log).stdout(Stdio::null()).spawn().unwrap();
    let ready: serde_json::Value = serde_json::from_str(&wait_for(&dir.join("ready.json"))).unwrap();
    assert_eq!(ready["pid"], child.id());
    let url = format!("http://{}/v1/whoami", ready["http"].as_str().unwrap());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _ = rustls::crypto::ring::default_provider().install_default();
    let answer = runtime.block_on(async {
        reqwest::Client::new().get(&url).bearer_auth(token).send().await.unwrap().text().await.unwrap()
    });
    assert!(answer.contains("\"tenant\":\"a\""), "{answer}");
    assert!(new.exists(), "an upload that may still run was removed");
    let until = Instant::now() + Duration::from_secs(10);
    while old.exists() {
        assert!(Instant::now() < until, "a half upload of yesterday is kept");
        std::thread::sleep(Duration::from_millis(20));
    }
    Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(child.wait().unwrap().success(), "SIGTERM ends with 0");
    let log = std::fs::read_to_string(dir.join("log")).unwrap();
    assert!(log.contains("removed what broken writes left"), "{log}");
    assert!(!log.contains(token.rsplit('_').next().unwrap()), "the log holds a secret");
}

/// What a server that died yesterday left in the blob store, and what one leaves that runs.
fn half_uploads(incoming: &Path) -> (std::path::PathBuf, std::path::PathBuf) {
    std::fs::create_dir_all(incoming).unwrap();
    let (old, new) = (incoming.join("old"), incoming.join("new"));
    for path in [&old, &new] {
        std::fs::write(path, b"half").unwrap();
    }
    let yesterday = std::time::SystemTime::now() - Duration::from_secs(24 * 3_600);
    std::fs::File::options().write(true).open(&old).unwrap().set_modified(yesterday).unwrap();
    (old, new)
}

#[test]
fn a_missing_variable_is_named() {
    let output = Command::new(env!("CARGO_BIN_EXE_mfaas-server")).env_clear().output().unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8(output.stderr).unwrap().contains("MFAAS_DATABASE_URL"));
}
