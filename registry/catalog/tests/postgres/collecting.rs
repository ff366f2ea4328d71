//! Blobs go when no row refers to them and they are old, and never while somebody is about to refer to one.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use mfaas_blobs::{BlobError, Blobs};
use mfaas_catalog::{CatalogError, CollectError, NewDeployment, Recorded, Retention};
use mfaas_ident::{AssetContent, Digest};
use sqlx::AssertSqlSafe;

use crate::fixture::{WIDE, World, actor, claim, function, person, tenant};
use crate::resources::resource;

const GRACE: Duration = Duration::from_secs(3_600);

struct Store {
    dir: tempfile::TempDir,
    blobs: Blobs,
}

impl Store {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let blobs = Blobs::open(&format!("file://{}", dir.path().display())).unwrap();
        blobs.mark().await.unwrap();
        Self { dir, blobs }
    }

    /// A blob that lies there for two hours.
    async fn old(&self, bytes: &'static [u8]) -> Digest {
        let digest = self.blobs.put(bytes.into()).await.unwrap();
        aged(&self.file(&digest));
        digest
    }

    fn file(&self, digest: &Digest) -> PathBuf {
        let name = digest.to_string();
        self.dir.path().join("sha256").join(&name[..2]).join(name)
    }

    async fn has(&self, digest: &Digest) -> bool {
        self.blobs.exists(digest).await.unwrap()
    }

    async fn collect(&self, world: &World) -> u64 {
        self.collect_keeping(world, &Retention::DEFAULT).await
    }

    async fn collect_keeping(&self, world: &World, kept: &Retention) -> u64 {
        let mut removed = 0;
        for first_byte in 0..=u8::MAX {
            removed += world.server.collect_blobs(&self.blobs, kept, GRACE, first_byte).await.unwrap();
        }
        removed
    }
}

fn aged(file: &Path) {
    let file = std::fs::File::options().write(true).open(file).unwrap();
    file.set_modified(SystemTime::now() - 2 * GRACE).unwrap();
}

/// An upload as the server does it, without the part that waits for a client.
async fn record(
    world: &World,
    key: &str,
    bytes: &'static [u8],
    publish: impl Future<Output = Result<(), CatalogError>>,
) -> Result<Recorded, CatalogError> {
    world.server.ensure_tenant(&actor(), &tenant()).await?;
    let (function, person) = (function("hello"), person("acme/ci"));
    let new = NewDeployment {
        trace_parent: None,
        tenant: &tenant(),
        function: &function,
        person: &person,
        idempotency_key: key,
        source_digest: Digest::of(bytes),
        source_bytes: bytes.len() as u64,
    };
    world.server.record_deployment(&actor(), &new, &WIDE, publish).await
}

