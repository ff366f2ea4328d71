//! Files of volumes: over a directory, and a database.

use std::path::PathBuf;

use mfaas_abi::{VolumeReply, VolumeRequest};

use super::*;
use crate::volume_store::VolumeStore;

/// A broker with a database and a directory of its own.
struct World {
    broker: Arc<Broker>,
    database: String,
    directory: tempfile::TempDir,
}

impl World {
    async fn new() -> Self {
        Self::within(&BOUNDS).await
    }

    async fn within(bounds: &Bounds) -> Self {
        let database = Cluster::get().create_database();
        let directory = tempfile::tempdir().unwrap();
        let broker = over(&database, directory.path(), bounds).await;
        Self { broker, database, directory }
    }

    /// Where the files of the resource of these tests lie.
    fn volume(&self) -> PathBuf {
        self.directory.path().join("orders")
    }

    async fn holds(&self, condition: &str) -> bool {
        self.broker.audit.write(self.broker.store()).await;
        let check = format!("SET search_path = mfaas_data; DO $$ BEGIN ASSERT {condition}; END $$");
        Cluster::get().psql(&self.database, &check)
    }
}

async fn over(database: &str, directory: &std::path::Path, bounds: &Bounds) -> Arc<Broker> {
    let store = Store::open(&Cluster::get().url(database, OWNER), 8, 0).await.unwrap();
    let volumes = VolumeStore::open(&format!("file://{}", directory.display()), bounds).unwrap();
    Arc::new(Broker::here(Stores { volumes: Some(volumes), ..Stores::of(store) }, 8, bounds))
}

impl TestNode {
    async fn file(
        &mut self,
        call: u64,
        access: DataAccess,
        request: &VolumeRequest<'_>,
    ) -> Result<Vec<u8>, u32> {
        self.operate(call, 7, ResourceKind::Volume, access, request.encode(0)).await;
        self.outcome(call).await.0
    }

    async fn writes(&mut self, call: u64, path: &str, bytes: &[u8]) {
        let path = path.as_bytes();
        assert_eq!(self.file(call, WRITE, &VolumeRequest::Create { path }).await, Ok(vec![]));
        let request = VolumeRequest::Write { path, offset: 0, bytes };
        assert_eq!(self.file(call, WRITE, &request).await, Ok(vec![]));
    }

    async fn forgets(&mut self, call: u64) {
        self.tell(ToBroker::Forget { call }).await;
        // What comes behind it is answered when it is over.
        let (other, _) = self.begin("acme").await;
        assert_eq!(self.file(other, READ, &VolumeRequest::Size { path: b"none" }).await, Ok(vec![0]));
    }
}

#[tokio::test]
async fn a_call_writes_and_reads_files_at_once() {
    let world = World::new().await;
    let mut node = TestNode::connect(&world.broker).await;
    let (call, _) = node.begin("acme").await;
    node.writes(call, "a/b.txt", b"one two").await;
    assert_eq!(std::fs::read(world.volume().join("a/b.txt")).unwrap(), b"one two");
    let path = b"a/b.txt";
    let read = VolumeRequest::Read { path, offset: 4, bytes: 100 };
    assert_eq!(node.file(call, READ, &read).await, Ok(b"two".to_vec()));
    let append = VolumeRequest::Append { path, bytes: b" three" };
    assert_eq!(node.file(call, WRITE, &append).await, Ok(VolumeReply::Offset(7).encode()));
    assert_eq!(node.file(call, WRITE, &VolumeRequest::Truncate { path, size: 9 }).await, Ok(vec![]));
    assert_eq!(node.file(call, WRITE, &VolumeRequest::Sync { path }).await, Ok(vec![]));
    let size = VolumeRequest::Size { path };
    assert_eq!(node.file(call, READ, &size).await, Ok(VolumeReply::Size(Some(9)).encode()));
    let list = VolumeRequest::List { directory: b"", after: None, limit: 9 };
    let entries = VolumeReply::Entries { entries: vec![(b"a", None)], next: None };
    assert_eq!(node.file(call, READ, &list).await, Ok(entries.encode()));
    // Others see it, and it stays though nothing of the call takes effect.
    node.forgets(call).await;
    let (other, _) = node.begin("acme").await;
    assert_eq!(node.file(other, READ, &read).await, Ok(b"two t"[..5].to_vec()));
    assert_eq!(node.file(other, WRITE, &VolumeRequest::Remove { path }).await, Ok(vec![]));
    assert!(!world.volume().join("a/b.txt").exists());
}

