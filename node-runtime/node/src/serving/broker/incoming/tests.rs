#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::io::Write as _;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use mfaas_broker_protocol::{CommitResult, encode};

use super::*;
use crate::serving::intake::{Outlet, intake};

const SOON: Duration = Duration::from_secs(10);

/// A connection with its thread, from the side of the engine and of the broker.
struct Connected {
    incoming: Arc<Incoming>,
    broker: UnixStream,
    intake: Intake,
    outlet: Outlet,
    /// Why the thread ended.
    over: mpsc::Receiver<String>,
}

impl Connected {
    fn new() -> Self {
        let (stream, broker) = UnixStream::pair().unwrap();
        let incoming = Arc::new(Incoming::new(stream).unwrap());
        let (intake, outlet, _lives) = intake();
        let (ends, over) = mpsc::channel();
        let (of_thread, to) = (Arc::clone(&incoming), intake.clone());
        std::thread::spawn(move || of_thread.tell_all(&to, |error| ends.send(error.to_string()).unwrap()));
        Self { incoming, broker, intake, outlet, over }
    }

    /// The same with an engine that looks.
    fn looked_at() -> Self {
        let this = Self::new();
        assert!(this.incoming.is_watched());
        assert_eq!(this.incoming.next(&this.intake), None);
        assert!(!this.incoming.is_watched());
        this
    }

    fn say(&mut self, calls: impl IntoIterator<Item = u64>) {
        let bytes: Vec<u8> = calls.into_iter().flat_map(|call| encode(&message(call)).unwrap()).collect();
        self.broker.write_all(&bytes).unwrap();
    }

    /// What the engine hears of the thread, if it hears something soon.
    fn told(&mut self) -> Option<FromBroker> {
        soon(|| match self.outlet.next()? {
            Event::Broker(message) => Some(message),
            other => panic!("{other:?}"),
        })
    }

    /// What the engine finds itself.
    fn found(&self) -> Option<FromBroker> {
        soon(|| self.incoming.next(&self.intake))
    }
}

fn message(call: u64) -> FromBroker {
    FromBroker::Committed { call, result: CommitResult::Done }
}

fn soon<T>(mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let begun = Instant::now();
    while begun.elapsed() < SOON {
        if let found @ Some(_) = look() {
            return found;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    None
}

#[test]
fn what_comes_is_heard_by_the_engine_as_long_as_it_looks_and_by_the_thread_afterwards() {
    let mut connected = Connected::looked_at();
    connected.say([1]);
    std::thread::sleep(Duration::from_millis(50));
    assert!(connected.outlet.next().is_none(), "the thread was woken");
    assert_eq!(connected.found(), Some(message(1)));
    assert!(connected.incoming.watch());
    connected.say([2]);
    assert_eq!(connected.told(), Some(message(2)));
}

#[test]
fn what_came_before_the_engine_rested_wakes_the_thread() {
    let mut connected = Connected::looked_at();
    connected.say([1, 2]);
    assert!(connected.incoming.watch());
    assert_eq!([connected.told(), connected.told()], [1, 2].map(|call| Some(message(call))));
}

#[test]
fn an_engine_does_not_rest_over_what_it_has_read() {
    let mut connected = Connected::looked_at();
    connected.say([1, 2]);
    assert_eq!(connected.found(), Some(message(1)));
    assert!(
        !connected.incoming.watch(),
        "the second was read with the first, and nothing would wake anybody"
    );
    assert!(!connected.incoming.is_watched());
    assert_eq!(connected.incoming.next(&connected.intake), Some(message(2)));
    assert!(connected.incoming.watch());
}

#[test]
fn what_the_thread_has_told_comes_first() {
    let mut connected = Connected::new();
    connected.say([1]);
    soon(|| connected.intake.has_of_broker().then_some(())).expect("the thread tells it");
    connected.say([2]);
    assert_eq!(connected.incoming.next(&connected.intake), None);
    assert_eq!(connected.told(), Some(message(1)));
    let second = soon(|| {
        connected.incoming.next(&connected.intake).or_else(|| {
            connected.outlet.next().map(|event| match event {
                Event::Broker(message) => message,
                other => panic!("{other:?}"),
            })
        })
    });
    assert_eq!(second, Some(message(2)));
}

/// A queue that is never empty is no reason to leave answers unread.
#[test]
fn what_else_waits_for_the_engine_does_not_come_first() {
    let mut connected = Connected::looked_at();
    connected.intake.send(Event::Renewed);
    connected.say([1]);
    assert_eq!(connected.found(), Some(message(1)));
}

/// The thread waits for room among what the engine is to take, and the engine must not wait for the thread.
#[test]
fn an_engine_does_not_rest_nor_wait_while_the_thread_waits_for_it() {
    let mut connected = Connected::looked_at();
    let sent = 5_000;
    connected.say(0..sent);
    // It is woken by the end, whatever it listens to.
    connected.broker.shutdown(std::net::Shutdown::Both).unwrap();
    let is_held = || connected.incoming.try_lock().is_none().then_some(());
    soon(is_held).expect("the thread reads");
    std::thread::sleep(Duration::from_millis(50));
    assert!(is_held().is_some(), "there is no room for all");
    let (watched, result) = mpsc::channel();
    let incoming = Arc::clone(&connected.incoming);
    std::thread::spawn(move || watched.send(incoming.watch()));
    assert_eq!(result.recv_timeout(SOON), Ok(false));
    assert!((0..sent).all(|call| connected.told() == Some(message(call))));
    assert!(connected.over.recv_timeout(SOON).is_ok());
}

#[test]
fn half_a_message_waits_for_the_rest() {
    let mut connected = Connected::looked_at();
    let bytes = encode(&message(1)).unwrap();
    for at in [2, HEAD_BYTES, bytes.len() - 1] {
        connected.broker.write_all(&bytes[..at]).unwrap();
        std::thread::sleep(Duration::from_millis(10));
        assert_eq!(connected.incoming.next(&connected.intake), None);
        assert!(connected.incoming.watch());
        connected.broker.write_all(&bytes[at..]).unwrap();
        assert_eq!(connected.told(), Some(message(1)), "after {at} bytes");
        assert_eq!(connected.incoming.next(&connected.intake), None);
    }
}

#[test]
fn the_thread_hears_of_an_end_while_the_engine_looks() {
    let connected = Connected::looked_at();
    drop(connected.broker);
    connected.over.recv_timeout(SOON).unwrap();
    assert_eq!(connected.incoming.next(&connected.intake), None);
}

#[test]
fn what_is_no_message_ends_the_connection_by_either_way() {
    for looks in [false, true] {
        let mut connected = if looks { Connected::looked_at() } else { Connected::new() };
        connected.broker.write_all(&[0xff; HEAD_BYTES]).unwrap();
        if looks {
            std::thread::sleep(Duration::from_millis(10));
            assert_eq!(connected.incoming.next(&connected.intake), None);
        }
        let why = connected.over.recv_timeout(SOON).unwrap();
        assert!(why.contains("bytes"), "{why}");
    }
}
