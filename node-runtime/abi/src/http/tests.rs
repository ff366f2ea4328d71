#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use alloc::vec;

use proptest::prelude::*;

use super::*;
use crate::frame::{encode_request, encode_response};
use crate::split_binding;

fn requests(bytes: &[u8], number: u32) -> Vec<HttpRequest<'_>> {
    vec![
        HttpRequest::Send { exchange: number, upload: None, secrets: vec![], frame: bytes },
        HttpRequest::Send {
            exchange: 1,
            upload: Some(number),
            secrets: vec![number, 0, !number],
            frame: bytes,
        },
        HttpRequest::Append { upload: number, bytes },
        HttpRequest::Rest { exchange: number, offset: !number },
    ]
}

proptest! {
    #[test]
    fn what_is_asked_of_servers_comes_back_as_it_went(
        bytes in prop::collection::vec(any::<u8>(), 0..40),
        number in any::<u32>(),
        binding in any::<u32>(),
    ) {
        for request in requests(&bytes, number) {
            let operation = request.encode(binding);
            let (named, rest) = split_binding(&operation).unwrap();
            prop_assert_eq!((named, HttpRequest::decode(rest)), (binding, Some(request.clone())));
            let before_frame = match request {
                HttpRequest::Send { frame, .. } => rest.len() - frame.len(),
                _ => rest.len(),
            };
            for end in 0..before_frame {
                prop_assert_eq!(HttpRequest::decode(&rest[..end]), None);
            }
            if before_frame == rest.len() && !matches!(request, HttpRequest::Send { .. }) {
                let longer = [rest, &[0]].concat();
                prop_assert_eq!(HttpRequest::decode(&longer), None);
            }
        }
    }

    #[test]
    fn any_bytes_are_a_request_of_servers_or_none(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        if let Some(request) = HttpRequest::decode(&bytes) {
            prop_assert_eq!(&request.encode(7)[4..], &bytes[..]);
            let _ = request.changes();
        }
        for request in requests(b"b", 1) {
            let _ = HttpReply::decode(&bytes, &request);
        }
    }
}

#[test]
fn an_answer_comes_with_the_first_piece_of_its_body() {
    let mut frame = Vec::new();
    encode_response(&mut frame, 201, [("etag", "x")], b"first").unwrap();
    let reply = HttpReply::encode_answer(900, &frame);
    let send = HttpRequest::Send { exchange: 1, upload: None, secrets: vec![], frame: b"" };
    let Some(HttpReply::Answer { bytes: 900, frame }) = HttpReply::decode(&reply, &send) else {
        panic!("none")
    };
    assert_eq!((frame.status, frame.body, frame.headers.get("etag")), (201, &b"first"[..], Some("x")));
    assert!(HttpReply::decode(&reply[..reply.len() - 1], &send).is_none());
}

#[test]
fn whatever_is_not_known_to_be_safe_changes_something() {
    let changes =
        |frame: &[u8]| HttpRequest::Send { exchange: 1, upload: None, secrets: vec![], frame }.changes();
    for (method, may_change) in
        [("GET", false), ("HEAD", false), ("POST", true), ("OPTIONS", true), ("GETS", true)]
    {
        let mut frame = Vec::new();
        encode_request(&mut frame, method, "/", [], b"").unwrap();
        assert_eq!(changes(&frame), may_change, "{method}");
    }
    assert!(changes(b"no frame"));
    assert!(!HttpRequest::Append { upload: 1, bytes: b"x" }.changes());
    assert!(!HttpRequest::Rest { exchange: 1, offset: 0 }.changes());
}

#[test]
fn a_request_carries_no_more_secrets_than_it_may() {
    let with = |count| {
        let request = HttpRequest::Send { exchange: 1, upload: None, secrets: vec![1; count], frame: b"" };
        HttpRequest::decode(&request.encode(0)[4..]).is_some()
    };
    assert_eq!([HTTP_SECRETS_MAX, HTTP_SECRETS_MAX + 1].map(with), [true, false]);
}
