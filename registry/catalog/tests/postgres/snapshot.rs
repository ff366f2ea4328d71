//! A snapshot keeps the sweeper out until what it refers to is copied.

use std::time::Duration;

use mfaas_blobs::Blobs;
use mfaas_catalog::{Retention, Snapshot};
use mfaas_ident::Digest;

use crate::fixture::World;
use mfaas_test_postgres::{Cluster, OWNER};

async fn collected(world: &World, blobs: &Blobs) -> u64 {
    let mut removed = 0;
    for first_byte in 0..=u8::MAX {
        removed +=
            world.server.collect_blobs(blobs, &Retention::DEFAULT, Duration::ZERO, first_byte).await.unwrap();
    }
    removed
}

#[tokio::test]
async fn no_blob_goes_between_the_rows_and_the_copies() {
    let world = World::new().await;
    let dir = tempfile::tempdir().unwrap();
    let blobs = Blobs::open(&format!("file://{}", dir.path().display())).unwrap();
    blobs.mark().await.unwrap();
    let source = blobs.put(b"source".as_slice().into()).await.unwrap();
    let deployment = world.upload("hello", "one", b"source").await;

    let mut snapshot = Snapshot::take(&Cluster::get().url(&world.database, OWNER)).await.unwrap();
    // From here on nothing refers to it any more.
    world.damage("DELETE FROM deployment_events").await;
    world.damage("DELETE FROM builds").await;
    world.damage("DELETE FROM deployments").await;
    let referred = snapshot.blobs().await.unwrap();
    assert_eq!(
        referred.iter().map(|blob| (blob.digest, blob.is_needed)).collect::<Vec<_>>(),
        [(source, true)]
    );
    snapshot.end().await.unwrap();
    assert_eq!(collected(&world, &blobs).await, 0, "{deployment:?}");
    assert!(blobs.exists(&source).await.unwrap());
    // Others store blobs and record them meanwhile.
    world.upload("hello", "two", b"another source").await;
    snapshot.confirm().await.unwrap();
    assert_eq!(collected(&world, &blobs).await, 1);
    assert!(!blobs.exists(&source).await.unwrap());
}

#[tokio::test]
async fn what_something_needs_is_told_from_what_may_have_been_forgotten() {
    let world = World::new().await;
    world.admitted("hello", "one").await;
    world.upload("waits", "two", b"waits").await;
    world.upload("refused", "three", b"refused").await;
    world.damage("UPDATE deployments SET state = 'building' WHERE function = 'refused'").await;
    world.damage("UPDATE deployments SET state = 'refused' WHERE function = 'refused'").await;
    let needed = async || {
        let mut snapshot = Snapshot::take(&Cluster::get().url(&world.database, OWNER)).await.unwrap();
        let blobs = snapshot.blobs().await.unwrap();
        let of =
            |digest: &str| blobs.iter().find(|blob| blob.digest.to_string() == digest).map(|b| b.is_needed);
        let artifact: String =
            sqlx::query_scalar("SELECT artifact FROM versions").fetch_one(&world.sql).await.unwrap();
        [of(&Digest::of(b"waits").to_string()), of(&Digest::of(b"refused").to_string()), of(&artifact)]
    };
    assert_eq!(needed().await, [Some(true), Some(false), Some(true)]);
    world.damage("UPDATE versions SET retired_at = now()").await;
    assert_eq!(needed().await, [Some(true), Some(false), Some(false)]);
}
