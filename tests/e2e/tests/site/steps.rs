//! kill -9 in each step of the pipeline of a dependency: the program inside of a transaction dies, and nothing is lost,
//! repeated or decided twice.
//!
//! A lock on the table that a step writes holds its program inside of the transaction until it is killed; the step
//! before it is done then, and this one is not.

use std::time::Duration;

use mfaas_harness::{Package, Program, Stack, package, wait_for};
use rustix::process::Signal;
use serde_json::Value;

/// Time for a step: a resolution, downloads, or a build of everything that the site offers.
const STEP_WITHIN: Duration = Duration::from_secs(600);

/// Takes two people.
const DEPENDENCIES: &str = "[dependencies]\npercent-encoding = \"=2.3.1\"\n";
const SOURCE: &str = "use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
pub fn handle(request: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(request);
    utf8_percent_encode(&text, NON_ALPHANUMERIC).to_string().into_bytes()
}
";

/// A table that nobody but readers gets at while the value lives.
struct Held {
    client: postgres::Client,
    table: &'static str,
}

impl Held {
    fn new(stack: &Stack, table: &'static str) -> Self {
        let mut client = stack.sql();
        client.batch_execute(&format!("BEGIN; LOCK TABLE {table} IN EXCLUSIVE MODE")).unwrap();
        Self { client, table }
    }

    /// Waits until a program wants to write to it.
    fn wait_for(&self, stack: &Stack, program: Program) {
        let mut watcher = stack.sql();
        wait_for(&format!("{program:?} to write to {}", self.table), STEP_WITHIN, || {
            let query = "SELECT count(*) FROM pg_stat_activity a JOIN pg_locks l ON l.pid = a.pid
                         WHERE a.usename = $1 AND NOT l.granted AND l.relation = $2::text::regclass";
            let count: i64 = watcher.query_one(query, &[&role(program), &self.table]).unwrap().get(0);
            (count > 0).then_some(())
        });
    }

    fn release(mut self) {
        self.client.batch_execute("ROLLBACK").unwrap();
    }
}

fn role(program: Program) -> &'static str {
    match program {
        Program::Server => "mfaas_server",
        Program::Builder => "mfaas_builder",
        Program::Acquirer => "mfaas_acquirer",
        Program::Signer => "mfaas_signer",
        Program::Node | Program::Broker => "no role",
    }
}

/// Kills the program in its step; `next` is held before, so that it does not get past that.
fn dies_in(stack: &Stack, held: Held, program: Program, next: Option<&'static str>) -> Option<Held> {
    held.wait_for(stack, program);
    let next = next.map(|table| Held::new(stack, table));
    let old = stack.signal(program, Signal::KILL);
    held.release();
    stack.wait_for_successor(program, old);
    next
}

/// A command that is answered by a server that dies in the middle.
fn dies_while_asked(stack: &Stack, table: &'static str, token: &str, arguments: &[&str]) {
    let held = Held::new(stack, table);
    let run = std::thread::scope(|scope| {
        let asked = scope.spawn(|| stack.review(token, arguments));
        let _ = dies_in(stack, held, Program::Server, None);
        asked.join().unwrap()
    });
    assert_ne!(run.code, 0, "nobody is told that it was done: {}", run.stdout);
}

fn count(stack: &Stack, query: &str) -> i64 {
    stack.sql().query_one(query, &[]).unwrap().get(0)
}

#[test]
fn a_program_that_dies_in_a_step_loses_nothing() {
    let stack = &Stack::start_with_few_crates(&["--default-access", "public"]);
    let (alice, bob) = (stack.reviewer("alice"), stack.reviewer("bob"));

    // The builder finds that a crate is missing, and dies while it says so.
    let held = Held::new(stack, "crate_requests");
    let package: Package = package("percent", SOURCE, DEPENDENCIES);
    let deploy = ["deploy", "--json", "--no-wait", package.path().to_str().unwrap()];
    let id = stack.cli(deploy).ok().json()["id"].as_str().unwrap().to_owned();
    let held = dies_in(stack, held, Program::Builder, Some("crate_reports"));

    // The acquirer dies with the facts, with the reviews to open, and with the comparison.
    let held = dies_in(stack, held.unwrap(), Program::Acquirer, Some("request_members"));
    let held = dies_in(stack, held.unwrap(), Program::Acquirer, Some("review_deltas"));
    let _ = dies_in(stack, held.unwrap(), Program::Acquirer, None);
    let review = wait_for("the review", STEP_WITHIN, || {
        let queue = stack.review(&alice, &["list"]).ok().json();
        queue["items"].as_array().unwrap().first().cloned()
    });
    let number = review["id"].to_string();
    assert_eq!(count(stack, "SELECT count(*) FROM crate_requests"), 1, "asked once");
    assert_eq!(count(stack, "SELECT count(*) FROM reviews"), 1);

    // The server dies with a mark, with the first vote, and with the decision.
    let mark = ["mark", &number, "src/lib.rs:1:1:unsafe", "seen", "--note", "looked at it"];
    dies_while_asked(stack, "spot_notes", &alice, &mark);
    let yes = ["approve", number.as_str(), "--note", "UTF-8 that it wrote itself"];
    dies_while_asked(stack, "votes", &alice, &yes);
    assert_eq!(count(stack, "SELECT count(*) FROM votes"), 0);
    assert_eq!(stack.review(&alice, &yes).ok().json()["state"], "open", "she can say it again");
    dies_while_asked(stack, "crates", &bob, &yes);
    assert_eq!(count(stack, "SELECT count(*) FROM votes"), 1, "half a decision is none");
    let held = Held::new(stack, "dependency_caches");
    assert_eq!(stack.review(&bob, &yes).ok().json()["state"], "approved");

    // The acquirer dies with the cache that it has built; the deployment waits, and goes on with its successor.
    let held = dies_in(stack, held, Program::Acquirer, Some("builds"));
    assert_eq!(stack.deployment(&id)["state"], "waiting");
    let _ = dies_in(stack, held.unwrap(), Program::Acquirer, None);
    wait_for("the deployment to go on", STEP_WITHIN, || {
        (stack.deployment(&id)["state"] != "waiting").then_some(())
    });
    let view = stack.settled(&id);
    assert_eq!(view["state"], "admitted", "{view}\n{}", stack.log(Program::Acquirer));
    assert_eq!(count(stack, "SELECT count(*) FROM versions"), 1);
    assert_eq!(count(stack, "SELECT count(*) FROM crate_requests WHERE status <> 'ready'"), 0);
    assert_eq!(count(stack, "SELECT count(*) FROM dependency_caches"), 1, "built for good once");
    let answer = wait_for("the node", Duration::from_secs(60), || {
        let run = stack.invoke("percent", "a b");
        (run.code == 0).then_some(run.stdout)
    });
    assert_eq!(answer, "a%20b");
    let votes: Vec<Value> =
        stack.review(&alice, &["show", &number]).ok().json()["review"]["votes"].as_array().unwrap().clone();
    assert_eq!(votes.len(), 2, "{votes:?}");
    let _ = stack.cli(["audit", "--verify"]).ok();
    stack.invariants();
}