#[tokio::test]
async fn what_a_function_may_not_ask_of_files_is_refused() {
    let world = World::new().await;
    let mut node = TestNode::connect(&world.broker).await;
    let (call, _) = node.begin("acme").await;
    node.writes(call, "a/b", b"x").await;
    std::os::unix::fs::symlink("/etc", world.volume().join("link")).unwrap();
    std::fs::create_dir(world.directory.path().join("other")).unwrap();
    std::fs::write(world.directory.path().join("other/secret"), b"secret").unwrap();
    for (path, code) in [
        ("../other/secret", 1202),
        ("a/../../other/secret", 1202),
        ("/etc/passwd", 1202),
        ("link/passwd", 1212),
        ("link", 1212),
        ("a", 1212),
        ("a/none", 1212),
    ] {
        let request = VolumeRequest::Read { path: path.as_bytes(), offset: 0, bytes: 100 };
        assert_eq!(node.file(call, READ, &request).await, Err(code), "reading {path}");
    }
    for path in ["../other/new", "link/new", "a/b/new", "a"] {
        let request = VolumeRequest::Create { path: path.as_bytes() };
        assert!(node.file(call, WRITE, &request).await.is_err(), "making {path}");
    }
    let write = VolumeRequest::Write { path: b"a/b", offset: 0, bytes: b"y" };
    assert_eq!(node.file(call, READ, &write).await, Err(1201));
    assert_eq!(node.file(call, READ, &VolumeRequest::Remove { path: b"a/b" }).await, Err(1201));
    assert_eq!(node.file(call, WRITE, &VolumeRequest::Remove { path: b"a" }).await, Err(1212));
    node.operate(call, 7, ResourceKind::Volume, WRITE, vec![0; 9]).await;
    assert_eq!(node.outcome(call).await.0, Err(1207));
    assert_eq!(std::fs::read(world.volume().join("a/b")).unwrap(), b"x");
}

