//! Objects: over a store in a directory, and a database.

use std::path::Path;

use mfaas_abi::limits::{OBJECT_BYTES_MAX, OBJECT_PIECE_BYTES_MAX};
use mfaas_abi::{ObjectReply, ObjectRequest};
use mfaas_blobs::Blobs;

use super::*;
use crate::objects::{open, sweep};

/// A broker with a database and a directory of its own.
struct World {
    broker: Arc<Broker>,
    database: String,
    directory: tempfile::TempDir,
}

fn url(directory: &Path) -> String {
    format!("file://{}", directory.display())
}

impl World {
    async fn new() -> Self {
        Self::within(&BOUNDS).await
    }

    async fn within(bounds: &Bounds) -> Self {
        let database = Cluster::get().create_database();
        let store = Store::open(&Cluster::get().url(&database, OWNER), 8, 0).await.unwrap();
        let directory = tempfile::tempdir().unwrap();
        let objects = open(&url(directory.path()), &store).await.unwrap();
        let broker =
            Arc::new(Broker::here(Stores { objects: Some(objects), ..Stores::of(store) }, 8, bounds));
        Self { broker, database, directory }
    }

    fn objects(&self) -> &Blobs {
        self.broker.objects.as_ref().unwrap()
    }

    /// Files of bytes of objects.
    fn files(&self) -> usize {
        let mut places = vec![self.directory.path().join("numbered")];
        let mut files = 0;
        while let Some(place) = places.pop() {
            for entry in std::fs::read_dir(place).into_iter().flatten().flatten() {
                if entry.path().is_dir() { places.push(entry.path()) } else { files += 1 }
            }
        }
        files
    }

    fn psql(&self, statement: &str) {
        assert!(Cluster::get().psql(&self.database, statement), "{statement}");
    }

    /// As if hours had passed; what has no name is gone then.
    async fn sweep_later(&self) {
        self.broker.abandoned.write(self.broker.store()).await;
        for table in ["staged_blobs", "freed_blobs"] {
            self.psql(&format!("UPDATE mfaas_data.{table} SET since = since - interval '12 hours'"));
        }
        assert!(sweep(self.objects(), self.broker.store()).await.unwrap());
        assert!(!sweep(self.objects(), self.broker.store()).await.unwrap());
    }
}

impl TestNode {
    async fn object(
        &mut self,
        call: u64,
        access: DataAccess,
        request: &ObjectRequest<'_>,
    ) -> Result<Vec<u8>, u32> {
        self.operate(call, 7, ResourceKind::Object, access, request.encode(0)).await;
        self.outcome(call).await.0
    }

    async fn put_object(&mut self, call: u64, name: &str, bytes: &[u8]) {
        let request = ObjectRequest::Put { name: name.as_bytes(), upload: None, bytes };
        assert_eq!(self.object(call, WRITE, &request).await, Ok(vec![]));
    }

    async fn size(&mut self, call: u64, name: &str) -> Option<u64> {
        let request = ObjectRequest::Size { name: name.as_bytes() };
        let reply = self.object(call, READ, &request).await.unwrap();
        match ObjectReply::decode(&reply, &request) {
            Some(ObjectReply::Size(size)) => size,
            other => panic!("{other:?}"),
        }
    }

    /// A piece of an object, and the size of the whole.
    async fn piece(&mut self, call: u64, name: &str, offset: u64, bytes: u32) -> Option<(u64, Vec<u8>)> {
        let request = ObjectRequest::Read { name: name.as_bytes(), offset, bytes };
        let reply = self.object(call, READ, &request).await.unwrap();
        match ObjectReply::decode(&reply, &request) {
            Some(ObjectReply::Piece(piece)) => piece.map(|(total, bytes)| (total, bytes.to_vec())),
            other => panic!("{other:?}"),
        }
    }

    async fn putting(&mut self, name: &str, bytes: &[u8]) {
        let (call, _) = self.begin("acme").await;
        self.put_object(call, name, bytes).await;
        assert_eq!(self.commits(call).await, CommitResult::Done);
    }
}

