//! Calls that stay in their workers while they wait: what they are told there, and what not.

use std::time::Instant;

use mfaas_abi::{DONE, KvReply, KvRequest, OperationKind, Record, Records};
use mfaas_ident::ResourceKind;
use mfaas_ring::Told;

use super::data::{TestBroker, binding, ended, granted, heard, put, with_caches};
use super::waits::{put_aside, resumed_with};
use super::*;

/// How long it is asked for what is not told.
pub(super) const IN_VAIN: Duration = Duration::from_millis(30);

/// An operation on data, as a record.
fn record(id: u32, operation: &[u8]) -> Vec<u8> {
    let mut records = Vec::new();
    Record { id, code: OperationKind::Data as u32, bytes: operation }.append_to(&mut records);
    records
}

/// Asks for so long what the call waits for that was taken.
pub(super) fn ask(end: &mut WorkerEnd, question: &[u8], patience: Duration) -> Option<Vec<u8>> {
    let (begun, mut into) = (Instant::now(), vec![0; 1 << 20]);
    // It looks now and then also while it sleeps.
    end.set_ask_us(PATIENCE.as_micros() as u64);
    while begun.elapsed() < patience {
        if let Told::Bytes(bytes) = end.ask(question, &mut into).unwrap() {
            into.truncate(bytes);
            return Some(into);
        }
    }
    None
}

/// What lies under `key` in the cache at that place, as often as it is asked for; nothing if it is not told.
fn get(end: &mut WorkerEnd, place: u32, count: usize, patience: Duration) -> Option<Vec<Option<Vec<u8>>>> {
    let request = KvRequest::Get { keys: vec![b"key"; count] };
    let told = ask(end, &record(9, &request.encode(place)), patience)?;
    let outcomes: Vec<_> = Records::decode(&told).unwrap().collect();
    let [Record { id: 9, code: DONE, bytes }] = outcomes[..] else { panic!("{outcomes:?}") };
    let Some(KvReply::Values(values)) = KvReply::decode(bytes, &request) else { panic!("{bytes:?}") };
    Some(values.iter().map(|value| value.map(<[u8]>::to_vec)).collect())
}

fn one(end: &mut WorkerEnd, place: u32) -> Option<Option<Vec<u8>>> {
    Some(get(end, place, 1, PATIENCE)?.remove(0))
}

async fn stage(kinds: &[ResourceKind]) -> Stage {
    let stage = Stage::with(with_caches(TestBroker::new().services())).await;
    assert_eq!(stage.define_image(binding(kinds), 7).await, []);
    stage.route_image(binding(kinds), granted(DataAccess::Write).as_ref());
    stage
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_cache_has_a_call_is_told_where_it_is() {
    let stage = stage(&[ResourceKind::Cache]).await;
    let (mut end, _fd, _child) = stage.worker();
    let call = stage.call();
    assert!(next(&mut end).may_ask);
    assert_eq!(one(&mut end, 0).unwrap(), None, "nothing is there");
    put(&mut end, 0, b"value");
    assert_eq!(one(&mut end, 0).unwrap().unwrap(), b"value", "what it has put there itself");
    reply(&mut end, b"done");
    ended(call).await.unwrap();
    let call = stage.call();
    next(&mut end);
    assert_eq!(one(&mut end, 0).unwrap().unwrap(), b"value");
    // It was told something and never put aside: it ends as any other.
    reply(&mut end, b"answer");
    assert_eq!(ended(call).await.unwrap().completion.unwrap().response, b"answer");
}

/// Anything that changes something, that others have to do or that is not granted: the call is put aside for it.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_told_nothing_else_where_it_is() {
    let kinds = [ResourceKind::Cache, ResourceKind::Kv];
    let stage = stage(&kinds).await;
    let (mut end, _fd, _child) = stage.worker();
    let (key, value, expiry) = (b"key", b"value", mfaas_abi::KvExpiry::Never);
    let get = KvRequest::Get { keys: vec![key] };
    let (read, delete) = (record(1, &get.encode(0)), KvRequest::Delete { key }.encode(0));
    let mut sleep = Vec::new();
    Record { id: 1, code: OperationKind::Sleep as u32, bytes: &[0; 8] }.append_to(&mut sleep);
    for (what, question) in [
        ("a change", record(1, &KvRequest::Put { key, value, expiry }.encode(0))),
        ("a change behind what may be told", [&*read, &record(2, &delete)].concat()),
        ("what is no cache", record(1, &get.encode(1))),
        ("no binding", record(1, &get.encode(2))),
        ("no operation", record(1, &get.encode(0)[..3])),
        ("no record", get.encode(0)),
        ("nothing", Vec::new()),
        ("a sleep", sleep),
    ] {
        let call = stage.call();
        next(&mut end);
        assert!(ask(&mut end, &read, PATIENCE).is_some(), "the twin");
        assert_eq!(ask(&mut end, &question, IN_VAIN), None, "{what}");
        reply(&mut end, b"done");
        ended(call).await.unwrap();
    }
    let call = stage.call();
    next(&mut end);
    stage.route_image(binding(&kinds), None);
    assert_eq!(ask(&mut end, &read, IN_VAIN), None, "what is not granted any more");
    let heard = one_by_one(&mut end);
    assert_eq!(heard, [(9, codes::MF1201.number(), vec![])], "it hears why when it is put aside");
    reply(&mut end, b"done");
    ended(call).await.unwrap();
}

