//! Calls that reach data: what the broker is asked, and when they are answered.

use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};

use mfaas_abi::{KvExpiry, KvReply, KvRequest, OperationKind, Record};
use mfaas_broker_protocol::{
    Caller, CommitResult, FromBroker, HEAD_BYTES, Hello, PROTOCOL, ToBroker, decode, encode, message_bytes,
};
use mfaas_ident::{Binding, ResourceBinding, ResourceKind};
use serde::de::DeserializeOwned;

use super::super::SLEEP_MAX;
use super::waits::{put_aside, resumed_with};
use super::*;
use crate::serving::Caches;

/// A broker that is the test's.
pub(super) struct TestBroker {
    listener: UnixListener,
    services: NodeServices,
    _directory: tempfile::TempDir,
}

/// A connection to it.
pub(super) struct Side(UnixStream);

impl TestBroker {
    pub(super) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("broker");
        let listener = UnixListener::bind(&socket).unwrap();
        let services = NodeServices { broker: Some(socket), ..NodeServices::default() };
        Self { listener, services, _directory: directory }
    }

    pub(super) fn services(&self) -> NodeServices {
        self.services.clone()
    }

    /// The next connection of the node.
    pub(super) fn accept(&self) -> Side {
        let (stream, _) = self.listener.accept().unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut side = Side(stream);
        side.0.write_all(&encode(&Hello { protocol: PROTOCOL }).unwrap()).unwrap();
        assert_eq!(side.read::<Hello>(), Hello { protocol: PROTOCOL });
        // The node takes the connection when it has read this side's hello, and says nothing then.
        std::thread::sleep(Duration::from_millis(200));
        side
    }
}

impl Side {
    fn read<M: DeserializeOwned>(&mut self) -> M {
        let mut head = [0; HEAD_BYTES];
        self.0.read_exact(&mut head).unwrap();
        let mut message = vec![0; message_bytes(head).unwrap()];
        self.0.read_exact(&mut message).unwrap();
        decode(&message).unwrap()
    }

    pub(super) fn next(&mut self) -> ToBroker {
        self.read()
    }

    fn tell(&mut self, message: &FromBroker) {
        self.0.write_all(&encode(message).unwrap()).unwrap();
    }

    /// A call begins and asks for something.
    pub(super) fn asked(&mut self) -> (u64, Caller, ToBroker) {
        let ToBroker::Begin { call, caller, parent: None } = self.next() else { panic!("it does not begin") };
        (call, caller, self.next())
    }

    pub(super) fn outcome(&mut self, call: u64, id: u32, bytes: &[u8], needs_commit: bool) {
        let bytes = bytes.to_vec();
        self.tell(&FromBroker::Outcome { call, id, code: 0, bytes, needs_commit });
    }

    pub(super) fn committed(&mut self, call: u64, result: CommitResult) {
        self.tell(&FromBroker::Committed { call, result });
    }
}

pub(super) fn orders() -> ResourceName {
    ResourceName::parse("orders").unwrap()
}

pub(super) fn granted(access: DataAccess) -> Option<BTreeMap<ResourceName, DataAccess>> {
    Some(BTreeMap::from([(orders(), access)]))
}

/// `acme/hello@2`, which binds orders for changes.
fn image() -> VerifiedImage {
    binding(&[ResourceKind::Kv])
}

/// The same version, which binds orders for changes as each of these.
pub(super) fn binding(kinds: &[ResourceKind]) -> VerifiedImage {
    let public = Declared { access: Some(Access::Public), ..Declared::default() };
    let binding = |kind: &ResourceKind| {
        let (kind, resource, access) = (*kind, orders(), DataAccess::Write);
        Binding::Resource(ResourceBinding { kind, resource, access })
    };
    let bindings: Vec<Binding> = kinds.iter().map(binding).collect();
    VerifiedImage::declaring_for_test(key("hello", 2), public).binding_for_test(&bindings)
}

/// A node that serves it with a broker, and the connection between them.
async fn stage(broker: &TestBroker) -> (Stage, Side) {
    let stage = Stage::with(broker.services()).await;
    let side = broker.accept();
    assert_eq!(stage.define_image(image(), 7).await, []);
    stage.route_image(image(), granted(DataAccess::Write).as_ref());
    (stage, side)
}

/// Asks the binding at that place.
pub(super) fn ask(end: &mut WorkerEnd, place: u32, id: u32) {
    ask_for(end, id, &[&place.to_le_bytes()[..], b"request"].concat());
}

