//! Handing out serving sets, on a real PostgreSQL.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::time::{Duration, Instant};

use mfaas_catalog::{Actor, Catalog, Held, RolePasswords, migrate};
use mfaas_delivery::{Availability, Condition, Directives, NODE_PROTOCOL, Report, SetState};
use mfaas_ident::{Digest, Epoch, NodeName};
use mfaas_push::{Push, PushError};
use mfaas_test_postgres::{Cluster, OWNER};

const LONG: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(150);

struct World {
    url: String,
    catalog: Catalog,
    push: Push,
    node: NodeName,
}

impl World {
    async fn new() -> Self {
        let cluster = Cluster::get();
        let url = cluster.url(&cluster.create_database(), OWNER);
        migrate(&url, &RolePasswords::default()).await.unwrap();
        let catalog = Catalog::connect(&url, 8).await.unwrap();
        let push = Push::start(catalog.clone());
        Self { url, catalog, push, node: NodeName::parse("node-a").unwrap() }
    }

    /// What the signer does when it has signed a set.
    fn publish(&self, epoch: u64) {
        let digest = digest(epoch);
        let status = std::process::Command::new("psql")
            .args(["-q", "-d", &self.url, "-c"])
            .arg(format!(
                "INSERT INTO serving_sets (epoch, generation, digest, envelope, issued_at, expires_at)
                 VALUES ({epoch}, 1, '{digest}', 'set {epoch}', now(), now() + interval '1 hour');
                 NOTIFY mfaas_serving_set"
            ))
            .status()
            .unwrap();
        assert!(status.success());
    }

    async fn join(&self) {
        let secret = Digest::of(b"join");
        self.catalog
            .create_join_token(
                &Actor::program("test"),
                &mfaas_catalog::NewJoinToken {
                    secret_sha256: &secret,
                    node: Some(&self.node),
                    uses_max: 1,
                    valid_for_seconds: 600,
                },
            )
            .await
            .unwrap();
        self.catalog
            .join_node(&self.node, &secret, &Digest::of(b"key"), &Digest::of(b"certificate"))
            .await
            .unwrap();
    }

    async fn directives(&self, known: Option<Digest>, wait: Duration) -> Option<(Directives, Digest)> {
        let bytes = self.push.directives_for(&self.node, known, wait).await.unwrap()?;
        Some((serde_json::from_slice(&bytes).unwrap(), Digest::of(&bytes)))
    }

    async fn ask(&self, held: Held, wait: Duration) -> Option<String> {
        let set = self.push.desired_for(&self.node, held, wait).await.unwrap();
        set.map(|set| set.envelope)
    }
}

fn digest(epoch: u64) -> Digest {
    Digest::of(format!("set {epoch}").as_bytes())
}

fn after(epoch: u64) -> Held {
    Held::Epoch(Epoch(epoch))
}

fn with(epoch: u64) -> Held {
    Held::Set(digest(epoch))
}

#[tokio::test]
async fn another_set_is_given_at_once_and_the_same_never() {
    let world = World::new().await;
    assert_eq!(world.ask(Held::Nothing, SHORT).await, None);
    world.publish(1);
    world.publish(2);
    let newest = world.ask(Held::Nothing, Duration::ZERO).await;
    assert_eq!(newest.as_deref(), Some("set 2"), "the newest, not the next");
    assert_eq!(world.ask(with(1), LONG).await.as_deref(), Some("set 2"));
    assert_eq!(world.ask(with(2), SHORT).await, None);
    let lost = world.ask(with(9), LONG).await;
    assert_eq!(lost.as_deref(), Some("set 2"), "what a failover has lost is no reason to say nothing");
}

#[tokio::test]
async fn a_node_of_the_release_before_asks_by_epoch() {
    let world = World::new().await;
    world.publish(2);
    assert_eq!(world.ask(after(1), LONG).await.as_deref(), Some("set 2"));
    assert_eq!(world.ask(after(2), SHORT).await, None);
    assert_eq!(world.ask(after(9), SHORT).await, None);
}

#[tokio::test]
async fn a_waiting_node_is_woken_by_the_signature() {
    let world = World::new().await;
    world.publish(1);
    let start = Instant::now();
    let (answer, ()) = tokio::join!(world.ask(with(1), LONG), async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        world.publish(2);
    });
    assert_eq!(answer.as_deref(), Some("set 2"));
    assert!(start.elapsed() < Duration::from_secs(4), "woken, not found by the slow look");
}

#[tokio::test]
async fn desired_and_reported_meet() {
    let world = World::new().await;
    world.join().await;
    world.publish(3);
    let behind = world.push.summary().await.unwrap();
    assert_eq!((behind.desired, behind.behind.len()), (Epoch(3), 1));
    let report = Report {
        protocol: NODE_PROTOCOL,
        boot: uuid::Uuid::new_v4(),
        sequence: 0,
        epoch: Epoch(3),
        set: SetState::Current,
        ingress_url: "http://127.0.0.1:7800".to_owned(),
        condition: Condition::Active,
        workers: 1,
        protection: "full".to_owned(),
        set_digest: None,
        functions: 0,
        versions: 0,
        loaded: Vec::new(),
        refused_total: 0,
        refused_first: None,
        refused: Vec::new(),
        problems: Vec::new(),
    };
    world.push.record_report(&world.node, &report, None).await.unwrap();
    assert!(world.push.summary().await.unwrap().is_converged());
    let wrong = Report { protocol: 99, ..report };
    assert!(matches!(world.push.record_report(&world.node, &wrong, None).await, Err(PushError::Message(_))));
}

#[tokio::test]
async fn directives_are_given_at_once_when_they_are_others_than_the_node_has() {
    let world = World::new().await;
    assert!(world.push.directives_for(&world.node, None, SHORT).await.is_err(), "nobody has joined");
    world.join().await;
    let (first, known) = world.directives(None, Duration::ZERO).await.unwrap();
    assert_eq!((first.availability, first.bans.len(), first.check()), (Availability::Active, 0, Ok(())));
    assert_eq!(world.directives(Some(known), SHORT).await, None, "the node has them");
    let start = Instant::now();
    let (answer, ()) = tokio::join!(world.directives(Some(known), LONG), async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        let actor = Actor::program("test");
        world.catalog.set_availability(&actor, &world.node, Availability::Draining).await.unwrap();
    });
    assert_eq!(answer.unwrap().0.availability, Availability::Draining);
    assert!(start.elapsed() < Duration::from_secs(4), "woken, not found by the slow look");
    let restored =
        world.directives(Some(Digest::of(b"of a database before its backup")), Duration::ZERO).await;
    assert_eq!(restored.unwrap().0.availability, Availability::Draining);
}
