#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use mfaas_abi::{KvExpiry, KvReply, KvRequest};
use mfaas_ident::{DataAccess, VersionNumber};
use mfaas_kv::Store;
use mfaas_test_postgres::{Cluster, OWNER};
use uuid::Uuid;

use super::*;
use crate::broker::Stores;
use crate::config::Bounds;

mod callees;
mod http;
mod objects;
mod redis;
mod volumes;

const BOUNDS: Bounds = Bounds {
    operations_per_second: 20_000,
    resource_bytes: 1 << 30,
    volume_bytes_per_second: 0,
    audited_reads: 0,
    audit_days: 1,
};

/// A broker over a database of its own.
async fn broker() -> Arc<Broker> {
    broker_within(&BOUNDS).await.0
}

/// The same within other bounds, and the name of the database.
async fn broker_within(bounds: &Bounds) -> (Arc<Broker>, String) {
    let database = Cluster::get().create_database();
    let store = Store::open(&Cluster::get().url(&database, OWNER), 8, 0).await.unwrap();
    (Arc::new(Broker::here(Stores::of(store), 8, bounds)), database)
}

/// A node, from the side of the test.
struct TestNode {
    stream: UnixStream,
    calls: u64,
}

impl TestNode {
    async fn connect(broker: &Arc<Broker>) -> Self {
        let (stream, other) = UnixStream::pair().unwrap();
        let broker = Arc::clone(broker);
        tokio::spawn(async move { serve(other, &broker).await });
        let mut node = Self { stream, calls: 0 };
        let hello = Hello { protocol: PROTOCOL };
        node.stream.write_all(&encode(&hello).unwrap()).await.unwrap();
        assert_eq!(read::<Hello>(&mut node.stream).await.unwrap(), Some(hello));
        node
    }

    async fn tell(&mut self, message: ToBroker) {
        self.stream.write_all(&encode(&message).unwrap()).await.unwrap();
    }

    async fn next(&mut self) -> FromBroker {
        let next = tokio::time::timeout(std::time::Duration::from_secs(20), read(&mut self.stream));
        next.await.expect("nothing comes").unwrap().expect("the broker is there")
    }

    /// A call that begins, of a tenant.
    async fn begin(&mut self, tenant: &str) -> (u64, Caller) {
        self.begin_child(tenant, None).await
    }

    /// The same, made by another one.
    async fn begin_child(&mut self, tenant: &str, parent: Option<u64>) -> (u64, Caller) {
        self.calls += 1;
        let caller = Caller {
            id: Uuid::new_v4(),
            tenant: tenant.parse().unwrap(),
            function: "shop".parse().unwrap(),
            version: VersionNumber::FIRST,
            trace: None,
        };
        self.tell(ToBroker::Begin { call: self.calls, caller: caller.clone(), parent }).await;
        (self.calls, caller)
    }

    async fn ask(&mut self, call: u64, id: u32, access: DataAccess, request: &KvRequest<'_>) {
        self.operate(call, id, ResourceKind::Kv, access, request.encode(0)).await;
    }

    async fn operate(
        &mut self,
        call: u64,
        id: u32,
        kind: ResourceKind,
        access: DataAccess,
        operation: Vec<u8>,
    ) {
        self.operate_on("orders", (call, id), kind, access, operation).await;
    }

    async fn operate_on(
        &mut self,
        resource: &str,
        (call, id): (u64, u32),
        kind: ResourceKind,
        access: DataAccess,
        operation: Vec<u8>,
    ) {
        let (resource, request) = (resource.parse().unwrap(), operation[4..].to_vec());
        let secrets = Vec::new();
        self.tell(ToBroker::Operate { call, id, resource, kind, access, secrets, request }).await;
    }

    /// What came of an operation: its bytes, or the number of a code.
    async fn does(
        &mut self,
        call: u64,
        access: DataAccess,
        request: &KvRequest<'_>,
    ) -> (Result<Vec<u8>, u32>, bool) {
        self.ask(call, 7, access, request).await;
        self.outcome(call).await
    }

