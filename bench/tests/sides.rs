//! Every side on a tiny run: each answer is verified against the function's own result, with the
//! real programs. `cargo build --workspace` in the checkout puts
//! them beside this test's programs.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use mfaas_bench_node::function::{ANSWER_BYTES, work};
use mfaas_bench_node::functions::{Form, Functions, Kind, request, verified};
use mfaas_bench_node::secondary::{Running, Work};
use mfaas_bench_node::sides::bare::{Bare, Mode};
use mfaas_bench_node::sides::http::Hyper;
use mfaas_bench_node::sides::mfaas::{
    BUDGET_US, InExecutor, InProcess, LOOK_US, Planned, Served, Worker, equal,
};
use mfaas_bench_node::sides::process::{PerRequest, Woken};
use mfaas_bench_node::sides::{Kit, Programs, Side};
use mfaas_bench_node::sys::library::{Library, c_path};
use mfaas_bench_node::sys::{Cores, Tsc, allowed_cores};
use rustix::process::{geteuid, test_kill_process_group};

const PROGRAM: &str = env!("CARGO_BIN_EXE_mfaas-bench-node");
const FUNCTIONS: usize = 3;

/// One kit for the tests that run at once; what was built is removed with the last of them.
fn kit() -> Arc<Kit> {
    static KIT: Mutex<Weak<Kit>> = Mutex::new(Weak::new());
    let mut shared = KIT.lock().unwrap();
    if let Some(kit) = shared.upgrade() {
        return kit;
    }
    let kit = Arc::new(Kit {
        cores: Cores::choose().unwrap().expect("two cores"),
        all_cores: allowed_cores().unwrap(),
        tsc: Tsc::calibrate(),
        functions: Functions::build().unwrap(),
        programs: Programs::beside(Path::new(PROGRAM)).unwrap(),
    });
    *shared = Arc::downgrade(&kit);
    kit
}

/// Calls each function twice; a wrong answer is an error of the side.
fn answers(side: &mut dyn Side) {
    side.wake().unwrap();
    for function in (0..FUNCTIONS as u64).chain(0..FUNCTIONS as u64) {
        let timing = side.call(function).unwrap();
        assert!(timing.sent < timing.answered);
    }
    side.rest().unwrap();
    assert!(!side.protections().is_empty());
}

fn answers_pipelined(side: &mut dyn Side) {
    side.wake().unwrap();
    // More than any ring holds, so that slots are used again.
    side.pipelined(1_000, FUNCTIONS as u64).unwrap();
    side.rest().unwrap();
}

#[test]
fn every_side_answers_right() {
    let kit = kit();
    for kind in [Kind::EMPTY, Kind::HASH, Kind { rounds: 3, ..Kind::HASH }] {
        for mode in [Mode::Plain, Mode::Kept, Mode::PerRequest] {
            let mut side = Bare::start(&kit, mode, kind, FUNCTIONS).unwrap();
            answers(&mut side);
            answers_pipelined(&mut side);
            answers(&mut side);
        }
        for form in [Form::Hosted, Form::Smallest] {
            let mut side = Worker::start(&kit, form, equal(kind, FUNCTIONS)).unwrap();
            answers(&mut side);
            answers_pipelined(&mut side);
        }
        answers(&mut InExecutor::new(&kit, kind).unwrap());
        answers(&mut PerRequest::new(&kit, kind).unwrap());
        answers(&mut Woken::start(&kit, kind).unwrap());
    }
    answers(&mut Hyper::start(&kit).unwrap());
}

#[cfg(feature = "wasmtime")]
#[test]
fn wasmtime_answers_right() {
    let busy = Kind { kind: mfaas_bench_node::function::BUSY, rounds: 5 };
    for kind in [Kind::EMPTY, Kind::HASH, Kind { rounds: 3, ..Kind::HASH }, busy] {
        answers(mfaas_bench_node::sides::wasm::side(kind).unwrap().as_mut());
    }
}

