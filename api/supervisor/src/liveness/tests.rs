#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use super::*;

/// Not ready is alive; only silence is not.
#[test]
fn any_answer_is_a_sign_of_life_and_silence_is_none() {
    // What the program does when it starts; a second install by another test is no error.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let liveness = Liveness::start().unwrap();
    let (unready, silent) = (listener(), listener());
    let free = listener().local_addr().unwrap().to_string();
    let answers = unready.try_clone().unwrap();
    let serves = std::thread::spawn(move || {
        let (mut stream, _) = answers.accept().unwrap();
        let mut head = [0; 1_024];
        let bytes = stream.read(&mut head).unwrap();
        assert!(head[..bytes].starts_with(b"GET /healthz HTTP/1.1\r\n"));
        stream.write_all(b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n").unwrap();
    });
    let address = |listener: &TcpListener| listener.local_addr().unwrap().to_string();
    for (pid, address) in [(1, address(&unready)), (2, address(&silent)), (3, free)] {
        liveness.ask(pid, &address);
    }
    let answers: Vec<Answer> = (0..3).map(|_| liveness.answers.recv().unwrap()).collect();
    assert_eq!(answers[0], (1, Ok(())));
    assert!(answers[1].1.as_ref().unwrap_err().contains("no answer"), "{answers:?}");
    assert!(answers[2].1.as_ref().unwrap_err().contains("takes no connection"), "{answers:?}");
    serves.join().unwrap();
}

fn listener() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").unwrap()
}