/// Before anything is done, and completed when the call is over, however it ends.
#[tokio::test]
async fn each_file_that_a_call_changes_has_its_audit_record() {
    let world = World::new().await;
    let mut node = TestNode::connect(&world.broker).await;
    let (call, caller) = node.begin("acme").await;
    node.writes(call, "a", b"0123456789").await;
    let of_call = format!("FROM audit WHERE call = '{}' AND key_sha256 = sha256('a')", caller.id);
    assert!(world.holds(&format!("(SELECT count(*) {of_call} AND outcome = 'begun') = 2")).await);
    let write = VolumeRequest::Write { path: b"a", offset: 100, bytes: b"0123456789" };
    node.file(call, WRITE, &write).await.unwrap();
    assert_eq!(node.file(call, WRITE, &VolumeRequest::Remove { path: b"b" }).await, Ok(vec![]));
    assert_eq!(node.commits(call).await, CommitResult::Done);
    assert!(
        world
            .holds(&format!(
                "(SELECT count(*) {of_call} AND tenant = 'acme' AND function = 'shop' AND resource = 'orders'
                    AND operation = 'write' AND outcome = 'done' AND file_bytes = 20 AND keys = 2
                    AND from_byte = 0 AND to_byte = 110) = 1 AND
                 (SELECT count(*) {of_call} AND operation = 'create' AND outcome = 'done') = 1 AND
                 (SELECT count(*) FROM audit WHERE operation = 'remove' AND outcome = 'done') = 1 AND
                 (SELECT count(*) FROM audit) = 3"
            ))
            .await
    );
    // One that fails, one that is forgotten, and one whose node leaves.
    let (call, caller) = node.begin("acme").await;
    let truncate = VolumeRequest::Truncate { path: b"none", size: 7 };
    assert_eq!(node.file(call, WRITE, &truncate).await, Err(1212));
    node.forgets(call).await;
    let failed = "operation = 'truncate' AND outcome = 'failed'";
    assert!(world.holds(&format!("(SELECT {failed} FROM audit WHERE call = '{}')", caller.id)).await);
    let (call, caller) = node.begin("acme").await;
    node.writes(call, "c", b"1").await;
    drop(node);
    let told = format!(
        "(SELECT file_bytes FROM audit WHERE call = '{}' AND operation = 'write' AND outcome = 'done') = 1",
        caller.id
    );
    let asked = std::time::Instant::now();
    while !world.holds(&told).await {
        assert!(asked.elapsed().as_secs() < 20, "it is never told");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

/// What cannot be audited is not done.
#[tokio::test]
async fn without_its_audit_record_no_file_is_changed() {
    let world = World::new().await;
    let mut node = TestNode::connect(&world.broker).await;
    let (call, _) = node.begin("acme").await;
    node.writes(call, "a", b"1").await;
    assert!(Cluster::get().psql(&world.database, "ALTER TABLE mfaas_data.audit RENAME TO elsewhere"));
    assert_eq!(node.file(call, WRITE, &VolumeRequest::Create { path: b"b" }).await, Err(1205));
    assert!(!world.volume().join("b").exists());
    // One that has its record goes on.
    node.file(call, WRITE, &VolumeRequest::Append { path: b"a", bytes: b"2" }).await.unwrap();
}

#[tokio::test]
async fn a_volume_holds_no_more_than_it_may() {
    let world = World::within(&Bounds { resource_bytes: 100_000, ..BOUNDS }).await;
    let mut node = TestNode::connect(&world.broker).await;
    let (call, _) = node.begin("acme").await;
    let (bytes, path) = (vec![1; 60_000], &b"a"[..]);
    node.writes(call, "a", &bytes).await;
    let write = |offset| VolumeRequest::Write { path, offset, bytes: &bytes };
    assert_eq!(node.file(call, WRITE, &write(0)).await, Ok(vec![]), "it holds no more after that");
    let append = VolumeRequest::Append { path, bytes: &bytes };
    let requests =
        [write(60_000), write(u64::MAX - 10), append, VolumeRequest::Truncate { path, size: 1 << 40 }];
    for (number, request) in requests.iter().enumerate() {
        assert_eq!(node.file(call, WRITE, request).await, Err(1208), "request {number}");
    }
    // Nor does it hold many small ones.
    let mut made = 0;
    while made < 20 {
        let path = format!("d/{made}");
        match node.file(call, WRITE, &VolumeRequest::Create { path: path.as_bytes() }).await {
            Ok(_) => made += 1,
            Err(code) => {
                assert_eq!(code, 1208);
                break;
            }
        }
    }
    assert!((5..10).contains(&made), "{made} files of 4 KiB beside one of 60 KB");
    assert_eq!(std::fs::metadata(world.volume().join("a")).unwrap().len(), 60_000);
}

#[tokio::test]
async fn a_call_changes_no_more_files_than_it_may() {
    let world = World::new().await;
    let mut node = TestNode::connect(&world.broker).await;
    let (call, _) = node.begin("acme").await;
    for file in 0..256 {
        let path = file.to_string();
        let request = VolumeRequest::Remove { path: path.as_bytes() };
        assert_eq!(node.file(call, WRITE, &request).await, Ok(vec![]));
    }
    let remove = |path| VolumeRequest::Remove { path };
    assert_eq!(node.file(call, WRITE, &remove(b"256")).await, Err(1202));
    assert_eq!(node.file(call, WRITE, &remove(b"255")).await, Ok(vec![]), "one that it has changed already");
}

/// Each leaves a record behind: a tenant makes no more of them than it may change keys.
#[tokio::test]
async fn changes_of_files_count_for_more_than_their_bytes() {
    let world = World::within(&Bounds { operations_per_second: 50, ..BOUNDS }).await;
    let mut node = TestNode::connect(&world.broker).await;
    let (call, _) = node.begin("acme").await;
    let mut removed = 0;
    for file in 0..50 {
        let path = file.to_string();
        let asked = node.file(call, WRITE, &VolumeRequest::Remove { path: path.as_bytes() }).await;
        removed += usize::from(asked.is_ok());
    }
    // Those of one second at once, and some of the time that it took.
    assert!((5..40).contains(&removed), "{removed} of 50");
    assert!(world.holds(&format!("(SELECT count(*) FROM audit) = {removed}")).await);
}

/// Operations on a volume that hangs wait outside of their tenants' turns, so that other volumes have theirs.
#[tokio::test]
async fn operations_of_a_volume_that_hangs_keep_nobody_else() {
    let world = World::new().await;
    let mut node = TestNode::connect(&world.broker).await;
    let (call, _) = node.begin("acme").await;
    node.writes(call, "a", b"1").await;
    let store = world.broker.volumes.as_ref().unwrap();
    let mut hanging = Vec::new();
    for _ in 0..mfaas_volumes::VOLUME_OPERATIONS_MAX {
        hanging.push(store.permits.acquire(&"orders".parse().unwrap()).await.unwrap());
    }
    let size = VolumeRequest::Size { path: b"a" }.encode(0);
    for tenant in ["acme", "umbrella"] {
        for _ in 0..100 {
            let (call, _) = node.begin(tenant).await;
            node.operate(call, 1, ResourceKind::Volume, READ, size.clone()).await;
        }
    }
    // Another volume of one of them.
    let (call, _) = node.begin("acme").await;
    let (resource, kind, request) = ("other".parse().unwrap(), ResourceKind::Volume, size[4..].to_vec());
    node.tell(ToBroker::Operate { call, id: 7, resource, kind, access: READ, secrets: vec![], request })
        .await;
    assert_eq!(node.outcome(call).await.0, Ok(vec![0]));
    drop(hanging);
    for _ in 0..200 {
        assert!(matches!(node.next().await, FromBroker::Outcome { code: 0, id: 1, .. }));
    }
}

/// As where the disk is not mounted on which they lie.
#[tokio::test]
async fn an_empty_place_is_not_taken_for_that_of_the_volumes() {
    let world = World::new().await;
    let mut node = TestNode::connect(&world.broker).await;
    let (call, _) = node.begin("acme").await;
    node.writes(call, "a", b"1").await;
    let empty = tempfile::tempdir().unwrap();
    let request = VolumeRequest::Size { path: b"a" };
    let other = over(&world.database, empty.path(), &BOUNDS).await;
    let mut node = TestNode::connect(&other).await;
    let (call, _) = node.begin("acme").await;
    assert_eq!(node.file(call, READ, &request).await, Err(1205));
    assert_eq!(std::fs::read_dir(empty.path()).unwrap().count(), 0);
    // It is noted again when it is seen, if it was not.
    assert!(Cluster::get().psql(&world.database, "DELETE FROM mfaas_data.opened_stores"));
    let again = over(&world.database, world.directory.path(), &BOUNDS).await;
    let mut other_node = TestNode::connect(&again).await;
    let (other_call, _) = other_node.begin("acme").await;
    let size = VolumeReply::Size(Some(1)).encode();
    assert_eq!(other_node.file(other_call, READ, &request).await, Ok(size));
    // It is looked again soon, and not taken then either.
    tokio::time::sleep(std::time::Duration::from_millis(1_100)).await;
    assert_eq!(node.file(call, READ, &request).await, Err(1205));
    tokio::time::sleep(std::time::Duration::from_millis(1_100)).await;
    let mark = ".mfaas-volumes";
    std::fs::copy(world.directory.path().join(mark), empty.path().join(mark)).unwrap();
    assert_eq!(node.file(call, READ, &request).await, Ok(vec![0]));
}

/// A call that may look alone keeps nobody from what may be read and written in a second, and who asks for much waits.
#[tokio::test]
async fn a_volume_is_read_and_written_no_faster_than_it_may_be() {
    let world = World::within(&Bounds { volume_bytes_per_second: 1 << 20, ..BOUNDS }).await;
    let mut node = TestNode::connect(&world.broker).await;
    let (call, _) = node.begin("acme").await;
    node.writes(call, "a", b"1").await;
    let bytes = vec![1; 100 << 10];
    let write = VolumeRequest::Write { path: b"a", offset: 0, bytes: &bytes };
    for _ in 0..100 {
        assert_eq!(node.file(call, READ, &write).await, Err(1201));
    }
    let began = std::time::Instant::now();
    for _ in 0..6 {
        assert_eq!(node.file(call, WRITE, &write).await, Ok(vec![]));
    }
    // Five of them, of a tenth of a second each.
    assert!(began.elapsed().as_millis() >= 400, "{:?}", began.elapsed());
}

#[tokio::test]
async fn without_a_place_for_volumes_there_are_no_files() {
    let broker = broker().await;
    let mut node = TestNode::connect(&broker).await;
    let (call, _) = node.begin("acme").await;
    assert_eq!(node.file(call, READ, &VolumeRequest::Size { path: b"a" }).await, Err(1205));
}
