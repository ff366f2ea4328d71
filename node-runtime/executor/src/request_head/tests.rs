use mfaas_abi::frame::{RequestParts, encode_request};
use mfaas_abi::limits::{BODY_BYTES_MAX, FRAME_BYTES_MAX};
use mfaas_abi::{Call, Span};

use super::RequestHead;
use crate::memory::{CallMemory, Sizes};
use crate::tests::CALL_MEMORY;

/// The frame of a request with such a header and body, and where its body's length stands.
fn frame(value: &str, body: &[u8]) -> (Vec<u8>, usize) {
    let mut frame = Vec::new();
    encode_request(&mut frame, "POST", "/", [("a", value), ("b", "2")], body).expect("a plain request");
    let head_bytes = frame.len() - body.len() - size_of::<u32>();
    (frame, head_bytes)
}

fn bytes_of(span: Span) -> Vec<u8> {
    // SAFETY: INV-EXECUTOR-2. Parts of the request's place, which is mapped and which nobody writes.
    unsafe { std::slice::from_raw_parts(span.start, span.bytes) }.to_vec()
}

/// Frame and record are what reading the whole frame makes of it.
#[test]
fn a_request_is_the_same_whether_its_head_was_read_before_or_not() {
    let _alone = CALL_MEMORY.lock();
    let call_memory = CallMemory::new(1 << 20, BODY_BYTES_MAX).expect("memory");
    let (longest, _) = frame("", b"");
    let longest = "v".repeat(RequestHead::BYTES_MAX - longest.len() + size_of::<u32>());
    for value in ["", "1", &longest] {
        for body in [&b""[..], b"{}", &[7; BODY_BYTES_MAX]] {
            let (whole, head_bytes) = frame(value, body);
            let mut head = RequestHead::read(&whole[..head_bytes]).expect("a head");
            assert_eq!(head.write(body, &call_memory), Some(whole.len()));
            assert_eq!(call_memory.frame(whole.len()), whole);
            let parts = RequestParts::decode(&whole, BODY_BYTES_MAX).expect("a frame");
            // SAFETY: INV-EXECUTOR-2. The record, which no call changes.
            let Call { request, .. } = unsafe { &*call_memory.call() };
            let spans = [request.method, request.path, request.headers, request.body].map(bytes_of);
            assert_eq!(spans, [parts.method, parts.path, parts.headers.as_bytes(), parts.body]);
            assert_eq!(request.header_count, parts.headers.len());
            call_memory.wipe(Sizes::SMALLEST, whole.len());
            head.wipe();
            assert!(head.frame.iter().all(|byte| *byte == 0));
        }
    }
}

#[test]
fn what_is_no_head_or_has_no_room_is_none() {
    let (whole, head_bytes) = frame("1", b"");
    for bytes in (0..=whole.len()).filter(|bytes| *bytes != head_bytes) {
        assert!(RequestHead::read(&whole[..bytes]).is_none(), "{bytes} bytes of {head_bytes}");
    }
    let (longest, _) = frame("", b"");
    let too_long = "v".repeat(RequestHead::BYTES_MAX - longest.len() + size_of::<u32>() + 1);
    let (too_long, end) = frame(&too_long, b"");
    assert!(RequestHead::read(&too_long[..end]).is_none());
    let _alone = CALL_MEMORY.lock();
    let call_memory = CallMemory::new(1 << 20, BODY_BYTES_MAX).expect("memory");
    let head = RequestHead::read(&whole[..head_bytes]).expect("a head");
    assert_eq!(head.write(&[7; BODY_BYTES_MAX + 1], &call_memory), None);
    assert!(call_memory.frame(FRAME_BYTES_MAX).iter().all(|byte| *byte == 0), "nothing of it is there");
    assert!(head.write(&[7; BODY_BYTES_MAX], &call_memory).is_some(), "the twin");
}
