//! Looking up who calls: a few at a time, in three lanes that do not wait for each other.
//!
//! Anybody can ask for a look-up by showing a token or a session that nobody made, so what strangers show has a lane of its
//! own, and an address whose tokens are not known is refused before it is looked up again. Which tokens were good is remembered
//! for the choice of the lane alone: each is looked up every time, so that a withdrawal counts at once.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use mfaas_ident::{Digest, PeerKey};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

use crate::limits;
use crate::refusal::Refusal;

/// The lanes, and what is remembered for them.
#[derive(Debug)]
pub(crate) struct Lookups {
    known: Semaphore,
    strangers: Semaphore,
    nodes: Semaphore,
    good: Mutex<Good>,
    unknown: Mutex<HashMap<PeerKey, Unknown>>,
}

/// Tokens that were good, by the hashes of their secrets: the newest, and those before them. Only tokens that somebody
/// made come in here.
#[derive(Debug, Default)]
struct Good {
    newer: HashSet<Digest>,
    older: HashSet<Digest>,
}

/// What an address has shown that is not known, in the second since `begun`.
#[derive(Debug)]
struct Unknown {
    begun: Instant,
    count: u32,
}

impl Default for Lookups {
    fn default() -> Self {
        Self {
            known: Semaphore::new(limits::KNOWN_LOOKUPS_MAX),
            strangers: Semaphore::new(limits::STRANGER_LOOKUPS_MAX),
            nodes: Semaphore::new(limits::NODE_LOOKUPS_MAX),
            good: Mutex::default(),
            unknown: Mutex::default(),
        }
    }
}

impl Lookups {
    /// What `looking` finds of the token whose secret, or of the session whose cookie, has that hash.
    pub(crate) async fn token<T>(
        &self,
        peer: PeerKey,
        secret: &Digest,
        looking: impl Future<Output = Result<Option<T>, Refusal>>,
    ) -> Result<Option<T>, Refusal> {
        if self.good().has(secret) {
            let found = in_lane(&self.known, looking).await?;
            if found.is_none() {
                self.good().forget(secret);
            }
            return Ok(found);
        }
        let found = self.unseen(peer, looking).await?;
        if found.is_some() {
            self.good().remember(*secret);
        }
        Ok(found)
    }

    /// The session of that cookie was opened here just now.
    pub(crate) fn opened(&self, cookie_sha256: Digest) {
        self.good().remember(cookie_sha256);
    }

    /// What `looking` finds of a node, which has shown a certificate of ours.
    pub(crate) async fn node<T>(
        &self,
        looking: impl Future<Output = Result<T, Refusal>>,
    ) -> Result<T, Refusal> {
        in_lane(&self.nodes, looking).await
    }

    /// What `looking` finds of a token that nobody has shown yet.
    async fn unseen<T>(
        &self,
        peer: PeerKey,
        looking: impl Future<Output = Result<Option<T>, Refusal>>,
    ) -> Result<Option<T>, Refusal> {
        self.check(peer)?;
        let _permit = turn(&self.strangers).await?;
        // Those who waited beside it may have used up what the address may ask.
        self.check(peer)?;
        let found = looking.await?;
        if found.is_none() {
            self.note_unknown(peer);
        }
        Ok(found)
    }

    /// Refuses an address that has just shown too many secrets that are not known.
    pub(crate) fn check(&self, peer: PeerKey) -> Result<(), Refusal> {
        let unknown = self.unknown();
        let Some(row) = unknown.get(&peer).filter(|row| row.begun.elapsed() < limits::UNKNOWN_PERIOD) else {
            return Ok(());
        };
        if row.count < limits::UNKNOWN_SECRETS_MAX {
            return Ok(());
        }
        Err(Refusal::busy("Too many tokens that are not known come from this address."))
    }

    /// The address has shown a secret that is not known.
    pub(crate) fn note_unknown(&self, peer: PeerKey) {
        let mut unknown = self.unknown();
        if unknown.len() >= limits::UNKNOWN_PEERS_MAX {
            unknown.retain(|_, row| row.begun.elapsed() < limits::UNKNOWN_PERIOD);
        }
        // One more address is not counted then; the lane bounds all of them together.
        if unknown.len() >= limits::UNKNOWN_PEERS_MAX && !unknown.contains_key(&peer) {
            return;
        }
        let row = unknown.entry(peer).or_insert_with(|| Unknown { begun: Instant::now(), count: 0 });
        if row.begun.elapsed() >= limits::UNKNOWN_PERIOD {
            *row = Unknown { begun: Instant::now(), count: 0 };
        }
        row.count = row.count.saturating_add(1);
    }

    fn good(&self) -> MutexGuard<'_, Good> {
        self.good.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unknown(&self) -> MutexGuard<'_, HashMap<PeerKey, Unknown>> {
        self.unknown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Good {
    fn has(&mut self, secret: &Digest) -> bool {
        let is_older = self.older.contains(secret);
        if is_older {
            self.remember(*secret);
        }
        is_older || self.newer.contains(secret)
    }

    fn remember(&mut self, secret: Digest) {
        if self.newer.len() >= limits::GOOD_TOKENS_REMEMBERED_MAX / 2 {
            self.older = std::mem::take(&mut self.newer);
        }
        self.newer.insert(secret);
    }

    fn forget(&mut self, secret: &Digest) {
        self.newer.remove(secret);
        self.older.remove(secret);
    }
}

async fn in_lane<T>(
    lane: &Semaphore,
    looking: impl Future<Output = Result<T, Refusal>>,
) -> Result<T, Refusal> {
    let _permit = turn(lane).await?;
    looking.await
}

/// Either too many ask, or the database is so slow that a few are too many.
async fn turn(lane: &Semaphore) -> Result<SemaphorePermit<'_>, Refusal> {
    match timeout(limits::LOOKUP_WAIT_MAX, lane.acquire()).await {
        Ok(Ok(permit)) => Ok(permit),
        Ok(Err(_)) | Err(_) => {
            let cause = "as many look-ups as may be at once took too long";
            Err(Refusal::unavailable("The server cannot look up who calls at the moment.", cause))
        }
    }
}

#[cfg(test)]
mod tests;
