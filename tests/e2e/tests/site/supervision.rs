//! What `mfaas up` does when a program hangs, a disk is full, a port is taken or a log grows; and what `mfaas deploy` says while
//! no node takes a version.

use std::{
    fs,
    net::{Ipv4Addr, TcpListener},
    path::{Path, PathBuf},
    time::Duration,
};

use mfaas_harness::{Program, Run, SmallDisk, Stack, package, wait_for};
use rustix::process::{Pid, Signal};

const ECHO: &str = "pub fn handle(r: &[u8]) -> Vec<u8> {\n    r.to_vec()\n}\n";

/// `mfaas up --detach` on this home with these options and variables, on free ports where the options name none.
fn up(stack: &Stack, options: &[&str], variables: &[(&str, &str)]) -> Run {
    let home = stack.home().to_str().unwrap();
    let seed = stack.home().join("seed");
    let mut arguments = vec!["up", "--detach", "--home", home, "--seed", seed.to_str().unwrap()];
    for port in ["--http-port", "--node-port", "--ingress-port"] {
        if !options.contains(&port) {
            arguments.extend([port, "0"]);
        }
    }
    arguments.extend(options);
    stack.cli_with(arguments, variables)
}

fn log(stack: &Stack, name: &str) -> PathBuf {
    stack.home().join(format!("logs/{name}"))
}

fn text(stack: &Stack, name: &str) -> String {
    fs::read_to_string(log(stack, name)).unwrap()
}

/// What the supervisor says of a program, even where its process does not answer.
fn pid_of(stack: &Stack, program: &str) -> Option<Pid> {
    let state = stack.state();
    let entry = state["programs"].as_array()?.iter().find(|entry| entry["name"] == program)?.clone();
    Pid::from_raw(i32::try_from(entry["pid"].as_i64()?).ok()?)
}

/// The installation is stopped before a disk below it goes away.
struct Down<'a>(&'a Stack);

impl Drop for Down<'_> {
    fn drop(&mut self) {
        let _ = self.0.down();
    }
}

/// The database does not answer either, which is no reason to start anything anew.
#[test]
fn a_program_that_hangs_is_started_again_and_one_that_waits_for_the_database_is_not() {
    let stack = &Stack::start();
    let (server, node) = (stack.pid(Program::Server), stack.pid(Program::Node));
    let postgres = processes_of("postgres", pid_of(stack, "postgres").unwrap());
    let signal = |signal| {
        for pid in &postgres {
            // A backend may just have ended.
            let _ = rustix::process::kill_process(*pid, signal);
        }
    };
    signal(Signal::STOP);
    let _ = stack.signal(Program::Node, Signal::STOP);
    let successor = wait_for("another node", Duration::from_secs(150), || {
        pid_of(stack, "node").filter(|pid| *pid != node)
    });
    let said = text(stack, "supervisor.log");
    let hangs =
        format!("node (pid {}) hangs: /healthz was asked 9 times in a row", node.as_raw_nonzero().get());
    assert!(said.contains(&hangs) && said.contains("starting it again in "), "{said}");
    // What is alive and not ready had as much time to be taken for something that hangs.
    std::thread::sleep(Duration::from_secs(10));
    assert_eq!(pid_of(stack, "server"), Some(server));
    signal(Signal::CONT);
    wait_for("everything to be ready", Duration::from_secs(90), || {
        (stack.cli(["status", "--home", stack.home().to_str().unwrap()]).code == 0).then_some(())
    });
    assert_eq!((stack.pid(Program::Server), stack.pid(Program::Node)), (server, successor));
    let said = text(stack, "supervisor.log");
    assert_eq!(said.matches(" hangs: ").count(), 1, "{said}");
}

/// A process and its children.
fn processes_of(name: &str, main: Pid) -> Vec<Pid> {
    let parent = main.as_raw_nonzero().get().to_string();
    let is_child = |pid: &i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
        fields.split_ascii_whitespace().nth(1) == Some(&parent)
    };
    let pids =
        fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let children: Vec<i32> = pids.filter(is_child).collect();
    assert!(!children.is_empty(), "{name} has no children");
    children.into_iter().filter_map(Pid::from_raw).chain([main]).collect()
}

