//! Frames round trip, refuse every kind of damage, and never panic on foreign bytes.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;

use crate::frame::{
    FrameError, GrowingRequest, Headers, RequestFrame, RequestParts, ResponseFrame, encode_checked_response,
    encode_headers, encode_request, encode_response,
};
use crate::{
    CalleeReply, ContentType, KvExpiry, KvReply, KvRequest, Level, LogReader, ObjectReply, ObjectRequest,
    OperationKind, Record, Records, Status, SuspendedFrame, VolumeReply, VolumeRequest, limits,
    log_entry_header, names_of, split_binding, with_binding,
};

fn request() -> Vec<u8> {
    let mut frame = Vec::new();
    let headers = [("content-type", "text/plain"), ("x-a", "ü")];
    encode_request(&mut frame, "POST", "/a?b=c", headers, b"body").expect("a plain request");
    frame
}

#[test]
fn a_request_comes_back_as_it_went() {
    let frame = request();
    let view = RequestFrame::decode(&frame).expect("our own frame");
    assert_eq!((view.method, view.path, view.body), ("POST", "/a?b=c", &b"body"[..]));
    assert_eq!(view.headers.iter().collect::<Vec<_>>(), [("content-type", "text/plain"), ("x-a", "ü")]);
    assert_eq!(view.headers.get("x-a"), Some("ü"));
    assert_eq!(view.headers.get("x-b"), None);
}

#[test]
fn a_response_comes_back_as_it_went() {
    let mut frame = Vec::new();
    encode_response(&mut frame, 404, [("a", "")], b"").expect("a plain response");
    let view = ResponseFrame::decode(&frame).expect("our own frame");
    assert_eq!((view.status, view.headers.len(), view.body), (404, 1, &b""[..]));
}

/// Two ways to write a response make the same frame, and the limits hold in both.
#[test]
fn checked_headers_are_written_as_others_are() {
    for content_type in (0..).map_while(ContentType::from_u32) {
        for others in [&[][..], &[("a", "b"), ("x-c", "ü")]] {
            let mut encoded = Vec::new();
            let count = encode_headers(&mut encoded, others.iter().copied()).expect("plain headers");
            let checked = Headers::decode(count, &encoded).expect("our own");
            let (mut one, mut other) = (vec![7], vec![7]);
            let all = content_type.header().into_iter().chain(others.iter().copied());
            encode_response(&mut one, 299, all, b"body").expect("a plain response");
            encode_checked_response(&mut other, 299, content_type, checked, b"body", limits::BODY_BYTES_MAX)
                .expect("the same");
            assert_eq!(one, other, "{content_type:?}");
        }
    }
    let full = |name: &str, value: &str, count: usize| {
        let mut encoded = Vec::new();
        let count = encode_headers(&mut encoded, (0..count).map(|_| (name, value))).expect("within limits");
        let checked = Headers::decode(count, &encoded).expect("our own");
        let mut frame = vec![7];
        let added = |content_type, frame: &mut Vec<u8>| {
            encode_checked_response(frame, 200, content_type, checked, b"", limits::BODY_BYTES_MAX).err()
        };
        let without = added(ContentType::Unsaid, &mut frame);
        assert!(without.is_none() && frame.len() > 1, "as many as may be");
        frame.truncate(1);
        let with = added(ContentType::Json, &mut frame);
        assert_eq!(frame, [7]);
        with
    };
    assert_eq!(full("a", "b", limits::HEADERS_MAX), Some(FrameError::TooManyHeaders));
    let value = String::from_utf8(vec![b'v'; limits::HEADERS_BYTES_MAX / 4 - 1]).expect("ascii");
    assert_eq!(full("a", &value, 4), Some(FrameError::TooLong("headers")));
    let mut frame = Vec::new();
    let none = Headers::decode(0, b"").expect("none");
    let status =
        encode_checked_response(&mut frame, 600, ContentType::Unsaid, none, b"", limits::BODY_BYTES_MAX);
    assert_eq!((status, frame.len()), (Err(FrameError::BadStatus(600)), 0));
}