#[tokio::test]
async fn what_rows_refer_to_stays_and_what_nobody_needs_goes() {
    let (world, store) = (World::new().await, Store::new().await);
    let lost = store.old(b"nobody's").await;
    let young = store.blobs.put(b"nobody's yet".as_slice().into()).await.unwrap();
    // A queued source; a claim that waits for the signer; a callable version with its source and artifact.
    let mut kept = vec![store.old(b"queued").await, store.old(b"claimed").await, store.old(b"served").await];
    world.admitted("served", "served").await;
    world.upload("claimed", "claimed", b"its source").await;
    kept.push(store.old(b"its source").await);
    let claimed = world.claim("one").await;
    world.builder.finish_built(&claimed.lease, &claim(b"claimed")).await.unwrap();
    world.upload("queued", "queued", b"queued").await;
    // What a crate brings: its archive, its texts, its line in the index.
    kept.extend([store.old(b"archive").await, store.old(b"text").await, store.old(b"offered").await]);
    let crates = format!(
        "INSERT INTO crate_archives VALUES ('{archive}', 'x', '1.0.0', 1);
         INSERT INTO crate_files VALUES ('{archive}', 'src/lib.rs', '{}', 1);
         INSERT INTO index_entries VALUES ('x', '1.0.0', '{archive}', 'x', '{}', '{{}}', '', 1)",
        Digest::of(b"text"),
        Digest::of(b"offered"),
        archive = Digest::of(b"archive"),
    );
    sqlx::raw_sql(AssertSqlSafe(crates)).execute(&world.sql).await.unwrap();
    // The newest dependency cache of each that ships; what it took the place of is nobody's.
    let (replaced, newest) = (store.old(b"replaced cache").await, store.old(b"newest cache").await);
    let other = store.old(b"cache of another release").await;
    kept.extend([newest, other]);
    for (key, base, archive) in [("1", "b", replaced), ("2", "b", newest), ("3", "c", other)] {
        let sql = format!(
            "INSERT INTO dependency_caches (key, base, toolchain, lock, archive, archive_bytes)
             VALUES ('{}', '{base}', 't', '', '{archive}', 1)",
            Digest::of(key.as_bytes())
        );
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&world.sql).await.unwrap();
    }
    // An asset, as long as there is its resource.
    kept.push(store.old(b"asset").await);
    let content = AssetContent { digest: Digest::of(b"asset"), bytes: 5 };
    let stored = std::future::ready(Ok::<_, CatalogError>(()));
    let (made, is_new) =
        world.server.create_asset(&actor(), &resource("model"), content, stored).await.unwrap();
    assert!(is_new && made.content == Some(content), "{made:?}");
    // What lies there and is no blob is nobody's to remove.
    let stranger = store.file(&lost).with_file_name("README");
    std::fs::write(&stranger, "hello").unwrap();
    aged(&stranger);

    assert_eq!(store.collect(&world).await, 2);
    assert!(!store.has(&lost).await && store.has(&young).await && stranger.exists());
    assert!(!store.has(&replaced).await);
    for digest in &kept {
        assert!(store.has(digest).await, "{digest}");
    }
    let record = "SELECT count(*) FROM audit_log WHERE action = 'blobs.collected'";
    assert_eq!(world.count(record).await, 2);
    assert_eq!(store.collect(&world).await, 0);
    assert_eq!(world.count(record).await, 2, "nothing is not worth a record");
}

#[tokio::test]
async fn uploads_and_artifacts_of_what_ended_go_after_their_days() {
    let (world, store) = (World::new().await, Store::new().await);
    world.upload("bad", "bad", b"refused").await;
    let refused = store.old(b"refused").await;
    let claimed = world.claim("one").await;
    world.builder.finish_refused(&claimed.lease, mfaas_delivery::Stage::Audit, &[]).await.unwrap();
    // The fixture's artifact and its source are the same bytes.
    world.admitted("gone", "gone").await;
    world.admitted("stays", "stays").await;
    let (gone, stays) = (store.old(b"gone").await, store.old(b"stays").await);
    world.server.delete_function(&actor(), &tenant(), &function("gone")).await.unwrap();
    assert_eq!(store.collect(&world).await, 0, "everything ended a moment ago");
    let ages = "ALTER TABLE deployments DISABLE TRIGGER USER;
                UPDATE deployments SET updated_at = now() - interval '31 days';
                ALTER TABLE deployments ENABLE TRIGGER USER";
    sqlx::raw_sql(ages).execute(&world.sql).await.unwrap();
    let for_ever = Retention { uploads_days: 0, ..Retention::DEFAULT };
    assert_eq!(store.collect_keeping(&world, &for_ever).await, 0, "0 days are for ever");
    assert_eq!(store.collect(&world).await, 1);
    assert!(!store.has(&refused).await && store.has(&gone).await, "its function was deleted a moment ago");
    world.damage("UPDATE versions SET retired_at = retired_at - interval '31 days'").await;
    let for_ever = Retention { artifacts_days: 0, ..Retention::DEFAULT };
    assert_eq!(store.collect_keeping(&world, &for_ever).await, 0, "0 days are for ever");
    assert_eq!(store.collect(&world).await, 1);
    assert!(!store.has(&gone).await && store.has(&stays).await);
}