/// State and logs lie on disks that are full while a program dies and others log.
#[test]
fn a_full_disk_stops_neither_the_supervisor_nor_a_program() {
    let stack = &Stack::start();
    let _ = stack.down().ok();
    let Some(logs) = SmallDisk::mount(&stack.home().join("logs"), 256 << 10) else { return };
    let Some(run) = SmallDisk::mount(&stack.home().join("run"), 256 << 10) else { return };
    let _down = Down(stack);
    let _ = up(stack, &[], &[]).ok();
    let supervisor = stack.state()["pid"].clone();
    let server = stack.pid(Program::Server);
    let node = stack.pid(Program::Node);
    // It would be removed with its node, and make room.
    fs::remove_file(stack.home().join("run/node/ready.json")).unwrap();
    logs.fill();
    run.fill();
    rustix::process::kill_process(node, Signal::KILL).unwrap();
    let refused = |number: usize| {
        let path = format!("/v1/deployments/{number}-{}", "x".repeat(200));
        assert_eq!(stack.api("GET", &path, vec![]).status, 404);
    };
    // More than what is left of the last page of the log.
    (0..50).for_each(refused);
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(stack.state()["pid"], supervisor, "the state was written, so the disk was not full");
    assert_eq!(pid_of(stack, "node"), Some(node), "the state was written, so the disk was not full");
    logs.clear();
    run.clear();
    stack.wait_for_successor(Program::Node, node);
    (50..55).for_each(refused);
    // More than one line says it where a short one still found room between long ones.
    let missing_of = |log: &str| -> Vec<usize> {
        let told = log.lines().filter(|line| line.contains("lines of this log are missing"));
        told.map(|line| line.split("lines=").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap())
            .collect()
    };
    let log = wait_for("each refusal or the line about it", Duration::from_secs(10), || {
        let log = text(stack, "server.log");
        let written = log.matches("request refused").count();
        (written + missing_of(&log).iter().sum::<usize>() >= 55).then_some(log)
    });
    let missing = missing_of(&log);
    assert!(missing.iter().all(|lines| *lines > 0) && missing.iter().sum::<usize>() > 30, "{log}");
    // Each line is whole: it begins with its time.
    let year = |line: &str| line.starts_with("20") && line.contains("Z ");
    assert!(log.lines().all(year), "{log}");
    assert_eq!(stack.pid(Program::Server), server);
    let said = text(stack, "supervisor.log");
    assert!(said.contains("the state is written again"), "{said}");
}