/// What may stand where, said once more without the table.
#[test]
fn every_byte_stands_only_where_it_may() {
    for byte in 0..=u8::MAX {
        let is_refused = |method: &[u8], path: &[u8], name: &[u8], value: &[u8]| {
            let mut frame = vec![1];
            for text in [method, path] {
                frame.extend_from_slice(&(text.len() as u16).to_le_bytes());
                frame.extend_from_slice(text);
            }
            frame.extend_from_slice(&[1, 0]);
            for text in [name, value] {
                frame.extend_from_slice(&(text.len() as u16).to_le_bytes());
                frame.extend_from_slice(text);
            }
            frame.extend_from_slice(&[0; 4]);
            RequestFrame::decode(&frame).is_err()
        };
        let token = byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"!#$%&'*+-.^_`|~".contains(&byte);
        // A byte beyond ASCII alone is no UTF-8.
        let visible = byte == b'\t' || (b' '..0x7f).contains(&byte);
        assert_eq!(is_refused(&[byte], b"/", b"a", b"b"), !byte.is_ascii_uppercase(), "method {byte}");
        assert_eq!(is_refused(b"GET", &[b'/', byte], b"a", b"b"), !byte.is_ascii_graphic(), "path {byte}");
        assert_eq!(is_refused(b"GET", b"/", &[byte], b"b"), !token, "name {byte}");
        assert_eq!(is_refused(b"GET", b"/", b"a", &[byte]), !visible, "value {byte}");
    }
}

#[test]
fn every_shortening_and_every_extra_byte_is_refused() {
    let frame = request();
    for end in 0..frame.len() {
        assert!(RequestFrame::decode(&frame[..end]).is_err(), "cut at {end}");
    }
    let mut longer = frame.clone();
    longer.push(0);
    assert_eq!(RequestFrame::decode(&longer).err(), Some(FrameError::TrailingBytes));
    assert_eq!(ResponseFrame::decode(&frame).err(), Some(FrameError::WrongTag));
}

#[test]
fn limits_hold_in_the_encoder_and_leave_the_buffer_as_it_was() {
    let mut frame = vec![7];
    let long = vec![0; limits::BODY_BYTES_MAX + 1];
    assert_eq!(encode_response(&mut frame, 200, [], &long), Err(FrameError::TooLong("body")));
    let many = (0..=limits::HEADERS_MAX).map(|_| ("a", "b"));
    assert_eq!(encode_response(&mut frame, 200, many, b""), Err(FrameError::TooManyHeaders));
    let value = String::from_utf8(vec![b'v'; limits::HEADER_VALUE_BYTES_MAX]).expect("ascii");
    let heavy = (0..5).map(|_| ("a", value.as_str()));
    assert_eq!(encode_response(&mut frame, 200, heavy, b""), Err(FrameError::TooLong("headers")));
    assert_eq!(encode_response(&mut frame, 199, [], b""), Err(FrameError::BadStatus(199)));
    let split = [("a", "b\r\nset-cookie: c")];
    assert_eq!(encode_response(&mut frame, 200, split, b""), Err(FrameError::BadText("header value")));
    assert_eq!(frame, [7]);
}

#[test]
fn the_largest_frame_fits_its_limit() {
    let value = String::from_utf8(vec![b'v'; 500]).expect("ascii");
    let path = String::from_utf8(vec![b'/'; limits::PATH_BYTES_MAX]).expect("ascii");
    let headers = (0..limits::HEADERS_MAX).map(|_| ("x-name", value.as_str()));
    let mut frame = Vec::new();
    encode_request(&mut frame, "POST", &path, headers, &vec![1; limits::BODY_BYTES_MAX])
        .expect("within limits");
    assert!(frame.len() <= limits::FRAME_BYTES_MAX);
    assert!(RequestFrame::decode(&frame).is_ok());
}

#[test]
fn statuses_survive_their_number_and_others_do_not_exist() {
    for status in Status::ALL {
        assert_eq!(Status::from_u32(status.as_u32()), Some(status));
    }
    assert_eq!(Status::from_u32(10), None);
    assert_eq!(Status::from_u32(u32::MAX), None);
}

#[test]
fn log_records_end_at_the_first_that_is_cut() {
    let mut bytes = Vec::from(log_entry_header(Level::Warn, 2));
    bytes.extend_from_slice(b"hi");
    bytes.extend_from_slice(&log_entry_header(Level::Info, 9));
    bytes.extend_from_slice(b"cut");
    let lines: Vec<_> = LogReader::new(&bytes).collect();
    assert_eq!(lines.len(), 1);
    assert_eq!((lines[0].level, lines[0].text), (Level::Warn, &b"hi"[..]));
}