pub(super) fn ask_for(end: &mut WorkerEnd, id: u32, operation: &[u8]) {
    put_aside(end, &[Record { id, code: OperationKind::Data as u32, bytes: operation }], b"state", 10);
}

/// Puts a value into the cache that is bound at that place.
pub(super) fn put(end: &mut WorkerEnd, place: u32, value: &[u8]) {
    ask_for(end, 8, &KvRequest::Put { key: b"key", value, expiry: KvExpiry::Never }.encode(place));
    assert_eq!(heard(end), [(8, 0, vec![])]);
}

/// What is under that key in the cache that is bound at that place.
fn cached(end: &mut WorkerEnd, place: u32) -> Option<Vec<u8>> {
    let request = KvRequest::Get { keys: vec![b"key"] };
    ask_for(end, 9, &request.encode(place));
    let heard = heard(end);
    assert_eq!((heard[0].0, heard[0].1), (9, 0), "{heard:?}");
    let Some(KvReply::Values(values)) = KvReply::decode(&heard[0].2, &request) else { panic!("{heard:?}") };
    values[0].map(<[u8]>::to_vec)
}

/// One that has caches.
pub(super) fn with_caches(services: NodeServices) -> NodeServices {
    NodeServices { caches: Arc::new(Caches::within(64 << 20)), ..services }
}

/// What a call hears: the numbers of codes, and bytes.
pub(super) fn heard(end: &mut WorkerEnd) -> Vec<(u32, u32, Vec<u8>)> {
    resumed_with(end, |outcome| (outcome.id, outcome.code, outcome.bytes.to_vec())).1
}

