//! Resources that lie in Redis: `orders` does, and `ledger` lies in PostgreSQL.

use mfaas_abi::ObjectRequest;
use mfaas_kv::RedisServer;
use mfaas_test_redis::RedisServer as TestServer;

use super::*;

struct World {
    broker: Arc<Broker>,
    database: String,
    redis: TestServer,
}

impl World {
    async fn within(bounds: &Bounds) -> Self {
        let (redis, database) = (TestServer::start(&[]), Cluster::get().create_database());
        let file = tempfile::NamedTempFile::new().unwrap();
        let text = format!("[redis.main]\nurl = \"{}\"\nresources = [\"orders\"]\n", redis.url());
        std::fs::write(file.path(), text).unwrap();
        let store = Store::open(&Cluster::get().url(&database, OWNER), 8, 0).await.unwrap();
        let servers = RedisServer::read(file.path()).unwrap();
        let data = mfaas_kv::Stores::open(store.clone(), servers).await.unwrap();
        let broker = Arc::new(Broker::here(Stores { data, ..Stores::of(store) }, 8, bounds));
        Self { broker, database, redis }
    }

    async fn node(&self) -> TestNode {
        TestNode::connect(&self.broker).await
    }

    fn audited(&self, count: usize) -> bool {
        let check = format!("DO $$ BEGIN ASSERT (SELECT count(*) FROM mfaas_data.audit) = {count}; END $$");
        Cluster::get().psql(&self.database, &check)
    }
}

impl TestNode {
    async fn on_ledger(&mut self, call: u64, request: &KvRequest<'_>) -> Result<Vec<u8>, u32> {
        self.operate_on("ledger", (call, 7), ResourceKind::Kv, WRITE, request.encode(0)).await;
        self.outcome(call).await.0
    }
}

#[tokio::test]
async fn a_call_reads_in_several_stores_and_changes_data_of_one() {
    let world = World::within(&BOUNDS).await;
    let mut node = world.node().await;
    // The first change says which.
    let (call, _) = node.begin("acme").await;
    assert_eq!(node.on_ledger(call, &get("k")).await, Ok(value(None)));
    node.does(call, WRITE, &put("k", b"redis")).await.0.unwrap();
    assert_eq!(node.on_ledger(call, &get("k")).await, Ok(value(None)));
    for change in [
        put("k", b"x"),
        KvRequest::Delete { key: b"k" },
        KvRequest::Increment { key: b"k", by: 1 },
        KvRequest::CompareAndSet { key: b"k", expected: Some(b"never"), value: None },
    ] {
        assert_eq!(node.on_ledger(call, &change).await, Err(1218), "{change:?}");
    }
    let object = ObjectRequest::Delete { name: b"k" }.encode(0);
    node.operate_on("photos", (call, 7), ResourceKind::Object, WRITE, object).await;
    assert_eq!(node.outcome(call).await.0, Err(1205), "without a store of objects");
    node.does(call, WRITE, &put("other", b"redis")).await.0.unwrap();
    assert_eq!(node.commits(call).await, CommitResult::Done);
    let (call, _) = node.begin("acme").await;
    node.on_ledger(call, &put("k", b"postgres")).await.unwrap();
    assert_eq!(node.does(call, WRITE, &get("k")).await.0, Ok(value(Some(b"redis"))));
    assert_eq!(node.does(call, WRITE, &put("k", b"x")).await.0, Err(1218));
    assert_eq!(node.commits(call).await, CommitResult::Done);
    assert!(world.audited(1), "that of the database");
    assert_eq!(world.broker.data.move_audit().await.unwrap(), 2);
    assert!(world.audited(3));
}

#[tokio::test]
async fn calls_that_others_made_change_data_of_the_same_store() {
    let world = World::within(&BOUNDS).await;
    let mut node = world.node().await;
    let (root, _) = node.begin("acme").await;
    let (one, _) = node.begin_child("acme", Some(root)).await;
    let (other, _) = node.begin_child("acme", Some(root)).await;
    node.does(one, WRITE, &put("k", b"redis")).await.0.unwrap();
    node.on_ledger(other, &put("k", b"postgres")).await.unwrap();
    assert_eq!(node.commits(one).await, CommitResult::Done);
    assert_eq!(node.commits(other).await, CommitResult::SeveralStores);
    let (late, _) = node.begin_child("acme", Some(root)).await;
    assert_eq!(node.on_ledger(late, &put("k", b"postgres")).await, Err(1218));
    assert_eq!(node.on_ledger(root, &put("k", b"postgres")).await, Err(1218));
    assert_eq!(node.commits(late).await, CommitResult::Done);
    assert_eq!(node.commits(root).await, CommitResult::Done);
    let (call, _) = node.begin("acme").await;
    assert_eq!(node.on_ledger(call, &get("k")).await, Ok(value(None)));
    assert_eq!(node.does(call, READ, &get("k")).await.0, Ok(value(Some(b"redis"))));
}