#[tokio::test]
async fn an_object_is_there_for_others_when_its_call_has_committed_and_whole() {
    let world = World::new().await;
    let mut node = TestNode::connect(&world.broker).await;
    let (call, caller) = node.begin("acme").await;
    let all: Vec<u8> = (0..3 * OBJECT_PIECE_BYTES_MAX).map(|at| (at % 251) as u8).collect();
    let pieces: Vec<&[u8]> = all.chunks(OBJECT_PIECE_BYTES_MAX).collect();
    for bytes in &pieces[..2] {
        let request = ObjectRequest::Append { upload: 9, bytes };
        assert_eq!(node.object(call, WRITE, &request).await, Ok(vec![]));
    }
    assert_eq!(world.broker.uploading.of(&caller.tenant), 2 * OBJECT_PIECE_BYTES_MAX);
    assert_eq!(world.files(), 0);
    let request = ObjectRequest::Put { name: b"../a photo", upload: Some(9), bytes: pieces[2] };
    assert_eq!(node.object(call, WRITE, &request).await, Ok(vec![]));
    assert_eq!(world.broker.uploading.of(&caller.tenant), 0, "it lies in the store");
    assert_eq!(world.files(), 1);
    assert_eq!(node.size(call, "../a photo").await, Some(all.len() as u64));
    let (other, _) = node.begin("acme").await;
    assert_eq!(node.size(other, "../a photo").await, None);
    assert_eq!(node.commits(call).await, CommitResult::Done);

    let (later, _) = node.begin("acme").await;
    for (number, piece) in pieces.iter().enumerate() {
        let offset = (number * OBJECT_PIECE_BYTES_MAX) as u64;
        // No operation brings more than a piece, whatever is asked for.
        let read = node.piece(later, "../a photo", offset, u32::MAX).await.unwrap();
        assert_eq!(read, (all.len() as u64, piece.to_vec()));
    }
    let end = node.piece(later, "../a photo", all.len() as u64 - 2, 9).await.unwrap();
    assert_eq!(end.1, &all[all.len() - 2..]);
    for offset in [all.len() as u64, u64::MAX] {
        assert_eq!(node.piece(later, "../a photo", offset, 9).await, Some((all.len() as u64, vec![])));
    }
    // An object without bytes is one.
    node.putting("nothing", b"").await;
    let (later, _) = node.begin("acme").await;
    assert_eq!(node.piece(later, "nothing", 0, 9).await, Some((0, vec![])));
    assert_eq!(node.size(later, "absent").await, None);
}

#[tokio::test]
async fn objects_change_together_with_key_value_data_or_not_at_all() {
    let world = World::new().await;
    let mut node = TestNode::connect(&world.broker).await;
    node.putting("photo", b"before").await;
    let (call, _) = node.begin("acme").await;
    assert_eq!(node.size(call, "photo").await, Some(6));
    node.put_object(call, "photo", b"mine").await;
    node.does(call, WRITE, &put("title", b"mine")).await.0.unwrap();
    node.putting("photo", b"others").await;
    assert_eq!(node.commits(call).await, CommitResult::Conflict);
    let (later, _) = node.begin("acme").await;
    assert_eq!(node.piece(later, "photo", 0, 99).await, Some((6, b"others".to_vec())));
    assert_eq!(node.does(later, READ, &get("title")).await.0, Ok(value(None)));
    // What a call has read of an object stays the same for it, also if it is another one by now.
    let (reader, _) = node.begin("acme").await;
    assert_eq!(node.piece(reader, "photo", 0, 3).await, Some((6, b"oth".to_vec())));
    node.putting("photo", b"NEW").await;
    assert_eq!(node.piece(reader, "photo", 3, 3).await, Some((6, b"ers".to_vec())));
    // Until its bytes are gone, which a call does not live to see: then it has to run again.
    world.sweep_later().await;
    let request = ObjectRequest::Read { name: b"photo", offset: 0, bytes: 3 };
    assert_eq!(node.object(reader, READ, &request).await, Err(1204));
}