/// The text of the module must be right even where wasmtime is not built in.
#[test]
fn the_tables_of_the_module_are_whole() {
    let text = mfaas_bench_node::sides::wasm::module_text();
    assert!(!text.contains("@TABLES@"));
    // The first round constant and the last start value, as they lie in memory.
    assert!(
        text.contains("\\22\\ae\\28\\d7\\98\\2f\\8a\\42")
            && text.contains("\\79\\21\\7e\\13\\19\\cd\\e0\\5b")
    );
}

#[test]
fn each_file_is_a_function_of_its_own() {
    let kit = kit();
    let files = kit.functions.files(Form::Library, Kind::HASH, 2).unwrap();
    let request = request(9);
    for id in 0..2 {
        let library = Library::open(&c_path(&files.path(id)).unwrap()).unwrap();
        let mut answer = [0; ANSWER_BYTES];
        let bytes = library.call(&request, &mut answer);
        let constants = Kind::HASH.constants(id as u64);
        assert!(verified(&constants, &request, &answer[..bytes]).is_ok());
        let mut plain = [0; ANSWER_BYTES];
        assert_eq!(work(&constants, &request, &mut plain), bytes);
        assert_eq!(plain[..bytes], answer[..bytes]);
    }
}

#[test]
fn an_endless_call_is_ended_and_the_next_one_answered() {
    let kit = kit();
    let mut executor = InProcess::new().unwrap();
    executor.wake(kit.cores, LOOK_US).unwrap();
    let mut load = |kind: Kind, budget_us| {
        let served = Served { constants: kind.constants(0), budget_us };
        executor.load(&kit.functions.file(Form::Hosted, &served.constants), served).unwrap()
    };
    let (endless, next) = (load(Kind::SPIN, 100), load(Kind::HASH, BUDGET_US));
    for _ in 0..5 {
        let kill = executor.kill(&endless, &next, kit.tsc).unwrap();
        assert!(kill.overshoot_us > 0.0 && kill.next_us > 0.0, "{kill:?}");
    }
}

#[test]
fn an_open_loop_loses_nothing() {
    let kit = kit();
    let served = vec![
        Served { constants: Kind::EMPTY.constants(0), budget_us: BUDGET_US },
        Served { constants: Kind::SPIN.constants(1), budget_us: 93 },
    ];
    let mut worker = Worker::start(&kit, Form::Hosted, served).unwrap();
    let plan: Vec<Planned> = (0..200)
        .map(|number| {
            let endless = number % 50 == 25;
            Planned { at: number * 1_000, function: u64::from(endless), number, endless }
        })
        .collect();
    let outcome = worker.open_loop(&plan, kit.tsc).unwrap();
    assert_eq!((outcome.benign_us.len(), outcome.ended, outcome.lost), (196, 4, 0));
}

#[test]
fn the_program_measures_rows_and_writes_its_files() {
    let directory = tempfile::tempdir().unwrap();
    let (json, svg) = (directory.path().join("rows.json"), directory.path().join("modes.svg"));
    let output = Command::new(PROGRAM)
        .args(["--quick", "--rows", "quantum,kill,modes", "--json"])
        .arg(&json)
        .arg("--svg")
        .arg(&svg)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("a quick run: nothing below is evidence"), "{text}");
    let document: serde_json::Value = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
    let names: Vec<&str> =
        document["rows"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["quantum", "kill", "modes"]);
    for row in document["rows"].as_array().unwrap() {
        for measure in row["measures"].as_array().unwrap() {
            let wasm = measure["what"].as_str().unwrap().contains("wasmtime");
            assert!(wasm || measure["spread"]["median"].is_number(), "{measure}");
        }
    }
    assert_eq!(document["modes"].as_array().unwrap().len(), 10);
    assert!(std::fs::read_to_string(svg).unwrap().contains("fork and exec per request"));
}

/// The node is the real one: it verifies, inspects, loads and confines the function that answers here.
#[test]
fn rows_start_nodes_of_their_own_and_leave_nothing_behind() {
    let directory = tempfile::tempdir().unwrap();
    let json = directory.path().join("rows.json");
    let temporary = directory.path().join("temporary");
    std::fs::create_dir(&temporary).unwrap();
    let output = Command::new(PROGRAM)
        .args(["--quick", "--rows", "http,idle", "--json"])
        .arg(&json)
        .env("TMPDIR", &temporary)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let document: serde_json::Value = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
    let rows = document["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    for row in rows {
        assert_eq!(row["missing"], serde_json::json!([]), "{said}");
        for measure in row["measures"].as_array().unwrap() {
            assert!(measure["spread"]["median"].is_number(), "{measure}");
        }
        assert!(row["sides"].to_string().contains("started for this row"), "{row}");
    }
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0, "something is left");
}

