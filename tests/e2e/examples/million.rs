//! A site with a million versions beside an empty one: what a deploy and a revocation take, what the signer computes and a node
//! reads for one deploy, and how a node joins.
//!
//! `cargo build --release --workspace && cargo run --release -p mfaas-e2e --example million`. Needs what the end-to-end tests need
//! and 200,000 descriptors (`ulimit -n`); `--without-node` leaves out what a node does, for more functions than one node loads;
//! with `--distinct` each function has an image of its own, and a node that joins reads them all.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a program that measures, and ends where it cannot"
)]

use std::collections::BTreeSet;
use std::io::Write;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use mfaas_attest::{Admission, PrivateKey, Statement, sign};
use mfaas_harness::{Package, Program, Stack, package, wait_for};
use mfaas_ident::{Digest, FunctionName, VersionNumber};
use rustix::process::{Pid, Signal};

/// Callable by number, of each function, at most.
const RECENT_MAX: u32 = 10;
/// Long enough to lie in an image as it is written.
const ANSWER_BYTES: usize = 64;
/// Deploys and revocations of each measurement.
const ROUNDS: usize = 20;
const AUDIT_ROWS_PER_S: u32 = 50;
const WAIT_MAX: Duration = Duration::from_secs(3_600);

struct Options {
    functions: u32,
    versions: u32,
    with_node: bool,
    distinct: bool,
}

impl Options {
    fn recent(&self) -> u32 {
        self.versions.min(RECENT_MAX)
    }
}

fn main() {
    let options = options();
    let stack = Stack::start();
    let probe = Probe::new(&stack, options.with_node);
    let empty = probe.measure("empty site");
    let begin = Instant::now();
    fill(&stack, &options);
    println!(
        "filled with {} functions of {} versions in {:.0} s",
        options.functions,
        options.versions,
        seconds(begin)
    );
    settle(&stack, &options);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| audit_rows(&stack, &over));
        let _over = Over(&over);
        let full = probe.measure("full site, 50 audit rows a second");
        println!("deploy, full / empty: {:.2} x (p50)", full / empty);
        if options.with_node {
            join(&stack, &options, &probe.tenant);
        }
    });
}

/// What is over when this is dropped, by a panic too.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn options() -> Options {
    let mut options = Options { functions: 9_000, versions: 112, with_node: true, distinct: false };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut number = || arguments.next().and_then(|text| text.parse().ok()).expect("a number");
        match argument.as_str() {
            "--functions" => options.functions = number(),
            "--versions" => options.versions = number(),
            "--without-node" => options.with_node = false,
            "--distinct" => options.distinct = true,
            other => panic!("{other}: --functions N, --versions N, --without-node and --distinct are known"),
        }
    }
    assert!(options.versions > 0 && options.functions > 0, "at least one function of one version");
    options
}

fn seconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64()
}

/// The function that is deployed and revoked.
struct Probe<'a> {
    stack: &'a Stack,
    package: Package,
    tenant: String,
    with_node: bool,
}

impl<'a> Probe<'a> {
    fn new(stack: &'a Stack, with_node: bool) -> Self {
        let mut probe = Self { stack, package: package("probe", "", ""), tenant: String::new(), with_node };
        probe.deploy();
        let sql = "SELECT tenant FROM versions WHERE function = 'probe'";
        probe.tenant = stack.sql().query_one(sql, &[]).unwrap().get(0);
        probe
    }

    /// Deploys another version; returns its artifact and how long that took in all.
    fn deploy(&self) -> (String, f64) {
        self.package.set_source(&format!(
            "pub fn handle(_: &[u8]) -> Vec<u8> {{\n    b\"{}\".to_vec()\n}}\n",
            new_answer()
        ));
        let begin = Instant::now();
        let path = self.package.path().display().to_string();
        if self.with_node {
            let _ = self.stack.cli(["deploy", &path]).ok();
        } else {
            let _ = self.stack.cli(["deploy", "--no-serve-wait", &path]).ok();
            signed(self.stack, begin);
        }
        let took = seconds(begin);
        let sql = "SELECT artifact FROM versions WHERE function = 'probe' ORDER BY version DESC LIMIT 1";
        (self.stack.sql().query_one(sql, &[]).unwrap().get(0), took)
    }

    /// Prints what a deploy and a revocation take; the median of the deploys.
    fn measure(&self, site: &str) -> f64 {
        let (mut deploys, mut revocations, mut cpu, mut bytes) = (vec![], vec![], vec![], vec![]);
        for _ in 0..ROUNDS {
            let before = shards(self.stack);
            let signer = cpu_ms(self.stack);
            let (artifact, took) = self.deploy();
            deploys.push(took);
            cpu.push(cpu_ms(self.stack) - signer);
            bytes.push(new_bytes(self.stack, &before));
            if self.with_node {
                revocations.push(self.revoke(&artifact));
            }
        }
        println!("{site}:");
        let until = if self.with_node { "deploy to served" } else { "deploy to signed" };
        let p50 = print(until, "s", &mut deploys);
        print("the signer's CPU time for one", "ms", &mut cpu);
        print("bytes to a node for one", "B", &mut bytes);
        if self.with_node {
            print("revocation to node", "s", &mut revocations);
        }
        p50
    }

