#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::io::Read as _;
use std::os::unix::net::UnixListener;
use std::time::Instant;

use mfaas_broker_protocol::REQUEST_BYTES_MAX;
use mfaas_ident::{DataAccess, ResourceKind};

use super::*;
use crate::serving::intake::intake;

fn tenant(name: &str) -> TenantName {
    TenantName::parse(name).unwrap()
}

/// A link, and the broker's side of its connection.
struct Connected {
    link: BrokerLink,
    broker: UnixStream,
    connection: ConnectionNumber,
    listener: UnixListener,
    _directory: tempfile::TempDir,
}

impl Connected {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("broker");
        let listener = UnixListener::bind(&socket).unwrap();
        let (events, _outlet, _lives) = intake();
        let link = BrokerLink::start(Some(&socket), events).unwrap();
        let broker = accepted(&listener);
        let connection = connection_after(&link, 0);
        Self { link, broker, connection, listener, _directory: directory }
    }
}

/// The next connection of the link.
fn accepted(listener: &UnixListener) -> UnixStream {
    let (mut broker, _) = listener.accept().unwrap();
    let hello = encode(&Hello { protocol: PROTOCOL }).unwrap();
    broker.write_all(&hello).unwrap();
    broker.read_exact(&mut vec![0; hello.len()]).unwrap();
    broker.set_read_timeout(Some(EXCHANGE_MAX)).unwrap();
    broker
}

fn connection_after(link: &BrokerLink, last: ConnectionNumber) -> ConnectionNumber {
    let begun = Instant::now();
    loop {
        if let Some(connection) = link.connection().filter(|connection| *connection > last) {
            return connection;
        }
        assert!(begun.elapsed() < EXCHANGE_MAX, "no connection");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// An operation of so many bytes.
fn operation(call: u64, bytes: usize) -> ToBroker {
    let (id, kind, access) = (1, ResourceKind::Kv, DataAccess::Write);
    let (resource, request) = ("orders".parse().unwrap(), vec![call as u8; bytes]);
    ToBroker::Operate { call, id, resource, kind, access, secrets: Vec::new(), request }
}

/// A broker that reads nothing: what one tenant asks for waits, and others may still ask.
#[test]
fn one_tenant_does_not_fill_the_way_to_the_broker() {
    let Connected { link, mut broker, connection, .. } = Connected::new();
    let (call, operate) = (1, operation(1, REQUEST_BYTES_MAX));
    let mut sent = 0;
    while link.send(connection, &tenant("acme"), &operate).is_ok() {
        sent += 1;
        assert!(sent * REQUEST_BYTES_MAX < QUEUED_BYTES_MAX / 2, "{sent} operations of one tenant wait");
    }
    assert!(sent * REQUEST_BYTES_MAX >= TENANT_QUEUED_BYTES_MAX - REQUEST_BYTES_MAX, "{sent}");
    link.send(connection, &tenant("umbrella"), &operate).unwrap();
    link.send(connection, &tenant("acme"), &ToBroker::Commit { call }).unwrap();
    link.send(connection, &tenant("acme"), &ToBroker::Forget { call }).unwrap();
    // When it is read there is room again.
    let reader = std::thread::spawn(move || std::io::copy(&mut broker, &mut std::io::sink()));
    let begun = Instant::now();
    while link.send(connection, &tenant("acme"), &operate).is_err() {
        assert!(begun.elapsed() < EXCHANGE_MAX, "no room");
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(link);
    assert!(reader.join().unwrap().unwrap() > 0);
}

/// What is written at once and what waits for room arrive whole, in their order.
#[test]
fn what_is_sent_arrives_in_its_order_however_fast_it_is_read() {
    let Connected { link, mut broker, connection, .. } = Connected::new();
    let bytes = |call: u64| [10, 70_000, 300, REQUEST_BYTES_MAX][(call % 4) as usize];
    let reader = std::thread::spawn(move || {
        for call in 0..2_000 {
            if call % 200 == 0 {
                // The socket fills up meanwhile, and then is emptied.
                std::thread::sleep(Duration::from_millis(20));
            }
            assert_eq!(read::<ToBroker>(&mut broker).unwrap(), operation(call, bytes(call)));
        }
    });
    let (mut at_once, begun) = (0, Instant::now());
    for call in 0..2_000 {
        while link.send(connection, &tenant("acme"), &operation(call, bytes(call))).is_err() {
            assert!(begun.elapsed() < EXCHANGE_MAX * 3, "no room");
            std::thread::sleep(Duration::from_millis(1));
        }
        at_once += usize::from(link.state.unwritten.load(Ordering::Acquire) == 0);
    }
    reader.join().unwrap();
    assert!((1..2_000).contains(&at_once), "{at_once} were written at once: both ways are taken");
}

/// An engine looks for answers, and not after what has none.
#[test]
fn what_is_never_answered_is_not_looked_for() {
    let Connected { link, connection, broker: _broker, .. } = Connected::new();
    let acme = tenant("acme");
    link.send(connection, &acme, &ToBroker::Forget { call: 1 }).unwrap();
    assert_eq!(link.asked_at(), 0);
    link.send(connection, &acme, &operation(1, 10)).unwrap();
    let asked_at = link.asked_at();
    assert_ne!(asked_at, 0);
    link.send(connection, &acme, &ToBroker::Forget { call: 1 }).unwrap();
    assert_eq!(link.asked_at(), asked_at);
    link.send(connection, &acme, &ToBroker::Commit { call: 2 }).unwrap();
    assert_ne!(link.asked_at(), asked_at);
}

/// What was on its way when a connection ended does not keep what comes later from being written at once; what is meant for any
/// connection goes over the next one, and what was meant for the last one does not.
#[test]
fn a_connection_that_ends_leaves_the_way_free() {
    let Connected { link, broker, connection, listener, _directory } = Connected::new();
    let acme = tenant("acme");
    while link.state.unwritten.load(Ordering::Acquire) == 0 {
        link.send(connection, &acme, &operation(1, REQUEST_BYTES_MAX)).unwrap();
    }
    let (id, function) = (uuid::Uuid::new_v4(), "hello".parse().unwrap());
    let version = mfaas_ident::VersionNumber::new(1).unwrap();
    let caller = mfaas_broker_protocol::Caller { id, tenant: acme.clone(), function, version, trace: None };
    let settle = ToBroker::Settle { call: 7, caller };
    link.send_when_connected(&acme, &settle).unwrap();
    drop(broker);
    let mut broker = accepted(&listener);
    let next = connection_after(&link, connection);
    assert_eq!(link.send(connection, &acme, &operation(2, 10)), Err(Away), "of the last one");
    assert_eq!(read::<ToBroker>(&mut broker).unwrap(), settle);
    let begun = Instant::now();
    while link.state.unwritten.load(Ordering::Acquire) > 0 {
        assert!(begun.elapsed() < EXCHANGE_MAX, "something is on its way for ever");
        std::thread::sleep(Duration::from_millis(1));
    }
    link.send(next, &acme, &operation(3, 10)).unwrap();
    assert_eq!(link.state.unwritten.load(Ordering::Acquire), 0, "written at once");
    assert_eq!(read::<ToBroker>(&mut broker).unwrap(), operation(3, 10));
}
