//! Usage: charged once, never less than nothing, never more than a node can have done; and summed up as asked.

use std::collections::BTreeMap;

use chrono::{TimeDelta, Utc};
use mfaas_catalog::{CatalogError, Charged, Period, Retention, Usage, UsageQuery};
use mfaas_delivery::{Kill, NODE_PROTOCOL, UsageReport, UsageRow};
use mfaas_ident::{Digest, NodeName, VersionNumber};
use uuid::Uuid;

use crate::fixture::{World, actor, function, tenant};

/// A joined node of that name, which joined long enough ago to have done something.
pub(crate) async fn joined(world: &World, name: &str) -> NodeName {
    let node = NodeName::parse(name).unwrap();
    let secret = Digest::of(format!("join {name}").as_bytes());
    world
        .server
        .create_join_token(
            &actor(),
            &mfaas_catalog::NewJoinToken {
                secret_sha256: &secret,
                node: Some(&node),
                uses_max: 1,
                valid_for_seconds: 600,
            },
        )
        .await
        .unwrap();
    world.server.join_node(&node, &secret, &Digest::of(b"key"), &Digest::of(name.as_bytes())).await.unwrap();
    node
}

/// Totals after so many calls of 5 µs each on the core and 10 µs to the answer.
fn row(version: VersionNumber, calls: u64) -> UsageRow {
    UsageRow {
        tenant: tenant(),
        function: function("hello"),
        version,
        calls,
        cpu_ns: calls * 5_000,
        run_ns: calls * 10_000,
        queue_ns: calls * 1_000,
        run_ns_max: 10_000,
        memory_bytes_max: 4_096,
        kills: BTreeMap::new(),
        runs: Vec::new(),
    }
}

fn report(boot: Uuid, sequence: u64, rows: Vec<UsageRow>) -> UsageReport {
    UsageReport { protocol: NODE_PROTOCOL, boot, sequence, rows }
}

fn query(by: Period) -> UsageQuery<'static> {
    let (since, until) = (Utc::now() - TimeDelta::days(2), Utc::now() + TimeDelta::hours(1));
    UsageQuery { since, until, tenant: None, function: None, by, limit: 100 }
}

/// What the one version used altogether.
async fn total(world: &World) -> Usage {
    world.server.usage(&query(Period::Total)).await.unwrap().remove(0)
}

#[tokio::test]
async fn a_repeated_a_lost_and_an_overtaken_report_charge_once() {
    let world = World::new().await;
    let version = world.admitted("hello", "key-1").await;
    let node = joined(&world, "node-a").await;
    let boot = Uuid::now_v7();
    let tell = async |sequence, calls| {
        world.server.record_usage(&node, &report(boot, sequence, vec![row(version, calls)])).await.unwrap()
    };
    assert_eq!(tell(1, 10).await, Charged::Now);
    assert_eq!(tell(1, 10).await, Charged::Before, "the answer was lost, the node tells it again");
    // The second report never arrived: the third holds what it told.
    assert_eq!(tell(3, 25).await, Charged::Now);
    assert_eq!(tell(2, 20).await, Charged::Before, "the second comes late");
    let used = total(&world).await;
    assert_eq!((used.calls, used.cpu_ns, used.run_ns, used.queue_ns), (25, 125_000, 250_000, 25_000));
    assert_eq!((used.run_ns_max, used.memory_bytes_max), (10_000, 4_096));
}

#[tokio::test]
async fn nothing_falls_when_a_node_tells_less_or_starts_again() {
    let world = World::new().await;
    let version = world.admitted("hello", "key-1").await;
    let node = joined(&world, "node-a").await;
    let (boot, next) = (Uuid::now_v7(), Uuid::now_v7());
    let tell = async |boot, sequence, calls| {
        world.server.record_usage(&node, &report(boot, sequence, vec![row(version, calls)])).await.unwrap()
    };
    tell(boot, 1, 10).await;
    assert_eq!(tell(boot, 2, 4).await, Charged::Now, "a broken node counts backwards");
    assert_eq!(total(&world).await.calls, 10);
    assert_eq!(tell(boot, 3, 12).await, Charged::Now);
    assert_eq!(total(&world).await.calls, 12, "what was charged is not charged again after it fell");
    assert_eq!(tell(next, 1, 5).await, Charged::Now, "a new start counts from nothing");
    assert_eq!(total(&world).await.calls, 17);
    assert_eq!(tell(boot, 4, 900).await, Charged::Ended, "the start before is over");
    assert_eq!(total(&world).await.calls, 17);
}