    /// What a caller of the newest version is answered.
    fn status(&self) -> u16 {
        let url = format!("{}/f/{}/probe", self.stack.ingress(), self.tenant);
        self.stack.request("POST", &url, &[], Vec::new()).status
    }

    /// Revokes the newest version; how long it still answers.
    fn revoke(&self, artifact: &str) -> f64 {
        assert_eq!(self.status(), 200, "it is served");
        let mut sql = self.stack.sql();
        let mut tx = sql.transaction().unwrap();
        let insert =
            "INSERT INTO revocations (artifact, reason, revoked_by) VALUES ($1, 'measured', 'million')";
        tx.execute(insert, &[&artifact]).unwrap();
        tx.batch_execute(
            "SELECT append_audit('million', 'artifact.revoked', '', 'probe', '{}'); SELECT bump_desired_generation()",
        )
        .unwrap();
        tx.commit().unwrap();
        let begin = Instant::now();
        while self.status() == 200 {
            assert!(begin.elapsed() < WAIT_MAX, "it answers for ever");
        }
        seconds(begin)
    }
}

/// A constant that no source had before.
fn new_answer() -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    format!("{:0>ANSWER_BYTES$x}", now.as_nanos())
}

/// Prints p50 and the worst of some figures; the p50.
fn print(what: &str, unit: &str, figures: &mut [f64]) -> f64 {
    figures.sort_unstable_by(f64::total_cmp);
    let (p50, worst) = (figures[figures.len() / 2], figures[figures.len() - 1]);
    println!("  {what}: p50 {p50:.2} {unit}, worst of {} {worst:.2} {unit}", figures.len());
    p50
}

