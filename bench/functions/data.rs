//! A function of the executor that reaches data: for the same again and again, one after the other, so that a call with many
//! beside one with few shows what one takes.

use bench_function::{
    ANSWER_BYTES, CALL, Constants, GET, OBJECT_BYTES, PAGE_BYTES, PUT, PUT_OBJECT, READ_FILE, READ_OBJECT,
    REQUEST_BYTES, WRITE_FILE, work,
};
use mfaas_abi::{
    CalleeReply, DONE, KvExpiry, KvReply, KvRequest, ObjectReply, ObjectRequest, OperationKind,
    VolumeRequest, with_binding,
};
use mfaas_shim::{Handling, Operation, Reply};

#[used]
static CONSTANTS: Constants = Constants::PLACE;

/// Of the value, of the object and of the file.
const KEY: &[u8] = b"key";
/// The binding of data, and that of a function.
const BINDING: u32 = 0;
const CALLEE: u32 = 1;

/// The entry that the executor calls.
#[unsafe(no_mangle)]
pub extern "C" fn mfaas_entry_v1(call: *mut mfaas_shim::Call) -> u32 {
    mfaas_shim::enter(call, |request| -> Handling {
        let request: [u8; REQUEST_BYTES] =
            *request.body.first_chunk().expect("a request of 64 bytes or more");
        Box::pin(async move {
            let constants = std::hint::black_box(&CONSTANTS);
            match constants.kind {
                PUT => put(constants.rounds as usize).await,
                PUT_OBJECT => put_object().await,
                GET => {
                    for _ in 0..constants.rounds {
                        get().await;
                    }
                }
                READ_OBJECT => {
                    for _ in 0..constants.rounds {
                        read_object().await;
                    }
                }
                WRITE_FILE => write_file().await,
                READ_FILE => {
                    for _ in 0..constants.rounds {
                        read_file().await;
                    }
                }
                CALL => {
                    for _ in 0..constants.rounds {
                        call_another(&request).await;
                    }
                }
                _ => {}
            }
            let mut answer = [0; ANSWER_BYTES];
            let bytes = work(constants, &request, &mut answer);
            Reply::of(answer[..bytes].to_vec())
        })
    })
}

async fn put(bytes: usize) {
    let value = vec![7; bytes];
    ask(KvRequest::Put { key: KEY, value: &value, expiry: KvExpiry::Never }.encode(BINDING)).await;
}

async fn get() {
    let request = KvRequest::Get { keys: vec![KEY] };
    let outcome = ask(request.encode(BINDING)).await;
    let reply = KvReply::decode(&outcome, &request).expect("a reply to a get");
    let KvReply::Values(values) = reply else { panic!("{reply:?}") };
    assert!(values[0].is_some_and(|value| value.last() == Some(&7)), "the value is there");
}

async fn put_object() {
    let bytes = vec![7; OBJECT_BYTES];
    ask(ObjectRequest::Put { name: KEY, upload: None, bytes: &bytes }.encode(BINDING)).await;
}

async fn read_object() {
    let request = ObjectRequest::Read { name: KEY, offset: 0, bytes: OBJECT_BYTES as u32 };
    let outcome = ask(request.encode(BINDING)).await;
    let reply = ObjectReply::decode(&outcome, &request).expect("a reply to a read");
    let ObjectReply::Piece(Some((_, piece))) = reply else { panic!("the object is there") };
    assert!(piece.len() == OBJECT_BYTES && piece.last() == Some(&7), "the object is whole");
}

async fn write_file() {
    ask(VolumeRequest::Create { path: KEY }.encode(BINDING)).await;
    ask(VolumeRequest::Write { path: KEY, offset: 0, bytes: &[7; PAGE_BYTES] }.encode(BINDING)).await;
}

async fn read_file() {
    let read = VolumeRequest::Read { path: KEY, offset: 0, bytes: PAGE_BYTES as u32 };
    let page = ask(read.encode(BINDING)).await;
    assert!(page.len() == PAGE_BYTES && page.last() == Some(&7), "the page is whole");
}

async fn call_another(request: &[u8; REQUEST_BYTES]) {
    let outcome = begin(OperationKind::Call, with_binding(CALLEE, request)).await;
    let reply = CalleeReply::decode(&outcome).expect("a reply to a call");
    assert!(reply.http_status == 200 && !reply.body.is_empty(), "it has answered");
}

async fn ask(operation: Vec<u8>) -> Vec<u8> {
    begin(OperationKind::Data, operation).await
}

async fn begin(kind: OperationKind, operation: Vec<u8>) -> Vec<u8> {
    let outcome = Operation::new(kind, operation).await;
    assert!(outcome.code == DONE, "{} {}", outcome.code, String::from_utf8_lossy(&outcome.bytes));
    outcome.bytes
}