#[tokio::test]
async fn what_was_asked_over_another_connection_is_settled_in_all_stores() {
    let world = World::within(&BOUNDS).await;
    let mut node = world.node().await;
    let mut ended = Vec::new();
    for in_redis in [true, false] {
        let (call, caller) = node.begin("acme").await;
        if in_redis {
            node.does(call, WRITE, &put("k", b"v")).await.0.unwrap();
        } else {
            node.on_ledger(call, &put("k", b"v")).await.unwrap();
        }
        assert_eq!(node.commits(call).await, CommitResult::Done);
        ended.push((caller, CommitResult::Done));
    }
    ended.push((node.begin("acme").await.1, CommitResult::Conflict));
    let mut next = world.node().await;
    for (number, (caller, expected)) in ended.into_iter().enumerate() {
        next.tell(ToBroker::Settle { call: number as u64, caller }).await;
        match next.next().await {
            FromBroker::Committed { result, .. } => assert_eq!(result, expected),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_resource_in_redis_holds_no_more_than_it_may() {
    let world = World::within(&Bounds { resource_bytes: 100_000, ..BOUNDS }).await;
    is_bounded(&world.broker).await;
}

/// A server that is away is in nobody's way who does not need it.
#[tokio::test]
async fn without_the_server_other_data_is_there() {
    let World { broker, redis, .. } = World::within(&BOUNDS).await;
    let mut node = TestNode::connect(&broker).await;
    drop(redis);
    let (call, _) = node.begin("acme").await;
    assert_eq!(node.does(call, READ, &get("k")).await.0, Err(1205));
    node.on_ledger(call, &put("k", b"v")).await.unwrap();
    assert_eq!(node.commits(call).await, CommitResult::Done);
    broker.stored.renew(&broker.data).await.unwrap();
    broker.data.renew_homes().await.unwrap();
}

/// The name of a resource of objects in the file does no harm.
#[tokio::test]
async fn objects_are_refused_where_redis_is_named_for_them() {
    let world = World::within(&BOUNDS).await;
    let directory = tempfile::tempdir().unwrap();
    let store = world.broker.store().clone();
    let url = format!("file://{}", directory.path().display());
    let objects = Some(crate::objects::open(&url, &store).await.unwrap());
    let stores = Stores { data: world.broker.data.clone(), objects, ..Stores::of(store) };
    let broker = Arc::new(Broker::here(stores, 8, &BOUNDS));
    let mut node = TestNode::connect(&broker).await;
    let (call, _) = node.begin("acme").await;
    for request in [
        ObjectRequest::Put { name: b"k", upload: None, bytes: b"v" },
        ObjectRequest::Delete { name: b"k" },
        ObjectRequest::Size { name: b"k" },
    ] {
        node.operate(call, 7, ResourceKind::Object, WRITE, request.encode(0)).await;
        assert_eq!(node.outcome(call).await.0, Err(1205), "{request:?}");
    }
    // Where they lie in PostgreSQL a change of them is one there.
    let photo = ObjectRequest::Put { name: b"k", upload: None, bytes: b"v" }.encode(0);
    node.operate_on("photos", (call, 7), ResourceKind::Object, WRITE, photo).await;
    node.outcome(call).await.0.unwrap();
    assert_eq!(node.does(call, WRITE, &KvRequest::Delete { key: b"k" }).await.0, Err(1218));
    assert_eq!(node.commits(call).await, CommitResult::Done);
    let (call, _) = node.begin("acme").await;
    node.does(call, WRITE, &put("k", b"v")).await.0.unwrap();
    for request in
        [ObjectRequest::Put { name: b"k", upload: None, bytes: b"v" }, ObjectRequest::Delete { name: b"k" }]
    {
        node.operate_on("photos", (call, 7), ResourceKind::Object, WRITE, request.encode(0)).await;
        assert_eq!(node.outcome(call).await.0, Err(1218), "{request:?}");
    }
    assert_eq!(node.commits(call).await, CommitResult::Done);
}