/// The digests of the shards that the newest set leads to.
fn shards(stack: &Stack) -> BTreeSet<String> {
    let rows = stack.sql().query("SELECT digest FROM shards WHERE unused_since IS NULL", &[]).unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

/// Bytes of the newest set and of the shards that `before` does not have.
fn new_bytes(stack: &Stack, before: &BTreeSet<String>) -> f64 {
    let mut sql = stack.sql();
    let known: Vec<&String> = before.iter().collect();
    let new = "SELECT coalesce(sum(octet_length(body)), 0)::bigint FROM shards
               WHERE unused_since IS NULL AND NOT digest = ANY($1)";
    let set = "SELECT octet_length(envelope)::bigint FROM serving_sets ORDER BY epoch DESC LIMIT 1";
    let shards: i64 = sql.query_one(new, &[&known]).unwrap().get(0);
    let envelope: i64 = sql.query_one(set, &[]).unwrap().get(0);
    (shards + envelope) as f64
}

/// CPU time of the signer so far, in steps of 10 ms (proc_pid_stat(5)).
fn cpu_ms(stack: &Stack) -> f64 {
    let pid = stack.pid(Program::Signer).as_raw_nonzero();
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    let ticks = |at: usize| fields[at].parse::<f64>().unwrap();
    (ticks(11) + ticks(12)) * 10.0
}

/// What years leave behind: copies of the probe, whose newest versions can be called and have statements of their own.
fn fill(stack: &Stack, options: &Options) {
    let mut sql = stack.sql();
    let key = std::fs::read_to_string(stack.home().join("signer/keys/statements.key")).unwrap();
    let key = PrivateKey::from_pem(&key).unwrap();
    let row = sql
        .query_one(
            "SELECT s.envelope, s.artifact FROM versions v JOIN statements s ON s.digest = v.statement
             WHERE v.function = 'probe' ORDER BY v.version LIMIT 1",
            &[],
        )
        .unwrap();
    let (envelope, artifact): (String, String) = (row.get(0), row.get(1));
    let envelope: serde_json::Value = serde_json::from_str(&envelope).unwrap();
    let payload = BASE64_STANDARD.decode(envelope["payload"].as_str().unwrap()).unwrap();
    let model: Statement = serde_json::from_slice(&payload).unwrap();
    let mut tx = sql.transaction().unwrap();
    tx.batch_execute("SET LOCAL session_replication_role = replica; SET LOCAL statement_timeout = 0")
        .unwrap();
    tx.batch_execute(
        "CREATE TEMP TABLE filled (name text, version integer, artifact text, statement text, envelope text)",
    )
    .unwrap();
    // Nobody else looks at statements.
    if options.with_node {
        let images = Images::of(stack, model.predicate.artifact, &artifact);
        let mut copy = tx.copy_in("COPY filled FROM STDIN").unwrap();
        write_statements(&mut copy, options, &model.predicate, &images, &key);
        copy.finish().unwrap();
    }
    let (functions, versions) = (options.functions.cast_signed(), options.versions.cast_signed());
    tx.execute(
        "INSERT INTO artifacts (digest, bytes, toolchain)
         SELECT DISTINCT f.artifact, a.bytes, a.toolchain FROM filled f, artifacts a WHERE a.digest = $1
         ON CONFLICT DO NOTHING",
        &[&artifact],
    )
    .unwrap();
    tx.batch_execute(
        "INSERT INTO statements (digest, artifact, envelope) SELECT statement, artifact, envelope FROM filled",
    )
    .unwrap();
    tx.execute(
        "INSERT INTO functions (tenant, name, last_version)
         SELECT v.tenant, 'f' || i, $2 FROM generate_series(0, $1 - 1) i,
             (SELECT tenant FROM versions WHERE function = 'probe' LIMIT 1) v",
        &[&functions, &versions],
    )
    .unwrap();
    tx.execute(
        "INSERT INTO deployments (id, tenant, function, idempotency_key, source_digest, source_bytes, submitted_by, state, version)
         SELECT md5(i || '@' || n)::uuid, p.tenant, 'f' || i, i || '@' || n, p.source_digest, 1, 'million', 'admitted', n
         FROM generate_series(0, $1 - 1) i, generate_series(1, $2) n,
             (SELECT tenant, source_digest FROM versions WHERE function = 'probe' ORDER BY version LIMIT 1) p",
        &[&functions, &versions],
    )
    .unwrap();
    tx.execute(
        "INSERT INTO versions (tenant, function, version, deployment_id, artifact, statement, source_digest, handler, budget_us,
                 memory_bytes, toolchain, abi_version, policy_version, idempotent, isolation, access)
         SELECT p.tenant, 'f' || i, n, md5(i || '@' || n)::uuid, coalesce(f.artifact, p.artifact),
                coalesce(f.statement, p.statement), p.source_digest,
                p.handler, p.budget_us, p.memory_bytes, p.toolchain, p.abi_version, p.policy_version, p.idempotent,
                p.isolation, p.access
         FROM (SELECT * FROM versions WHERE function = 'probe' ORDER BY version LIMIT 1) p
             CROSS JOIN generate_series(0, $1 - 1) i CROSS JOIN generate_series(1, $2) n
             LEFT JOIN filled f ON f.name = 'f' || i AND f.version = n",
        &[&functions, &versions],
    )
    .unwrap();
    tx.batch_execute(
        "INSERT INTO aliases (tenant, function, alias, version) SELECT tenant, name, 'live', last_version FROM functions f
             WHERE NOT EXISTS (SELECT 1 FROM aliases a WHERE a.tenant = f.tenant AND a.function = f.name);
         INSERT INTO changed_functions (tenant, name) SELECT tenant, name FROM functions;
         SELECT bump_desired_generation()",
    )
    .unwrap();
    tx.commit().unwrap();
    sql.batch_execute("SET statement_timeout = 0; ANALYZE").unwrap();
}

/// The statements of the newest versions, as rows of `filled`.
fn write_statements(
    rows: &mut impl Write,
    options: &Options,
    model: &Admission,
    images: &Images,
    key: &PrivateKey,
) {
    for number in 0..options.functions {
        let image = if options.distinct { images.another(number) } else { model.artifact };
        for version in options.versions - options.recent() + 1..=options.versions {
            let mut admission = model.clone();
            admission.function = FunctionName::parse(&format!("f{number}")).unwrap();
            admission.version = VersionNumber::new(version).unwrap();
            admission.artifact = image;
            let envelope = String::from_utf8(sign(&Statement::new(admission), &[key]).unwrap()).unwrap();
            let digest = Digest::of(envelope.as_bytes());
            let envelope = envelope.replace('\\', "\\\\");
            writeln!(rows, "f{number}\t{version}\t{image}\t{digest}\t{envelope}").unwrap();
        }
    }
}

/// Waits for the set that says all of it, and for the node to load it.
fn settle(stack: &Stack, options: &Options) {
    let begin = Instant::now();
    println!("the first set of them was signed after {:.1} s", signed(stack, begin));
    if options.with_node {
        let loaded = loaded(stack, options, begin);
        println!("the node had loaded it after {loaded:.1} s");
    } else {
        stack.signal(Program::Node, Signal::STOP);
    }
}

