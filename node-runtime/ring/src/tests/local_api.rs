//! A client and a node over a pair of sockets.

use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use proptest::prelude::*;

use super::{LONG, SHORT, answer};
use crate::client::{Client, ClientError};
use crate::local_api::{
    FUNCTIONS_MAX, LocalEnd, MESSAGE_BYTES_MAX, OpenRequest, is_gone, read_open_request, refuse, welcome,
};
use crate::{Completion, Geometry, RingError, wait_any};

/// A client of a node that answers as `node` does.
fn client_of(
    node: impl FnOnce(UnixStream, OpenRequest) + Send + 'static,
) -> (Result<Client, ClientError>, std::thread::JoinHandle<()>) {
    let (ours, mut theirs) = UnixStream::pair().expect("sockets");
    let node = std::thread::spawn(move || {
        let request = read_open_request(&mut theirs).expect("a client within the protocol");
        node(theirs, request);
    });
    (Client::over(ours, &["acme/hello", "acme/other@3"]), node)
}

fn end(stream: &mut UnixStream) -> LocalEnd {
    welcome(stream, Geometry::new(4).expect("a power of two")).expect("a ring")
}

/// Answers with the request until the client is gone.
fn echo(mut stream: UnixStream, _request: OpenRequest) {
    let mut node = end(&mut stream);
    let mut frame = Vec::new();
    while !is_gone(&stream) {
        wait_any(&[node.bell()], SHORT, || node.has_next()).expect("a wait");
        while let Some(job) = node.take(&mut frame).expect("a client within the protocol") {
            node.reply(&answer(&frame, b"", b""), job.function).expect("within limits");
        }
    }
}

#[test]
fn a_client_calls_and_pipelines() {
    let (client, node) = client_of(echo);
    let mut client = client.expect("a ring");
    let mut done = Completion::new();
    client.call(1, b"request", &mut done, LONG).expect("answered");
    assert_eq!((&*done.response, done.refusal), (&b"request"[..], 1));
    for call_id in 0..4 {
        client.submit(call_id, 0, &call_id.to_le_bytes()).expect("room");
    }
    assert!(matches!(client.submit(4, 0, b""), Err(ClientError::Ring(RingError::Full))));
    assert!(matches!(client.call(0, b"", &mut done, LONG), Err(ClientError::Ring(RingError::Misuse(_)))));
    assert!(matches!(client.submit(4, 2, b""), Err(ClientError::Function(2))));
    for call_id in 0..4u64 {
        while !client.collect(&mut done).expect("a node within the protocol") {
            assert!(client.wait(LONG).expect("the node lives"));
        }
        assert_eq!((done.call_id, &*done.response), (call_id, &call_id.to_le_bytes()[..]));
    }
    drop(client);
    node.join().expect("the node sees that the client is gone");
}

#[test]
fn a_local_ring_takes_several_calls_before_it_answers_the_first() {
    let (client, node) = client_of(|mut stream, _| {
        let mut node = end(&mut stream);
        assert!(matches!(node.reply(&answer(b"", b"", b""), 0), Err(RingError::Misuse(_))));
        let mut frame = Vec::new();
        while node.outstanding() < 3 {
            wait_any(&[node.bell()], SHORT, || node.has_next()).expect("a wait");
            let _ = node.take(&mut frame).expect("a client within the protocol");
        }
        for response in [b"a", b"b", b"c"] {
            node.reply(&answer(response, b"", b""), 0).expect("within limits");
        }
    });
    let mut client = client.expect("a ring");
    (0..3).for_each(|call_id| client.submit(call_id, 0, b"frame").expect("room"));
    node.join().expect("the node answers");
    let mut done = Completion::new();
    for response in [b"a", b"b", b"c"] {
        assert!(client.collect(&mut done).expect("a node within the protocol"));
        assert_eq!(done.response, response);
    }
    client.submit(3, 0, b"").expect("room");
    assert!(matches!(client.wait(LONG), Err(ClientError::Gone)), "the node is gone and says nothing more");
}