proptest! {
    #[test]
    fn foreign_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = RequestFrame::decode(&bytes).map(|frame| frame.headers.iter().count());
        let _ = ResponseFrame::decode(&bytes).map(|frame| frame.headers.iter().count());
        prop_assert!(LogReader::new(&bytes).count() <= bytes.len() / 3);
        let suspended = SuspendedFrame::decode(&bytes, limits::BODY_BYTES_MAX);
        prop_assert!(suspended.is_none_or(|frame| frame.records.count() <= bytes.len() / 12));
    }

    #[test]
    fn a_flipped_byte_decodes_to_something_bounded_or_nothing(at in 0usize..40, bits in 1u8..) {
        let mut frame = request();
        let at = at % frame.len();
        frame[at] ^= bits;
        if let Ok(view) = RequestFrame::decode(&frame) {
            prop_assert!(view.body.len() <= frame.len());
            prop_assert!(view.headers.iter().count() == view.headers.len());
        }
    }
}

/// A body that comes in pieces makes the frame that it makes in one, and no piece more than may be.
#[test]
fn a_request_that_grows_is_the_request() {
    let headers = [("accept", "a")];
    let body = vec![7; 3 * 1_000];
    let mut whole = Vec::new();
    encode_request(&mut whole, "PUT", "/a", headers, &body).expect("a plain request");
    let mut growing = GrowingRequest::new("PUT", "/a", headers, body.len()).expect("a plain head");
    for (number, piece) in body.chunks(1_000).enumerate() {
        growing.extend(piece).expect("there is room");
        // More than may come is not what it makes room for.
        if number == 0 {
            growing.expect(usize::MAX);
        }
    }
    assert_eq!(growing.extend(b"x"), Err(FrameError::TooLong("body")));
    assert_eq!(growing.body_bytes(), body.len());
    assert_eq!(growing.finish(), whole);
    assert_eq!(GrowingRequest::new("put", "/", [], 1).err(), Some(FrameError::BadText("method")));
}

/// What a bulk function may take and give is larger, and nothing else of a frame is.
#[test]
fn the_bound_of_a_body_is_the_readers() {
    let mut growing =
        GrowingRequest::new("POST", "/", [], limits::BULK_BODY_BYTES_MAX).expect("a plain head");
    growing.extend(&vec![1; limits::BODY_BYTES_MAX + 1]).expect("there is room");
    let frame = growing.finish();
    assert_eq!(RequestFrame::decode(&frame).err(), Some(FrameError::TooLong("body")));
    let parts = RequestParts::decode(&frame, limits::BULK_BODY_BYTES_MAX).expect("within its bound");
    assert_eq!(parts.body.len(), limits::BODY_BYTES_MAX + 1);
    let none = Headers::from_checked(0, &[]);
    let body = vec![1; limits::BODY_BYTES_MAX + 1];
    let mut frame = Vec::new();
    let encode = |frame: &mut Vec<u8>, most| {
        encode_checked_response(frame, 200, ContentType::Unsaid, none, &body, most)
    };
    assert_eq!(encode(&mut frame, limits::BODY_BYTES_MAX), Err(FrameError::TooLong("body")));
    encode(&mut frame, limits::BULK_BODY_BYTES_MAX).expect("within its bound");
    assert_eq!(ResponseFrame::decode(&frame).err(), Some(FrameError::TooLong("body")));
    let read = ResponseFrame::decode_within(&frame, limits::BULK_BODY_BYTES_MAX).expect("within its bound");
    assert_eq!(read.body, body);
}

