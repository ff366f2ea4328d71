//! Calls of functions of other tenants: who is let in, how often, and whose it is what they do.

use mfaas_abi::DONE;
use mfaas_abi::frame::RequestFrame;
use mfaas_broker_protocol::{CommitResult, ToBroker};
use mfaas_ident::{Binding, FunctionBinding};

use super::calls::{data, make, make_one_too_many, public, replied, response};
use super::data::{Side, TestBroker, ask, ended, granted, heard};
use super::*;
use crate::limiter::Share;
use crate::serving::Callees;

/// The places of what `acme/hello` binds.
const DATA: u32 = 0;
const PAY: u32 = 1;

/// `acme/hello@2`, which calls `bank/pay`.
fn hello() -> VerifiedImage {
    let pay = Binding::Function(FunctionBinding::new("bank/pay".parse().unwrap()));
    public("hello", 2, &[data(), pay])
}

/// `bank/pay@1`, which callers with a token of its tenant may call, and functions of these tenants.
fn pay(callers: &[&str]) -> VerifiedImage {
    let tenant = |name: &str| TenantName::parse(name).unwrap();
    let key = ImageKey { tenant: tenant("bank"), ..key("pay", 1) };
    let callers: Vec<_> = callers.iter().map(|name| tenant(name)).collect();
    VerifiedImage::declaring_for_test(key, Declared::default())
        .binding_for_test(&[data()])
        .letting_in_for_test(&callers)
}

/// A node that serves both, and its connection to the broker.
async fn stage(broker: &TestBroker, callers: &[&str], share: Share) -> (Stage, Side) {
    let services = NodeServices { callees: Arc::new(Callees::new(share)), ..broker.services() };
    let stage = Stage::with(services).await;
    let side = broker.accept();
    assert_eq!(stage.define_image(hello(), 7).await, []);
    assert_eq!(stage.define_image(pay(callers), 8).await, []);
    stage.route_image(hello(), granted(DataAccess::Write).as_ref());
    stage.route_image(pay(callers), granted(DataAccess::Write).as_ref());
    (stage, side)
}

/// The call of `pay` that comes next.
fn next_of_pay(end: &mut WorkerEnd) {
    let job = next(end);
    assert_eq!((job.function, job.resumes), (8, false));
}

/// It begins to change something; the broker's number of it. It has no other call above it.
fn pay_changes(end: &mut WorkerEnd, side: &mut Side) -> u64 {
    next_of_pay(end);
    ask(end, DATA, 5);
    let (call, caller, _) = side.asked();
    assert_eq!((caller.tenant.as_str(), caller.function.as_str()), ("bank", "pay"));
    side.outcome(call, 5, b"", true);
    assert_eq!(heard(end), [(5, DONE, vec![])]);
    call
}

#[tokio::test(flavor = "multi_thread")]
async fn a_function_of_another_tenant_is_called_if_it_lets_this_one_in() {
    let broker = TestBroker::new();
    let (stage, _side) = stage(&broker, &["shop"], Share::default()).await;
    let (mut end, _fd, _child) = stage.worker();
    let call = stage.call();
    next(&mut end);
    make(&mut end, PAY, 1, b"1", 10);
    assert_eq!(heard(&mut end)[0].1, codes::MF1210.number());
    stage.route_image(pay(&["acme"]), None);
    make(&mut end, PAY, 2, b"1", 10);
    next_of_pay(&mut end);
    let mut frame = vec![0; WorkerEnd::BUFFER_BYTES];
    let bytes = end.take_frame(&mut frame).unwrap();
    let request = RequestFrame::decode(&frame[..bytes]).unwrap();
    assert_eq!(request.headers.get("mfaas-caller"), Some("acme/function/hello"));
    reply(&mut end, &response(200, b"2"));
    assert_eq!(heard(&mut end), [(2, DONE, replied(200, b"2"))]);
    // From the next call on it does not any more.
    stage.route_image(pay(&[]), None);
    make(&mut end, PAY, 3, b"1", 10);
    assert_eq!(heard(&mut end)[0].1, codes::MF1210.number());
    reply(&mut end, b"done");
    ended(call).await.unwrap();
}

/// It takes effect when the function that did it has succeeded, whatever comes of its caller; that one does not run again.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_function_of_another_tenant_changes_is_its_own() {
    let broker = TestBroker::new();
    let (stage, mut side) = stage(&broker, &["acme"], Share::default()).await;
    let (mut end, _fd, _child) = stage.worker();
    let call = stage.call();
    next(&mut end);
    ask(&mut end, DATA, 1);
    let (root, ..) = side.asked();
    side.outcome(root, 1, b"", true);
    heard(&mut end);
    make(&mut end, PAY, 2, b"", 10);
    for result in [CommitResult::Conflict, CommitResult::Done] {
        let callee = pay_changes(&mut end, &mut side);
        reply(&mut end, &response(200, b"paid"));
        assert_eq!(side.next(), ToBroker::Commit { call: callee });
        side.committed(callee, result);
    }
    assert_eq!(heard(&mut end), [(2, DONE, replied(200, b"paid"))], "it ran twice, and was heard of once");
    reply(&mut end, b"done");
    assert_eq!(side.next(), ToBroker::Commit { call: root });
    side.committed(root, CommitResult::Conflict);
    assert_eq!(ended(call).await.unwrap_err(), CallError::NotCommitted(codes::MF1213));
}

/// A function of another tenant that changed nothing is called again with its caller.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_runs_again_that_called_what_changed_nothing() {
    let broker = TestBroker::new();
    let (stage, mut side) = stage(&broker, &["acme"], Share::default()).await;
    let (mut end, _fd, _child) = stage.worker();
    let call = stage.call();
    for result in [CommitResult::Conflict, CommitResult::Done] {
        next(&mut end);
        ask(&mut end, DATA, 1);
        let (root, ..) = side.asked();
        side.outcome(root, 1, b"", true);
        heard(&mut end);
        make(&mut end, PAY, 2, b"", 10);
        next_of_pay(&mut end);
        reply(&mut end, &response(200, b"looked"));
        heard(&mut end);
        reply(&mut end, b"done");
        assert_eq!(side.next(), ToBroker::Commit { call: root });
        side.committed(root, result);
    }
    ended(call).await.unwrap();
}

/// Each tenant has its share of another one's function, as callers over HTTP have.
#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_has_no_more_calls_of_a_function_of_another_one_than_its_share() {
    let broker = TestBroker::new();
    let (stage, _side) = stage(&broker, &["acme"], Share { rate: 1_000, concurrency: 1 }).await;
    let (mut end, _fd, _child) = stage.worker();
    let call = stage.call();
    next(&mut end);
    make_one_too_many(&mut end, PAY);
    next_of_pay(&mut end);
    reply(&mut end, &response(200, b""));
    assert_eq!(heard(&mut end), [(1, DONE, replied(200, b""))]);
    make(&mut end, PAY, 3, b"", 10);
    next_of_pay(&mut end);
    reply(&mut end, &response(200, b""));
    assert_eq!(heard(&mut end), [(3, DONE, replied(200, b""))], "what has ended counts no more");
    reply(&mut end, b"done");
    ended(call).await.unwrap();
}
