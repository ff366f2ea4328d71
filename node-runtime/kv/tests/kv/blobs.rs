//! Blobs: named when a call commits and never else, removed when nobody names them, and counted as long as they are there.

use mfaas_kv::Blob;
use mfaas_kv::limits::{BLOB_BYTES, ENTRY_BYTES};

use super::*;

impl World {
    async fn blob(&self, key: &str) -> Option<Blob> {
        Transaction::default().get_blob(&self.stores, &place(key)).await.unwrap()
    }

    /// A call that puts a blob of so many bytes, which was announced.
    async fn putting(&self, key: &str, bytes: u64) -> (Call<'_>, Blob) {
        let blob = self.stores.postgres().announce(&resource(), bytes).await.unwrap();
        let mut call = self.call();
        call.transaction.put_blob(place(key), blob).unwrap();
        (call, blob)
    }

    /// As if so many minutes had passed.
    fn later(&self, minutes: u32) {
        for table in ["staged_blobs", "freed_blobs"] {
            let past = format!("UPDATE mfaas_data.{table} SET since = since - interval '{minutes} minutes'");
            assert!(Cluster::get().psql(&self.database, &past));
        }
    }

    /// Those that are to be removed.
    async fn doomed(&self) -> Vec<Uuid> {
        self.stores.postgres().doom().await.unwrap()
    }

    async fn held(&self) -> u64 {
        while self.stores.postgres().sum_sizes(0).await.unwrap().may_be_more {}
        self.stores.postgres().large(1).await.unwrap().first().map_or(0, |(_, bytes)| *bytes)
    }
}

#[tokio::test]
async fn a_blob_is_named_when_its_call_commits_and_is_doomed_else() {
    let world = World::new(Kind::Postgres).await;
    let (mut call, blob) = world.putting("a", 1_000).await;
    assert_eq!(call.transaction.get_blob(&world.stores, &place("a")).await.unwrap(), Some(blob));
    assert_eq!(world.blob("a").await, None);
    call.done().await;
    assert_eq!(call.commit().await.unwrap(), Committed::Before);
    assert_eq!(world.blob("a").await, Some(blob));
    assert!(world.stores.postgres().names(&place("a"), blob).await.unwrap());
    assert!(world.holds("(SELECT bytes FROM audit) = 1000").await);
    // One that is announced and not committed, one of a conflict, and one that is replaced.
    let (_, never) = world.putting("b", 1).await;
    let (mut meets, lost) = world.putting("c", 2).await;
    meets.transaction.get_blob(&world.stores, &place("a")).await.unwrap();
    let (replaces, next) = world.putting("a", 3).await;
    replaces.done().await;
    meets.conflicts().await;
    assert!(!world.stores.postgres().names(&place("a"), blob).await.unwrap());
    assert!(world.doomed().await.is_empty(), "a call may have seen it, or may commit yet");
    world.later(10);
    assert_eq!(world.doomed().await, [blob.id], "who has stored the others may run for an hour");
    world.later(600);
    let doomed = world.doomed().await;
    let mut expected = [never.id, lost.id, blob.id];
    expected.sort_unstable();
    assert_eq!(
        {
            let mut doomed = doomed.clone();
            doomed.sort_unstable();
            doomed
        },
        expected
    );
    // Until it is said that they are removed, they are to be.
    assert_eq!(world.doomed().await.len(), 3);
    world.stores.postgres().removed(&doomed).await.unwrap();
    assert!(world.doomed().await.is_empty());
    assert_eq!(world.blob("a").await, Some(next));
}

#[tokio::test]
async fn what_is_doomed_is_never_named() {
    let world = World::new(Kind::Postgres).await;
    let (late, _) = world.putting("a", 1).await;
    world.later(600);
    assert_eq!(world.doomed().await.len(), 1);
    late.conflicts().await;
    let (over, blob) = world.putting("a", 1).await;
    assert_eq!(world.stores.postgres().abandon(&[blob.id]).await.unwrap(), 1);
    over.conflicts().await;
    assert_eq!(world.doomed().await.len(), 1, "it may still be on its way into the store");
    world.later(3);
    assert_eq!(world.doomed().await.len(), 2);
    assert_eq!(world.blob("a").await, None);
    // Nor what was never announced, or is named already. That one is not given up by its call.
    let (call, blob) = world.putting("b", 1).await;
    call.done().await;
    assert_eq!(world.stores.postgres().abandon(&[blob.id]).await.unwrap(), 0);
    for foreign in [blob, Blob { id: Uuid::new_v4(), bytes: 1 }] {
        let mut call = world.call();
        call.transaction.put_blob(place("c"), foreign).unwrap();
        call.conflicts().await;
    }
    assert_eq!(world.blob("c").await, None);
}

