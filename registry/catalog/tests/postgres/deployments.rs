//! Receiving: idempotency, states, events, wake-ups.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mfaas_catalog::{Catalog, CatalogError, Channel, NewDeployment, QueueLimits, Recorded, Wake};
use mfaas_delivery::{DeploymentState, EventKind, Stage};
use mfaas_ident::{DeploymentId, Digest, TenantName, TraceParent};

use crate::fixture::{WIDE, World, actor, claim, function, person, record, tenant};

#[tokio::test]
async fn the_same_key_and_bytes_give_the_same_deployment() {
    let world = World::new().await;
    let first = world.upload("hello", "key-1", b"source").await;
    assert_eq!((first.state, first.attempt, first.source_bytes), (DeploymentState::Received, 0, 6));
    let (tenant, name) = (tenant(), function("hello"));
    let again = NewDeployment {
        trace_parent: None,
        tenant: &tenant,
        function: &name,
        person: &person("acme/ci"),
        idempotency_key: "key-1",
        source_digest: Digest::of(b"source"),
        source_bytes: 6,
    };
    let recorded = record(&world.server, &again).await.unwrap();
    assert_eq!(recorded, Recorded::Repeated(first));
    assert_eq!(world.count("SELECT count(*) FROM deployments").await, 1);
    assert_eq!(world.count("SELECT count(*) FROM audit_log WHERE action = 'deployment.received'").await, 1);
}

#[tokio::test]
async fn who_builds_and_who_loads_a_version_learns_where_its_deployment_stands_in_a_trace() {
    let world = World::new().await;
    let (tenant, name) = (tenant(), function("hello"));
    world.server.ensure_tenant(&actor(), &tenant).await.unwrap();
    let place = TraceParent::parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01").unwrap();
    let new = NewDeployment {
        trace_parent: Some(place),
        tenant: &tenant,
        function: &name,
        person: &person("acme/ci"),
        idempotency_key: "key-1",
        source_digest: Digest::of(b"source"),
        source_bytes: 6,
    };
    let Recorded::Created(deployment) = record(&world.server, &new).await.unwrap() else { panic!() };
    let claimed = world.claim("one").await;
    assert_eq!(claimed.trace_parent, Some(place));
    world.builder.finish_built(&claimed.lease, &claim(b"artifact")).await.unwrap();
    let version = world.admit(deployment.id, Digest::of(b"artifact")).await;
    let found = world.server.trace_of_version(&tenant, &name, version).await.unwrap();
    assert_eq!(found, Some(place));

    // Deployments of the release before have none, and a name that has no version has none either.
    let without = world.admitted("hello", "key-2").await;
    assert_eq!(world.server.trace_of_version(&tenant, &name, without).await.unwrap(), None);
    assert_eq!(world.server.trace_of_version(&tenant, &function("other"), version).await.unwrap(), None);
}

#[tokio::test]
async fn the_same_key_for_other_bytes_or_another_function_is_a_conflict() {
    let world = World::new().await;
    world.upload("hello", "key-1", b"source").await;
    let (tenant, hello, other) = (tenant(), function("hello"), function("other"));
    for (function, bytes) in [(&hello, b"changed".as_slice()), (&other, b"source")] {
        let new = NewDeployment {
            trace_parent: None,
            tenant: &tenant,
            function,
            person: &person("acme/ci"),
            idempotency_key: "key-1",
            source_digest: Digest::of(bytes),
            source_bytes: bytes.len() as u64,
        };
        let error = record(&world.server, &new).await.unwrap_err();
        assert!(matches!(error, CatalogError::IdempotencyKeyReused), "{error:?}");
    }
}

#[tokio::test]
async fn twenty_repeats_at_once_make_one_deployment() {
    let world = World::new().await;
    world.server.ensure_tenant(&actor(), &tenant()).await.unwrap();
    let tasks: Vec<_> = (0..20)
        .map(|_| {
            let server = world.server.clone();
            tokio::spawn(async move {
                let (tenant, name) = (tenant(), function("hello"));
                let new = NewDeployment {
                    trace_parent: None,
                    tenant: &tenant,
                    function: &name,
                    person: &person("acme/ci"),
                    idempotency_key: "storm",
                    source_digest: Digest::of(b"source"),
                    source_bytes: 6,
                };
                match record(&server, &new).await.unwrap() {
                    Recorded::Created(d) => (true, d.id),
                    Recorded::Repeated(d) => (false, d.id),
                }
            })
        })
        .collect();
    let mut results = Vec::new();
    for task in tasks {
        results.push(task.await.unwrap());
    }
    assert_eq!(results.iter().filter(|(created, _)| *created).count(), 1);
    assert!(results.iter().all(|(_, id)| *id == results[0].1));
}

#[tokio::test]
async fn an_empty_idempotency_key_is_told_in_words() {
    let world = World::new().await;
    world.server.ensure_tenant(&actor(), &tenant()).await.unwrap();
    let (tenant, name) = (tenant(), function("hello"));
    let source_digest = Digest::of(b"x");
    let new = NewDeployment {
        trace_parent: None,
        tenant: &tenant,
        function: &name,
        person: &person("acme/ci"),
        idempotency_key: "",
        source_digest,
        source_bytes: 1,
    };
    let error = record(&world.server, &new).await.unwrap_err();
    assert_eq!(error.to_string(), "the idempotency key has to have 1 to 200 characters");
}

