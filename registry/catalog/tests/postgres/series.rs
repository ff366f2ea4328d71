//! Charts: each step holds the sum of what was told in it, whoever told it; tenants and functions apart; and nothing goes that
//! is shown.

use std::collections::BTreeMap;

use chrono::{TimeDelta, Utc};
use mfaas_catalog::{BUILD_EDGES_MS, CallSeries, Charged, NodeStep, Range, Retention, Step, TenantStep};
use mfaas_delivery::{LoadReport, NODE_PROTOCOL, RUN_BUCKETS, UsageReport, UsageRow};
use mfaas_ident::{NodeName, TenantName, VersionNumber};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, TestRunner};
use sqlx::AssertSqlSafe;
use uuid::Uuid;

use crate::fixture::{World, claim, function, tenant};
use crate::usage::joined;

/// The last hour, day and month.
fn ranges() -> [Range; 3] {
    let now = Utc::now() + TimeDelta::seconds(1);
    [TimeDelta::minutes(90), TimeDelta::hours(30), TimeDelta::days(30)]
        .map(|ago| Range::of(now - ago, now, now).unwrap())
}

/// One report of the model: what is new of each version since the report before.
type Told = Vec<(usize, u64, Vec<u64>)>;

/// Totals of one node.
#[derive(Default)]
struct Node {
    sequence: u64,
    totals: BTreeMap<usize, (u64, [u64; RUN_BUCKETS])>,
}

/// `n` calls that took 1 ns on the core each, `runs` of them by bucket.
fn row(version: VersionNumber, calls: u64, runs: Vec<u64>) -> UsageRow {
    UsageRow {
        tenant: tenant(),
        function: function("hello"),
        version,
        calls,
        cpu_ns: calls,
        run_ns: calls * 2,
        queue_ns: 0,
        run_ns_max: 0,
        memory_bytes_max: calls,
        kills: BTreeMap::new(),
        runs,
    }
}

impl Node {
    /// The report that tells this, with totals.
    fn report(&mut self, boot: Uuid, versions: &[VersionNumber], told: &Told) -> UsageReport {
        self.sequence += 1;
        for (version, calls, runs) in told {
            let total = self.totals.entry(*version).or_default();
            total.0 += calls;
            total.1.iter_mut().zip(runs).for_each(|(total, runs)| *total += runs);
        }
        let totals = self.totals.iter();
        let rows = totals.map(|(at, (calls, runs))| row(versions[*at], *calls, runs.to_vec())).collect();
        UsageReport { protocol: NODE_PROTOCOL, boot, sequence: self.sequence, rows }
    }
}

/// Reports of up to three nodes about up to two versions: calls by bucket.
fn reports() -> impl Strategy<Value = Vec<(usize, Told)>> {
    let runs = proptest::collection::vec(0_u64..5, 0..RUN_BUCKETS);
    let told = (0_usize..2, runs).prop_map(|(version, runs)| (version, runs.iter().sum::<u64>(), runs));
    proptest::collection::vec((0_usize..3, proptest::collection::vec(told, 1..3)), 1..12)
}

/// Added up over all steps: calls, CPU time, run times by bucket, calls of each version.
fn whole(series: &CallSeries) -> (u64, u64, Vec<u64>, BTreeMap<VersionNumber, u64>) {
    let mut runs = vec![0; RUN_BUCKETS];
    for step in series.steps.values() {
        runs.iter_mut().zip(&step.runs).for_each(|(all, runs)| *all += runs);
    }
    let versions = series.versions.iter().map(|(version, steps)| (*version, steps.values().sum())).collect();
    let steps = series.steps.values();
    (steps.clone().map(|step| step.calls).sum(), steps.map(|step| step.cpu_ns).sum(), runs, versions)
}