/// Runs the program with a directory of its own for what it makes, and gives its rows.
fn measured(arguments: &[&str]) -> Vec<serde_json::Value> {
    let directory = tempfile::tempdir().unwrap();
    let temporary = directory.path().join("temporary");
    std::fs::create_dir(&temporary).unwrap();
    // A database's user passes through.
    std::fs::set_permissions(directory.path(), Permissions::from_mode(0o711)).unwrap();
    let json = directory.path().join("rows.json");
    let output = Command::new(PROGRAM)
        .args(arguments)
        .arg("--json")
        .arg(&json)
        .env("TMPDIR", &temporary)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let document: serde_json::Value = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
    let rows = document["rows"].as_array().unwrap().clone();
    for row in &rows {
        assert_eq!(row["missing"], serde_json::json!([]), "{said}");
        let measures = row["measures"].as_array().unwrap();
        assert!(measures.iter().all(|measure| !measure["rounds"].as_array().unwrap().is_empty()), "{row}");
    }
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0, "something is left");
    rows
}

/// The measure that is called so.
fn measure<'a>(row: &'a serde_json::Value, what: &str) -> &'a serde_json::Value {
    let found = row["measures"].as_array().unwrap().iter().find(|measure| measure["what"] == what);
    found.unwrap_or_else(|| panic!("no {what} in {row}"))
}

fn median(row: &serde_json::Value, what: &str) -> f64 {
    measure(row, what)["spread"]["median"].as_f64().unwrap()
}

/// How many rounds it was measured in.
fn rounds(row: &serde_json::Value, what: &str) -> usize {
    measure(row, what)["rounds"].as_array().unwrap().len()
}

/// Three tenants are more than the workers of a shared pool, so the node looks as it is named.
#[test]
fn tenants_are_measured_with_pools_of_their_own_and_with_a_shared_one() {
    let rows = measured(&["--quick", "--rows", "tenants", "--tenants", "1,3"]);
    let [row] = &*rows else { panic!("{rows:?}") };
    for pools in ["pools per tenant", "shared pool"] {
        for what in
            ["calls a second", "p99 at 10 %", "p50 of a call that wakes a pool", "a tenant's first call"]
        {
            assert!(median(row, &format!("3 tenants, {pools}: {what}")) > 0.0);
        }
    }
    let [own, shared] = ["pools per tenant", "shared pool"]
        .map(|pools| median(row, &format!("3 tenants, {pools}: a parked tenant")));
    assert!(own > shared, "a worker process of a tenant's own takes memory: {own} KiB, {shared} KiB");
}

/// A round that shows tokens ends at the first one that the node does not take.
#[test]
fn calls_are_measured_without_a_token_with_a_known_and_with_a_new_one() {
    let rows = measured(&["--quick", "--rows", "tokens"]);
    let [row] = &*rows else { panic!("{rows:?}") };
    for shown in ["without a token", "with a known token", "first call with a token"] {
        assert!(median(row, &format!("{shown}, p50")) > 0.0);
    }
    for shown in ["with a known token", "first call with a token"] {
        assert!(median(row, &format!("{shown} / without a token, p50")) > 0.0);
    }
}

/// What takes all cores, and what has to find some at the lowest priority, take turns.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Figures of two short rounds on a busy machine say nothing; that both sides were at work does.
#[test]
fn a_victim_is_measured_beside_an_attacker() {
    let _turn = turn();
    let rows = measured(&["noisy-neighbour", "--quick", "--rows", "calls,log-lines"]);
    let names: Vec<&str> = rows.iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["calls", "log-lines"]);
    for (row, pools) in rows.iter().flat_map(|row| [(row, "pools per tenant"), (row, "shared pool")]) {
        assert!(median(row, &format!("{pools}: victim alone p50")) > 0.0);
        assert!(median(row, &format!("{pools}: attacker")) > 0.0);
        assert!(median(row, &format!("{pools}: victim's calls answered in a round")) > 0.0, "{row}");
    }
}

