#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::sync::Arc;
use std::time::Duration;

use mfaas_abi::Status;
use mfaas_delivery::{Kill, RUN_EDGES_NS, USAGE_ROWS_MAX};
use mfaas_dispatch::{FunctionId, Outcome};
use mfaas_ring::Completion;
use uuid::Uuid;

use super::histogram::EDGE_LABELS;
use super::{FUNCTIONS_SHOWN_MAX, Usage, cost};
use crate::agent::testing::key;
use crate::serving::{Answered, Served, Used};

const BOOT: Uuid = Uuid::nil();

fn served(name: &str, version: u32, id: u32) -> Arc<Served> {
    Arc::new(Served::for_test(FunctionId(id), key(name, version), mfaas_ident::Access::Public))
}

/// A call of 2 ms by this process's clock, of which the worker says 1 ms on the core and 1.5 ms altogether.
fn answered(served: &Arc<Served>, outcome: Outcome, status: Option<Status>) -> Answered {
    let completion = status.map(|status| Completion {
        call_id: 1,
        status,
        cold: false,
        waits: false,
        response: Vec::new(),
        logs: Vec::new(),
        message: Vec::new(),
        inline: Vec::new(),
        wall_ns: 1_500_000,
        cpu_ns: 1_000_000,
        memory_bytes: 4_096,
        refusal: 0,
    });
    let (queued, ran) = (Duration::from_micros(20), Duration::from_millis(2));
    Answered { outcome, completion, served: Arc::clone(served), queued, ran, used: Used::default() }
}

fn finished(served: &Arc<Served>) -> Answered {
    answered(served, Outcome::Finished, Some(Status::Ok))
}

#[test]
fn every_end_of_a_call_is_counted_by_its_reason() {
    let hello = served("hello", 1, 0);
    let usage = Usage::default();
    Status::ALL
        .into_iter()
        .for_each(|status| usage.record(&answered(&hello, Outcome::Finished, Some(status))));
    for outcome in
        [Outcome::Lost, Outcome::Overdue, Outcome::WaitedTooLong, Outcome::Withdrawn, Outcome::Banned]
    {
        usage.record(&answered(&hello, outcome, None));
    }
    let report = usage.report(BOOT).unwrap();
    assert_eq!(report.check(), Ok(()));
    let row = &report.rows[0];
    assert_eq!(row.calls, 12, "what waited and never ran is no call");
    assert_eq!(row.kills, Kill::ALL.map(|kill| (kill, 1)).into());
    // Ten that the worker reported, and two that went with it: their budget is 1 ms.
    assert_eq!((row.cpu_ns, row.run_ns), (12_000_000, 10 * 1_500_000 + 2 * 2_000_000));
    assert_eq!((row.queue_ns, row.run_ns_max, row.memory_bytes_max), (12 * 20_000, 2_000_000, 4_096));
}

/// Only a server that has taken a report of load is told run times: the one of the release before knows no such field.
#[test]
fn run_times_are_told_by_bucket_to_a_server_that_knows_them() {
    let hello = served("hello", 1, 0);
    let usage = Usage::default();
    usage.record(&finished(&hello));
    usage.record(&answered(&hello, Outcome::Overdue, None));
    assert!(usage.report(BOOT).unwrap().rows[0].runs.is_empty());
    usage.takes_runs.store(true, std::sync::atomic::Ordering::Relaxed);
    let report = usage.report(BOOT).unwrap();
    assert_eq!(report.check(), Ok(()));
    // 1.5 ms and 2 ms are above 1 ms and at most 2 ms.
    assert_eq!(report.rows[0].runs, [vec![0; 10], vec![2]].concat());
    assert_eq!(usage.cpu_ns(), 1_000_000 + 1_000_000);
}

#[test]
fn a_worker_that_lies_claims_no_more_than_was_seen() {
    let hello = served("hello", 1, 0);
    let mut lie = finished(&hello);
    let completion = lie.completion.as_mut().unwrap();
    (completion.wall_ns, completion.cpu_ns, completion.memory_bytes) = (u64::MAX, u64::MAX, u64::MAX);
    let cost = cost(&lie).unwrap();
    assert_eq!((cost.run_ns, cost.cpu_ns), (2_000_000, 2_000_000));
    assert_eq!(cost.memory_bytes, hello.key.memory.as_bytes());
}

