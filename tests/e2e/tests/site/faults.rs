//! kill -9 of each program in the middle of its step, and a builder that sleeps past its lease.
//! Each ends in one definite state, exactly once, and the node serves.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use mfaas_harness::{Program, SmallDisk, Stack, package, wait_for};
use rustix::process::{Pid, Signal};

fn source(text: &str) -> Vec<u8> {
    let source = format!("pub fn handle(_request: &[u8]) -> Vec<u8> {{\n    b\"{text}\".to_vec()\n}}\n");
    mfaas_harness::pack_directory(package("kept", &source, "").path())
}

/// The same with enough code that the compiler is busy for seconds.
fn slow_source(text: &str) -> Vec<u8> {
    let mut source = "pub fn handle(request: &[u8]) -> Vec<u8> {\n    let mut sum = 0;\n".to_owned();
    source += "    if request.len() > 1 << 20 {\n";
    for number in 0..200 {
        source += &format!("        sum += busy{number}(request).len();\n");
    }
    source += &format!("    }}\n    if sum == 1 {{ Vec::new() }} else {{ b\"{text}\".to_vec() }}\n}}\n");
    for number in 0..200 {
        source += &format!(
            "fn busy{number}(request: &[u8]) -> String {{ request.iter().map(|b| format!(\"{{b:x}}-{number}\")).collect() }}\n"
        );
    }
    mfaas_harness::pack_directory(package("kept", &source, "").path())
}

fn attempts_of(stack: &Stack, id: &str) -> i32 {
    let query = "SELECT attempt FROM builds WHERE deployment_id = $1::text::uuid";
    stack.sql().query_one(query, &[&id]).unwrap().get(0)
}

/// Waits until the deployment has an event of that stage and kind.
fn wait_for_event(stack: &Stack, id: &str, stage: &str, kind: &str) {
    let mut sql = stack.sql();
    let query = "SELECT count(*) FROM deployment_events WHERE deployment_id = $1::text::uuid \
                 AND body->>'stage' = $2 AND body->>'kind' = $3";
    wait_for(&format!("{stage} {kind}"), Duration::from_secs(60), || {
        let count: i64 = sql.query_one(query, &[&id, &stage, &kind]).unwrap().get(0);
        (count > 0).then_some(())
    });
}

fn versions_of(stack: &Stack, id: &str) -> i64 {
    let query = "SELECT count(*) FROM versions WHERE deployment_id = $1::text::uuid";
    stack.sql().query_one(query, &[&id]).unwrap().get(0)
}

#[track_caller]
fn admitted_once(stack: &Stack, id: &str, answer: &str) {
    let view = stack.settled(id);
    assert_eq!(view["state"], "admitted", "{view}");
    assert_eq!(versions_of(stack, id), 1);
    wait_for("the node to serve it", Duration::from_secs(60), || {
        let url = format!("{}/f/default/kept", stack.ingress());
        let served = stack.try_request("POST", &url, &[], vec![]).ok()?;
        (served.status == 200 && served.text() == answer).then_some(())
    });
}

#[test]
fn builder_dies_while_compiling() {
    let stack = Stack::start();
    let old = stack.pid(Program::Builder);
    let id = stack.upload("kept", slow_source("builder"));
    wait_for_event(&stack, &id, "compile", "started");
    let _ = stack.signal(Program::Builder, Signal::KILL);
    stack.wait_for_successor(Program::Builder, old);
    admitted_once(&stack, &id, "builder");
    assert_eq!(attempts_of(&stack, &id), 2, "the build had ended before the builder was killed");
    nothing_is_left_open(&stack);
    stack.invariants();
}