    /// What came of the operation 7.
    async fn outcome(&mut self, call: u64) -> (Result<Vec<u8>, u32>, bool) {
        match self.next().await {
            FromBroker::Outcome { call: of, id: 7, code: 0, bytes, needs_commit } if of == call => {
                (Ok(bytes), needs_commit)
            }
            FromBroker::Outcome { call: of, id: 7, code, bytes, needs_commit } if of == call => {
                assert!(!bytes.is_empty(), "a sentence says why");
                (Err(code), needs_commit)
            }
            other => panic!("{other:?}"),
        }
    }

    async fn commits(&mut self, call: u64) -> CommitResult {
        self.tell(ToBroker::Commit { call }).await;
        match self.next().await {
            FromBroker::Committed { call: of, result } if of == call => result,
            other => panic!("{other:?}"),
        }
    }
}

const READ: DataAccess = DataAccess::Read;
const WRITE: DataAccess = DataAccess::Write;

fn put<'a>(key: &'a str, value: &'a [u8]) -> KvRequest<'a> {
    KvRequest::Put { key: key.as_bytes(), value, expiry: KvExpiry::Never }
}

fn get(key: &str) -> KvRequest<'_> {
    KvRequest::Get { keys: vec![key.as_bytes()] }
}

fn value(value: Option<&[u8]>) -> Vec<u8> {
    KvReply::Values(vec![value]).encode()
}

