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

/// A broker that reads nothing: what one tenant asks for waits, and others may still ask.
#[test]
fn one_tenant_does_not_fill_the_way_to_the_broker() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("broker");
    let listener = UnixListener::bind(&socket).unwrap();
    let (events, _outlet, _lives) = intake();
    let link = BrokerLink::start(Some(&socket), events).unwrap();
    let (mut broker, _) = listener.accept().unwrap();
    let hello = encode(&Hello { protocol: PROTOCOL }).unwrap();
    broker.write_all(&hello).unwrap();
    broker.read_exact(&mut vec![0; hello.len()]).unwrap();
    let begun = Instant::now();
    let connection = loop {
        if let Some(connection) = link.connection() {
            break connection;
        }
        assert!(begun.elapsed() < EXCHANGE_MAX, "no connection");
        std::thread::sleep(Duration::from_millis(1));
    };
    let (call, id, kind, access) = (1, 1, ResourceKind::Kv, DataAccess::Write);
    let (resource, request) = ("orders".parse().unwrap(), vec![0; REQUEST_BYTES_MAX]);
    let operate = ToBroker::Operate { call, id, resource, kind, access, secrets: Vec::new(), request };
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
    broker.set_read_timeout(Some(EXCHANGE_MAX)).unwrap();
    let reader = std::thread::spawn(move || std::io::copy(&mut broker, &mut std::io::sink()));
    let begun = Instant::now();
    while link.send(connection, &tenant("acme"), &operate).is_err() {
        assert!(begun.elapsed() < EXCHANGE_MAX, "no room");
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(link);
    assert!(reader.join().unwrap().unwrap() > 0);
}
