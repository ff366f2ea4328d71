//! How much of a function a caller gets: calls a second (a token bucket that holds a second's worth, kept as the time at which it is
//! full again: <https://en.wikipedia.org/wiki/Generic_cell_rate_algorithm>) and calls on their way.

use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Instant;

use lru::LruCache;

use crate::recent::Recent;

/// Rows: callers times the functions that they call. Some hundred bytes each.
const ROWS: usize = 32_768;
/// Rows that are looked at for one that nobody is in, where all are taken.
const LOOKS: usize = 8;
const SECOND_NS: u64 = 1_000_000_000;

/// What one caller gets of one function on this node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Share {
    /// Calls a second, at least 1.
    pub(crate) rate: u32,
    /// Calls on their way, at least 1.
    pub(crate) concurrency: u32,
}

impl Default for Share {
    /// What an operator who says nothing gives: more calls a second than a node of many cores answers, so that it meets only who
    /// floods, and half of the calls that wait for the dispatcher at most, so that one caller never has all of it.
    fn default() -> Self {
        Self { rate: 100_000, concurrency: 2_048 }
    }
}

impl Share {
    /// The smaller of both.
    pub(crate) fn at_most(self, rate: Option<u32>, concurrency: Option<u32>) -> Self {
        Self {
            rate: rate.map_or(self.rate, |rate| rate.min(self.rate)),
            concurrency: concurrency.map_or(self.concurrency, |calls| calls.min(self.concurrency)),
        }
    }
}

#[derive(Debug, Default)]
struct Row {
    /// When the bucket is full again, in nanoseconds since the limiter began. Changed under the lock of its piece.
    full_at: AtomicU64,
    calls: AtomicU32,
}

/// A call on its way; over when this is dropped.
#[derive(Debug)]
pub(crate) struct Place(Arc<Row>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.calls.fetch_sub(1, Ordering::Relaxed);
    }
}

/// All rows. One that is forgotten had nobody in it: its caller begins with a full bucket.
#[derive(Debug)]
pub(crate) struct Limiter {
    rows: Recent<u64, Arc<Row>>,
    began: Instant,
}

impl Default for Limiter {
    fn default() -> Self {
        Self { rows: Recent::new(ROWS), began: Instant::now() }
    }
}

impl Limiter {
    /// A place for one more call of `whom`; otherwise the seconds after which it may come again.
    pub(crate) fn take(&self, whom: &impl Hash, share: Share) -> Result<Place, u32> {
        self.take_at(whom, share, self.now_ns())
    }

    /// Whether there would be one by the rate, without taking it.
    pub(crate) fn look(&self, whom: &impl Hash, share: Share) -> Result<(), u32> {
        let key = self.rows.hash(whom);
        let full_at = self.rows.piece(&key).peek(&key).map_or(0, |row| row.full_at.load(Ordering::Relaxed));
        full_again(full_at, share, self.now_ns()).map(drop)
    }

    fn take_at(&self, whom: &impl Hash, share: Share, now_ns: u64) -> Result<Place, u32> {
        let key = self.rows.hash(whom);
        let mut piece = self.rows.piece(&key);
        let row = match piece.get(&key) {
            Some(row) => Arc::clone(row),
            None => {
                make_room(&mut piece)?;
                let row = Arc::new(Row::default());
                piece.put(key, Arc::clone(&row));
                row
            }
        };
        let full_at = full_again(row.full_at.load(Ordering::Relaxed), share, now_ns)?;
        if row.calls.load(Ordering::Relaxed) >= share.concurrency {
            return Err(1);
        }
        row.full_at.store(full_at, Ordering::Relaxed);
        row.calls.fetch_add(1, Ordering::Relaxed);
        drop(piece);
        Ok(Place(row))
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// When the bucket is full again after one more call, or in how many seconds one fits.
fn full_again(full_at: u64, share: Share, now_ns: u64) -> Result<u64, u32> {
    let each_ns = SECOND_NS / u64::from(share.rate.max(1));
    let after = full_at.max(now_ns).saturating_add(each_ns);
    match after.saturating_sub(now_ns).checked_sub(SECOND_NS) {
        None | Some(0) => Ok(after),
        // At most a few seconds: no row is further ahead than its bucket is large.
        Some(early) => Err(u32::try_from(early.div_ceil(SECOND_NS)).unwrap_or(u32::MAX)),
    }
}

/// Makes sure that the piece takes one more row without forgetting one that somebody is in, whose calls would be counted no more.
fn make_room(piece: &mut LruCache<u64, Arc<Row>>) -> Result<(), u32> {
    if piece.len() < piece.cap().get() {
        return Ok(());
    }
    for _ in 0..LOOKS {
        let Some((key, row)) = piece.peek_lru().map(|(key, row)| (*key, Arc::clone(row))) else { break };
        if row.calls.load(Ordering::Relaxed) == 0 {
            piece.pop(&key);
            return Ok(());
        }
        piece.promote(&key);
    }
    Err(1)
}

#[cfg(test)]
mod tests;