#[tokio::test]
async fn a_call_sees_what_it_changed_and_others_do_when_it_has_committed() {
    let broker = broker().await;
    let mut node = TestNode::connect(&broker).await;
    let (call, caller) = node.begin("acme").await;
    assert_eq!(node.does(call, WRITE, &put("k", b"v")).await, (Ok(vec![]), true));
    assert_eq!(node.does(call, WRITE, &get("k")).await.0, Ok(value(Some(b"v"))));
    let (other, _) = node.begin("acme").await;
    assert_eq!(node.does(other, READ, &get("k")).await, (Ok(value(None)), false));
    assert!(broker.held.of(&caller.tenant) > 0, "what it is to change");
    assert_eq!(node.commits(call).await, CommitResult::Done);
    let (later, _) = node.begin("acme").await;
    assert_eq!(node.does(later, READ, &get("k")).await.0, Ok(value(Some(b"v"))));
    // A call that was forgotten, and one of a connection that ends, change nothing.
    for number in 0..2 {
        let (call, _) = node.begin("acme").await;
        node.does(call, WRITE, &put("k", b"other")).await.0.unwrap();
        if number == 0 {
            node.tell(ToBroker::Forget { call }).await;
        }
    }
    let mut next = TestNode::connect(&broker).await;
    drop(node);
    let (call, _) = next.begin("acme").await;
    assert_eq!(next.does(call, READ, &get("k")).await.0, Ok(value(Some(b"v"))));
    next.tell(ToBroker::Forget { call }).await;
    let nothing = async {
        while broker.held.of(&caller.tenant) > 0 {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(20), nothing).await.expect("something is held still");
}

#[tokio::test]
async fn calls_that_meet_run_again_and_what_was_asked_over_another_connection_is_found() {
    let broker = broker().await;
    let mut node = TestNode::connect(&broker).await;
    let increment = async |node: &mut TestNode| {
        let (call, caller) = node.begin("acme").await;
        let request = KvRequest::Increment { key: b"n", by: 1 };
        let (sum, _) = node.does(call, WRITE, &request).await;
        assert!(matches!(KvReply::decode(&sum.unwrap(), &request), Some(KvReply::Number(_))));
        (call, caller)
    };
    let ((one, first), (other, second)) = (increment(&mut node).await, increment(&mut node).await);
    assert_eq!(node.commits(one).await, CommitResult::Done);
    assert_eq!(node.commits(other).await, CommitResult::Conflict);
    // Whoever does not know what a commit came to asks with its identity.
    let (third, unknown) = increment(&mut node).await;
    drop(node);
    let mut node = TestNode::connect(&broker).await;
    for (caller, expected) in
        [(first, CommitResult::Done), (second, CommitResult::Conflict), (unknown, CommitResult::Conflict)]
    {
        node.tell(ToBroker::Settle { call: 99, caller }).await;
        assert_eq!(node.next().await, FromBroker::Committed { call: 99, result: expected });
    }
    // A call of another connection is none of this one.
    assert_eq!(node.commits(third).await, CommitResult::Unavailable);
}

#[tokio::test]
async fn what_a_call_may_not_do_has_a_code() {
    let broker = broker().await;
    let mut node = TestNode::connect(&broker).await;
    let (call, _) = node.begin("acme").await;
    let long = "k".repeat(mfaas_kv::limits::KEY_BYTES_MAX + 1);
    let refused = [
        (READ, put("k", b"v"), codes::MF1201),
        (READ, KvRequest::Delete { key: b"k" }, codes::MF1201),
        (READ, KvRequest::Increment { key: b"k", by: 1 }, codes::MF1201),
        (READ, KvRequest::CompareAndSet { key: b"k", expected: None, value: None }, codes::MF1201),
        (WRITE, put(&long, b"v"), codes::MF1202),
        (WRITE, put("", b"v"), codes::MF1202),
        (WRITE, KvRequest::Scan { prefix: b"", after: None, limit: u32::MAX }, codes::MF1202),
    ];
    for (access, request, code) in refused {
        assert_eq!(node.does(call, access, &request).await, (Err(code.number()), false), "{request:?}");
    }
    node.does(call, WRITE, &put("text", b"no number")).await.0.unwrap();
    let increment = KvRequest::Increment { key: b"text", by: 1 };
    assert_eq!(node.does(call, WRITE, &increment).await.0, Err(codes::MF1203.number()));
    // More than an outcome holds.
    let large = vec![7; mfaas_kv::limits::VALUE_BYTES_MAX];
    for key in ["a", "b", "c"] {
        node.does(call, WRITE, &put(key, &large)).await.0.unwrap();
    }
    let all = KvRequest::Get { keys: vec![b"a", b"b", b"c"] };
    assert_eq!(node.does(call, WRITE, &all).await.0, Err(codes::MF1202.number()));
    // What is no request.
    let (resource, kind, request) = ("orders".parse().unwrap(), ResourceKind::Kv, b"\xff".to_vec());
    node.tell(ToBroker::Operate { call, id: 1, resource, kind, access: WRITE, secrets: vec![], request })
        .await;
    let outcome = node.next().await;
    assert!(matches!(outcome, FromBroker::Outcome { code: 1207, .. }), "{outcome:?}");
}

#[tokio::test]
async fn operations_of_one_call_follow_each_other_and_a_flood_is_refused() {
    let broker = broker().await;
    let mut node = TestNode::connect(&broker).await;
    let (call, _) = node.begin("acme").await;
    // All at once: each adds to what those before it made, in their order.
    for id in 1..=60 {
        node.ask(call, id, WRITE, &KvRequest::Increment { key: b"n", by: 1 }).await;
    }
    for _ in 0..60 {
        let FromBroker::Outcome { code: 0, id, bytes, .. } = node.next().await else { panic!("refused") };
        assert_eq!(i64::from_le_bytes(bytes.try_into().unwrap()), i64::from(id));
    }
    assert_eq!(node.commits(call).await, CommitResult::Done);
    // Of another tenant nothing is refused meanwhile.
    let (flood, _) = node.begin("acme").await;
    for id in 0..2_000 {
        node.ask(flood, id, READ, &get("n")).await;
    }
    let (other, _) = node.begin("umbrella").await;
    node.ask(other, 9_999, READ, &get("n")).await;
    let (mut refused, mut done) = (0, 0);
    for _ in 0..2_001 {
        match node.next().await {
            FromBroker::Outcome { call, code, .. } if call == other => assert_eq!(code, 0),
            FromBroker::Outcome { code: 0, .. } => done += 1,
            FromBroker::Outcome { code: 1205, .. } => refused += 1,
            unexpected => panic!("{unexpected:?}"),
        }
    }
    assert!(done >= 1_024 && done + refused == 2_000, "{done} done, {refused} refused");
}

#[tokio::test]
async fn a_node_of_another_protocol_is_not_served() {
    let broker = broker().await;
    let (mut stream, other) = UnixStream::pair().unwrap();
    let served = tokio::spawn(async move { serve(other, &broker).await });
    stream.write_all(&encode(&Hello { protocol: PROTOCOL + 1 }).unwrap()).await.unwrap();
    let error = served.await.unwrap().unwrap_err();
    assert!(matches!(error, ConnectionError::OtherProtocol(_)), "{error}");
}

/// It does not take effect in part, and the tenant's other calls have room again.
#[tokio::test]
async fn a_call_that_holds_too_much_loses_all_of_it() {
    let broker = broker().await;
    let mut node = TestNode::connect(&broker).await;
    let (call, caller) = node.begin("acme").await;
    assert_eq!(node.does(call, WRITE, &put("k", b"v")).await.0, Ok(vec![]));
    let others = (256 << 20) - broker.held.of(&caller.tenant) - 10;
    assert!(broker.held.replace(&caller.tenant, 0, others));
    assert_eq!(node.does(call, WRITE, &put("l", b"more than is left")).await.0, Err(1205));
    assert_eq!(broker.held.of(&caller.tenant), others, "what it held is given back");
    assert_eq!(node.does(call, WRITE, &put("m", b"")).await.0, Err(1205), "it is lost");
    assert_eq!(node.commits(call).await, CommitResult::Unavailable);
    broker.held.replace(&caller.tenant, others, 0);
    let (call, _) = node.begin("acme").await;
    assert_eq!(node.does(call, READ, &get("k")).await.0, Ok(value(None)));
}

/// What brokers have written since it was summed up is known to them, and what has been deleted when it is summed up again.
#[tokio::test]
async fn a_resource_holds_no_more_than_it_may() {
    let (broker, _) = broker_within(&Bounds { resource_bytes: 100_000, ..BOUNDS }).await;
    is_bounded(&broker).await;
}

/// `orders` may hold 100,000 bytes.
async fn is_bounded(broker: &Arc<Broker>) {
    let mut node = TestNode::connect(broker).await;
    let large = vec![7; 40_000];
    let write = async |node: &mut TestNode, request: &KvRequest<'_>| {
        let (call, _) = node.begin("acme").await;
        let (outcome, _) = node.does(call, WRITE, request).await;
        outcome.map(|_| ())?;
        assert_eq!(node.commits(call).await, CommitResult::Done);
        Ok::<_, u32>(())
    };
    write(&mut node, &put("a", &large)).await.unwrap();
    // Not known to be large: half may be there already.
    write(&mut node, &put("b", &large)).await.unwrap();
    assert_eq!(write(&mut node, &put("c", b"x")).await, Err(1208));
    // What was written shortly before it was summed up counts once more, since it may not be in the sum.
    assert!(!broker.stored.renew(&broker.data).await.unwrap());
    assert_eq!(write(&mut node, &put("c", b"x")).await, Err(1208));
    broker.stored.renew(&broker.data).await.unwrap();
    // The same size in the place of another is nothing more.
    let (call, _) = node.begin("acme").await;
    assert_eq!(node.does(call, WRITE, &get("a")).await.0, Ok(value(Some(&large))));
    node.does(call, WRITE, &put("a", &large)).await.0.unwrap();
    assert_eq!(node.commits(call).await, CommitResult::Done);
    // Two calls of which each alone would fit.
    let (call, _) = node.begin("acme").await;
    node.does(call, WRITE, &put("e", &large)).await.0.unwrap();
    write(&mut node, &put("c", &large)).await.unwrap();
    assert_eq!(node.commits(call).await, CommitResult::Full);
    let full = [
        put("d", b"x"),
        KvRequest::Increment { key: b"n", by: 1 },
        KvRequest::CompareAndSet { key: b"n", expected: None, value: Some(b"x") },
    ];
    for round in 0..2 {
        for request in &full {
            assert_eq!(write(&mut node, request).await, Err(1208), "{round}: {request:?}");
        }
        broker.stored.renew(&broker.data).await.unwrap();
    }
    // To look, and to make room.
    let (call, _) = node.begin("acme").await;
    assert_eq!(node.does(call, READ, &get("a")).await.0, Ok(value(Some(&large))));
    write(&mut node, &KvRequest::Delete { key: b"a" }).await.unwrap();
    write(&mut node, &KvRequest::CompareAndSet { key: b"b", expected: Some(&large), value: None })
        .await
        .unwrap();
    broker.stored.renew(&broker.data).await.unwrap();
    write(&mut node, &put("d", b"x")).await.unwrap();
}