/// Records and a state, as a call that waits leaves its worker.
fn suspended(records: &[Record<'_>], state: &[u8]) -> Vec<u8> {
    let mut list = Vec::new();
    records.iter().for_each(|record| record.append_to(&mut list));
    [&SuspendedFrame::head(list.len()), &*list, state].concat()
}

#[test]
fn what_a_call_that_waits_says_is_read_as_it_was_said() {
    let sleep = Record { id: 7, code: OperationKind::Sleep as u32, bytes: &5u64.to_le_bytes() };
    let cancel = Record { id: 6, code: OperationKind::Cancel as u32, bytes: &[] };
    let frame = suspended(&[sleep, cancel], b"state");
    let read = SuspendedFrame::decode(&frame, limits::BODY_BYTES_MAX).expect("a frame");
    assert_eq!((read.records.collect::<Vec<_>>(), read.state), (vec![sleep, cancel], &b"state"[..]));
    let kinds = [sleep, cancel].map(|record| OperationKind::from_u32(record.code));
    assert_eq!(kinds, [Some(OperationKind::Sleep), Some(OperationKind::Cancel)]);
    assert_eq!([3, 4].map(OperationKind::from_u32), [Some(OperationKind::Data), Some(OperationKind::Call)]);
    assert_eq!(OperationKind::from_u32(5), Some(OperationKind::Part));
    assert_eq!([0, 6].map(OperationKind::from_u32), [None; 2]);
}

#[test]
fn what_waits_has_bounds_of_its_own() {
    let body_bytes_max = 4_096;
    let most = limits::records_bytes_max(body_bytes_max);
    let of = |bytes| suspended(&[Record { id: 1, code: 1, bytes: &vec![0; bytes] }], b"");
    assert!(SuspendedFrame::decode(&of(most - 12), body_bytes_max).is_some());
    assert!(SuspendedFrame::decode(&of(most - 11), body_bytes_max).is_none());
    let state = |bytes| suspended(&[], &vec![0; bytes]);
    assert!(SuspendedFrame::decode(&state(2_944), body_bytes_max).is_some());
    assert!(SuspendedFrame::decode(&state(2_945), body_bytes_max).is_none());
    let record = Record { id: 1, code: 1, bytes: &[] };
    let many = |count| suspended(&vec![record; count], b"");
    assert!(SuspendedFrame::decode(&many(limits::RECORDS_MAX), limits::BODY_BYTES_MAX).is_some());
    assert!(SuspendedFrame::decode(&many(limits::RECORDS_MAX + 1), limits::BODY_BYTES_MAX).is_none());
}

#[test]
fn a_record_that_is_not_whole_makes_a_list_none() {
    let mut list = Vec::new();
    Record { id: 1, code: 1, bytes: b"abc" }.append_to(&mut list);
    for end in 1..list.len() {
        assert!(Records::decode(&list[..end]).is_none(), "{end} bytes of it");
    }
    assert_eq!(Records::decode(&list).expect("a list").as_bytes(), list);
    assert_eq!(Records::decode(&[]).expect("the empty list").count(), 0);
}

fn kv_requests<'a>(key: &'a [u8], value: &'a [u8], number: i64) -> Vec<KvRequest<'a>> {
    let (some, none) = (Some(value), None);
    vec![
        KvRequest::Get { keys: vec![key, value] },
        KvRequest::Get { keys: vec![] },
        KvRequest::Put { key, value, expiry: KvExpiry::Never },
        KvRequest::Put { key, value, expiry: KvExpiry::AfterMs(number as u64) },
        KvRequest::Delete { key },
        KvRequest::Increment { key, by: number },
        KvRequest::CompareAndSet { key, expected: some, value: none },
        KvRequest::CompareAndSet { key, expected: none, value: some },
        KvRequest::Scan { prefix: key, after: some, limit: number as u32 },
    ]
}

fn kv_reply<'a>(request: &KvRequest<'_>, key: &'a [u8], value: &'a [u8], number: i64) -> KvReply<'a> {
    match request {
        KvRequest::Get { .. } => KvReply::Values(vec![Some(value), None, Some(key)]),
        KvRequest::Put { .. } | KvRequest::Delete { .. } => KvReply::Done,
        KvRequest::Increment { .. } => KvReply::Number(number),
        KvRequest::CompareAndSet { .. } => KvReply::Changed(number % 2 == 0),
        KvRequest::Scan { .. } => KvReply::Page { entries: vec![(key, value)], next: Some(key) },
    }
}

fn object_requests<'a>(name: &'a [u8], bytes: &'a [u8], number: i64) -> Vec<ObjectRequest<'a>> {
    vec![
        ObjectRequest::Size { name },
        ObjectRequest::Read { name, offset: number as u64, bytes: number as u32 },
        ObjectRequest::Append { upload: number as u32, bytes },
        ObjectRequest::Put { name, upload: Some(number as u32), bytes },
        ObjectRequest::Put { name, upload: None, bytes },
        ObjectRequest::Delete { name },
        ObjectRequest::List { prefix: name, after: Some(bytes), limit: number as u32 },
        ObjectRequest::List { prefix: name, after: None, limit: number as u32 },
    ]
}