/// Waits until a set says everything; how long that took.
fn signed(stack: &Stack, begin: Instant) -> f64 {
    let mut sql = stack.sql();
    let pending = "SELECT count(*) FROM changed_functions";
    wait_for("a set that says everything", WAIT_MAX, || {
        (sql.query_one(pending, &[]).unwrap().get::<_, i64>(0) == 0).then(|| seconds(begin))
    })
}

/// Waits until the node reports every version; how long that took.
fn loaded(stack: &Stack, options: &Options, begin: Instant) -> f64 {
    let wanted = i64::from(options.functions * options.recent());
    let mut sql = stack.sql();
    let report =
        "SELECT coalesce((body ->> 'versions')::bigint, 0), epoch >= (SELECT max(epoch) FROM serving_sets)
                  FROM node_reports";
    let mut said = 0;
    wait_for("the node to load it", WAIT_MAX, || {
        let row = sql.query_one(report, &[]).unwrap();
        let (versions, is_whole): (i64, bool) = (row.get(0), row.get(1));
        if versions >= said + wanted / 5 {
            said = versions;
            println!("  {:.1} s: the node reports {versions} versions", seconds(begin));
        }
        (is_whole && versions >= wanted).then(|| seconds(begin))
    })
}

/// Images that differ from a deployed one in nothing but their answer.
struct Images {
    directory: PathBuf,
    bytes: Vec<u8>,
    /// Where the answer lies.
    at: usize,
}

impl Images {
    fn of(stack: &Stack, artifact: Digest, name: &str) -> Self {
        let directory = stack.home().join("blobs/sha256");
        let bytes = std::fs::read(directory.join(&name[..2]).join(name)).unwrap();
        assert_eq!(Digest::of(&bytes), artifact, "what is stored is what was signed");
        let is_answer = |window: &[u8]| window.iter().all(u8::is_ascii_hexdigit);
        let at = bytes.windows(ANSWER_BYTES).position(is_answer).expect("the answer lies in the image");
        Self { directory, bytes, at }
    }

    /// Stores another one, as the signer does.
    fn another(&self, number: u32) -> Digest {
        let mut bytes = self.bytes.clone();
        bytes[self.at..][..ANSWER_BYTES].copy_from_slice(format!("{number:0>ANSWER_BYTES$}").as_bytes());
        let digest = Digest::of(&bytes);
        let name = digest.to_string();
        let directory = self.directory.join(&name[..2]);
        if !directory.is_dir() {
            // The store's programs go on writing there.
            std::fs::create_dir(&directory).unwrap();
            let metadata = std::fs::metadata(&self.directory).unwrap();
            std::os::unix::fs::chown(&directory, Some(metadata.uid()), Some(metadata.gid())).unwrap();
            std::fs::set_permissions(&directory, metadata.permissions()).unwrap();
        }
        std::fs::write(directory.join(name), bytes).unwrap();
        digest
    }
}

/// A node that has forgotten everything but who it is, and is called from the start.
fn join(stack: &Stack, options: &Options, tenant: &str) {
    std::fs::remove_dir_all(stack.home().join("node/state/blobs")).unwrap();
    stack
        .sql()
        .batch_execute("UPDATE node_reports SET body = jsonb_set(body, '{versions}', '0'), epoch = 0")
        .unwrap();
    stack.kill(Program::Node);
    let begin = started(stack.pid(Program::Node));
    std::thread::scope(|scope| {
        for number in [options.functions - 1, options.functions / 2] {
            scope.spawn(move || {
                let url = format!("{}/f/{tenant}/f{number}", stack.ingress());
                wait_for("its first call", WAIT_MAX, || {
                    let answer = stack.try_request("POST", &url, &[], Vec::new());
                    answer.is_ok_and(|answer| answer.status == 200).then_some(())
                });
                println!("a node without a cache answers a call of f{number} after {:.2} s", seconds(begin));
            });
        }
        let took = loaded(stack, options, begin);
        println!("it serves all of it after {took:.1} s");
    });
}

/// When a process was started.
fn started(process: Pid) -> Instant {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero())).unwrap();
    let ticks: f64 = stat.rsplit_once(") ").unwrap().1.split(' ').nth(19).unwrap().parse().unwrap();
    let uptime = std::fs::read_to_string("/proc/uptime").unwrap();
    let uptime: f64 = uptime.split(' ').next().unwrap().parse().unwrap();
    Instant::now() - Duration::from_secs_f64(uptime - ticks / 100.0)
}

/// Other people's business.
fn audit_rows(stack: &Stack, over: &AtomicBool) {
    let mut sql = stack.sql();
    let begin = Instant::now();
    for row in 0.. {
        if over.load(Ordering::Relaxed) {
            return;
        }
        sql.batch_execute("SELECT append_audit('million', 'million.row', '', 'x', '{}')").unwrap();
        let next = begin + Duration::from_secs(1) / AUDIT_ROWS_PER_S * row;
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
}
