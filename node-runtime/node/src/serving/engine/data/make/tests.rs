use mfaas_abi::frame::RequestFrame;
use mfaas_abi::limits::BODY_BYTES_MAX;

use super::{DataCall, TOO_LARGE, head_of, request_of};
use crate::agent::testing::key;
use crate::serving::call::CALLER;

#[test]
fn a_request_to_a_function_has_as_large_a_body_as_any() {
    let head = head_of(&key("hello", 2), None).expect("a head");
    for body in [vec![], vec![7; BODY_BYTES_MAX]] {
        let frame = request_of(&head, &body).expect("a request");
        let request = RequestFrame::decode(&frame).expect("a frame");
        assert_eq!((request.method, request.path), ("POST", "/"));
        assert_eq!(request.headers.get(CALLER), Some("acme/function/hello"));
        assert!(request.body == body && request.headers.get("traceparent").is_none());
    }
    assert_eq!(request_of(&head, &vec![7; BODY_BYTES_MAX + 1]), Err(TOO_LARGE));
}

/// Whoever calls a function says which trace that is part of, in as many bytes as a header may have.
#[test]
fn what_is_kept_for_further_calls_counts() {
    let head = head_of(&key("hello", 2), Some(&"7".repeat(4_096))).expect("a head");
    let mut data = DataCall::default();
    assert_eq!(data.kept_bytes(), 0);
    let bytes = head.len();
    data.request_head = Some(head);
    assert!(bytes > 4_096 && data.kept_bytes() == bytes);
}