#[tokio::test]
async fn storing_a_blob_again_renews_it() {
    let (world, store) = (World::new().await, Store::new().await);
    let digest = store.old(b"again").await;
    store.blobs.put(b"again".as_slice().into()).await.unwrap();
    assert_eq!(store.collect(&world).await, 0);
    aged(&store.file(&digest));
    assert_eq!(store.collect(&world).await, 1);
}

/// Waits until somebody wants the lock alone and does not get it.
async fn until_the_collector_waits(world: &World) {
    let waits =
        "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ExclusiveLock' AND NOT granted
                 AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
    for _ in 0..500 {
        if world.count(waits).await == 1 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    panic!("nobody collects");
}

fn first_byte(digest: &Digest) -> u8 {
    u8::from_str_radix(&digest.to_string()[..2], 16).unwrap()
}

/// An old blob that nobody needed, and an upload of the same bytes. The collector cannot see the row yet.
#[tokio::test]
async fn an_upload_keeps_its_blob_from_before_its_row_can_be_seen() {
    let (world, store) = (World::new().await, Store::new().await);
    let digest = store.old(b"bytes").await;
    let collect = async || {
        world
            .server
            .collect_blobs(&store.blobs, &Retention::DEFAULT, GRACE, first_byte(&digest))
            .await
            .unwrap()
    };
    let publish = async {
        assert_eq!(collect().await, 0);
        Ok(())
    };
    record(&world, "key", b"bytes", publish).await.unwrap();
    assert_eq!(collect().await, 0);
    assert!(store.has(&digest).await);
}

/// The collector has found that nobody needs it, and waits; meanwhile somebody does.
#[tokio::test]
async fn rows_are_looked_at_again_behind_the_lock() {
    let (world, store) = (World::new().await, Store::new().await);
    let digest = store.old(b"bytes").await;
    let (catalog, blobs) = (world.server.clone(), store.blobs.clone());
    let mut collecting = None;
    let publish = async {
        let collect = async move {
            catalog.collect_blobs(&blobs, &Retention::DEFAULT, GRACE, first_byte(&digest)).await.unwrap()
        };
        collecting = Some(tokio::spawn(collect));
        until_the_collector_waits(&world).await;
        Ok(())
    };
    record(&world, "key", b"bytes", publish).await.unwrap();
    assert_eq!(collecting.unwrap().await.unwrap(), 0);
    assert!(store.has(&digest).await);
}

/// The same for whoever stores the bytes now and writes the row later: a builder.
#[tokio::test]
async fn ages_are_looked_at_again_behind_the_lock() {
    let (world, store) = (World::new().await, Store::new().await);
    let digest = store.old(b"bytes").await;
    let mut hold = world.builder.hold_blobs().await.unwrap();
    let collecting =
        world.server.collect_blobs(&store.blobs, &Retention::DEFAULT, GRACE, first_byte(&digest));
    let storing = async {
        until_the_collector_waits(&world).await;
        store.blobs.put(b"bytes".as_slice().into()).await.unwrap();
        hold.confirm().await.unwrap();
        drop(hold);
    };
    let (collected, ()) = tokio::join!(collecting, storing);
    assert_eq!(collected.unwrap(), 0);
    assert!(store.has(&digest).await);
}

/// Whoever is about to refer to a blob keeps all others, too, and the collector comes again later.
#[tokio::test]
async fn nothing_is_removed_while_a_program_stores_a_blob() {
    let (world, store) = (World::new().await, Store::new().await);
    let old = store.old(b"old").await;
    let mut hold = world.builder.hold_blobs().await.unwrap();
    assert_eq!(store.collect(&world).await, 0, "a builder stores one");
    hold.confirm().await.unwrap();
    drop(hold);
    // The server closes the connection a moment later.
    let mut removed = 0;
    for _ in 0..50 {
        removed += store.collect(&world).await;
        if removed > 0 {
            break;
        }
    }
    assert!(removed == 1 && !store.has(&old).await);

    let old = store.old(b"old").await;
    let mut upload = world.sql.begin().await.unwrap();
    let shared = "SELECT pg_advisory_xact_lock_shared(x'6D666161735F626C'::bigint)";
    sqlx::query(shared).execute(&mut *upload).await.unwrap();
    assert_eq!(store.collect(&world).await, 0, "an upload is under way");
    assert!(store.has(&old).await);
}

/// A connection that the database ends in the middle is noticed before the row is written.
#[tokio::test]
async fn a_hold_that_was_lost_is_not_confirmed() {
    let world = World::new().await;
    let mut hold = world.builder.hold_blobs().await.unwrap();
    let ended = "SELECT count(pg_terminate_backend(pid)) FROM pg_locks
                 WHERE locktype = 'advisory' AND mode = 'ShareLock' AND database =
                     (SELECT oid FROM pg_database WHERE datname = current_database())";
    assert_eq!(world.count(ended).await, 1);
    let error = hold.confirm().await.unwrap_err();
    assert!(error.is_transient(), "{error}");
}

#[tokio::test]
async fn a_conflict_of_idempotency_keys_leaves_no_blob() {
    let (world, store) = (World::new().await, Store::new().await);
    let publish = async |bytes: &'static [u8]| {
        store.blobs.put(bytes.into()).await.unwrap();
        Ok(())
    };
    record(&world, "key", b"first", publish(b"first")).await.unwrap();
    let error = record(&world, "key", b"second", publish(b"second")).await.unwrap_err();
    assert!(matches!(error, CatalogError::IdempotencyKeyReused), "{error}");
    assert!(!store.has(&Digest::of(b"second")).await);
    assert!(matches!(
        record(&world, "key", b"first", publish(b"first")).await.unwrap(),
        Recorded::Repeated(_)
    ));
}