/// Puts the call aside for a value.
fn one_by_one(end: &mut WorkerEnd) -> Vec<(u32, u32, Vec<u8>)> {
    let request = KvRequest::Get { keys: vec![b"key"] }.encode(0);
    put_aside(end, &[Record { id: 9, code: OperationKind::Data as u32, bytes: &request }], b"state", 10);
    let mut heard = heard(end);
    heard.iter_mut().filter(|(_, code, _)| *code != DONE).for_each(|(_, _, message)| message.clear());
    heard
}

/// All of it is done on the thread through which all calls pass: a call that has asked for much is put aside, and charged for it.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_asks_for_so_many_keys_where_it_is() {
    let stage = stage(&[ResourceKind::Cache]).await;
    let (mut end, _fd, _child) = stage.worker();
    let call = stage.call();
    let budget_us = next(&mut end).budget_us;
    assert_eq!(get(&mut end, 0, 199, PATIENCE).unwrap().len(), 199);
    assert_eq!(get(&mut end, 0, 0, PATIENCE).unwrap().len(), 0, "which counts as one");
    assert_eq!(get(&mut end, 0, 57, IN_VAIN), None);
    let two = [
        record(1, &KvRequest::Get { keys: vec![b"key"; 56] }.encode(0)),
        record(2, &KvRequest::Get { keys: vec![b"key"] }.encode(0)),
    ];
    assert_eq!(ask(&mut end, &two.concat(), IN_VAIN), None, "what it is not told is not counted");
    assert_eq!(get(&mut end, 0, 56, PATIENCE).unwrap().len(), 56, "the twin");
    let request = KvRequest::Get { keys: vec![b"key"] }.encode(0);
    put_aside(&mut end, &[Record { id: 9, code: OperationKind::Data as u32, bytes: &request }], b"state", 10);
    let (job, heard, _) = resumed_with(&mut end, |outcome| (outcome.id, outcome.code));
    assert_eq!(heard, [(9, DONE)]);
    // One operation, and 256 keys before it: 10 µs of its own, one for the wait, 128 for them.
    assert_eq!(job.budget_us, budget_us - 139);
    assert_eq!(get(&mut end, 0, 255, PATIENCE).unwrap().len(), 255, "and one when it was put aside");
    assert_eq!(get(&mut end, 0, 1, IN_VAIN), None);
    reply(&mut end, b"done");
    ended(call).await.unwrap();
}

/// What has ended meanwhile comes with the next wait: a call that is told things where it is never would hear of it.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_to_hear_of_something_else_is_put_aside() {
    let stage = stage(&[ResourceKind::Cache]).await;
    let (mut end, _fd, _child) = stage.worker();
    let call = stage.call();
    next(&mut end);
    let request = KvRequest::Get { keys: vec![b"key"] }.encode(0);
    let soon = 2_000_000u64.to_le_bytes();
    let records = [
        Record { id: 2, code: OperationKind::Sleep as u32, bytes: &soon },
        Record { id: 1, code: OperationKind::Data as u32, bytes: &request },
    ];
    put_aside(&mut end, &records, b"state", 10);
    let (_, heard, _) = resumed_with(&mut end, |outcome| outcome.id);
    assert_eq!(heard, [1]);
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(get(&mut end, 0, 1, IN_VAIN), None);
    put_aside(&mut end, &[Record { id: 3, ..records[1] }], b"state", 10);
    let (_, mut heard, _) = resumed_with(&mut end, |outcome| outcome.id);
    heard.sort_unstable();
    assert_eq!(heard, [2, 3]);
    assert!(get(&mut end, 0, 1, PATIENCE).is_some(), "the twin");
    reply(&mut end, b"done");
    ended(call).await.unwrap();
}
