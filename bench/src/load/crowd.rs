//! Connections that are held: idle ones, or ones that send a body byte by byte.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::Tally;
use super::exchange::Connection;

/// How often the crowd looks after its connections.
const LOOK: Duration = Duration::from_millis(20);
/// Connections that are opened between two looks, at most: some thousand a second. More at once fill the kernel's
/// queue, which then forgets some that their client takes for open.
const OPENED_MAX: usize = 64;
/// Between two bytes of a slow body.
const DRIP: Duration = Duration::from_secs(1);
/// One more byte of a body in chunks (RFC 9112 7.1).
const CHUNK: &[u8] = b"1\r\nx\r\n";

/// Many connections from one address; what the node closes is opened again.
#[derive(Debug)]
pub struct Crowd {
    server: SocketAddr,
    source: Ipv4Addr,
    connections: usize,
    /// What each sends when it is open, before it goes on in chunks; an idle one sends nothing.
    head: Option<Vec<u8>>,
    held: Vec<Member>,
}

#[derive(Debug)]
struct Member {
    connection: Connection,
    /// When it sends next; never where that is not what it does.
    next: Option<Instant>,
    /// Whether it is connected, and has sent its head if it has one: only then it holds anything.
    begun: bool,
}

impl Crowd {
    /// `connections` that send nothing.
    pub fn idle(server: SocketAddr, source: Ipv4Addr, connections: usize) -> Self {
        Self { server, source, connections, head: None, held: vec![] }
    }

    /// `connections` that send a body to `path` without an end, a byte a second.
    pub fn slow(server: SocketAddr, source: Ipv4Addr, connections: usize, path: &str) -> Self {
        let head = format!("POST {path} HTTP/1.1\r\nhost: {server}\r\ntransfer-encoding: chunked\r\n\r\n");
        Self { head: Some(head.into_bytes()), ..Self::idle(server, source, connections) }
    }

    /// Holds them until `stop`. What the node closes counts as refused.
    pub fn hold(&mut self, stop: &AtomicBool, tally: &Tally) {
        while !stop.load(Ordering::Relaxed) {
            let before = self.held.len();
            let head = self.head.as_deref();
            self.held.retain_mut(|member| member.attend(head));
            tally.refused.fetch_add((before - self.held.len()) as u64, Ordering::Relaxed);
            self.open(stop);
            let held = self.held.iter().filter(|member| member.begun).count();
            tally.held.store(held as u64, Ordering::Relaxed);
            std::thread::sleep(LOOK);
        }
        self.held.clear();
    }

    fn open(&mut self, stop: &AtomicBool) {
        let most = self.connections.min(self.held.len() + OPENED_MAX);
        while self.held.len() < most && !stop.load(Ordering::Relaxed) {
            // Without a port or a descriptor there are as many as there are.
            let Ok(connection) = Connection::open(self.server, self.source) else { return };
            let next = self.head.as_ref().map(|_| Instant::now());
            self.held.push(Member { connection, next, begun: false });
        }
    }
}

impl Member {
    /// Does what is due; `false` when the node has closed the connection.
    fn attend(&mut self, head: Option<&[u8]>) -> bool {
        let mut bytes = [0; 512];
        let stream = self.connection.stream();
        match stream.read(&mut bytes) {
            Ok(0) => return false,
            // What the node says changes nothing.
            Ok(_) => {}
            Err(error) if super::exchange::is_early(&error) => {}
            Err(_) => return false,
        }
        let (Some(next), Some(head)) = (self.next, head) else {
            self.begun = self.begun || stream.peer_addr().is_ok();
            return true;
        };
        let now = Instant::now();
        if now < next {
            return true;
        }
        let piece = if self.begun { CHUNK } else { head };
        match stream.write_all(piece) {
            Ok(()) => {
                (self.begun, self.next) = (true, Some(now + DRIP));
                true
            }
            Err(error) => super::exchange::is_early(&error),
        }
    }
}