/// Against a model that only adds.
#[tokio::test]
async fn every_step_length_holds_the_sum_of_what_nodes_told() {
    let mut runner = TestRunner::new_with_rng(
        Config::default(),
        proptest::test_runner::TestRng::deterministic_rng(proptest::test_runner::RngAlgorithm::ChaCha),
    );
    for _ in 0..6 {
        let told = reports().new_tree(&mut runner).unwrap().current();
        let world = World::new().await;
        let versions = [world.admitted("hello", "key-1").await, world.admitted("hello", "key-2").await];
        let names =
            [joined(&world, "node-a").await, joined(&world, "node-b").await, joined(&world, "node-c").await];
        let (boot, mut nodes) = (Uuid::now_v7(), [Node::default(), Node::default(), Node::default()]);
        let (mut runs, mut by_version) = (vec![0; RUN_BUCKETS], BTreeMap::<VersionNumber, u64>::new());
        for (node, told) in &told {
            let report = nodes[*node].report(boot, &versions, told);
            assert_eq!(world.server.record_usage(&names[*node], &report).await.unwrap(), Charged::Now);
            assert_eq!(world.server.record_usage(&names[*node], &report).await.unwrap(), Charged::Before);
            for (version, calls, told) in told {
                runs.iter_mut().zip(told).for_each(|(all, told)| *all += told);
                *by_version.entry(versions[*version]).or_default() += calls;
            }
        }
        by_version.retain(|_, calls| *calls > 0);
        let calls: u64 = by_version.values().sum();
        for range in ranges() {
            let series = world.server.call_series(&tenant(), &function("hello"), None, &range).await.unwrap();
            let step = range.step();
            assert_eq!(whole(&series), (calls, calls, runs.clone(), by_version.clone()), "{step:?}");
            assert!(
                series.steps.keys().all(|at| at.timestamp() % i64::from(step.seconds()) == 0),
                "{step:?}"
            );
            let tenants = world.server.tenant_series(None, &range).await.unwrap();
            let sum: u64 = tenants.steps.values().map(|step| step.calls).sum();
            assert_eq!(
                (sum, tenants.steps.values().map(|step| step.calls_left_out).sum::<u64>()),
                (calls, 0)
            );
            assert_eq!(
                tenants.tenants.get(&tenant()).map(|steps| *steps == tenants.steps),
                (calls > 0).then_some(true)
            );
            for version in versions {
                let one = world
                    .server
                    .call_series(&tenant(), &function("hello"), Some(version), &range)
                    .await
                    .unwrap();
                assert_eq!(
                    whole(&one).0,
                    by_version.get(&version).copied().unwrap_or(0),
                    "{step:?} {version}"
                );
            }
        }
    }
}

/// A node tells nothing of run times to a server of the release before: what it tells the first time is everything since its
/// start, and belongs to no step.
#[tokio::test]
async fn run_times_count_from_the_first_that_were_told() {
    let world = World::new().await;
    let version = world.admitted("hello", "key-1").await;
    let node = joined(&world, "node-a").await;
    let boot = Uuid::now_v7();
    for (sequence, calls, runs) in [(1, 10, vec![]), (2, 12, vec![12]), (3, 15, vec![12, 3]), (4, 16, vec![])]
    {
        let report =
            UsageReport { protocol: NODE_PROTOCOL, boot, sequence, rows: vec![row(version, calls, runs)] };
        assert_eq!(world.server.record_usage(&node, &report).await.unwrap(), Charged::Now);
    }
    for range in ranges() {
        let series = world.server.call_series(&tenant(), &function("hello"), None, &range).await.unwrap();
        let (calls, _, runs, _) = whole(&series);
        assert_eq!((calls, runs[0], runs[1], runs.iter().sum::<u64>()), (16, 0, 3, 3));
    }
    // A node that tells more run times than calls is charged for the calls.
    let report =
        UsageReport { protocol: NODE_PROTOCOL, boot, sequence: 5, rows: vec![row(version, 20, vec![20])] };
    world.server.record_usage(&node, &report).await.unwrap();
    let lie =
        UsageReport { protocol: NODE_PROTOCOL, boot, sequence: 6, rows: vec![row(version, 40, vec![0, 40])] };
    world.server.record_usage(&node, &lie).await.unwrap();
    let series = world.server.call_series(&tenant(), &function("hello"), None, &ranges()[1]).await.unwrap();
    assert_eq!((whole(&series).0, whole(&series).2.iter().sum::<u64>()), (40, 3));
}