pub(super) async fn ended(
    call: tokio::task::JoinHandle<Result<Answered, CallError>>,
) -> Result<Answered, CallError> {
    tokio::time::timeout(PATIENCE, call).await.expect("no end").unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_changed_something_is_answered_when_that_has_taken_effect() {
    let broker = TestBroker::new();
    let (stage, mut side) = stage(&broker).await;
    let (mut end, _fd, _child) = stage.worker();
    let call = stage.call();
    next(&mut end);
    ask(&mut end, 0, 5);
    let (number, caller, operation) = side.asked();
    assert_eq!((caller.tenant.as_str(), caller.function.as_str()), ("acme", "hello"));
    let (resource, request) = (orders(), b"request".to_vec());
    let expected = ToBroker::Operate {
        call: number,
        id: 5,
        resource,
        kind: ResourceKind::Kv,
        access: DataAccess::Write,
        secrets: vec![],
        request,
    };
    assert_eq!(operation, expected);
    side.outcome(number, 5, b"what came of it", true);
    assert_eq!(heard(&mut end), [(5, 0, b"what came of it".to_vec())]);
    reply(&mut end, b"done");
    assert_eq!(side.next(), ToBroker::Commit { call: number });
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(!call.is_finished(), "nobody hears of what may not take effect");
    side.committed(number, CommitResult::Done);
    assert_eq!(ended(call).await.unwrap().completion.unwrap().response, b"done");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_needs_no_commit_is_answered_at_once_and_what_failed_takes_no_effect() {
    let broker = TestBroker::new();
    let (stage, mut side) = stage(&broker).await;
    let (mut end, _fd, _child) = stage.worker();
    for (status, needs_commit) in
        [(Status::Ok, false), (Status::HandlerError, true), (Status::Panicked, true)]
    {
        let call = stage.call();
        next(&mut end);
        ask(&mut end, 0, 1);
        let (number, ..) = side.asked();
        side.outcome(number, 1, b"", needs_commit);
        heard(&mut end);
        reply_with(&mut end, status, b"answer");
        assert_eq!(ended(call).await.unwrap().completion.unwrap().status, status);
        assert_eq!(side.next(), ToBroker::Forget { call: number }, "{status:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_runs_again_when_others_changed_what_it_saw_and_not_for_ever() {
    let broker = TestBroker::new();
    let (stage, mut side) = stage(&broker).await;
    let (mut end, _fd, _child) = stage.worker();
    let call = stage.call();
    let (mut ids, mut runs) = (std::collections::BTreeSet::new(), 0);
    loop {
        // The worker answers until the caller has given up, or been answered.
        match end.next(Duration::from_secs(2)).unwrap() {
            Next::Call(job) => assert!(!job.resumes, "it begins anew"),
            Next::Idle => break,
            Next::Stop => panic!("the worker is let go"),
        }
        let mut frame = vec![0; WorkerEnd::BUFFER_BYTES];
        let bytes = end.take_frame(&mut frame).unwrap();
        assert_eq!(&frame[..bytes], b"frame", "with its request");
        ask(&mut end, 0, 1);
        let (number, caller, _) = side.asked();
        assert!(ids.insert(caller.id), "each run is another call for the broker");
        side.outcome(number, 1, b"", true);
        heard(&mut end);
        reply(&mut end, b"done");
        assert_eq!(side.next(), ToBroker::Commit { call: number });
        // Told twice, as when the commit ends after it was looked for: the second time means nothing.
        side.committed(number, CommitResult::Conflict);
        side.committed(number, CommitResult::Conflict);
        runs += 1;
    }
    assert_eq!(runs, 9, "once, and eight times more");
    assert_eq!(ended(call).await.unwrap_err(), CallError::NotCommitted(codes::MF1204));
}

/// A grant that is revoked counts for calls that run.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_granted_any_more_is_not_asked_and_not_committed() {
    let broker = TestBroker::new();
    let (stage, mut side) = stage(&broker).await;
    let (mut end, _fd, _child) = stage.worker();
    // No such binding.
    let call = stage.call();
    next(&mut end);
    ask(&mut end, 1, 1);
    assert_eq!(heard(&mut end)[0].1, codes::MF1207.number());
    reply(&mut end, b"done");
    ended(call).await.unwrap();
    // Before its commit.
    let call = stage.call();
    next(&mut end);
    ask(&mut end, 0, 1);
    let (number, ..) = side.asked();
    side.outcome(number, 1, b"", true);
    heard(&mut end);
    stage.route_image(image(), granted(DataAccess::Read).as_ref());
    reply(&mut end, b"done");
    assert_eq!(ended(call).await.unwrap_err(), CallError::NotCommitted(codes::MF1201));
    assert_eq!(side.next(), ToBroker::Forget { call: number });
    // To look is allowed still.
    let call = stage.call();
    next(&mut end);
    ask(&mut end, 0, 1);
    let (number, _, operation) = side.asked();
    assert!(matches!(operation, ToBroker::Operate { access: DataAccess::Read, .. }), "{operation:?}");
    side.outcome(number, 1, b"", false);
    heard(&mut end);
    // And then not even that.
    stage.route_image(image(), None);
    ask(&mut end, 0, 2);
    assert_eq!(heard(&mut end)[0].1, codes::MF1201.number());
    reply(&mut end, b"done");
    ended(call).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_is_lost_is_told_of_and_its_commits_are_looked_for() {
    let broker = TestBroker::new();
    let (stage, mut side) = stage(&broker).await;
    let (mut end, _fd, _child) = stage.worker();
    let (first, mut callers) = (stage.call(), Vec::new());
    next(&mut end);
    ask(&mut end, 0, 1);
    let (number, caller, _) = side.asked();
    side.outcome(number, 1, b"", true);
    heard(&mut end);
    reply(&mut end, b"first");
    assert_eq!(side.next(), ToBroker::Commit { call: number });
    callers.push(caller);
    // Another one waits for an operation.
    let second = stage.call();
    next(&mut end);
    ask(&mut end, 0, 3);
    side.asked();
    drop(side);
    assert_eq!(heard(&mut end)[0].1, codes::MF1205.number());
    // What it knew is gone: nothing of this call can take effect, also by the next connection.
    let mut side = broker.accept();
    assert_eq!(side.next(), ToBroker::Settle { call: number, caller: callers[0].clone() });
    // That one is lost as well.
    drop(side);
    let mut side = broker.accept();
    assert_eq!(side.next(), ToBroker::Settle { call: number, caller: callers[0].clone() });
    ask(&mut end, 0, 4);
    assert_eq!(heard(&mut end)[0].1, codes::MF1205.number());
    reply(&mut end, b"second");
    assert_eq!(ended(second).await.unwrap().completion.unwrap().response, b"second");
    side.committed(number, CommitResult::Done);
    assert_eq!(ended(first).await.unwrap().completion.unwrap().response, b"first");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_without_a_broker_does_not_serve_what_binds_data() {
    let stage = Stage::new().await;
    let refused = stage.dispatcher.define(&[Arc::new(image())]).await.unwrap();
    assert_eq!(refused.iter().map(|(_, refused)| refused.code).collect::<Vec<_>>(), [codes::MF0723]);
}

/// A cache needs no broker.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_call_puts_into_a_cache_is_there_when_it_has_succeeded() {
    let stage = Stage::with(with_caches(NodeServices::default())).await;
    let image = || binding(&[ResourceKind::Cache]);
    assert_eq!(stage.define_image(image(), 7).await, []);
    stage.route_image(image(), granted(DataAccess::Write).as_ref());
    let (mut end, _fd, _child) = stage.worker();
    for (status, value) in
        [(Status::HandlerError, b"failed"), (Status::Panicked, b"panics"), (Status::Ok, b"worked")]
    {
        let call = stage.call();
        next(&mut end);
        assert_eq!(cached(&mut end, 0), None, "nothing of what did not succeed");
        put(&mut end, 0, value);
        assert_eq!(cached(&mut end, 0).unwrap(), value, "it sees it itself");
        reply_with(&mut end, status, b"answer");
        assert_eq!(ended(call).await.unwrap().completion.unwrap().status, status);
    }
    // To look is allowed still, and what was put before is there.
    stage.route_image(image(), granted(DataAccess::Read).as_ref());
    let call = stage.call();
    next(&mut end);
    assert_eq!(cached(&mut end, 0).unwrap(), b"worked");
    ask_for(&mut end, 3, &KvRequest::Delete { key: b"key" }.encode(0));
    assert_eq!(heard(&mut end)[0].1, codes::MF1201.number());
    reply(&mut end, b"done");
    ended(call).await.unwrap();
    // Revoked before it ends: nobody sees what it put there.
    stage.route_image(image(), granted(DataAccess::Write).as_ref());
    let call = stage.call();
    next(&mut end);
    put(&mut end, 0, b"late");
    stage.route_image(image(), granted(DataAccess::Read).as_ref());
    reply(&mut end, b"done");
    assert_eq!(ended(call).await.unwrap_err(), CallError::NotCommitted(codes::MF1201));
    let call = stage.call();
    next(&mut end);
    assert_eq!(cached(&mut end, 0).unwrap(), b"worked");
    reply(&mut end, b"done");
    ended(call).await.unwrap();
}

/// What a cache has was true once: it is put there after what it was made of has taken effect, and not if that has not.
#[tokio::test(flavor = "multi_thread")]
async fn a_cache_hears_of_a_call_when_its_commit_is_done() {
    let broker = TestBroker::new();
    let (stage, mut side) = stage_with_both(&broker).await;
    let (mut end, _fd, _child) = stage.worker();
    for (result, before) in [
        (CommitResult::Unavailable, None),
        (CommitResult::Full, None),
        (CommitResult::TooMuch, None),
        (CommitResult::Done, None),
        (CommitResult::Done, Some(b"value".to_vec())),
    ] {
        let call = stage.call();
        next(&mut end);
        assert_eq!(cached(&mut end, 1), before);
        put(&mut end, 1, b"value");
        let number = read(&mut end, &mut side, true);
        reply(&mut end, b"done");
        assert_eq!(side.next(), ToBroker::Commit { call: number });
        side.committed(number, result);
        assert_eq!(ended(call).await.is_ok(), result == CommitResult::Done);
    }
}

/// A call that runs again has put nothing there before it succeeds.
#[tokio::test(flavor = "multi_thread")]
async fn a_cache_hears_of_the_run_that_took_effect() {
    let broker = TestBroker::new();
    let (stage, mut side) = stage_with_both(&broker).await;
    let (mut end, _fd, _child) = stage.worker();
    let call = stage.call();
    for (value, result) in [(b"one", CommitResult::Conflict), (b"two", CommitResult::Done)] {
        next(&mut end);
        assert_eq!(cached(&mut end, 1), None);
        if result == CommitResult::Conflict {
            put(&mut end, 1, value);
        }
        let number = read(&mut end, &mut side, true);
        reply(&mut end, value);
        assert_eq!(side.next(), ToBroker::Commit { call: number });
        side.committed(number, result);
    }
    assert_eq!(ended(call).await.unwrap().completion.unwrap().response, b"two");
    let call = stage.call();
    next(&mut end);
    assert_eq!(cached(&mut end, 1), None, "the run that met another call put it there");
    reply(&mut end, b"done");
    ended(call).await.unwrap();
}

/// The broker knows of no call that has ended, though nothing was to be committed.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_read_and_cached_is_forgotten_by_the_broker() {
    let broker = TestBroker::new();
    let (stage, mut side) = stage_with_both(&broker).await;
    let (mut end, _fd, _child) = stage.worker();
    let call = stage.call();
    next(&mut end);
    let number = read(&mut end, &mut side, false);
    put(&mut end, 1, b"value");
    reply(&mut end, b"done");
    ended(call).await.unwrap();
    assert_eq!(side.next(), ToBroker::Forget { call: number });
    let call = stage.call();
    next(&mut end);
    assert_eq!(cached(&mut end, 1).unwrap(), b"value");
    reply(&mut end, b"done");
    ended(call).await.unwrap();
}

/// A node that serves `acme/hello@2`, which binds orders as key-value data and as a cache.
async fn stage_with_both(broker: &TestBroker) -> (Stage, Side) {
    let stage = Stage::with(with_caches(broker.services.clone())).await;
    let side = broker.accept();
    let image = || binding(&[ResourceKind::Kv, ResourceKind::Cache]);
    assert_eq!(stage.define_image(image(), 7).await, []);
    stage.route_image(image(), granted(DataAccess::Write).as_ref());
    (stage, side)
}

/// A call reads something, after which it does or does not need a commit; its number.
fn read(end: &mut WorkerEnd, side: &mut Side, needs_commit: bool) -> u64 {
    ask(end, 0, 1);
    let (number, ..) = side.asked();
    side.outcome(number, 1, b"", needs_commit);
    heard(end);
    number
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_given_no_more_of_caches_at_once_than_it_can_hear() {
    let stage = Stage::with(with_caches(NodeServices::default())).await;
    let image = || binding(&[ResourceKind::Cache]);
    assert_eq!(stage.define_image(image(), 7).await, []);
    stage.route_image(image(), granted(DataAccess::Write).as_ref());
    let (mut end, _fd, _child) = stage.worker();
    let call = stage.call();
    next(&mut end);
    put(&mut end, 0, &[7; 60 << 10]);
    let request = KvRequest::Get { keys: vec![b"key"] }.encode(0);
    let records: Vec<_> =
        (0..10).map(|id| Record { id, code: OperationKind::Data as u32, bytes: &request }).collect();
    put_aside(&mut end, &records, b"state", 10);
    let mut codes = Vec::new();
    while codes.len() < records.len() {
        let heard = heard(&mut end);
        codes.extend(heard.into_iter().map(|(_, code, _)| code));
        if codes.len() < records.len() {
            put_aside(&mut end, &[], b"state", 10);
        }
    }
    let given = codes.iter().filter(|code| **code == 0).count();
    assert_eq!(given, 5, "{codes:?}");
    assert!(codes[given..].iter().all(|code| *code == codes::MF1202.number()), "{codes:?}");
    reply(&mut end, b"done");
    ended(call).await.unwrap();
}

/// The engine of a caller that asks, and that of the thread, look for what the broker says, for a moment each.
#[tokio::test(flavor = "multi_thread")]
async fn what_the_broker_says_is_heard_however_late_it_comes() {
    const CALLS: usize = 400;
    const LATE_US: [u64; 5] = [0, 20, 90, 110, 2_000];
    let broker = TestBroker::new();
    let (stage, mut side) = stage(&broker).await;
    let (mut end, _fd, _child) = stage.worker();
    let worker = std::thread::spawn(move || {
        for _ in 0..CALLS {
            next(&mut end);
            ask(&mut end, 0, 1);
            heard(&mut end);
            reply(&mut end, b"done");
        }
        end
    });
    let brokers = std::thread::spawn(move || {
        for number in 0..CALLS {
            let (call, ..) = side.asked();
            std::thread::sleep(Duration::from_micros(LATE_US[number % LATE_US.len()]));
            side.outcome(call, 1, b"", false);
            assert_eq!(side.next(), ToBroker::Forget { call });
        }
        side
    });
    // An engine that rests over something hears of it when it has slept as long as it may.
    let all = async {
        for _ in 0..CALLS {
            ended(stage.call()).await.unwrap();
        }
    };
    tokio::time::timeout(SLEEP_MAX * 4 / 5, all).await.expect("the broker was not heard");
    drop((worker.join().unwrap(), brokers.join().unwrap()));
}