#[test]
fn a_refusal_says_why_and_a_call_without_an_answer_times_out() {
    let (client, node) = client_of(|mut stream, request| {
        assert_eq!(request.functions, ["acme/hello", "acme/other@3"]);
        refuse(&mut stream, "too many clients").expect("said");
    });
    assert!(matches!(client, Err(ClientError::Refused(reason)) if reason == "too many clients"));
    node.join().expect("the node ends");

    let (client, node) = client_of(|mut stream, _| {
        let _end = end(&mut stream);
        while !is_gone(&stream) {
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    let mut client = client.expect("a ring");
    let mut done = Completion::new();
    assert!(matches!(client.call(0, b"", &mut done, SHORT), Err(ClientError::TimedOut)));
    drop(client);
    node.join().expect("the node ends");
}

#[test]
fn names_are_bounded_on_both_sides() {
    let none: Result<Client, _> = Client::over(UnixStream::pair().expect("sockets").0, &[]);
    assert!(matches!(none, Err(ClientError::Names)));
    let many = vec!["a/b"; FUNCTIONS_MAX + 1];
    let client = Client::over(UnixStream::pair().expect("sockets").0, &many);
    assert!(matches!(client, Err(ClientError::Names)));
}

#[test]
fn an_open_request_that_is_none_is_refused() {
    let request = |functions: &str| format!(r#"{{"version":1,"functions":{functions}}}"#);
    let long = format!(r#"["{}"]"#, "x".repeat(300));
    let many = format!("[{}\"a/b\"]", "\"a/b\",".repeat(FUNCTIONS_MAX));
    let texts = [
        "null".to_owned(),
        r#"{"version":2,"functions":["a/b"]}"#.to_owned(),
        r#"{"version":1,"functions":["a/b"],"more":1}"#.to_owned(),
        request("[]"),
        request(&long),
        request(&many),
    ];
    for text in texts {
        let (mut ours, mut theirs) = UnixStream::pair().expect("sockets");
        ours.write_all(&(text.len() as u32).to_le_bytes()).expect("sent");
        ours.write_all(text.as_bytes()).expect("sent");
        assert!(matches!(read_open_request(&mut theirs), Err(RingError::Violation(_))), "{text}");
    }
    for start in [&(MESSAGE_BYTES_MAX as u32 + 1).to_le_bytes()[..], &[1, 0], &[9, 0, 0, 0, b'{']] {
        let (mut ours, mut theirs) = UnixStream::pair().expect("sockets");
        ours.write_all(start).expect("sent");
        drop(ours);
        assert!(matches!(read_open_request(&mut theirs), Err(RingError::Violation(_))), "{start:?}");
    }
}

/// Bytes of a stranger, often with a length that fits and words that belong there.
fn words() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just(br#"{"version":1,"functions":["#.to_vec()),
        Just(br#""acme/hello","#.to_vec()),
        Just(b"]}".to_vec()),
        proptest::collection::vec(any::<u8>(), 0..40),
    ];
    let text = proptest::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat());
    (text, any::<bool>()).prop_map(|(text, fits)| {
        let length = if fits { (text.len() as u32).to_le_bytes().to_vec() } else { Vec::new() };
        [length, text].concat()
    })
}

proptest! {
    #[test]
    fn an_open_request_of_any_bytes_is_refused_or_within_its_limits(words in words()) {
        let (mut ours, mut theirs) = UnixStream::pair().expect("sockets");
        ours.write_all(&words).expect("sent");
        drop(ours);
        if let Ok(request) = read_open_request(&mut theirs) {
            prop_assert!((1..=FUNCTIONS_MAX).contains(&request.functions.len()));
            prop_assert!(request.functions.iter().all(|name| name.len() <= crate::local_api::NAME_BYTES_MAX));
        }
    }
}