/// PostgreSQL logs faster than its files are set aside; not a line is lost or split.
#[test]
fn a_log_is_bounded_while_its_program_runs() {
    const LINES: usize = 120_000;
    let stack = &Stack::start();
    let postgres = pid_of(stack, "postgres");
    let flood = format!(
        "SET log_error_verbosity = terse; \
         DO $$ BEGIN FOR i IN 1..{LINES} LOOP RAISE LOG 'flood % {}', i; END LOOP; END $$",
        "x".repeat(60)
    );
    stack.sql().batch_execute(&flood).unwrap();
    wait_for("the last line", Duration::from_secs(30), || {
        text(stack, "postgres.log").contains(&format!("flood {LINES} ")).then_some(())
    });
    let mut names: Vec<String> = fs::read_dir(stack.home().join("logs"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("postgres.log"))
        .collect();
    names.sort();
    names.reverse();
    assert!(names.len() > 1, "{names:?}");
    let mut next = 1;
    for name in &names {
        let text = text(stack, name);
        assert!(text.len() <= 8 << 20 && text.ends_with('\n'), "{name}: {} bytes", text.len());
        for line in text.lines().filter_map(|line| line.split_once("flood ")) {
            let (number, rest) = line.1.split_once(' ').unwrap();
            assert_eq!((number, rest), (next.to_string().as_str(), "x".repeat(60).as_str()));
            next += 1;
        }
    }
    assert_eq!(next, LINES + 1, "lines are missing");
    assert_eq!(pid_of(stack, "postgres"), postgres);
}

#[test]
fn a_taken_port_is_named_before_anything_starts_and_other_ports_are_refused_while_everything_runs() {
    let stack = &Stack::start();
    let home = stack.home().to_str().unwrap();
    let state = stack.state();
    let at = |name: &str| state["addresses"][name].as_str().unwrap().to_owned();
    let port = at("ingress").rsplit_once(':').unwrap().1.to_owned();
    let other = up(stack, &["--ingress-port", &port, "--http-port", "1"], &[]).exits(1);
    let said = &other.stderr;
    for part in [&at("http"), &at("nodes"), &at("ingress"), "(--http-port 1)", "mfaas down"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_eq!(stack.state(), state);
    assert!(up(stack, &["--ingress-port", &port], &[]).ok().stderr.contains("already running"));
    let other = up(stack, &["--default-access", "token", "--worker-processes", "99"], &[]).exits(1);
    for part in ["--default-access, --worker-processes", "mfaas down"] {
        assert!(other.stderr.contains(part), "{part}: {}", other.stderr);
    }

    let _ = stack.down().ok();
    let logs = fs::metadata(log(stack, "postgres.log")).unwrap().modified().unwrap();
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let port = address.rsplit_once(':').unwrap().1;
    let run = up(stack, &["--node-port", port], &[]).exits(1);
    for part in [address.as_str(), "taken", "mfaas-server", "--node-port"] {
        assert!(run.stderr.contains(part), "{part}: {}", run.stderr);
    }
    assert_eq!(fs::metadata(log(stack, "postgres.log")).unwrap().modified().unwrap(), logs, "it was started");
    drop(taken);
    let _ = stack.cli(["down", "--home", home]).ok();
}

#[test]
fn settings_reach_the_programs() {
    let stack = &Stack::start();
    let _ = stack.down().ok();
    for program in ["server", "signer", "builder", "acquirer", "node"] {
        fs::remove_file(log(stack, &format!("{program}.log"))).unwrap();
    }
    let limits = ["--ingress-peer-connections", "33", "--ingress-proxies", "192.0.2.1,::1"];
    let variables = [("MFAAS_LOG_JSON", "1"), ("MFAAS_INGRESS_CONNECTIONS", "77")];
    let _ = up(stack, &limits, &variables).ok();
    for program in ["server", "signer", "builder", "acquirer", "node"] {
        let log = text(stack, &format!("{program}.log"));
        assert!(!log.is_empty(), "{program} says nothing");
        for line in log.lines() {
            let event: Result<serde_json::Value, _> = serde_json::from_str(line);
            assert!(event.is_ok_and(|event| event["level"].is_string()), "{program}: {line}");
        }
    }
    let limited = |stack: &Stack| {
        let metrics = stack.request("GET", &format!("{}/metrics", stack.ingress()), &[], vec![]).text();
        for bound in ["{limit=\"connections\"} 77\n", "{limit=\"peer_connections\"} 33\n"] {
            assert!(metrics.contains(&format!("mfaas_ingress_limit{bound}")), "{bound}: {metrics}");
        }
        let node = stack.pid(Program::Node).as_raw_nonzero();
        let environment = fs::read(format!("/proc/{node}/environ")).unwrap();
        let environment = String::from_utf8_lossy(&environment).into_owned();
        assert!(environment.split('\0').any(|entry| entry == "MFAAS_INGRESS_PROXIES=192.0.2.1,::1"));
    };
    limited(stack);
    // They are kept.
    let _ = stack.down().ok();
    stack.up();
    limited(stack);
    let wrong = up(stack, &["--ingress-proxies", "somewhere"], &[]).exits(2);
    assert!(wrong.stderr.contains("`somewhere` is no IP address"), "{}", wrong.stderr);
}

#[test]
fn deploy_says_that_it_waits_for_a_node_and_why() {
    let stack = &Stack::start();
    let node = stack.api("GET", "/v1/nodes", vec![]).json()["items"][0]["name"].as_str().unwrap().to_owned();
    let package = package("patient", ECHO, "");
    for (command, state) in [("drain", "is drained"), ("cordon", "is cordoned")] {
        let _ = stack.cli(["node", command, &node]).ok();
        let said = gives_up_on_a_node(stack, package.path());
        let hint = format!("`mfaas node uncordon {node}` lets it take new versions");
        for (when, beginning) in
            [("while it waits", WAITS_FOR_A_NODE), ("at the end", "error: patient version ")]
        {
            let line = said.lines().find(|line| line.starts_with(beginning));
            let line = line.unwrap_or_else(|| panic!("nothing {when}: {said}"));
            assert!(line.contains(&format!("{node} {state}")) && line.contains(&hint), "{when}: {line}");
        }
    }
    // Whoever waits when it is let again is served.
    let mut sql = stack.sql();
    let mut versions = || sql.query_one("SELECT count(*) FROM versions", &[]).unwrap().get::<_, i64>(0);
    let before = versions();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| stack.deploy(package.path()));
        wait_for("the version", Duration::from_secs(120), || (versions() > before).then_some(()));
        let _ = stack.cli(["node", "uncordon", &node]).ok();
        let run = waits.join().unwrap().ok();
        assert!(run.stdout.contains("is served after"), "{}", run.stdout);
    });
}

/// How a line begins that says what a version waits for.
const WAITS_FOR_A_NODE: &str = "waiting for a node: ";

/// What `mfaas deploy` says that gives up while no node takes the version. The build is part of its time, and a busy machine
/// takes longer for that: it is given twice as much until there was a wait to speak of.
fn gives_up_on_a_node(stack: &Stack, package: &Path) -> String {
    let mut timeout_s = 10;
    loop {
        let timeout = timeout_s.to_string();
        let run = stack.cli(["deploy", package.to_str().unwrap(), "--timeout", &timeout]).exits(8);
        if run.stderr.contains(WAITS_FOR_A_NODE) || timeout_s > 100 {
            return run.stderr;
        }
        timeout_s *= 2;
    }
}