#[tokio::test]
async fn bytes_without_a_name_are_removed_and_others_never() {
    let world = World::new().await;
    let mut node = TestNode::connect(&world.broker).await;
    node.putting("kept", b"kept").await;
    node.putting("replaced", b"1").await;
    node.putting("replaced", b"2").await;
    node.putting("deleted", b"1").await;
    let (call, _) = node.begin("acme").await;
    assert_eq!(node.object(call, WRITE, &ObjectRequest::Delete { name: b"deleted" }).await, Ok(vec![]));
    assert_eq!(node.commits(call).await, CommitResult::Done);
    let (late, _) = node.begin("acme").await;
    node.put_object(late, "late", b"never committed").await;
    assert_eq!(world.files(), 5);
    assert!(!sweep(world.objects(), world.broker.store()).await.unwrap(), "a call may need them");
    assert_eq!(world.files(), 5);
    world.sweep_later().await;
    assert_eq!(world.files(), 2);
    assert_eq!(node.commits(late).await, CommitResult::Conflict, "its bytes are gone");
    let (later, _) = node.begin("acme").await;
    assert_eq!(node.piece(later, "kept", 0, 9).await, Some((4, b"kept".to_vec())));
    assert_eq!(node.piece(later, "replaced", 0, 9).await, Some((1, b"2".to_vec())));
    // Of a call that is over it goes next: one that was forgotten, one that met a conflict, and what one put twice.
    for ends in ["forgotten", "conflict", "twice"] {
        let (over, _) = node.begin("acme").await;
        node.put_object(over, "over", b"in vain").await;
        assert_eq!(world.files(), 3, "{ends}");
        match ends {
            "forgotten" => node.tell(ToBroker::Forget { call: over }).await,
            "conflict" => {
                assert_eq!(node.size(over, "kept").await, Some(4));
                node.putting("kept", b"KEPT").await;
                assert_eq!(node.commits(over).await, CommitResult::Conflict);
                // What was there before it, too.
                world.psql("UPDATE mfaas_data.freed_blobs SET since = '-infinity'");
            }
            _ => {
                node.put_object(over, "replaced", b"3").await;
                node.put_object(over, "over", b"in vain").await;
                node.object(over, WRITE, &ObjectRequest::Delete { name: b"over" }).await.unwrap();
                assert_eq!(node.commits(over).await, CommitResult::Done);
                world.psql("UPDATE mfaas_data.freed_blobs SET since = '-infinity'");
            }
        }
        let begun = Instant::now();
        while world.files() > 2 {
            assert!(begun.elapsed().as_secs() < 20, "{ends}: it stays");
            world.broker.abandoned.write(world.broker.store()).await;
            world.psql("UPDATE mfaas_data.staged_blobs SET since = '-infinity' WHERE doomed");
            let _ = sweep(world.objects(), world.broker.store()).await.unwrap();
        }
    }
    let (later, _) = node.begin("acme").await;
    let request = ObjectRequest::List { prefix: b"", after: None, limit: 9 };
    let reply = node.object(later, READ, &request).await.unwrap();
    let objects = vec![(&b"kept"[..], 4), (b"replaced", 1)];
    assert_eq!(ObjectReply::decode(&reply, &request), Some(ObjectReply::Page { objects, next: None }));
}

#[tokio::test]
async fn what_was_stored_in_vain_is_noted_when_the_database_takes_it_again() {
    let world = World::new().await;
    let mut node = TestNode::connect(&world.broker).await;
    let (call, _) = node.begin("acme").await;
    node.put_object(call, "a", b"in vain").await;
    assert_eq!(node.size(call, "b").await, None);
    node.putting("b", b"1").await;
    assert_eq!(node.commits(call).await, CommitResult::Conflict);
    let noted = "DO $$ BEGIN ASSERT (SELECT doomed FROM mfaas_data.staged_blobs); END $$";
    world.psql("ALTER TABLE mfaas_data.staged_blobs RENAME TO away");
    world.broker.abandoned.write(world.broker.store()).await;
    world.psql("ALTER TABLE mfaas_data.away RENAME TO staged_blobs");
    assert!(!Cluster::get().psql(&world.database, noted));
    world.broker.abandoned.write(world.broker.store()).await;
    world.psql(noted);
}

#[tokio::test]
async fn what_a_function_may_not_do_with_objects_is_refused() {
    let world = World::within(&Bounds { resource_bytes: 1 << 20, ..BOUNDS }).await;
    let mut node = TestNode::connect(&world.broker).await;
    let (call, _) = node.begin("acme").await;
    let (name, bytes) = (&b"a"[..], &b"x"[..]);
    for request in [
        ObjectRequest::Put { name, upload: None, bytes },
        ObjectRequest::Append { upload: 1, bytes },
        ObjectRequest::Delete { name },
    ] {
        assert_eq!(node.object(call, READ, &request).await, Err(1201), "{request:?}");
    }
    let long = [b'a'; 513];
    assert_eq!(node.object(call, READ, &ObjectRequest::Size { name: &long }).await, Err(1202));
    assert_eq!(node.object(call, READ, &ObjectRequest::Size { name: b"" }).await, Err(1202));
    // What is no operation, and key-value data under the same name.
    node.operate(call, 7, ResourceKind::Object, WRITE, vec![0; 9]).await;
    assert_eq!(node.outcome(call).await.0, Err(1207));
    node.does(call, WRITE, &put("value", b"1")).await.0.unwrap();
    assert_eq!(node.object(call, READ, &ObjectRequest::Size { name: b"value" }).await, Err(1207));
    // Half of what a resource may hold, as long as it is not known what it holds.
    let part = vec![0; 200 << 10];
    for number in 0..2 {
        node.putting(&number.to_string(), &part).await;
    }
    let request = ObjectRequest::Put { name, upload: None, bytes: &part };
    assert_eq!(node.object(call, WRITE, &request).await, Err(1208));
    assert_eq!(node.object(call, WRITE, &ObjectRequest::Append { upload: 1, bytes: &part }).await, Err(1208));
    assert_eq!(world.files(), 2, "nothing was stored");
    // What a piece of was refused becomes no object.
    let request = ObjectRequest::Put { name, upload: Some(1), bytes };
    assert_eq!(node.object(call, WRITE, &request).await, Err(1202));
    assert_eq!(node.object(call, WRITE, &ObjectRequest::Delete { name }).await, Ok(vec![]));
}