#[test]
fn totals_are_reported_until_they_are_taken_and_high_waters_once() {
    let hello = served("hello", 1, 0);
    let usage = Usage::default();
    assert!(usage.report(BOOT).is_none());
    usage.record(&finished(&hello));
    let first = usage.report(BOOT).unwrap();
    let again = usage.report(BOOT).unwrap();
    assert_eq!((first.sequence, again.sequence), (1, 2), "another try is another report");
    assert_eq!(first.rows, again.rows);
    usage.record(&answered(&hello, Outcome::Overdue, None));
    let more = usage.report(BOOT).unwrap();
    assert_eq!((more.rows.len(), more.rows[0].calls, more.rows[0].run_ns_max), (1, 2, 2_000_000));
    usage.taken();
    assert!(usage.report(BOOT).is_none(), "there is nothing new");
    usage.record(&finished(&hello));
    let next = usage.report(BOOT).unwrap();
    assert_eq!(
        (next.rows[0].calls, next.rows[0].run_ns_max),
        (3, 1_500_000),
        "the longest belonged to before"
    );
}

#[test]
fn a_call_between_a_report_and_its_answer_is_in_the_next_report() {
    let hello = served("hello", 1, 0);
    let usage = Usage::default();
    usage.record(&finished(&hello));
    usage.report(BOOT).unwrap();
    usage.record(&finished(&hello));
    usage.taken();
    assert_eq!(usage.report(BOOT).unwrap().rows[0].calls, 2);
}

#[test]
fn a_number_of_the_scheduler_that_means_another_version_is_counted_apart() {
    let usage = Usage::default();
    usage.record(&finished(&served("hello", 1, 7)));
    usage.record(&finished(&served("other", 1, 7)));
    // The same version under a new route, and under another number.
    usage.record(&finished(&served("hello", 1, 7)));
    usage.record(&finished(&served("hello", 1, 9)));
    let rows = usage.report(BOOT).unwrap().rows;
    let calls: Vec<_> = rows.iter().map(|row| (row.function.as_str(), row.calls)).collect();
    assert_eq!(calls, [("hello", 3), ("other", 1)]);
}

#[test]
fn many_versions_take_several_reports_and_none_is_forgotten() {
    let usage = Usage::default();
    let versions = u32::try_from(USAGE_ROWS_MAX).unwrap() + 1;
    (1..=versions).for_each(|n| usage.record(&finished(&served("hello", n, n))));
    let first = usage.report(BOOT).unwrap();
    assert_eq!((first.rows.len(), first.check()), (USAGE_ROWS_MAX, Ok(())));
    usage.taken();
    assert_eq!(usage.report(BOOT).unwrap().rows.len(), 1);
}

#[test]
fn buckets_begin_at_a_microsecond_and_grow() {
    assert!(RUN_EDGES_NS.is_sorted() && RUN_EDGES_NS[0] == 1_000);
    for (edge_ns, label) in RUN_EDGES_NS.into_iter().zip(EDGE_LABELS) {
        assert_eq!(edge_ns as f64 / 1e9, label.parse::<f64>().unwrap(), "{label}");
    }
}

#[test]
fn the_scrape_shows_each_function_and_does_not_grow_without_an_end() {
    let usage = Usage::default();
    let hello = served("hello", 1, 0);
    usage.record(&finished(&hello));
    usage.record(&answered(&hello, Outcome::Finished, Some(Status::Panicked)));
    let text = usage.render();
    for line in [
        "mfaas_function_run_seconds_bucket{tenant=\"acme\",function=\"hello\",le=\"0.001\"} 0",
        "mfaas_function_run_seconds_bucket{tenant=\"acme\",function=\"hello\",le=\"0.002\"} 2",
        "mfaas_function_run_seconds_bucket{tenant=\"acme\",function=\"hello\",le=\"+Inf\"} 2",
        "mfaas_function_run_seconds_sum{tenant=\"acme\",function=\"hello\"} 0.003",
        "mfaas_function_queue_seconds_bucket{tenant=\"acme\",function=\"hello\",le=\"0.00002\"} 2",
        "mfaas_function_cpu_seconds_total{tenant=\"acme\",function=\"hello\"} 0.002",
        "mfaas_function_kills_total{tenant=\"acme\",function=\"hello\",reason=\"panicked\"} 1",
        "mfaas_function_memory_bytes_max{tenant=\"acme\",function=\"hello\"} 4096",
    ] {
        assert!(text.lines().any(|shown| shown == line), "{line}: {text}");
    }
    for n in 0..FUNCTIONS_SHOWN_MAX + 50 {
        usage.record(&finished(&served(&format!("f-{n}"), 1, u32::try_from(n).unwrap() + 1)));
    }
    let text = usage.render();
    let series = |name: &str| text.lines().filter(|line| line.starts_with(name)).count();
    assert_eq!(series("mfaas_function_run_seconds_count{"), FUNCTIONS_SHOWN_MAX + 1);
    let others = "mfaas_function_run_seconds_count{tenant=\"\",function=\"other\"} 51";
    assert!(text.lines().any(|line| line == others), "the first function is shown, 51 are too many");
}