#[tokio::test]
async fn a_taken_over_node_charges_nobody_for_the_impossible() {
    let world = World::new().await;
    let version = world.admitted("hello", "key-1").await;
    let node = joined(&world, "node-a").await;
    let boot = Uuid::now_v7();
    for impossible in [
        UsageRow { cpu_ns: 1 << 60, run_ns: 1 << 60, ..row(version, 1) },
        UsageRow { calls: 1 << 60, ..row(version, 1) },
        UsageRow { queue_ns: 1 << 61, ..row(version, 1) },
        UsageRow { run_ns_max: 1 << 60, ..row(version, 1) },
    ] {
        let told = report(boot, 1, vec![impossible]);
        assert_eq!(world.server.record_usage(&node, &told).await.unwrap(), Charged::Impossible, "{told:?}");
    }
    assert_eq!(world.server.usage(&query(Period::Total)).await.unwrap(), []);
    // The same sequence is still free: the node can tell the truth.
    let invented = UsageRow { function: function("invented"), ..row(version, 7) };
    let truth = report(boot, 1, vec![row(version, 3), invented]);
    assert_eq!(world.server.record_usage(&node, &truth).await.unwrap(), Charged::Now);
    assert_eq!(total(&world).await.calls, 3);
    assert_eq!(world.count("SELECT count(*) FROM usage_hours").await, 1, "nothing is charged to what is not");
    let stranger = NodeName::parse("stranger").unwrap();
    let unknown = world.server.record_usage(&stranger, &truth).await;
    assert!(matches!(unknown, Err(CatalogError::NotFound { what: "node" })));
}

#[tokio::test]
async fn kills_are_counted_by_reason_and_once() {
    let world = World::new().await;
    let version = world.admitted("hello", "key-1").await;
    let node = joined(&world, "node-a").await;
    let boot = Uuid::now_v7();
    for (sequence, kills) in
        [(1, [(Kill::Panicked, 2), (Kill::Lost, 1)]), (2, [(Kill::Panicked, 5), (Kill::Lost, 1)])]
    {
        let told = UsageRow { kills: kills.into(), ..row(version, 9) };
        assert_eq!(
            world.server.record_usage(&node, &report(boot, sequence, vec![told])).await.unwrap(),
            Charged::Now
        );
    }
    assert_eq!(total(&world).await.kills, BTreeMap::from([(Kill::Panicked, 5), (Kill::Lost, 1)]));
}

#[tokio::test]
async fn nodes_that_tell_at_the_same_time_lose_nothing() {
    let world = World::new().await;
    let versions = [world.admitted("hello", "key-1").await, world.admitted("hello", "key-2").await];
    let nodes =
        [joined(&world, "node-a").await, joined(&world, "node-b").await, joined(&world, "node-c").await];
    let tasks: Vec<_> = nodes
        .into_iter()
        .map(|node| {
            let (server, boot) = (world.server.clone(), Uuid::now_v7());
            tokio::spawn(async move {
                for round in 1..=20 {
                    let mut rows: Vec<_> = versions.iter().map(|version| row(*version, round * 3)).collect();
                    if round % 2 == 0 {
                        rows.reverse();
                    }
                    let told = report(boot, round, rows);
                    assert_eq!(server.record_usage(&node, &told).await.unwrap(), Charged::Now);
                    assert_eq!(server.record_usage(&node, &told).await.unwrap(), Charged::Before);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let used = world.server.usage(&query(Period::Total)).await.unwrap();
    let calls: Vec<_> = used.iter().map(|row| (row.version.get(), row.calls)).collect();
    assert_eq!(calls, [(1, 180), (2, 180)]);
}

#[tokio::test]
async fn usage_is_summed_up_by_hour_by_day_and_altogether() {
    let world = World::new().await;
    world.admitted("hello", "key-1").await;
    world.admitted("other", "key-2").await;
    world
        .damage(
            "INSERT INTO usage_hours (hour, tenant, function, version, calls, cpu_ns, run_ns, run_ns_max, queue_ns,
                                      memory_bytes_max)
             SELECT date_trunc('day', now() - interval '1 day', 'UTC') + make_interval(hours => h), 'acme', f, 1, 2,
                    10, 20, 10 + h, 5, 100 - h
             FROM unnest(ARRAY['hello', 'other']) AS f, generate_series(0, 2) AS h;",
        )
        .await;
    world
        .damage(
            "INSERT INTO usage_kills (hour, tenant, function, version, reason, kills)
             SELECT hour, tenant, function, version, 'fault', 1 FROM usage_hours WHERE function = 'hello'",
        )
        .await;
    let rows = async |by| world.server.usage(&query(by)).await.unwrap();
    let hours = rows(Period::Hour).await;
    assert_eq!(hours.len(), 6);
    assert!(hours[0].from > hours[5].from, "the newest comes first");
    assert_eq!((hours[0].calls, hours[0].kills.get(&Kill::Fault)), (2, Some(&1)));
    for by in [Period::Day, Period::Total] {
        let summed = rows(by).await;
        assert_eq!(summed.len(), 2, "{by:?}");
        let hello = &summed[0];
        assert_eq!((hello.calls, hello.run_ns_max, hello.memory_bytes_max), (6, 12, 100), "{by:?}");
        assert_eq!((hello.kills.get(&Kill::Fault), summed[1].kills.len()), (Some(&3), 0), "{by:?}");
    }
    let name = function("other");
    let one = UsageQuery { function: Some(&name), ..query(Period::Total) };
    assert_eq!(world.server.usage(&one).await.unwrap().len(), 1);
    let stranger = mfaas_ident::TenantName::parse("stranger").unwrap();
    let none = UsageQuery { tenant: Some(&stranger), ..query(Period::Total) };
    assert_eq!(world.server.usage(&none).await.unwrap(), []);
    world.damage("UPDATE usage_hours SET hour = hour - interval '500 days' WHERE function = 'other'").await;
    assert_eq!(world.server.forget(&Retention::DEFAULT).await.unwrap(), 3);
    assert_eq!(rows(Period::Hour).await.len(), 3);
}