/// That a process exists says nothing about what it can do.
#[test]
fn status_says_what_the_programs_say() {
    let stack = Stack::start();
    let home = stack.home().to_str().unwrap();
    let well = stack.cli(["status", "--home", home]).ok();
    assert!(well.stdout.contains(" ready") && !well.stdout.contains("not ready"), "{}", well.stdout);
    stack.signal(Program::Server, Signal::STOP);
    let stopped = stack.cli(["status", "--home", home]).exits(1);
    assert!(stopped.stdout.contains("server was stopped"), "{}", stopped.stdout);
    stack.signal(Program::Server, Signal::CONT);
    // All processes of the database, as on a machine whose disk does not answer any more.
    let state = stack.state();
    let postgres = state["programs"].as_array().unwrap().iter().find(|program| program["name"] == "postgres");
    let main = i32::try_from(postgres.unwrap()["pid"].as_i64().unwrap()).unwrap();
    let signal = |signal| {
        for pid in children_of(main).into_iter().chain([main]) {
            // A backend may just have ended.
            let _ = rustix::process::kill_process(Pid::from_raw(pid).unwrap(), signal);
        }
    };
    signal(Signal::STOP);
    let dead = stack.cli(["--json", "status", "--home", home]).exits(1);
    signal(Signal::CONT);
    let at = |name: &str| {
        let programs = dead.json()["programs"].as_array().unwrap().clone();
        let place = programs.iter().position(|program| program["name"] == name).unwrap();
        dead.json()["conditions"][place]["is"].clone()
    };
    assert_eq!((at("postgres"), at("server")), ("stopped".into(), "not_ready".into()), "{}", dead.stdout);
    wait_for("the server to be ready again", Duration::from_secs(30), || {
        (stack.cli(["status", "--home", home]).code == 0).then_some(())
    });
}

fn children_of(parent: i32) -> Vec<i32> {
    let pids =
        fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let is_child = |pid: &i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
        fields.split_ascii_whitespace().nth(1) == Some(&parent.to_string())
    };
    pids.filter(is_child).collect()
}

/// A table lock holds the signer inside of its transaction while it is killed.
#[test]
fn signer_dies_while_signing() {
    let stack = &Stack::start();
    let mut sql = stack.sql();
    let mut lock = sql.transaction().unwrap();
    lock.batch_execute("LOCK TABLE versions IN EXCLUSIVE MODE").unwrap();
    let id = stack.upload("kept", source("signer"));
    let mut watcher = stack.sql();
    wait_for("the signer to wait for the lock", Duration::from_secs(60), || {
        let waiting: i64 = watcher
            .query_one("SELECT count(*) FROM pg_stat_activity WHERE usename = 'mfaas_signer' AND wait_event_type = 'Lock'", &[])
            .unwrap()
            .get(0);
        (waiting > 0).then_some(())
    });
    let old = stack.signal(Program::Signer, Signal::KILL);
    stack.wait_for_successor(Program::Signer, old);
    lock.rollback().unwrap();
    admitted_once(stack, &id, "signer");
    nothing_is_left_open(stack);
    stack.invariants();
}
#[test]
fn server_dies_during_an_upload_and_a_stream() {
    let stack = &Stack::start();
    // The command is following the events when the server dies; it resumes by itself.
    let package =
        package("kept", "pub fn handle(_request: &[u8]) -> Vec<u8> {\n    b\"server\".to_vec()\n}\n", "");
    let builder = stack.signal(Program::Builder, Signal::STOP);
    let run = std::thread::scope(|scope| {
        let deploy = scope.spawn(|| stack.deploy(package.path()));
        let mut sql = stack.sql();
        wait_for("the upload", Duration::from_secs(30), || {
            let rows: i64 = sql
                .query_one("SELECT count(*) FROM deployments WHERE state = 'received'", &[])
                .unwrap()
                .get(0);
            (rows > 0).then_some(())
        });
        stack.kill(Program::Server);
        rustix::process::kill_process(builder, Signal::CONT).unwrap();
        deploy.join().unwrap()
    });
    let id: String = stack
        .sql()
        .query_one("SELECT id::text FROM deployments ORDER BY created_at DESC LIMIT 1", &[])
        .unwrap()
        .get(0);
    admitted_once(stack, &id, "server");
    let _ = run.ok();

    // An upload that is cut leaves no row, and the key can be used again.
    let token = format!("Bearer {}", stack.token());
    let url = format!("{}/v1/functions/kept/deployments", stack.server());
    let cut = std::thread::scope(|scope| {
        let send = scope.spawn(|| {
            let headers = [("authorization", token.as_str()), ("idempotency-key", "cut")];
            stack.try_request("POST", &url, &headers, source("cut"))
        });
        stack.kill(Program::Server);
        send.join().unwrap()
    });
    let url = format!("{}/v1/functions/kept/deployments", stack.server());
    let again =
        stack.request("POST", &url, &[("authorization", &token), ("idempotency-key", "cut")], source("cut"));
    assert_eq!(again.status, 202, "{}", again.text());
    let id = again.json()["deployment"]["id"].as_str().unwrap().to_owned();
    if let Ok(first) = cut
        && first.status == 202
    {
        assert_eq!(first.json()["deployment"]["id"].as_str(), Some(id.as_str()));
    }
    admitted_once(stack, &id, "cut");
    nothing_is_left_open(stack);
    stack.invariants();
}
#[test]
fn node_dies_while_it_loads() {
    let stack = &Stack::start();
    let old = stack.pid(Program::Node);
    let workers = stack.workers();
    let id = stack.upload("kept", source("node"));
    wait_for_event(stack, &id, "sign", "finished");
    let _ = stack.signal(Program::Node, Signal::KILL);
    stack.wait_for_successor(Program::Node, old);
    admitted_once(stack, &id, "node");
    for worker in workers {
        let gone = rustix::process::test_kill_process(worker).is_err();
        assert!(gone, "worker {worker:?} outlived its node");
    }
    nothing_is_left_open(stack);
    stack.invariants();
}

