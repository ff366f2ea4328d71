//! Who is connected to a listener, and which connection is given up when there is no place for another one.
//!
//! A connection is busy while something is worked on for it and until its answer to somebody who may ask has left;
//! all others are idle, those too whose senders have not come to the end of a request. Where there is no place, the
//! one that has been idle longest leaves, of the same peer where the peer's own bound is reached. Who accepts looks
//! through all of them for it. Must never give up a busy one.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use http::Extensions;
use mfaas_ident::PeerKey;
use tokio_util::sync::CancellationToken;

use crate::limits::{self, Bounds, Deadlines};
use crate::metrics;
use crate::refusal::Refusal;

/// Whose bound is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Full {
    Peer,
    All,
}

impl Full {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Peer => "peer",
            Self::All => "all",
        }
    }
}

/// The open connections of one listener.
#[derive(Debug)]
pub(crate) struct Connections {
    listener: &'static str,
    bounds: Bounds,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    next: u64,
    connections: BTreeMap<u64, Arc<Connection>>,
}

/// One connection, for as long as it is open.
#[derive(Debug)]
pub(crate) struct Connection {
    peer: PeerKey,
    /// Requests that are worked on, and answers on their way.
    busy: AtomicUsize,
    was_asked: AtomicBool,
    /// Of a request or of work on one: the last beginning or end.
    last: Mutex<Instant>,
    given_up: CancellationToken,
}

impl Connections {
    pub(crate) fn new(listener: &'static str, bounds: Bounds) -> Arc<Self> {
        Arc::new(Self { listener, bounds, open: Mutex::default() })
    }

    /// A place for a connection from `address`.
    pub(crate) fn admit(self: &Arc<Self>, address: IpAddr) -> Result<Place, Full> {
        let peer = PeerKey::of(address);
        let mut open = self.lock();
        let of_peer = open.connections.values().filter(|connection| connection.peer == peer).count();
        let full = if of_peer >= self.bounds.peer_connections_max {
            Some(Full::Peer)
        } else if open.connections.len() >= self.bounds.connections_max {
            Some(Full::All)
        } else {
            None
        };
        if let Some(full) = full {
            let among = (full == Full::Peer).then_some(peer);
            if !open.give_up_oldest(among) {
                metrics::turned_away(self.listener, full.as_str());
                return Err(full);
            }
            metrics::gave_up(self.listener, full.as_str());
        }
        let number = open.next;
        open.next += 1;
        let connection = Arc::new(Connection {
            peer,
            busy: AtomicUsize::new(0),
            was_asked: AtomicBool::new(false),
            last: Mutex::new(Instant::now()),
            given_up: CancellationToken::new(),
        });
        open.connections.insert(number, Arc::clone(&connection));
        metrics::connections(self.listener, open.connections.len());
        Ok(Place { connections: Arc::clone(self), number, connection })
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    /// Tells the connection that has been idle longest to end; `false` when none is idle. Of one peer, or of all.
    fn give_up_oldest(&mut self, peer: Option<PeerKey>) -> bool {
        let idle = self.connections.iter().filter(|(_, connection)| {
            peer.is_none_or(|peer| connection.peer == peer) && connection.busy.load(Ordering::Acquire) == 0
        });
        let Some(oldest) = idle.min_by_key(|(_, connection)| connection.last()).map(|(number, _)| *number)
        else {
            return false;
        };
        if let Some(connection) = self.connections.remove(&oldest) {
            connection.given_up.cancel();
        }
        true
    }
}

/// A connection's place: given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    connections: Arc<Connections>,
    number: u64,
    connection: Arc<Connection>,
}

impl Place {
    pub(crate) fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.connections.lock();
        open.connections.remove(&self.number);
        metrics::connections(self.connections.listener, open.connections.len());
    }
}

impl Connection {
    /// Whose it is.
    pub(crate) fn peer(&self) -> PeerKey {
        self.peer
    }

    /// The head of a request has come.
    pub(crate) fn asked(&self) {
        self.was_asked.store(true, Ordering::Release);
        self.touch();
    }

    /// Something happens that time limits count from.
    pub(crate) fn touch(&self) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Busy until the answer is dropped.
    pub(crate) fn busy(self: &Arc<Self>) -> Busy {
        self.busy.fetch_add(1, Ordering::AcqRel);
        self.touch();
        Busy(Arc::clone(self))
    }

    /// When it ends by itself if nothing happens any more.
    pub(crate) fn ends_at(&self, deadlines: &Deadlines) -> Instant {
        let wait = if self.busy.load(Ordering::Acquire) > 0 {
            limits::ANSWER_TIME_MAX
        } else if self.was_asked.load(Ordering::Acquire) {
            deadlines.idle
        } else {
            deadlines.first_request
        };
        self.last() + wait
    }

    /// Resolves when another connection needs its place.
    pub(crate) async fn given_up(&self) {
        self.given_up.cancelled().await;
    }

    fn last(&self) -> Instant {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps a connection from being given up.
#[derive(Debug)]
pub(crate) struct Busy(Arc<Connection>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.touch();
        self.0.busy.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The address that a request came from.
pub(crate) fn peer_of(extensions: &Extensions) -> Result<PeerKey, Refusal> {
    let connection = extensions.get::<Arc<Connection>>();
    connection
        .map(|connection| connection.peer())
        .ok_or_else(|| Refusal::internal("a request came over no connection"))
}

#[cfg(test)]
mod tests;
