//! Calls that have written to files or asked servers for a change: that is there, so they do not run again.

use mfaas_abi::frame::encode_request;
use mfaas_abi::{HttpRequest, VolumeRequest};
use mfaas_broker_protocol::{CommitResult, ToBroker};
use mfaas_dispatch::JobId;
use mfaas_ident::{Binding, FunctionBinding, ResourceBinding, ResourceKind};

use super::calls::{make, next_of_rank, public, response};
use super::data::{Side, TestBroker, ask, ask_for, binding, ended, granted, heard, orders};
use super::*;
use crate::limiter::{Limiter, Share};
use crate::serving::call::{Lineage, Parent, Reply};

/// Places of bindings.
const VALUES: u32 = 0;
const FILES: u32 = 1;
const SERVER: u32 = 2;
const SECRET: u32 = 3;
const RANK: u32 = 1;

/// A node that serves `acme/hello@2`, which binds values, files, a server and a secret, and its connection to the broker.
async fn stage(broker: &TestBroker) -> (Stage, Side) {
    let stage = Stage::with(broker.services()).await;
    let side = broker.accept();
    let image =
        || binding(&[ResourceKind::Kv, ResourceKind::Volume, ResourceKind::Http, ResourceKind::Secret]);
    assert_eq!(stage.define_image(image(), 7).await, []);
    stage.route_image(image(), granted(DataAccess::Write).as_ref());
    (stage, side)
}

/// Asks for something, which the broker does.
fn does(end: &mut WorkerEnd, side: &mut Side, call: u64, operation: &[u8]) {
    ask_for(end, 5, operation);
    assert!(matches!(side.next(), ToBroker::Operate { call: of, .. } if of == call));
    side.outcome(call, 5, b"", false);
    heard(end);
}

/// A call changes a value, and asks for something of a file; its commit meets another call.
async fn meets(stage: &Stage, end: &mut WorkerEnd, side: &mut Side, operation: &[u8]) -> Met {
    let call = stage.call();
    next(end);
    ask(end, VALUES, 1);
    let (number, ..) = side.asked();
    side.outcome(number, 1, b"", true);
    heard(end);
    does(end, side, number, operation);
    reply(end, b"done");
    assert_eq!(side.next(), ToBroker::Commit { call: number });
    side.committed(number, CommitResult::Conflict);
    call
}

type Met = tokio::task::JoinHandle<Result<Answered, CallError>>;

/// A request to the server, which carries the secret of these bindings.
fn send(method: &str, secrets: &[u32]) -> Vec<u8> {
    let mut frame = Vec::new();
    encode_request(&mut frame, method, "/charges", [], b"").unwrap();
    let secrets = secrets.to_vec();
    HttpRequest::Send { exchange: 1, upload: None, secrets, frame: &frame }.encode(SERVER)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_has_asked_a_server_for_a_change_does_not_run_again() {
    let broker = TestBroker::new();
    let (stage, mut side) = stage(&broker).await;
    let (mut end, _fd, _child) = stage.worker();
    let unknown = [&SERVER.to_le_bytes()[..], &[99]].concat();
    for change in [send("POST", &[]), send("DELETE", &[SECRET]), unknown] {
        let call = meets(&stage, &mut end, &mut side, &change).await;
        assert_eq!(ended(call).await.unwrap_err(), CallError::NotCommitted(codes::MF1213));
    }
    let append = HttpRequest::Append { upload: 1, bytes: b"x" }.encode(SERVER);
    for look in [send("GET", &[]), send("HEAD", &[SECRET]), append] {
        let call = meets(&stage, &mut end, &mut side, &look).await;
        next(&mut end);
        reply(&mut end, b"again");
        assert_eq!(ended(call).await.unwrap().completion.unwrap().response, b"again");
    }
}

/// A request names secrets as what it is sent to: by bindings that the function has and may use.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_carries_secrets_that_the_function_binds() {
    let broker = TestBroker::new();
    let (stage, mut side) = stage(&broker).await;
    let (mut end, _fd, _child) = stage.worker();
    let _call = stage.call();
    next(&mut end);
    for (operation, code) in [
        (send("GET", &[SECRET, VALUES]), codes::MF1207),
        (send("GET", &[SERVER]), codes::MF1207),
        (send("GET", &[9]), codes::MF1207),
        // It is nothing by itself.
        ([&SECRET.to_le_bytes()[..], b"request"].concat(), codes::MF1207),
    ] {
        ask_for(&mut end, 4, &operation);
        assert_eq!(heard(&mut end)[0].1, code.number());
    }
    ask_for(&mut end, 5, &send("GET", &[SECRET, SECRET]));
    let (number, _, operation) = side.asked();
    let ToBroker::Operate { kind: ResourceKind::Http, secrets, .. } = operation else {
        panic!("{operation:?}")
    };
    assert_eq!(secrets, [orders(), orders()]);
    side.outcome(number, 5, b"", false);
    heard(&mut end);
    stage.route_image(
        binding(&[ResourceKind::Kv, ResourceKind::Volume, ResourceKind::Http, ResourceKind::Secret]),
        None,
    );
    ask_for(&mut end, 6, &send("GET", &[]));
    assert_eq!(heard(&mut end)[0].1, codes::MF1201.number(), "its grant was revoked");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_has_written_to_a_file_does_not_run_again() {
    let broker = TestBroker::new();
    let (stage, mut side) = stage(&broker).await;
    let (mut end, _fd, _child) = stage.worker();
    let path = b"a";
    for change in [
        VolumeRequest::Create { path },
        VolumeRequest::Write { path, offset: 0, bytes: b"x" },
        VolumeRequest::Append { path, bytes: b"x" },
        VolumeRequest::Truncate { path, size: 0 },
        VolumeRequest::Remove { path },
    ] {
        let call = meets(&stage, &mut end, &mut side, &change.encode(FILES)).await;
        assert_eq!(ended(call).await.unwrap_err(), CallError::NotCommitted(codes::MF1213), "{change:?}");
    }
    // Nor does one that has asked for what this node does not know.
    let unknown = [&FILES.to_le_bytes()[..], &[99]].concat();
    let call = meets(&stage, &mut end, &mut side, &unknown).await;
    assert_eq!(ended(call).await.unwrap_err(), CallError::NotCommitted(codes::MF1213));
    // One that has looked at files alone does.
    for look in [VolumeRequest::Size { path }, VolumeRequest::Sync { path }] {
        let call = meets(&stage, &mut end, &mut side, &look.encode(FILES)).await;
        next(&mut end);
        reply(&mut end, b"again");
        assert_eq!(ended(call).await.unwrap().completion.unwrap().response, b"again", "{look:?}");
    }
}

/// Also where nobody knows what became of its commit until a later broker says that nothing did.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_is_looked_for_does_not_make_it_run_again() {
    let broker = TestBroker::new();
    let (stage, mut side) = stage(&broker).await;
    let (mut end, _fd, _child) = stage.worker();
    let call = stage.call();
    next(&mut end);
    ask(&mut end, VALUES, 1);
    let (number, ..) = side.asked();
    side.outcome(number, 1, b"", true);
    heard(&mut end);
    let append = VolumeRequest::Append { path: b"a", bytes: b"x" };
    does(&mut end, &mut side, number, &append.encode(FILES));
    reply(&mut end, b"done");
    assert_eq!(side.next(), ToBroker::Commit { call: number });
    drop(side);
    let mut side = broker.accept();
    assert!(matches!(side.next(), ToBroker::Settle { call: of, .. } if of == number));
    side.committed(number, CommitResult::Conflict);
    assert_eq!(ended(call).await.unwrap_err(), CallError::NotCommitted(codes::MF1213));
}