/// The disk of the blob store is full while deployments are built. When it has room again all of them are served.
#[test]
fn a_full_blob_store_ends_nobodys_deployment() {
    let stack = &Stack::start();
    let Some(disk) = blobs_on_a_small_disk(stack) else { return };
    let builder = stack.signal(Program::Builder, Signal::STOP);
    let ids: Vec<String> =
        (0..4).map(|number| stack.upload("kept", source(&format!("full {number}")))).collect();
    disk.fill();
    rustix::process::kill_process(builder, Signal::CONT).unwrap();
    let full =
        "SELECT count(*) FROM builders WHERE unwell LIKE '%blobs%No space left on device (os error 28)'";
    let mut sql = stack.sql();
    wait_for("the builder to find the store full", Duration::from_secs(120), || {
        (sql.query_one(full, &[]).unwrap().get::<_, i64>(0) > 0).then_some(())
    });
    let metrics = stack.api("GET", "/metrics", vec![]).text();
    assert!(metrics.contains("mfaas_builders{health=\"unwell\"} 1\n"), "{metrics}");
    disk.clear();
    for id in &ids {
        let view = stack.settled(id);
        assert_eq!((&view["state"], attempts_of(stack, id)), (&"admitted".into(), 1), "{view}");
        assert_eq!(versions_of(stack, id), 1);
    }
    for version in 1..=ids.len() {
        wait_for("the node to serve it", Duration::from_secs(60), || {
            let url = format!("{}/f/default/kept@{version}", stack.ingress());
            let served = stack.try_request("POST", &url, &[], vec![]).ok()?;
            (served.status == 200 && served.text().starts_with("full ")).then_some(())
        });
    }
    let log = fs::read_to_string(stack.home().join("logs/builder.log")).unwrap();
    for (once, said) in [("this machine cannot build;", "well"), ("this machine can build again", "unwell")] {
        assert_eq!(log.matches(once).count(), 1, "it was {said} before: {log}");
    }
    nothing_is_left_open(stack);
    stack.invariants();
}

