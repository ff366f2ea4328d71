#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use super::exchange::answer;
use super::*;
use crate::functions::Kind;

const SOURCE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// A server that answers with what `respond` says to the number of a call: an answer, a right one where it is
/// empty, or the end of the connection.
fn server(respond: fn(usize) -> Option<Vec<u8>>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let calls = Arc::new(AtomicUsize::new(0));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, calls) = (stream.unwrap(), Arc::clone(&calls));
            std::thread::spawn(move || converse(stream, &calls, respond));
        }
    });
    address
}

fn converse(mut stream: TcpStream, calls: &AtomicUsize, respond: fn(usize) -> Option<Vec<u8>>) {
    // Whoever calls from elsewhere gets no answer.
    if stream.peer_addr().unwrap().ip() != SOURCE {
        return;
    }
    while let Some(request) = next_request(&mut stream) {
        let Some(response) = respond(calls.fetch_add(1, Ordering::Relaxed)) else { return };
        let response = if response.is_empty() { right(&request) } else { response };
        // A caller that is gone meanwhile is its own matter.
        let _ = stream.write_all(&response);
    }
}

/// The 64 bytes of the next request; nothing when the caller is gone.
fn next_request(stream: &mut TcpStream) -> Option<[u8; 64]> {
    let mut bytes = Vec::new();
    loop {
        if let Some(head) = bytes.windows(4).position(|four| four == b"\r\n\r\n")
            && let Some(body) = bytes.get(head + 4..head + 68)
        {
            return body.try_into().ok();
        }
        let mut more = [0; 512];
        match stream.read(&mut more) {
            Ok(0) | Err(_) => return None,
            Ok(read) => bytes.extend_from_slice(&more[..read]),
        }
    }
}

fn right(request: &[u8; 64]) -> Vec<u8> {
    let mut body = [0; crate::function::ANSWER_BYTES];
    let bytes = crate::function::work(&Kind::EMPTY.constants(7), request, &mut body);
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {bytes}\r\n\r\n");
    [head.as_bytes(), &body[..bytes]].concat()
}

fn generator(server: SocketAddr, connections: usize) -> Generator {
    let manner = Manner { source: SOURCE, connections, body_bytes: 0, reconnects: false };
    Generator::new(server, manner, vec![Target { path: "/".to_owned(), constants: Kind::EMPTY.constants(7) }])
}

fn at(milliseconds: &[u64]) -> Vec<Arrival> {
    milliseconds.iter().map(|at| Arrival { at: Duration::from_millis(*at), target: 0 }).collect()
}

#[test]
fn a_call_behind_a_slow_one_waited_from_its_planned_time_on() {
    let server = server(|call| {
        if call == 0 {
            std::thread::sleep(Duration::from_millis(200));
        }
        Some(vec![])
    });
    let outcome = generator(server, 1).open_loop(&at(&[0, 10, 20, 400])).unwrap();
    assert_eq!((outcome.answered, outcome.refused, outcome.lost), (4, 0, 0));
    let mut latency_ms: Vec<u64> = outcome.latency_us.iter().map(|us| *us as u64 / 1_000).collect();
    assert!(latency_ms[0] >= 200 && latency_ms[1] >= 190 && latency_ms[2] >= 180, "{latency_ms:?}");
    latency_ms.sort_unstable();
    assert!(latency_ms[0] < 180, "the last one waited for nobody: {latency_ms:?}");
}

#[test]
fn what_is_refused_or_lost_is_a_miss() {
    let refusal = |_| Some(b"HTTP/1.1 429 Too Many Requests\r\ncontent-length: 2\r\n\r\nno".to_vec());
    let outcome = generator(server(refusal), 2).open_loop(&at(&[0, 1])).unwrap();
    assert_eq!((outcome.answered, outcome.refused, outcome.lost), (0, 2, 0));
    assert!(outcome.latency_us.iter().all(|us| us.is_infinite()), "{outcome:?}");
    let outcome = generator(server(|_| None), 2).open_loop(&at(&[0, 1])).unwrap();
    assert_eq!((outcome.answered, outcome.refused, outcome.lost), (0, 0, 2));
    assert!(generator(server(|_| None), 1).saturate(Duration::from_millis(1), &mut 0).is_err());
    assert!(generator(server(|_| None), 1).call(0).is_err());
}