/// Whoever made the call that has written, and whatever that one answered; and nobody else.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_does_not_run_again_when_one_that_it_made_has_written() {
    let resource = |kind| {
        let access = DataAccess::Write;
        Binding::Resource(ResourceBinding { kind, resource: orders(), access })
    };
    let rank = Binding::Function(FunctionBinding::new("rank".parse().unwrap()));
    let hello = || public("hello", 2, &[resource(ResourceKind::Kv), rank.clone()]);
    let callee = || public("rank", 1, &[resource(ResourceKind::Kv), resource(ResourceKind::Volume)]);
    let broker = TestBroker::new();
    let stage = Stage::with(broker.services()).await;
    let mut side = broker.accept();
    assert_eq!(stage.define_image(hello(), 7).await, []);
    assert_eq!(stage.define_image(callee(), 8).await, []);
    stage.route_image(hello(), granted(DataAccess::Write).as_ref());
    stage.route_image(callee(), granted(DataAccess::Write).as_ref());
    let (mut end, _fd, _child) = stage.worker();
    for (writes, code) in [(true, codes::MF1213), (false, codes::MF1204)] {
        let call = stage.call();
        next(&mut end);
        ask(&mut end, VALUES, 1);
        let (root, ..) = side.asked();
        side.outcome(root, 1, b"", true);
        heard(&mut end);
        make(&mut end, RANK, 2, b"", 10);
        next_of_rank(&mut end);
        let path = b"a";
        let request = if writes { VolumeRequest::Create { path } } else { VolumeRequest::Size { path } };
        ask_for(&mut end, 5, &request.encode(FILES));
        let ToBroker::Begin { call: made, parent: Some(_), .. } = side.next() else { panic!("no callee") };
        assert!(matches!(side.next(), ToBroker::Operate { call: of, .. } if of == made));
        side.outcome(made, 5, b"", false);
        heard(&mut end);
        reply_with(&mut end, Status::HandlerError, &response(500, b"it fails"));
        assert_eq!(side.next(), ToBroker::Forget { call: made });
        heard(&mut end);
        reply(&mut end, b"done");
        assert_eq!(side.next(), ToBroker::Commit { call: root });
        side.committed(root, CommitResult::Conflict);
        if code == codes::MF1204 {
            next(&mut end);
            reply(&mut end, b"again");
            assert_eq!(ended(call).await.unwrap().completion.unwrap().response, b"again");
        } else {
            assert_eq!(ended(call).await.unwrap_err(), CallError::NotCommitted(code));
        }
    }
}

/// However far above it nobody waits any more: the one at the top may run again by then.
#[test]
fn a_call_is_awaited_by_all_that_made_it() {
    let parent = |of: Option<&Parent>, waits: &Arc<()>| Parent {
        job: JobId(1),
        operation: 1,
        connection: None,
        waits: Arc::downgrade(waits),
        depth: 1,
        lineage: Lineage::of(of),
        is_foreign: false,
        _place: Limiter::default().take(&0, Share::default()).unwrap(),
    };
    let [root_waits, child_waits] = [Arc::new(()), Arc::new(())];
    let of_root = parent(None, &root_waits);
    let of_child = Reply::Parent(Box::new(parent(Some(&of_root), &child_waits)));
    assert!(!of_child.is_closed());
    Lineage::of(of_child.parent()).begin();
    assert!(of_root.lineage.has_begun(), "what it does is its ancestors' as well");
    drop(root_waits);
    assert!(of_child.is_closed());
}