#[tokio::test]
async fn another_tenant_sees_nothing() {
    let world = World::new().await;
    let mine = world.upload("hello", "key-1", b"source").await;
    let stranger = TenantName::parse("stranger").unwrap();
    let found = world.server.deployment(&stranger, mine.id).await;
    assert!(matches!(found, Err(CatalogError::NotFound { what: "deployment" })));
    assert!(world.server.events_after(&stranger, mine.id, 0, 100).await.unwrap().is_empty());
    assert!(world.server.deployments(&stranger, None, None, 100).await.unwrap().is_empty());
}

#[tokio::test]
async fn deployments_are_listed_newest_first_by_page() {
    let world = World::new().await;
    for n in 0..3 {
        world.upload(if n == 1 { "other" } else { "hello" }, &format!("key-{n}"), b"source").await;
    }
    let all = world.server.deployments(&tenant(), None, None, 2).await.unwrap();
    assert_eq!(all.len(), 2);
    assert!(all[0].created_at > all[1].created_at);
    let rest = world.server.deployments(&tenant(), None, Some(all[1].created_at), 2).await.unwrap();
    assert_eq!(rest.len(), 1);
    let hello = world.server.deployments(&tenant(), Some(&function("hello")), None, 9).await.unwrap();
    assert_eq!(hello.len(), 2);
    let counts = world.server.deployment_counts().await.unwrap();
    assert_eq!(
        counts.iter().map(|c| (c.state, c.count)).collect::<Vec<_>>(),
        [(DeploymentState::Received, 3)]
    );
}

#[tokio::test]
async fn a_listener_is_woken_by_an_upload_and_its_event() {
    let world = World::new().await;
    let mut wakes = world.server.listen(&[Channel::Builds, Channel::Events]).await.unwrap();
    assert_eq!(wakes.next(Duration::from_millis(50)).await.unwrap(), Wake::TimedOut);
    let deployment = world.upload("hello", "key-1", b"source").await;
    let mut heard = Vec::new();
    for _ in 0..2 {
        match wakes.next(Duration::from_secs(5)).await.unwrap() {
            Wake::Notified(channel, Some(id)) => heard.push((format!("{channel:?}"), id)),
            other => panic!("expected a notification, got {other:?}"),
        }
    }
    heard.sort();
    let id: DeploymentId = deployment.id;
    assert_eq!(heard, [("Builds".to_owned(), id), ("Events".to_owned(), id)]);
    let events = world.server.events_after(&tenant(), id, 0, 10).await.unwrap();
    assert_eq!((events[0].seq, events[0].kind), (1, EventKind::State));
    assert!(events[0].at.is_some());
}

/// Uploads under bounds of three deployments and a hundred bytes; counts what was stored.
async fn send_bounded(
    server: Catalog,
    key: String,
    source_bytes: u64,
    stored: Arc<AtomicUsize>,
) -> Result<Recorded, CatalogError> {
    let (tenant, name) = (tenant(), function("hello"));
    let new = NewDeployment {
        trace_parent: None,
        tenant: &tenant,
        function: &name,
        person: &person("acme/ci"),
        idempotency_key: &key,
        source_digest: Digest::of(key.as_bytes()),
        source_bytes,
    };
    let limits = QueueLimits { deployments_max: 3, source_bytes_max: 100, functions_max: 1 };
    let store = async {
        stored.fetch_add(1, Ordering::Relaxed);
        Ok(())
    };
    server.record_deployment(&actor(), &new, &limits, store).await
}

/// Two uploads do not take the same last place, and what does not fit stores nothing.
#[tokio::test]
async fn a_queue_that_is_full_for_one_tenant_takes_no_more_of_it() {
    let world = World::new().await;
    world.server.ensure_tenant(&actor(), &tenant()).await.unwrap();
    let stored = Arc::new(AtomicUsize::new(0));
    let send = |key: String, bytes| send_bounded(world.server.clone(), key, bytes, stored.clone());
    let tasks: Vec<_> = (0..8).map(|number| tokio::spawn(send(format!("key-{number}"), 10))).collect();
    let mut refused = 0;
    for task in tasks {
        match task.await.unwrap() {
            Ok(_) => {}
            Err(CatalogError::QueueFull { deployments: 3, bytes: 30 }) => refused += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!((refused, stored.load(Ordering::Relaxed)), (5, 3));
    assert_eq!(world.count("SELECT count(*) FROM deployments").await, 3);
    let claimed = world.claim("one").await;
    world.builder.finish_refused(&claimed.lease, Stage::Audit, &[]).await.unwrap();
    assert!(matches!(send("large".to_owned(), 81).await, Err(CatalogError::QueueFull { .. })));
    assert!(matches!(send("fits".to_owned(), 80).await, Ok(Recorded::Created(_))));
}

/// What fails to be stored was never recorded.
#[tokio::test]
async fn a_deployment_whose_bytes_are_not_stored_is_none() {
    let world = World::new().await;
    let (tenant, name) = (tenant(), function("hello"));
    world.server.ensure_tenant(&actor(), &tenant).await.unwrap();
    let new = NewDeployment {
        trace_parent: None,
        tenant: &tenant,
        function: &name,
        person: &person("acme/ci"),
        idempotency_key: "key-1",
        source_digest: Digest::of(b"source"),
        source_bytes: 6,
    };
    let store = async { Err(CatalogError::Denied) };
    assert!(matches!(
        world.server.record_deployment(&actor(), &new, &WIDE, store).await,
        Err(CatalogError::Denied)
    ));
    assert_eq!(
        world.count("SELECT (SELECT count(*) FROM deployments) + (SELECT count(*) FROM builds)").await,
        0
    );
    assert!(matches!(record(&world.server, &new).await, Ok(Recorded::Created(_))), "the key is free");
}