/// Broker and database are the real ones, and each operation has brought what was put there.
#[test]
fn calls_that_wait_are_measured_and_what_they_wait_for() {
    let _turn = turn();
    let rows = measured(&["data", "--quick"]);
    let names: Vec<&str> = rows.iter().map(|row| row["name"].as_str().unwrap()).collect();
    let all = [
        "suspend",
        "call-inline",
        "call",
        "call-other-tenant",
        "cache",
        "broker",
        "kv",
        "redis",
        "object",
        "volume",
    ];
    assert_eq!(names, all);
    let [suspend, call_inline, call, call_other_tenant, cache, broker, kv, redis, object, volume] = &*rows
    else {
        panic!("{names:?}")
    };
    for kib in [1, 4, 16, 64] {
        for side in ["waits", "does not wait"] {
            assert!(median(suspend, &format!("{side}, {kib} KiB, p50")) > 0.0);
        }
        assert!(median(suspend, &format!("suspending and resuming, {kib} KiB")).is_finite());
    }
    assert!(median(call, "a call without any") > 0.0 && median(cache, "a call without any") > 0.0);
    // Differences of figures on a busy machine are what they are.
    for call in [call_inline, call, call_other_tenant] {
        assert!(median(call, "a call of the other function, p50").is_finite());
    }
    assert!(median(cache, "a get, p50").is_finite());
    assert!(median(broker, "a round trip / bare ring").is_finite());
    assert!(median(kv, "client p50") > 0.0 && median(kv, "a get / client").is_finite());
    assert!(median(redis, "client p50") > 0.0 && median(redis, "a get / client").is_finite());
    assert!(median(object, "client p50") > 0.0 && median(object, "read again / client").is_finite());
    assert!(median(volume, "a call with one") > 0.0 && median(volume, "a read, p50").is_finite());
}

#[test]
fn each_secondary_waits_to_be_let_go_makes_progress_and_is_gone_at_its_end() {
    let _turn = turn();
    let kit = kit();
    for work in [Work::Cpu, Work::Disk, Work::Builds] {
        let mut running = Running::start(&kit, work, 2, None).unwrap();
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(running.progress().unwrap(), 0.0, "{work:?} did not wait");
        running.go().unwrap();
        let begin = Instant::now();
        let mut first = 0.0;
        // Twice, since the first count may be the only one.
        for _ in 0..2 {
            while running.progress().unwrap() <= first {
                assert!(begin.elapsed() < Duration::from_secs(60), "{work:?} makes no progress");
                std::thread::sleep(Duration::from_millis(5));
            }
            first = running.progress().unwrap();
        }
        let process = running.process();
        running.end().unwrap();
        assert!(test_kill_process_group(process).is_err(), "{work:?} is not gone");
    }
}