#[tokio::test]
async fn a_tenant_has_rows_of_its_own_and_those_with_most_cpu_time_are_named() {
    let world = World::new().await;
    let sql = "INSERT INTO series_tenants
        SELECT step_s, date_bin(make_interval(secs => step_s), now(), 'epoch'), 't' || i, i, i * 10, i * 100, 0
        FROM generate_series(1, 9) i, unnest(ARRAY[60, 900, 21600]) step_s";
    world.damage(sql).await;
    for range in ranges() {
        let all = world.server.tenant_series(None, &range).await.unwrap();
        let step = TenantStep { calls: 45, cpu_ns: 450, memory_bytes_max: 900, calls_left_out: 0 };
        assert_eq!(all.steps.values().copied().collect::<Vec<_>>(), [step]);
        let named: Vec<&str> = all.tenants.keys().map(TenantName::as_str).collect();
        assert_eq!(named, ["t5", "t6", "t7", "t8", "t9"]);
        let one = TenantName::parse("t3").unwrap();
        let own = world.server.tenant_series(Some(&one), &range).await.unwrap();
        assert_eq!(own.steps.values().map(|step| step.calls).collect::<Vec<_>>(), [3]);
        assert_eq!(own.tenants.into_keys().collect::<Vec<_>>(), [one]);
    }
    let stranger = TenantName::parse("stranger").unwrap();
    assert!(world.server.tenant_series(Some(&stranger), &ranges()[0]).await.unwrap().steps.is_empty());
}

fn load(cpu_ns: u64, running: u64) -> LoadReport {
    LoadReport {
        protocol: NODE_PROTOCOL,
        interval_ms: 10_000,
        cpu_ns,
        cores: 2,
        running,
        waiting: 0,
        processes: 3,
        pools: 2,
        pools_busy: 1,
        resident: 7,
        resident_bytes: 7_000,
    }
}

#[tokio::test]
async fn load_is_added_up_and_of_the_rest_the_most_is_kept() {
    let world = World::new().await;
    let (a, b) = (joined(&world, "node-a").await, joined(&world, "node-b").await);
    for (node, told) in [(&a, load(1_000, 5)), (&a, load(2_000, 1)), (&b, load(7, 0))] {
        world.server.record_load(node, &told).await.unwrap();
    }
    let stranger = NodeName::parse("stranger").unwrap();
    assert!(world.server.record_load(&stranger, &load(1, 1)).await.is_err());
    // A step may end between two reports.
    let range = &ranges()[2];
    let (nodes, is_cut) = world.server.node_series(range).await.unwrap();
    assert_eq!((nodes.keys().collect::<Vec<_>>(), is_cut), (vec![&a, &b], false));
    let steps: Vec<&NodeStep> = nodes[&a].values().collect();
    let sum = |of: fn(&NodeStep) -> u64| steps.iter().map(|step| of(step)).sum::<u64>();
    assert_eq!((sum(|step| step.cpu_ns), sum(|step| step.interval_ms)), (3_000, 20_000));
    assert_eq!(steps.iter().map(|step| step.running_max).max(), Some(5));
    assert_eq!((steps[0].cores, steps[0].pools_max, steps[0].resident_bytes_max), (2, 2, 7_000));
    let heard = world.server.steps_heard(range).await.unwrap();
    assert_eq!(heard, nodes[&a].keys().copied().collect::<Vec<_>>());
}