#[tokio::test]
async fn a_resource_holds_its_blobs_from_their_announcement_to_their_removal() {
    let world = World::new(Kind::Postgres).await;
    let (call, _) = world.putting("a", 1_000).await;
    assert_eq!(world.held().await, BLOB_BYTES + 1_000);
    assert_eq!(call.transaction.growth()[&resource()], ENTRY_BYTES + 1, "the blob is held already");
    call.done().await;
    let entry = ENTRY_BYTES + 1;
    assert_eq!(world.held().await, entry + BLOB_BYTES + 1_000);
    let (call, _) = world.putting("a", 500).await;
    call.done().await;
    assert_eq!(world.held().await, entry + 2 * BLOB_BYTES + 1_500, "the one before is still there");
    world.later(10);
    world.stores.postgres().removed(&world.doomed().await).await.unwrap();
    assert_eq!(world.held().await, entry + BLOB_BYTES + 500);
    let mut call = world.call();
    call.delete("a");
    call.done().await;
    assert_eq!(world.held().await, BLOB_BYTES + 500);
    assert!(Cluster::get().psql(&world.database, "SELECT mfaas_data.count_sizes()"));
    assert_eq!(world.held().await, BLOB_BYTES + 500);
    world.later(10);
    world.stores.postgres().removed(&world.doomed().await).await.unwrap();
    assert_eq!(world.held().await, 0);
}

/// Whatever an operator does by hand frees what it takes the names of.
#[tokio::test]
async fn what_is_removed_by_hand_is_freed() {
    let world = World::new(Kind::Postgres).await;
    let psql = |statement: &str| assert!(Cluster::get().psql(&world.database, statement), "{statement}");
    for key in ["a", "b", "c"] {
        world.putting(key, 1).await.0.done().await;
    }
    psql("UPDATE mfaas_data.entries SET expires_at = now() + interval '1 day' WHERE key = 'c'");
    assert!(world.holds("NOT EXISTS (SELECT FROM freed_blobs)").await, "it has kept its blob");
    psql("DELETE FROM mfaas_data.entries WHERE key = 'a'");
    assert!(world.holds("(SELECT count(*) FROM freed_blobs) = 1").await);
    psql("TRUNCATE mfaas_data.entries");
    assert!(world.holds("(SELECT count(*) FROM freed_blobs) = 3").await);
    assert_eq!(world.held().await, 3 * (BLOB_BYTES + 1));
}

#[tokio::test]
async fn bytes_and_blobs_are_not_taken_for_each_other() {
    let world = World::new(Kind::Postgres).await;
    let (mut call, _) = world.putting("blob", 1).await;
    call.put("bytes", "x");
    call.done().await;
    let mut call = world.call();
    let ended = call.transaction.get_blob(&world.stores, &place("bytes")).await;
    assert!(matches!(ended, Err(KvError::OtherKind)), "{ended:?}");
    let ended = call.increment("blob", 1).await;
    assert!(matches!(ended, Err(KvError::OtherKind)), "{ended:?}");
    // Changing one into the other frees the blob.
    let mut call = world.call();
    call.put("blob", "now bytes");
    call.done().await;
    assert_eq!(world.value("blob").await.as_deref(), Some("now bytes"));
    assert!(world.holds("(SELECT count(*) FROM freed_blobs) = 1").await);
}

/// Calls that put and replace objects of their own do not stand in each other's way.
#[tokio::test]
async fn calls_that_put_blobs_at_the_same_time_all_commit() {
    let world = World::new(Kind::Postgres).await;
    for round in 0..4 {
        let calls = (0..16).map(async |number| {
            let mut call = world.call();
            for part in 0..6 {
                let blob = world.stores.postgres().announce(&resource(), 1).await.unwrap();
                call.transaction.put_blob(place(&format!("{number}-{part}")), blob).unwrap();
            }
            call.commit().await
        });
        for ended in futures::future::join_all(calls).await {
            assert_eq!(ended.unwrap(), Committed::Now, "round {round}");
        }
    }
    assert!(
        world
            .holds("(SELECT count(*) FROM freed_blobs) = 288 AND NOT EXISTS (SELECT FROM staged_blobs)")
            .await
    );
}

/// As a broker of the release before commits, which names no blobs: what it puts in the place of one frees it.
#[tokio::test]
async fn a_broker_of_the_release_before_commits_as_it_did() {
    let world = World::new(Kind::Postgres).await;
    world.putting("a", 1).await.0.done().await;
    let call = Uuid::new_v4();
    let commit = format!(
        "BEGIN ISOLATION LEVEL SERIALIZABLE; SET LOCAL search_path = mfaas_data;
         DO $$ BEGIN ASSERT commit_call('{call}', 'acme', 'book', 1, NULL, '{{}}', '{{}}', '{{}}', '{{}}', '{{}}', '{{}}', '{{}}',
             '{{hotels,hotels}}', '{{a,b}}', '{{before,NULL}}', '{{NULL,NULL}}'); END $$; COMMIT"
    );
    assert!(Cluster::get().psql(&world.database, &commit));
    assert_eq!(world.value("a").await.as_deref(), Some("before"));
    assert!(world.holds("(SELECT count(*) FROM freed_blobs) = 1 AND (SELECT count(*) FROM audit) = 3").await);
}