#[test]
fn a_wrong_answer_is_an_error() {
    let wrong = |_| Some(b"HTTP/1.1 200 OK\r\ncontent-length: 24\r\n\r\n0123456789abcdef01234567".to_vec());
    assert!(generator(server(wrong), 1).open_loop(&at(&[0])).is_err());
}

#[test]
fn a_flood_ends_when_it_is_told_to() {
    let (server, stop, tally) = (server(|_| Some(vec![])), AtomicBool::new(false), Tally::default());
    std::thread::scope(|scope| {
        let flood = scope.spawn(|| generator(server, 1).flood(&stop, &tally, &mut 0).unwrap());
        while tally.answered.load(Ordering::Relaxed) < 100 {
            std::thread::sleep(PAUSE);
        }
        stop.store(true, Ordering::Relaxed);
        flood.join().unwrap();
    });
    assert_eq!(tally.refused.load(Ordering::Relaxed), 0);
}

#[test]
fn a_crowd_holds_its_connections_and_opens_what_is_closed() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (server, stop, tally) = (listener.local_addr().unwrap(), AtomicBool::new(false), Tally::default());
    std::thread::scope(|scope| {
        scope.spawn(|| Crowd::slow(server, SOURCE, 3, "/f/a/b").hold(&stop, &tally));
        let mut streams: Vec<TcpStream> = (0..3).map(|_| listener.accept().unwrap().0).collect();
        let mut head = [0; 40];
        streams[0].read_exact(&mut head).unwrap();
        assert!(head.starts_with(b"POST /f/a/b HTTP/1.1\r\nhost: "), "{head:?}");
        streams.truncate(2);
        let fourth = listener.accept().unwrap();
        assert_eq!(fourth.1.ip(), SOURCE);
        assert!(tally.refused.load(Ordering::Relaxed) >= 1);
        stop.store(true, Ordering::Relaxed);
    });
    assert!((2..=3).contains(&tally.held.load(Ordering::Relaxed)));
}

#[test]
fn only_a_connection_that_is_there_is_held() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (server, stop, tally) = (listener.local_addr().unwrap(), AtomicBool::new(false), Tally::default());
    // So many wait in the kernel's queue; those beyond it are not there (listen(2)).
    rustix::net::listen(&listener, 1).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| Crowd::idle(server, SOURCE, 64).hold(&stop, &tally));
        while tally.held.load(Ordering::Relaxed) == 0 {
            std::thread::sleep(PAUSE);
        }
        std::thread::sleep(Duration::from_millis(100));
        stop.store(true, Ordering::Relaxed);
    });
    let held = tally.held.load(Ordering::Relaxed);
    assert!((1..32).contains(&held), "{held}");
}

#[test]
fn an_answer_is_whole_or_none() {
    let whole = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";
    for end in 0..whole.len() {
        assert!(matches!(answer(&whole[..end], true), Progress::Open), "{end}");
    }
    let keeps = |bytes: &[u8], sent| match answer(bytes, sent) {
        Progress::Answered { status: 200, body, keeps } if body == b"hi" => keeps,
        other => panic!("{other:?}"),
    };
    assert!(keeps(whole, true));
    assert!(!keeps(whole, false), "the rest of the request would be taken for the next one");
    assert!(!keeps(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nhi", true));
    for broken in ["HTTP/1.1 200 OK\r\n\r\n", "hello\r\n\r\n", "HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n"]
    {
        assert!(matches!(answer(broken.as_bytes(), true), Progress::Broken), "{broken}");
    }
}

#[test]
fn arrivals_have_their_rate_and_reach_every_target() {
    let planned = arrivals(1_000.0, 20_000, 10, &mut 1);
    assert!(planned.is_sorted_by_key(|arrival| arrival.at));
    let seconds = planned.last().unwrap().at.as_secs_f64();
    assert!((18.0..22.0).contains(&seconds), "{seconds}");
    for target in 0..10 {
        let calls = planned.iter().filter(|arrival| arrival.target == target).count();
        assert!((1_700..2_300).contains(&calls), "{target}: {calls}");
    }
    assert_eq!(planned, arrivals(1_000.0, 20_000, 10, &mut 1), "the same for both sides of a round");
}
