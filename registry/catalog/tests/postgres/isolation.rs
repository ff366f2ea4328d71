//! Performance isolation: what nodes said within the last hour, bounded however often they say it, and the settings of the site.

use mfaas_catalog::{CatalogError, ISOLATION_SAMPLES_MAX};
use mfaas_delivery::{IsolationReport, IsolationSettings, NODE_PROTOCOL, Report, SettingsRefused};
use mfaas_ident::NodeName;
use uuid::Uuid;

use crate::fixture::{World, actor};
use crate::usage::joined;

fn refused(revision: u64) -> IsolationReport {
    let refused = SettingsRefused { revision, code: "MF1103".to_owned(), message: "too many".to_owned() };
    IsolationReport { protocol: NODE_PROTOCOL, controller: None, refused: Some(refused) }
}

#[tokio::test]
async fn an_hour_of_a_machine_is_kept_and_no_more() {
    let world = World::new().await;
    let (node, other) = (joined(&world, "node-a").await, joined(&world, "node-b").await);
    let report: Report = serde_json::from_value(serde_json::json!({
        "protocol": NODE_PROTOCOL, "boot": Uuid::nil(), "sequence": 1, "epoch": 0, "set": "none", "ingress_url": "", "workers": 0,
        "cage_level": "", "refused": [], "problems": [],
    }))
    .unwrap();
    world.server.record_report(&node, &report, None).await.unwrap();
    for revision in 0..20 {
        world.server.record_isolation(&node, &refused(revision)).await.unwrap();
    }
    // Ten seconds are one row, whatever was said in them.
    let samples = world.server.isolation_samples(&node).await.unwrap();
    assert!((1..=3).contains(&samples.len()), "{samples:?}");
    assert_eq!(samples.last().unwrap().1, refused(19));
    assert_eq!(world.server.isolation_samples(&other).await.unwrap(), []);
    let nodes = world.server.nodes().await.unwrap();
    let last = |at: usize| nodes[at].row.isolation.as_ref().map(|(_, report)| report.clone());
    assert_eq!((last(0), last(1)), (Some(refused(19)), None));

    // A whole hour: every slot is taken, and the next report takes the place of the oldest.
    world
        .damage(
            "INSERT INTO isolation_samples (node, slot, at, body)
             SELECT 'node-b', (extract(epoch FROM now())::bigint / 10 + n)::bigint % 360, now() - make_interval(secs => 3595 - 10 * n), '{\"protocol\": 3}'
             FROM generate_series(0, 359) n",
        )
        .await;
    assert_eq!(world.server.isolation_samples(&other).await.unwrap().len(), ISOLATION_SAMPLES_MAX as usize);
    world.server.record_isolation(&other, &refused(7)).await.unwrap();
    let samples = world.server.isolation_samples(&other).await.unwrap();
    assert!(samples.is_sorted_by_key(|(at, _)| *at));
    assert_eq!(samples.last().unwrap().1, refused(7));
    assert_eq!(world.count("SELECT count(*) FROM isolation_samples WHERE node = 'node-b'").await, 360);
    // What is older than an hour is not shown, though its place is not taken yet.
    world.damage("UPDATE isolation_samples SET at = at - interval '2 hours' WHERE node = 'node-b'").await;
    assert_eq!(world.server.isolation_samples(&other).await.unwrap(), []);

    let stranger = NodeName::parse("stranger").unwrap();
    assert!(world.server.record_isolation(&stranger, &refused(1)).await.is_err());
    assert!(matches!(world.server.isolation_samples(&stranger).await, Err(CatalogError::NotFound { .. })));
}

#[tokio::test]
async fn what_is_not_named_of_the_sites_settings_stays() {
    let world = World::new().await;
    assert_eq!(world.server.site_isolation().await.unwrap(), None);
    let none = IsolationSettings::default();
    let blind = IsolationSettings { mode: "blind".parse().ok(), buffer_cores: Some(2), ..none.clone() };
    let first = world.server.set_site_isolation(&actor(), &blind).await.unwrap();
    assert_eq!(first.settings, blind);
    assert!(first.revision > 1_700_000_000, "a revision that a backup does not give anew: {first:?}");
    let off = IsolationSettings { off: Some(true), ..none.clone() };
    let second = world.server.set_site_isolation(&actor(), &off).await.unwrap();
    assert_eq!(second.settings, IsolationSettings { off: Some(true), ..blind.clone() });
    assert!(second.revision > first.revision);
    // A clock that was ahead gives no revision twice.
    world.damage("UPDATE site_isolation SET revision = 9000000000").await;
    let memory = IsolationSettings { memory_bytes: Some(0), buffer_cores: Some(3), ..none };
    let third = world.server.set_site_isolation(&actor(), &memory).await.unwrap();
    assert_eq!((third.revision, third.settings.buffer_cores), (9_000_000_001, Some(3)));
    assert_eq!(world.server.site_isolation().await.unwrap(), Some(third));
    let told = "SELECT count(*) FROM audit_log WHERE action = 'isolation.set' AND actor = 'test'
                AND detail ? 'revision' AND detail ? 'changed'";
    assert_eq!(world.count(told).await, 3);
}