/// Where there is what is asked for, and where there is not.
fn object_replies<'a>(request: &ObjectRequest<'_>, name: &'a [u8], bytes: &'a [u8]) -> Vec<ObjectReply<'a>> {
    match request {
        ObjectRequest::Size { .. } => vec![ObjectReply::Size(Some(7)), ObjectReply::Size(None)],
        ObjectRequest::Read { .. } => vec![ObjectReply::Piece(Some((7, bytes))), ObjectReply::Piece(None)],
        ObjectRequest::Append { .. } | ObjectRequest::Put { .. } | ObjectRequest::Delete { .. } => {
            vec![ObjectReply::Done]
        }
        ObjectRequest::List { .. } => vec![
            ObjectReply::Page { objects: vec![(name, 7), (bytes, 0)], next: Some(name) },
            ObjectReply::Page { objects: vec![], next: None },
        ],
    }
}

proptest! {
    #[test]
    fn what_is_asked_of_objects_comes_back_as_it_went(
        name in prop::collection::vec(any::<u8>(), 0..40),
        bytes in prop::collection::vec(any::<u8>(), 0..40),
        number in any::<i64>(),
        binding in any::<u32>(),
    ) {
        for request in object_requests(&name, &bytes, number) {
            let operation = request.encode(binding);
            let (named, rest) = split_binding(&operation).expect("our own");
            prop_assert_eq!((named, ObjectRequest::decode(rest)), (binding, Some(request.clone())));
            for reply in object_replies(&request, &name, &bytes) {
                let encoded = reply.encode();
                prop_assert_eq!(ObjectReply::decode(&encoded, &request), Some(reply));
            }
            for end in 0..rest.len() {
                prop_assert_eq!(ObjectRequest::decode(&rest[..end]), None);
            }
            let longer = [rest, &[0]].concat();
            prop_assert_eq!(ObjectRequest::decode(&longer), None);
        }
    }

    #[test]
    fn any_bytes_are_a_request_of_objects_or_none(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        if let Some(request) = ObjectRequest::decode(&bytes) {
            prop_assert_eq!(&request.encode(7)[4..], &bytes[..]);
        }
        for request in object_requests(b"n", b"b", 1) {
            let _ = ObjectReply::decode(&bytes, &request);
        }
    }
}

fn volume_requests<'a>(path: &'a [u8], bytes: &'a [u8], number: i64) -> Vec<VolumeRequest<'a>> {
    let offset = number as u64;
    vec![
        VolumeRequest::Size { path },
        VolumeRequest::Create { path },
        VolumeRequest::Read { path, offset, bytes: number as u32 },
        VolumeRequest::Write { path, offset, bytes },
        VolumeRequest::Append { path, bytes },
        VolumeRequest::Truncate { path, size: offset },
        VolumeRequest::Sync { path },
        VolumeRequest::Remove { path },
        VolumeRequest::List { directory: path, after: Some(bytes), limit: number as u32 },
        VolumeRequest::List { directory: path, after: None, limit: number as u32 },
    ]
}

fn volume_replies<'a>(request: &VolumeRequest<'_>, path: &'a [u8], bytes: &'a [u8]) -> Vec<VolumeReply<'a>> {
    match request {
        VolumeRequest::Size { .. } => vec![VolumeReply::Size(Some(7)), VolumeReply::Size(None)],
        VolumeRequest::Read { .. } => vec![VolumeReply::Bytes(bytes)],
        VolumeRequest::Append { .. } => vec![VolumeReply::Offset(7)],
        VolumeRequest::Create { .. }
        | VolumeRequest::Write { .. }
        | VolumeRequest::Truncate { .. }
        | VolumeRequest::Sync { .. }
        | VolumeRequest::Remove { .. } => vec![VolumeReply::Done],
        VolumeRequest::List { .. } => vec![
            VolumeReply::Entries { entries: vec![(path, Some(7)), (bytes, None)], next: Some(path) },
            VolumeReply::Entries { entries: vec![], next: None },
        ],
    }
}