/// The program that collects needs nothing but to read what refers.
#[tokio::test]
async fn only_the_server_collects_and_only_by_reading() {
    let (world, store) = (World::new().await, Store::new().await);
    let digest = store.old(b"nobody's").await;
    for catalog in [&world.builder, &world.acquirer] {
        let denied =
            catalog.collect_blobs(&store.blobs, &Retention::DEFAULT, GRACE, first_byte(&digest)).await;
        assert!(denied.is_err(), "it cannot see every row that refers, and removes nothing");
    }
    assert!(store.has(&digest).await);
    assert_eq!(store.collect(&world).await, 1);
}

/// A mount point while nothing is mounted there, and the store of a release before that had no marker.
#[tokio::test]
async fn only_a_store_that_holds_what_rows_refer_to_is_marked() {
    let world = World::new().await;
    let dir = tempfile::tempdir().unwrap();
    let blobs = Blobs::open(&format!("file://{}", dir.path().display())).unwrap();
    let marker = dir.path().join("mfaas-blob-store");
    world.server.mark_blob_store(&blobs).await.unwrap();
    assert!(marker.is_file(), "a new site needs no blob");
    let digest = blobs.put(b"source".as_slice().into()).await.unwrap();
    std::fs::remove_file(&marker).unwrap();
    world.upload("lost", "lost", b"lost").await;
    let refused = world.server.mark_blob_store(&blobs).await;
    assert!(matches!(refused, Err(CollectError::Blobs(BlobError::Unmarked { .. }))), "{refused:?}");
    assert!(!marker.exists());
    world.upload("hello", "key-1", b"source").await;
    assert!(blobs.exists(&digest).await.unwrap());
    world.server.mark_blob_store(&blobs).await.unwrap();
    assert!(marker.is_file(), "one that rows refer to is there");
}
