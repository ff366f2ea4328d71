#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::io::{IoSliceMut, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mfaas_abi::frame::encode_request;
use mfaas_dispatch::{Limits, Outcome, Refusal};
use mfaas_ring::Completion;
use mfaas_ring::client::{Client, ClientError};
use mfaas_ring::local_api::is_gone;
use mfaas_rules::codes;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::client::{SLOTS, Target};
use super::socket::CLIENTS_MAX;
use super::{Host, LocalSocket, refusal, serve};
use crate::grant::LocalGrants;
use crate::logs::LogSink;
use crate::serving::{self, CallError};

const PATIENCE: Duration = Duration::from_secs(10);

/// The local API of a node that serves an empty set.
struct Open {
    directory: tempfile::TempDir,
    stop: watch::Sender<bool>,
    task: JoinHandle<anyhow::Result<()>>,
}

impl Open {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let socket = LocalSocket::bind(&directory.path().join("local-api")).unwrap();
        let dispatcher = Arc::new(serving::alone(Limits::NODE, Arc::new(LogSink::default())).unwrap());
        dispatcher.route(&[]);
        let (stop, stopping) = watch::channel(false);
        let host = Host { dispatcher, grants: LocalGrants::default() };
        let task = tokio::spawn(serve(socket, host, stopping));
        Self { directory, stop, task }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("local-api")
    }

    async fn close(self) {
        self.stop.send_replace(true);
        tokio::time::timeout(PATIENCE, self.task).await.unwrap().unwrap().unwrap();
        assert!(
            !self.directory.path().join("local-api").exists(),
            "the socket's file goes with the listener"
        );
    }
}

/// Runs a client's code where it may block.
async fn blocking<T: Send + 'static>(client: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(client).await.unwrap()
}

fn connect(path: &Path) -> Result<Client, ClientError> {
    Client::connect(path, &["acme/hello", "acme/hello@3"])
}

fn request(headers: &[(&str, &str)]) -> Vec<u8> {
    let mut frame = Vec::new();
    encode_request(&mut frame, "POST", "/", headers.iter().copied(), b"body").unwrap();
    frame
}