/// Starts the installation anew with its blobs on a disk of their own.
fn blobs_on_a_small_disk(stack: &Stack) -> Option<SmallDisk> {
    let _ = stack.down().ok();
    let (blobs, kept) = (stack.home().join("blobs"), tempfile::tempdir().unwrap());
    let copy = |from: &Path, to: &Path| {
        let status = Command::new("cp").arg("-a").arg(from.join(".")).arg(to).status().unwrap();
        assert!(status.success(), "cp -a {} {}", from.display(), to.display());
    };
    copy(&blobs, kept.path());
    let disk = SmallDisk::mount(&blobs, 64 << 20);
    if disk.is_some() {
        copy(kept.path(), &blobs);
    }
    stack.up();
    disk
}

/// A builder sleeps past its lease, another one takes over, the first wakes up.
#[test]
fn a_zombie_builder_commits_nothing() {
    let stack = &Stack::start();
    let first = stack.pid(Program::Builder);
    let mut second = SecondBuilder::prepared(stack, first);
    let id = stack.upload("kept", slow_source("zombie"));
    wait_for_event(stack, &id, "compile", "started");
    rustix::process::kill_process(first, Signal::STOP).unwrap();
    second.start();
    let view = stack.settled(&id);
    assert_eq!(view["state"], "admitted", "{view}");
    assert_eq!(attempts_of(stack, &id), 2, "the build had ended before the builder slept");
    let before = outcome(stack, &id);
    rustix::process::kill_process(first, Signal::CONT).unwrap();
    // Time for the first one to notice, finish its step and try to commit.
    std::thread::sleep(Duration::from_secs(5));
    assert_eq!(outcome(stack, &id), before, "the zombie changed the build");
    admitted_once(stack, &id, "zombie");
    nothing_is_left_open(stack);
    stack.invariants();
}

/// Everything that a builder could have changed.
fn outcome(stack: &Stack, id: &str) -> (i64, i64, String, i64) {
    let row = stack
        .sql()
        .query_one(
            "SELECT b.fencing_token, d.last_event, b.claim::text, (SELECT count(*) FROM versions) \
             FROM builds b JOIN deployments d ON d.id = b.deployment_id WHERE d.id = $1::text::uuid",
            &[&id],
        )
        .unwrap();
    (row.get(0), row.get(1), row.get(2), row.get(3))
}

/// The same program with the same environment as a running one.
struct SecondBuilder {
    command: Command,
    child: Option<Child>,
}

impl SecondBuilder {
    fn prepared(stack: &Stack, running: Pid) -> Self {
        let proc = format!("/proc/{}", running.as_raw_nonzero());
        let environment = fs::read(format!("{proc}/environ")).unwrap();
        let variables: BTreeMap<String, String> = environment
            .split(|byte| *byte == 0)
            .filter_map(|entry| {
                let text = String::from_utf8_lossy(entry).into_owned();
                text.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()))
            })
            .filter(|(name, _)| name != "MFAAS_READY_FILE")
            .collect();
        let status = fs::read_to_string(format!("{proc}/status")).unwrap();
        let id = |name: &str| -> u32 {
            let line = status.lines().find(|line| line.starts_with(name)).unwrap();
            line.split_whitespace().nth(1).unwrap().parse().unwrap()
        };
        let mut command = Command::new(fs::read_link(format!("{proc}/exe")).unwrap());
        command
            .arg("serve")
            .env_clear()
            .envs(variables)
            .current_dir(stack.home())
            .stdin(Stdio::null())
            .stderr(Stdio::null());
        if rustix::process::geteuid().is_root() {
            command.uid(id("Uid:")).gid(id("Gid:"));
        }
        Self { command, child: None }
    }

    fn start(&mut self) {
        self.child = Some(self.command.spawn().unwrap());
    }
}

impl Drop for SecondBuilder {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Every deployment has ended, and the audit log can be read from end to end.
fn nothing_is_left_open(stack: &Stack) {
    let audit = stack.api("GET", "/v1/audit", vec![]);
    assert_eq!(audit.status, 200, "{}", audit.text());
    let query =
        "SELECT count(*) FROM deployments WHERE state NOT IN ('admitted', 'refused', 'failed', 'waiting')";
    let open: i64 = stack.sql().query_one(query, &[]).unwrap().get(0);
    assert_eq!(open, 0);
}