#[tokio::test]
async fn a_call_uploads_no_more_than_an_object_may_have() {
    let world = World::new().await;
    let mut node = TestNode::connect(&world.broker).await;
    let (call, _) = node.begin("acme").await;
    let piece = vec![0; 256 << 10];
    for _ in 0..OBJECT_BYTES_MAX / piece.len() {
        let request = ObjectRequest::Append { upload: 1, bytes: &piece };
        assert_eq!(node.object(call, WRITE, &request).await, Ok(vec![]));
    }
    assert_eq!(node.object(call, WRITE, &ObjectRequest::Append { upload: 2, bytes: b"x" }).await, Err(1202));
    let request = ObjectRequest::Put { name: b"a", upload: Some(1), bytes: b"" };
    assert_eq!(node.object(call, WRITE, &request).await, Ok(vec![]));
    assert_eq!(node.commits(call).await, CommitResult::Done);
}

#[tokio::test]
async fn a_store_that_is_away_or_another_one_is_our_fault_and_no_data_is_lost() {
    let world = World::new().await;
    let mut node = TestNode::connect(&world.broker).await;
    node.putting("a", b"1").await;
    // The file is gone, though an object names it.
    std::fs::remove_dir_all(world.directory.path().join("numbered")).unwrap();
    let (call, _) = node.begin("acme").await;
    let request = ObjectRequest::Read { name: b"a", offset: 0, bytes: 1 };
    assert_eq!(node.object(call, READ, &request).await, Err(1205));
    // An empty directory in its place takes nothing.
    std::fs::remove_file(world.directory.path().join("mfaas-blob-store")).unwrap();
    let put = ObjectRequest::Put { name: b"a", upload: None, bytes: b"2" };
    assert_eq!(node.object(call, WRITE, &put).await, Err(1205));
    assert_eq!(world.files(), 0);
    // Nor is it taken for the store when a broker starts.
    let opened = open(&url(world.directory.path()), world.broker.store()).await;
    assert!(opened.unwrap_err().to_string().contains("is not the blob store"));
    // A broker that was told of none.
    let none = broker().await;
    let mut node = TestNode::connect(&none).await;
    let (call, _) = node.begin("acme").await;
    assert_eq!(node.object(call, READ, &request).await, Err(1205));
}

#[test]
fn what_copies_whole_objects_or_encrypts_runs_on_threads_of_its_own() {
    let operation = |kind, request: &ObjectRequest<'_>| Operation {
        id: 1,
        resource: "photos".parse().unwrap(),
        kind,
        access: DataAccess::Write,
        secrets: Vec::new(),
        request: request.encode(0).split_off(size_of::<u32>()),
    };
    let read = ObjectRequest::Read { name: b"a", offset: 0, bytes: 1 };
    let put = ObjectRequest::Put { name: b"a", upload: None, bytes: b"b" };
    for (kind, request, are_files, is_busy) in [
        (ResourceKind::Object, &read, true, false),
        (ResourceKind::Object, &read, false, true),
        (ResourceKind::Object, &put, true, true),
        (ResourceKind::Kv, &put, false, false),
        (ResourceKind::Http, &read, true, true),
    ] {
        assert_eq!(keeps_busy(&operation(kind, request), are_files), is_busy, "{kind} {request:?}");
    }
    let nothing = Operation { request: vec![99], ..operation(ResourceKind::Object, &read) };
    assert!(keeps_busy(&nothing, true));
}