fn refusal_of(client: &mut Client, frame: &[u8]) -> u32 {
    let mut done = Completion::new();
    client.call(0, frame, &mut done, PATIENCE).unwrap();
    assert!(done.response.is_empty() && !done.message.is_empty(), "{done:?}");
    done.refusal
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_of_what_is_not_served_or_not_a_request_is_refused_with_its_code() {
    let open = Open::new();
    let mode = std::fs::metadata(open.path()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let path = open.path();
    blocking(move || {
        let mut client = connect(&path).unwrap();
        assert_eq!(refusal_of(&mut client, &request(&[])), 801);
        assert_eq!(refusal_of(&mut client, b"no frame"), 809);
        for own in ["mfaas-version", "mfaas-caller", "mfaas_caller"] {
            assert_eq!(refusal_of(&mut client, &request(&[(own, "1")])), 809, "{own}");
        }
    })
    .await;
    open.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_calls_of_several_clients_are_each_answered_once_and_in_order() {
    let open = Open::new();
    let clients: Vec<_> = (0..4)
        .map(|_| {
            let path = open.path();
            blocking(move || {
                let mut client = connect(&path).unwrap();
                let (frame, mut done) = (request(&[]), Completion::new());
                let (mut sent, mut received) = (0, 0);
                while received < 2_000 {
                    while sent < 2_000 && client.in_flight() < SLOTS {
                        client.submit(sent, (sent % 2) as u32, &frame).unwrap();
                        sent += 1;
                    }
                    assert!(client.wait(PATIENCE).unwrap(), "an answer is missing");
                    while client.collect(&mut done).unwrap() {
                        assert_eq!((done.call_id, done.refusal), (received, 801));
                        received += 1;
                    }
                }
            })
        })
        .collect();
    for client in clients {
        client.await;
    }
    open.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_are_none_and_one_client_too_many_are_refused() {
    let open = Open::new();
    let path = open.path();
    blocking(move || {
        for name in ["hello", "acme/", "ACME/hello", "acme/hello@", "acme/../hello"] {
            assert!(matches!(Client::connect(&path, &[name]), Err(ClientError::Refused(_))), "{name}");
        }
        let mut inside: Vec<_> = (0..CLIENTS_MAX).map(|_| connect(&path).unwrap()).collect();
        assert!(matches!(connect(&path), Err(ClientError::Refused(reason)) if reason.contains("16")));
        // Whoever dies leaves nothing behind: the place is free again, with calls on their way or without.
        let mut gone = inside.pop().unwrap();
        gone.submit(1, 0, &request(&[])).unwrap();
        drop(gone);
        let start = Instant::now();
        while connect(&path).is_err() {
            assert!(start.elapsed() < PATIENCE, "the place is never given back");
            std::thread::sleep(Duration::from_millis(10));
        }
        for client in &mut inside {
            assert_eq!(refusal_of(client, &request(&[])), 801, "nobody else is disturbed");
        }
    })
    .await;
    open.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_only_connects_holds_up_nobody() {
    let open = Open::new();
    let path = open.path();
    let silent: Vec<_> = (0..2).map(|_| UnixStream::connect(&path).unwrap()).collect();
    let mut wrong = UnixStream::connect(&path).unwrap();
    wrong.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    blocking(move || assert_eq!(refusal_of(&mut connect(&path).unwrap(), &request(&[])), 801)).await;
    drop(silent);
    open.close().await;
}

/// The memory of a ring, got by saying the words by hand.
fn memory_of_a_ring(stream: &mut UnixStream) -> OwnedFd {
    let request = br#"{"version":1,"functions":["acme/hello"]}"#;
    stream.write_all(&(request.len() as u32).to_le_bytes()).unwrap();
    stream.write_all(request).unwrap();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut rights = RecvAncillaryBuffer::new(&mut space);
    let mut bytes = [0; 256];
    recvmsg(&*stream, &mut [IoSliceMut::new(&mut bytes)], &mut rights, RecvFlags::empty()).unwrap();
    let Some(RecvAncillaryMessage::ScmRights(mut descriptors)) = rights.drain().next() else {
        panic!("no descriptor")
    };
    descriptors.next().unwrap()
}

/// Clients that write all over their rings, one after the other as they are put out.
fn besiege(path: &Path, until: Instant) -> u64 {
    let mut put_out = 0;
    let mut number = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move || {
        number ^= number << 13;
        number ^= number >> 7;
        number ^= number << 17;
        number
    };
    while Instant::now() < until {
        let mut stream = UnixStream::connect(path).unwrap();
        let memory = memory_of_a_ring(&mut stream);
        while !is_gone(&stream) && Instant::now() < until {
            // Header, or a submission and its neighbours; numbers that mean something among others.
            let word = if random() % 4 == 0 { random() % 512 } else { 512 + random() % 160 };
            let value = if random() % 2 == 0 { random() % 20 } else { random() };
            rustix::io::pwrite(&memory, &value.to_le_bytes(), word * 8).unwrap();
            // What rings the bell of a sleeping event loop.
            rustix::io::pwrite(&memory, &1u64.to_le_bytes(), 512 * 8).unwrap();
        }
        put_out += 1;
    }
    put_out
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_writes_anything_is_put_out_and_disturbs_nobody() {
    let open = Open::new();
    let (evil_path, path) = (open.path(), open.path());
    let until = Instant::now() + Duration::from_secs(2);
    let evil = blocking(move || besiege(&evil_path, until));
    let benign = blocking(move || {
        let mut client = connect(&path).unwrap();
        let mut calls = 0;
        while Instant::now() < until {
            assert_eq!(refusal_of(&mut client, &request(&[])), 801);
            calls += 1;
        }
        calls
    });
    let (put_out, calls) = tokio::join!(evil, benign);
    assert!(put_out > 1 && calls > 10, "{put_out} hostile clients, {calls} benign calls");
    open.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_notices_that_the_socket_closed() {
    let open = Open::new();
    let path = open.path();
    let mut client = blocking(move || connect(&path).unwrap()).await;
    open.close().await;
    blocking(move || {
        client.submit(1, 0, &request(&[])).unwrap();
        assert!(matches!(client.wait(PATIENCE), Err(ClientError::Gone)));
    })
    .await;
}

#[test]
fn a_dead_socket_is_replaced_and_nothing_else_is() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("local-api");
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let living = LocalSocket::bind(&path).unwrap();
    assert!(LocalSocket::bind(&path).is_err(), "another node listens");
    drop(living);
    std::fs::write(&path, "a file").unwrap();
    assert!(LocalSocket::bind(&path).is_err());
    assert_eq!(std::fs::read(&path).unwrap(), b"a file");
}

#[test]
fn codes_are_those_of_http() {
    assert_eq!(codes::MF0801.number(), 801);
    for code in codes::ALL {
        assert_eq!(format!("MF{:04}", code.number()), code.id());
    }
    assert_eq!(refusal::of_error(&CallError::Unknown), codes::MF0801);
    let full = CallError::Refused(Refusal::QueueFull { retry_after_s: 1 });
    assert_eq!(refusal::of_error(&full), codes::MF0811);
    assert_eq!(refusal::of_outcome(Outcome::Finished), None);
    assert_eq!(refusal::of_outcome(Outcome::Lost), Some(codes::MF0808));
}

#[test]
fn targets_are_names() {
    assert!(Target::parse("acme/hello@live").is_some());
    for name in ["", "acme", "/hello", "acme/hello/x", "acme/hello@@1"] {
        assert!(Target::parse(name).is_none(), "{name}");
    }
}