/// The database counts, by edges of its own: they are those that charts are labelled with.
#[tokio::test]
async fn builds_are_counted_when_they_end_by_the_edges_of_the_charts() {
    let world = World::new().await;
    for (number, edge_ms) in BUILD_EDGES_MS.into_iter().enumerate() {
        let key = format!("key-{number}");
        let deployment = world.upload("hello", &key, key.as_bytes()).await;
        let ended = format!(
            "UPDATE builds SET queued_at = '2026-01-01Z', started_at = '2026-01-01Z'::timestamptz + interval '{edge_ms} ms',
                 finished_at = '2026-01-01Z'::timestamptz + interval '{edge_ms} ms' + interval '{} us'
             WHERE deployment_id = '{}'",
            edge_ms * 1_000 + 1,
            deployment.id
        );
        sqlx::raw_sql(AssertSqlSafe(ended)).execute(&world.sql).await.unwrap();
    }
    for range in ranges() {
        let steps = world.server.build_series(&range).await.unwrap();
        let mut all = (0, vec![0; BUILD_EDGES_MS.len() + 1], vec![0; BUILD_EDGES_MS.len() + 1]);
        for step in steps.values() {
            all.0 += step.builds;
            all.1.iter_mut().zip(&step.queue_counts).for_each(|(all, count)| *all += count);
            all.2.iter_mut().zip(&step.build_counts).for_each(|(all, count)| *all += count);
        }
        // An edge is in its own bucket, and a microsecond more in the next.
        let (edges, ones) = (BUILD_EDGES_MS.len() as u64, vec![1; BUILD_EDGES_MS.len()]);
        assert_eq!(
            all,
            (edges, [&ones[..], &[0]].concat(), [&[0], &ones[..]].concat()),
            "{:?}",
            range.step()
        );
    }
}

#[tokio::test]
async fn a_build_that_a_builder_ends_is_counted_and_one_that_was_queued_again_has_no_times() {
    let world = World::new().await;
    let first = world.upload("hello", "key-1", b"one").await;
    let claimed = world.claim("one").await;
    assert_eq!(claimed.lease.deployment(), first.id);
    world.builder.finish_built(&claimed.lease, &claim(b"one")).await.unwrap();
    let again = world.upload("hello", "key-2", b"two").await;
    let queued_again = format!(
        "UPDATE builds SET started_at = now() - interval '1 hour', queued_at = now(), finished_at = now()
         WHERE deployment_id = '{}'",
        again.id
    );
    sqlx::raw_sql(AssertSqlSafe(queued_again)).execute(&world.sql).await.unwrap();
    let steps = world.server.build_series(&ranges()[2]).await.unwrap();
    let sum = |of: fn(&mfaas_catalog::BuildStep) -> u64| steps.values().map(of).sum::<u64>();
    assert_eq!(sum(|step| step.builds), 2);
    assert_eq!(
        (sum(|step| step.queue_counts.iter().sum()), sum(|step| step.build_counts.iter().sum())),
        (1, 1)
    );
}

/// The server's role deletes what no chart shows, and nothing else; forgetting is that.
#[tokio::test]
async fn what_a_chart_shows_is_not_deleted_and_the_rest_is_forgotten() {
    let world = World::new().await;
    joined(&world, "node-a").await;
    // One row within what is shown, one beyond what is kept, of each step length.
    let ago = "FROM unnest(ARRAY[60, 900, 21600]) step_s, unnest(ARRAY[148, 162]) ago";
    let at = "step_s, date_bin(make_interval(secs => step_s), now(), 'epoch') - make_interval(secs => step_s * ago)";
    for (table, values) in [
        ("series_calls", "'acme', 'hello', 1, 1, 1, 1, '{1}'"),
        ("series_tenants", "'acme', 1, 1, 1, 0"),
        ("series_nodes", "'node-a', 1, 1, 1, 1, 1, 1, 1, 1, 1, 1"),
        ("series_builds", "1, '{}', '{}'"),
    ] {
        let fill = format!("INSERT INTO {table} SELECT {at}, {values} {ago}");
        sqlx::raw_sql(AssertSqlSafe(fill)).execute(&world.sql).await.unwrap();
        let server = world.raw("mfaas_server").await;
        let refused =
            sqlx::raw_sql(AssertSqlSafe(format!("DELETE FROM {table}"))).execute(&server).await.unwrap_err();
        assert!(refused.to_string().contains("may not delete this"), "{refused}");
    }
    assert_eq!(world.server.forget(&Retention::DEFAULT).await.unwrap(), 12);
    assert_eq!(world.server.forget(&Retention::DEFAULT).await.unwrap(), 0);
    assert_eq!(world.count("SELECT count(*) FROM series_calls").await, 3);
    assert_eq!(Step::ALL.len(), 3);
}
