//! Who is connected, and how much each peer holds: connections, requests on their way, bytes of large bodies.
//!
//! A connection on which nothing is asked is idle, and makes room for the next one where there is none left: the one that
//! has been idle longest, of the same peer where the peer's own bound is reached. Accepting looks through all
//! connections then, which no request has to pay for. Must never let one peer's bound depend on what another one does.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use mfaas_ident::{Class, PeerKey};
use mfaas_ring::clock::ticks;
use tokio::task::AbortHandle;

use super::bounds::Bounds;
use super::connection_meters;

/// What everybody holds, and whom it is for.
#[derive(Debug)]
pub(crate) struct Peers {
    bounds: Bounds,
    all: Held,
    open: Mutex<Open>,
}

/// What somebody holds, in numbers and bytes.
#[derive(Debug, Default)]
struct Held {
    requests: AtomicUsize,
    request_bytes: AtomicUsize,
    answer_bytes: AtomicUsize,
    bulk_request_bytes: AtomicUsize,
    bulk_answer_bytes: AtomicUsize,
}

#[derive(Debug, Default)]
struct Open {
    next: u64,
    /// In the order of their coming.
    connections: BTreeMap<u64, Arc<Connection>>,
    peers: HashMap<PeerKey, Known>,
}

#[derive(Debug)]
struct Known {
    connections: usize,
    /// Lives on with what is still held, so that coming back forgets nothing.
    peer: Weak<Peer>,
}

#[derive(Debug)]
struct Peer {
    key: PeerKey,
    /// No bound of its own: a proxy that an operator named.
    is_exempt: bool,
    held: Held,
}

/// Whose bound is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Full {
    /// The peer's own.
    Peer,
    /// That of all together.
    Node,
}

/// Which budget bytes come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Budget {
    Requests,
    Answers,
    BulkRequests,
    BulkAnswers,
}

impl Budget {
    /// Of bodies of requests to functions of this class.
    pub(super) fn of_requests(class: Class) -> Self {
        match class {
            Class::Micro => Self::Requests,
            Class::Bulk => Self::BulkRequests,
        }
    }

    /// Of their answers.
    pub(super) fn of_answers(class: Class) -> Self {
        match class {
            Class::Micro => Self::Answers,
            Class::Bulk => Self::BulkAnswers,
        }
    }

    /// What may be held of it by one peer, and by all.
    fn bounds(self, bounds: &Bounds) -> (usize, usize) {
        match self {
            Self::Requests | Self::Answers => (bounds.peer_body_bytes_max, bounds.body_bytes_max),
            Self::BulkRequests | Self::BulkAnswers => {
                (bounds.peer_bulk_body_bytes_max, bounds.bulk_body_bytes_max)
            }
        }
    }
}

/// One connection, for as long as anything of it is held.
#[derive(Debug)]
pub(super) struct Connection {
    peers: Arc<Peers>,
    peer: Arc<Peer>,
    number: u64,
    /// Requests on their way.
    asked: AtomicUsize,
    /// Bulk calls among them that a worker has, or that wait for one.
    long: AtomicUsize,
    /// Counts their beginnings and ends.
    beats: AtomicU64,
    /// The last of them, in ticks.
    last: AtomicU64,
    /// Ends it; set as soon as it runs.
    end: OnceLock<AbortHandle>,
}

impl Peers {
    pub(crate) fn new(bounds: Bounds) -> Arc<Self> {
        Arc::new(Self { bounds, all: Held::default(), open: Mutex::default() })
    }

    /// A place for a connection from there. Where there is none, the connection that has been idle longest leaves.
    pub(super) fn admit(self: &Arc<Self>, address: IpAddr) -> Result<Place, Full> {
        let key = PeerKey::of(address);
        let is_exempt = self.bounds.proxies.contains(&address.to_canonical());
        let mut open = self.lock();
        let of_peer = open.peers.get(&key).map_or(0, |known| known.connections);
        if !is_exempt && of_peer >= self.bounds.peer_connections_max {
            open.evict(|connection| connection.peer.key == key, "peer").ok_or(Full::Peer)?;
        } else if open.connections.len() >= self.bounds.connections_max {
            open.evict(|_| true, "all").ok_or(Full::Node)?;
        }
        let peer = open.peer(key, is_exempt);
        let number = open.next;
        open.next += 1;
        let connection = Arc::new(Connection {
            peers: Arc::clone(self),
            peer,
            number,
            asked: AtomicUsize::new(0),
            long: AtomicUsize::new(0),
            beats: AtomicU64::new(0),
            last: AtomicU64::new(ticks()),
            end: OnceLock::new(),
        });
        open.connections.insert(number, Arc::clone(&connection));
        connection_meters::connections(open.connections.len());
        Ok(Place(connection))
    }

    pub(super) fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    /// Ends the connection that has been idle longest among those; nothing if none is idle.
    fn evict(&mut self, among: impl Fn(&Connection) -> bool, bound: &'static str) -> Option<()> {
        let idle = self.connections.values().filter(|open| among(open) && open.is_idle());
        let oldest = idle.min_by_key(|connection| connection.last.load(Ordering::Relaxed))?;
        let (number, end) = (oldest.number, oldest.end.get().cloned());
        self.remove(number);
        // A request that comes in this very moment finds its connection closed, as with any that was kept open too long.
        if let Some(end) = end {
            end.abort();
        }
        connection_meters::evicted(bound);
        Some(())
    }

    fn remove(&mut self, number: u64) {
        let Some(connection) = self.connections.remove(&number) else { return };
        let key = connection.peer.key;
        if let Some(known) = self.peers.get_mut(&key) {
            known.connections -= 1;
        }
        // Peers that hold something still are kept; they are looked at again when the map has grown.
        if self.peers.len() > 2 * self.connections.len() + 1 {
            drop(connection);
            self.peers.retain(|_, known| known.connections > 0 || known.peer.strong_count() > 0);
        }
        connection_meters::connections(self.connections.len());
    }