proptest! {
    #[test]
    fn what_is_asked_of_volumes_comes_back_as_it_went(
        path in prop::collection::vec(any::<u8>(), 0..40),
        bytes in prop::collection::vec(any::<u8>(), 0..40),
        number in any::<i64>(),
        binding in any::<u32>(),
    ) {
        for request in volume_requests(&path, &bytes, number) {
            let operation = request.encode(binding);
            let (named, rest) = split_binding(&operation).expect("our own");
            prop_assert_eq!((named, VolumeRequest::decode(rest)), (binding, Some(request.clone())));
            for reply in volume_replies(&request, &path, &bytes) {
                let encoded = reply.encode();
                prop_assert_eq!(VolumeReply::decode(&encoded, &request), Some(reply));
            }
            for end in 0..rest.len() {
                prop_assert_eq!(VolumeRequest::decode(&rest[..end]), None);
            }
            let longer = [rest, &[0]].concat();
            prop_assert_eq!(VolumeRequest::decode(&longer), None);
        }
    }

    #[test]
    fn any_bytes_are_a_request_of_volumes_or_none(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        if let Some(request) = VolumeRequest::decode(&bytes) {
            prop_assert_eq!(&request.encode(7)[4..], &bytes[..]);
        }
        for request in volume_requests(b"p", b"b", 1) {
            let _ = VolumeReply::decode(&bytes, &request);
        }
    }

    /// Whatever a path is, its names lead nowhere but down.
    #[test]
    fn names_of_a_path_are_names(path in "[a./\0é]{0,12}") {
        if let Ok(names) = names_of(path.as_bytes()) {
            prop_assert_eq!(names.join("/"), &*path);
            prop_assert!(names.iter().all(|name| !["", ".", ".."].contains(name) && !name.contains(['/', '\0'])));
        }
    }
}

#[test]
fn a_path_is_names_and_not_too_many() {
    assert_eq!(names_of(b""), Ok(vec![]));
    assert_eq!(names_of("a/b.c/..d/…".as_bytes()), Ok(vec!["a", "b.c", "..d", "…"]));
    for path in ["/", "/a", "a/", "a//b", ".", "..", "a/..", "a/./b", "a\0b"] {
        assert!(names_of(path.as_bytes()).is_err(), "{path:?}");
    }
    assert!(names_of(b"a\xff").is_err());
    let long = |names: usize, bytes: usize| vec!["n".repeat(bytes); names].join("/");
    let is_path = |path: String| names_of(path.as_bytes()).is_ok();
    assert_eq!(
        [(16, 1), (17, 1), (1, 255), (1, 256)].map(|(n, b)| is_path(long(n, b))),
        [true, false, true, false]
    );
    assert_eq!([long(5, 204), long(5, 205)].map(is_path), [true, false]);
}

proptest! {
    #[test]
    fn what_is_asked_of_data_comes_back_as_it_went(
        key in prop::collection::vec(any::<u8>(), 0..40),
        value in prop::collection::vec(any::<u8>(), 0..40),
        number in any::<i64>(),
        binding in any::<u32>(),
    ) {
        for request in kv_requests(&key, &value, number) {
            let operation = request.encode(binding);
            let (named, rest) = split_binding(&operation).expect("our own");
            prop_assert_eq!((named, KvRequest::decode(rest)), (binding, Some(request.clone())));
            let reply = kv_reply(&request, &key, &value, number);
            let encoded = reply.encode();
            prop_assert_eq!(KvReply::decode(&encoded, &request), Some(reply));
            // Cut, or with something behind it, it is none.
            for end in 0..rest.len() {
                prop_assert_eq!(KvRequest::decode(&rest[..end]), None);
            }
            let longer = [rest, &[0]].concat();
            prop_assert_eq!(KvRequest::decode(&longer), None);
        }
    }

    #[test]
    fn any_bytes_are_a_request_of_data_or_none(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        let _ = split_binding(&bytes);
        if let Some(request) = KvRequest::decode(&bytes) {
            prop_assert_eq!(&request.encode(7)[4..], &bytes[..]);
        }
        for request in kv_requests(b"k", b"v", 1) {
            let _ = KvReply::decode(&bytes, &request);
        }
    }
}

#[test]
fn a_request_names_no_more_keys_than_an_operation_may() {
    let keys = |count| KvRequest::Get { keys: vec![&b"k"[..]; count] }.encode(0);
    assert!(KvRequest::decode(&keys(limits::KV_KEYS_MAX)[4..]).is_some());
    assert!(KvRequest::decode(&keys(limits::KV_KEYS_MAX + 1)[4..]).is_none());
}

#[test]
fn what_a_called_function_answered_is_read_as_it_was_said() {
    for reply in [CalleeReply { http_status: 200, body: b"[1]" }, CalleeReply { http_status: 599, body: b"" }]
    {
        assert_eq!(CalleeReply::decode(&reply.encode()), Some(reply));
    }
    assert_eq!([&b""[..], b"1"].map(CalleeReply::decode), [None; 2]);
    assert_eq!(split_binding(&with_binding(7, b"request")), Some((7, &b"request"[..])));
}