/// Figures of two short rounds say nothing; that each policy was in force over the same node and that nothing of it is left
/// does. Another controller may have all real-time of the machine's groups, and then that mode is said to be missing.
#[test]
fn calls_are_measured_beside_a_secondary_under_each_policy() {
    let _turn = turn();
    let directory = tempfile::tempdir().unwrap();
    let (json, svg) = (directory.path().join("rows.json"), directory.path().join("shared.svg"));
    let temporary = directory.path().join("temporary");
    std::fs::create_dir(&temporary).unwrap();
    let child = Command::new(PROGRAM)
        .args(["isolation", "--quick", "--rows", "builds", "--buffer-cores", "0", "--json"])
        .arg(&json)
        .arg("--svg")
        .arg(&svg)
        .env("TMPDIR", &temporary)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let group = format!("mfaas-bench-{}", child.id());
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let document: serde_json::Value =
        serde_json::from_slice(&std::fs::read(json).unwrap_or_else(|error| panic!("{error}: {said}")))
            .unwrap();
    let row = &document["rows"][0];
    let missing: Vec<&str> =
        row["missing"].as_array().unwrap().iter().map(|missing| missing.as_str().unwrap()).collect();
    // Only root makes groups.
    let may_lack: &[&str] = if geteuid().is_root() { &["real-time: "] } else { &["real-time: ", "quota: "] };
    assert!(missing.iter().all(|one| may_lack.iter().any(|policy| one.starts_with(policy))), "{missing:?}");
    let lacks = |policy: &str| missing.iter().any(|one| one.starts_with(&format!("{policy}: ")));
    assert!(median(row, "secondary alone: progress") > 0.0);
    // Of one window of a machine that does much else it may be nothing.
    let mut progress = 0.0;
    for load in [20, 70] {
        let policies = ["none", "nice", "static cores", "quota", "idle-class", "blind, buffer cores 0"];
        for policy in policies.into_iter().filter(|policy| !lacks(policy)) {
            assert!(row["sides"].to_string().contains(policy), "{row}");
            let rounds = |what: &str| rounds(row, &format!("{load} %, {policy}: {what}"));
            assert_eq!((rounds("p99 / standalone"), rounds("progress")), (2, 2));
        }
        assert!(median(row, &format!("{load} %, standalone: CPU of the generator")) > 0.0);
        progress += median(row, &format!("{load} %, none: progress"));
    }
    assert!(progress > 0.0, "{row}");
    assert_eq!(document["shared"].as_array().unwrap().len(), 2 * 7);
    assert!(std::fs::read_to_string(svg).unwrap().contains("builds, calls at 70 %"));
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0, "something is left");
    for controller in ["cpu", "cpuset", "freezer", "memory", "blkio", "unified", ""] {
        let left = std::fs::read_dir(Path::new("/sys/fs/cgroup").join(controller)).into_iter().flatten();
        let left: Vec<_> =
            left.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        assert!(!left.iter().any(|name| name.starts_with(&group)), "{controller}: {left:?}");
    }
}

/// The workers of bulk calls are the node's own, and both functions answer right. Under one policy: all of them are tried beside builds.
#[test]
fn calls_are_measured_beside_bulk_calls_of_the_same_node() {
    let _turn = turn();
    let rows =
        measured(&["isolation", "--quick", "--rows", "bulk-gzip,bulk-images", "--policies", "idle-class"]);
    let names: Vec<&str> = rows.iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["bulk-gzip", "bulk-images"]);
    for row in &rows {
        assert!(median(row, "secondary alone: progress") > 0.0, "{row}");
        assert!(median(row, "secondary alone: bulk calls answered") >= 0.0);
        let mut progress = 0.0;
        for load in [20, 70] {
            let rounds = |what: &str| rounds(row, &format!("{load} %, idle-class: {what}"));
            assert_eq!((rounds("p99 / standalone"), rounds("bulk calls answered")), (2, 2), "{row}");
            progress += median(row, &format!("{load} %, idle-class: progress"));
        }
        assert!(progress > 0.0, "{row}");
        assert!(!row["sides"].to_string().contains("static cores"), "{row}");
    }
}

#[test]
fn every_number_of_buffer_cores_is_tried() {
    let _turn = turn();
    let output = Command::new(PROGRAM)
        .args(["buffer-cores", "--quick", "--workers", "polling", "--json", "-"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let document: serde_json::Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
    let row = &document["rows"][0];
    assert_eq!(row["missing"], serde_json::json!([]));
    let cores = allowed_cores().unwrap().len();
    for buffer_cores in (0..cores).take(5) {
        let ratio = median(row, &format!("70 %, blind, buffer cores {buffer_cores}: p99 / standalone"));
        assert!(ratio > 0.0, "{row}");
    }
    assert!(row.to_string().contains("buffer cores: the fewest with p99 / standalone"), "{row}");
}

#[test]
fn the_program_refuses_what_it_does_not_know() {
    for arguments in [
        "--rows warmth",
        "--rounds 14",
        "--node-url http://127.0.0.1:1/f",
        "--tenants 0",
        "noisy-neighbour --rows warm",
        "noisy-neighbour --rounds 14",
        "data --rows warm",
        "data --rounds 14",
        "isolation --rows warm",
        "isolation --rounds 14",
        "isolation --workers asleep",
        "isolation --policies blindly",
        "buffer-cores --rows builds",
    ] {
        let output = Command::new(PROGRAM).args(arguments.split(' ')).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments}");
    }
}
