use mfaas_abi::frame::RequestFrame;
use mfaas_abi::limits::BODY_BYTES_MAX;

use super::{TOO_LARGE, head_of, request_of};
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