    fn peer(&mut self, key: PeerKey, is_exempt: bool) -> Arc<Peer> {
        let known = self.peers.entry(key).or_insert_with(|| Known { connections: 0, peer: Weak::new() });
        known.connections += 1;
        if let Some(peer) = known.peer.upgrade() {
            return peer;
        }
        let peer = Arc::new(Peer { key, is_exempt, held: Held::default() });
        known.peer = Arc::downgrade(&peer);
        peer
    }
}

/// A connection's place: given up when this is dropped.
#[derive(Debug)]
pub(super) struct Place(Arc<Connection>);

impl Place {
    pub(super) fn connection(&self) -> &Arc<Connection> {
        &self.0
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.peers.lock().remove(self.0.number);
    }
}

impl Connection {
    /// Where it comes from.
    pub(super) fn peer(&self) -> PeerKey {
        self.peer.key
    }

    /// Tells how this connection is ended when another one needs its place.
    pub(super) fn ends_by(&self, end: AbortHandle) {
        // Set once: each connection is one task.
        let _ = self.end.set(end);
    }

    /// A request begins.
    pub(super) fn ask(self: &Arc<Self>) -> Result<Pass, Full> {
        let Self { peers, peer, .. } = &**self;
        let bounds = &peers.bounds;
        let own_max = if peer.is_exempt { usize::MAX } else { bounds.peer_requests_max };
        take(&peer.held.requests, 1, own_max).ok_or(Full::Peer)?;
        if take(&peers.all.requests, 1, bounds.requests_max).is_none() {
            give_back(&peer.held.requests, 1);
            return Err(Full::Node);
        }
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.beat();
        Ok(Pass(Arc::clone(self)))
    }

    /// Beginnings and ends of requests so far.
    pub(super) fn beats(&self) -> u64 {
        self.beats.load(Ordering::Relaxed)
    }

    /// Whether nothing is asked on it.
    pub(super) fn is_idle(&self) -> bool {
        self.asked.load(Ordering::Relaxed) == 0
    }

    /// Whether a call is on its way that may take minutes: then it says nothing that nothing happens.
    pub(super) fn has_long_call(&self) -> bool {
        self.long.load(Ordering::Relaxed) > 0
    }

    fn beat(&self) {
        self.last.store(ticks(), Ordering::Relaxed);
        self.beats.fetch_add(1, Ordering::Relaxed);
    }
}

/// A request on its way: over when the last of its answer is given to the connection.
#[derive(Debug)]
pub(super) struct Pass(Arc<Connection>);

impl Pass {
    /// No bytes yet of that budget.
    pub(super) fn share(&self, budget: Budget) -> Share {
        Share { connection: Arc::clone(&self.0), budget, bytes: 0 }
    }
}

/// A bulk call on its way: over when this is dropped.
#[derive(Debug)]
pub(super) struct LongCall(Arc<Connection>);

impl Pass {
    /// A bulk call of the request begins to wait for its answer.
    pub(super) fn long_call(&self) -> LongCall {
        self.0.long.fetch_add(1, Ordering::Relaxed);
        LongCall(Arc::clone(&self.0))
    }
}

impl Drop for LongCall {
    fn drop(&mut self) {
        give_back(&self.0.long, 1);
        self.0.beat();
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        let Connection { peers, peer, asked, .. } = &*self.0;
        give_back(&peers.all.requests, 1);
        give_back(&peer.held.requests, 1);
        self.0.beat();
        give_back(asked, 1);
    }
}

/// Bytes of a budget, given back when this is dropped.
#[derive(Debug)]
pub(super) struct Share {
    connection: Arc<Connection>,
    budget: Budget,
    bytes: usize,
}

impl Share {
    /// Takes what is missing to so many bytes. Nobody waits: who sends slowly would hold up who does not.
    pub(super) fn grow_to(&mut self, bytes: usize) -> Result<(), Full> {
        let Connection { peers, peer, .. } = &*self.connection;
        let (peer_max, all_max) = self.budget.bounds(&peers.bounds);
        let more = bytes.saturating_sub(self.bytes);
        let own_max = if peer.is_exempt { usize::MAX } else { peer_max };
        let (own, all) = (peer.held.bytes(self.budget), peers.all.bytes(self.budget));
        take(own, more, own_max).ok_or(Full::Peer)?;
        if take(all, more, all_max).is_none() {
            give_back(own, more);
            return Err(Full::Node);
        }
        self.bytes += more;
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let Connection { peers, peer, .. } = &*self.connection;
        give_back(peers.all.bytes(self.budget), self.bytes);
        give_back(peer.held.bytes(self.budget), self.bytes);
    }
}

impl Held {
    fn bytes(&self, budget: Budget) -> &AtomicUsize {
        match budget {
            Budget::Requests => &self.request_bytes,
            Budget::Answers => &self.answer_bytes,
            Budget::BulkRequests => &self.bulk_request_bytes,
            Budget::BulkAnswers => &self.bulk_answer_bytes,
        }
    }
}

/// Adds to what is held, unless it passes `most`.
fn take(held: &AtomicUsize, more: usize, most: usize) -> Option<()> {
    let before = held.fetch_add(more, Ordering::Relaxed);
    // Who comes between the two lines may be refused one too early, never let in one too late.
    if before.saturating_add(more) > most {
        give_back(held, more);
        return None;
    }
    Some(())
}

fn give_back(held: &AtomicUsize, less: usize) {
    held.fetch_sub(less, Ordering::Relaxed);
}

#[cfg(test)]
mod tests;