#[tokio::test]
async fn a_tenant_asks_for_so_many_operations_a_second() {
    let (broker, _) = broker_within(&Bounds { operations_per_second: 50, ..BOUNDS }).await;
    let mut node = TestNode::connect(&broker).await;
    let (call, _) = node.begin("acme").await;
    let (other, _) = node.begin("umbrella").await;
    let begun = Instant::now();
    let mut done = 0;
    // One after the other: nothing of it is open when the next one comes.
    for _ in 0..500 {
        match node.does(call, READ, &get("n")).await.0 {
            Ok(_) => done += 1,
            Err(code) => assert_eq!(code, 1205),
        }
    }
    let most = 51 + 50 * (begun.elapsed().as_secs() + 1);
    assert!((51..=most).contains(&done), "{done} of 500 were done, and {most} may be");
    assert_eq!(node.does(other, READ, &get("n")).await.0, Ok(value(None)));
}

#[tokio::test]
async fn reads_that_are_audited_have_their_records() {
    let (broker, database) = broker_within(&Bounds { audited_reads: 1, ..BOUNDS }).await;
    let mut node = TestNode::connect(&broker).await;
    let (call, caller) = node.begin("acme").await;
    node.does(call, WRITE, &put("k", b"value")).await.0.unwrap();
    node.does(call, WRITE, &put("pre-1", b"value")).await.0.unwrap();
    node.does(call, READ, &KvRequest::Get { keys: vec![] }).await.0.unwrap();
    node.does(call, READ, &KvRequest::Get { keys: vec![b"k", b"l"] }).await.0.unwrap();
    node.does(call, READ, &KvRequest::Scan { prefix: b"pre", after: None, limit: 9 }).await.0.unwrap();
    let compare = KvRequest::CompareAndSet { key: b"m", expected: Some(b"x"), value: None };
    node.does(call, WRITE, &compare).await.0.unwrap();
    broker.reads.write(broker.store()).await;
    let holds = |condition: String| {
        let check = format!("DO $$ BEGIN SET search_path = mfaas_data; ASSERT {condition}; END $$");
        Cluster::get().psql(&database, &check)
    };
    let of_call =
        format!("FROM audit WHERE call = '{}' AND tenant = 'acme' AND resource = 'orders'", caller.id);
    for (operation, key, keys) in [("get", "k", 2), ("scan", "pre", 1), ("get", "m", 1)] {
        assert!(
            holds(format!(
                "(SELECT count(*) {of_call} AND operation = '{operation}' AND key_sha256 = sha256('{key}') AND keys = {keys}
                      AND bytes > 0) = 1"
            )),
            "{operation} {key}"
        );
    }
    assert!(holds("(SELECT count(*) FROM audit) = 3".to_owned()), "a read of nothing is none");
}

#[tokio::test]
async fn one_in_so_many_reads_is_audited() {
    let (broker, database) = broker_within(&Bounds { audited_reads: 10, ..BOUNDS }).await;
    let mut node = TestNode::connect(&broker).await;
    let (call, _) = node.begin("acme").await;
    for _ in 0..1_000 {
        node.does(call, READ, &get("k")).await.0.unwrap();
    }
    broker.reads.write(broker.store()).await;
    // Less likely than one in a million to be outside.
    let check = "DO $$ BEGIN ASSERT (SELECT count(*) FROM mfaas_data.audit) BETWEEN 50 AND 160; END $$";
    assert!(Cluster::get().psql(&database, check));
}
