//! What the server wants of this node beside the serving set: whether it takes calls and new versions, and which
//! artifacts must not run.
//!
//! Orders are not signed, because they can only take away: nothing is ever loaded because of them. They are on the
//! disk as well, so a node that starts without its server keeps them. A ban that this node speaks holds here
//! at once, is told until the server has it, and is the server's from then on: it holds as long as orders name it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chrono::Utc;
use mfaas_delivery::{Availability, Ban, BanNotice, Condition, NODE_PROTOCOL, Orders};
use mfaas_ident::{Digest, FunctionName, TenantName};
use reqwest::StatusCode;
use tokio::sync::Notify;

use crate::agent::ImageKey;
use crate::serving::Dispatcher;
use crate::state::{StateDir, StateError};
use crate::upstream::{Upstream, UpstreamError};

/// Between two questions when the server gives no answer or a bad one.
const PAUSE_MIN: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// Orders at most, in bytes: 20,000 bans of about 300 bytes.
const ORDERS_BYTES_MAX: usize = 16 << 20;

/// The orders that are in force, and the bans that this node has spoken.
#[derive(Debug, Default)]
pub(crate) struct Standing {
    books: Mutex<Books>,
    /// Read on every call, so not behind the lock.
    refuses_calls: AtomicBool,
    calls_inside: AtomicUsize,
    /// A ban waits to be told.
    spoken: Notify,
}

#[derive(Debug, Default)]
struct Books {
    orders: Option<Orders>,
    /// Spoken here; the server does not have them yet.
    untold: Vec<BanNotice>,
    /// Spoken here and taken by the server; in the next orders, unless somebody lifted them meanwhile.
    told: Vec<BanNotice>,
    /// Spoken here; the server will not put them in force elsewhere.
    own: Vec<BanNotice>,
}

/// What the disk holds.
#[derive(Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    orders: Option<Orders>,
    untold: Vec<BanNotice>,
}

/// What a ban names: the bytes, and whose function they are. A new version with other bytes is another matter.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct BanKey {
    tenant: TenantName,
    function: FunctionName,
    digest: Digest,
}

impl BanKey {
    /// What a ban of this image would name.
    pub(crate) fn of(key: &ImageKey) -> Self {
        Self { tenant: key.tenant.clone(), function: key.function.clone(), digest: key.digest }
    }

    fn named_by(ban: &Ban) -> Self {
        Self { tenant: ban.tenant.clone(), function: ban.function.clone(), digest: ban.digest }
    }
}

/// A call that was let in. The node is not drained before it is dropped.
#[derive(Debug)]
pub(crate) struct Pass<'a>(&'a AtomicUsize);

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Standing {
    /// Lets a call in, unless the node is being drained.
    pub(crate) fn enter(&self) -> Option<Pass<'_>> {
        // Counted before it is asked: whoever sees nobody inside after the order knows that nobody comes any more.
        self.calls_inside.fetch_add(1, Ordering::SeqCst);
        let pass = Pass(&self.calls_inside);
        (!self.refuses_calls.load(Ordering::SeqCst)).then_some(pass)
    }

    /// What the node is to take.
    pub(crate) fn availability(&self) -> Availability {
        self.lock().orders.as_ref().map(|orders| orders.availability).unwrap_or_default()
    }

    /// How far the orders are followed; `is_idle` says that every accepted call was answered.
    pub(crate) fn condition(&self, is_idle: bool) -> Condition {
        match self.availability() {
            Availability::Active => Condition::Active,
            Availability::Cordoned => Condition::Cordoned,
            Availability::Draining if is_idle && self.calls_inside.load(Ordering::SeqCst) == 0 => {
                Condition::Drained
            }
            Availability::Draining => Condition::Draining,
        }
    }

    /// A version was banned on this node. Never blocks: the dispatcher says so in the middle of its work.
    pub(crate) fn ban_spoken(&self, key: &ImageKey, crashes: u32) {
        let ban = Ban {
            tenant: key.tenant.clone(),
            function: key.function.clone(),
            version: key.version,
            digest: key.digest,
            crashes: crashes.max(1),
            since: Utc::now(),
        };
        let told = uuid::Uuid::now_v7();
        self.lock().untold.push(BanNotice { protocol: NODE_PROTOCOL, told, ban });
        self.spoken.notify_one();
    }

    /// Everything that must not run here, with the crashes that led to it.
    pub(crate) fn bans(&self) -> HashMap<BanKey, u32> {
        let books = self.lock();
        let ordered = books.orders.iter().flat_map(|orders| &orders.bans);
        let spoken = books.untold.iter().chain(&books.told).chain(&books.own).map(|notice| &notice.ban);
        ordered.chain(spoken).map(|ban| (BanKey::named_by(ban), ban.crashes)).collect()
    }

    /// Puts back what the disk holds; before the first call is let in.
    pub(crate) fn recall(&self, state: &StateDir) -> Result<(), StateError> {
        let Some(bytes) = state.orders()? else { return Ok(()) };
        match serde_json::from_slice::<Kept>(&bytes) {
            Ok(kept) if kept.orders.as_ref().is_none_or(|orders| orders.check().is_ok()) => {
                self.lock().untold = kept.untold;
                if let Some(orders) = kept.orders {
                    self.obey(orders);
                }
            }
            // Who knows what they forbade: nothing is called until the server has told them again.
            Ok(_) | Err(_) => {
                tracing::error!(
                    "the orders on the disk cannot be read: no calls until the server tells them again"
                );
                let availability = Availability::Draining;
                self.obey(Orders { protocol: NODE_PROTOCOL, availability, bans: Vec::new() });
            }
        }
        Ok(())
    }

    fn obey(&self, orders: Orders) {
        let refuses = orders.availability == Availability::Draining;
        let mut books = self.lock();
        books.orders = Some(orders);
        books.told.clear();
        self.refuses_calls.store(refuses, Ordering::SeqCst);
    }

    fn keep(&self, state: &StateDir) -> Result<(), StateError> {
        let kept = {
            let books = self.lock();
            // What was told and is not in the orders yet is told again after a crash, which changes nothing.
            let untold = books.untold.iter().chain(&books.told).cloned().collect();
            Kept { orders: books.orders.clone(), untold }
        };
        state.store_orders(&serde_json::to_vec(&kept).unwrap_or_default())
    }

    fn first_untold(&self) -> Option<BanNotice> {
        self.lock().untold.first().cloned()
    }

    /// The server has answered the oldest ban that was not told.
    fn was_told(&self, notice: BanNotice, everywhere: bool) {
        let mut books = self.lock();
        books.untold.retain(|untold| untold.told != notice.told);
        if everywhere { books.told.push(notice) } else { books.own.push(notice) }
    }

    fn lock(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why a step did not get through. The node keeps the orders that it has.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error(transparent)]
    Upstream(#[from] UpstreamError),
    #[error(transparent)]
    State(#[from] StateError),
    #[error("the orders of the server cannot be followed: {0}")]
    Malformed(String),
}

/// Asks for orders and follows them.
#[derive(Debug)]
pub(crate) struct Follower {
    pub(crate) standing: Arc<Standing>,
    pub(crate) dispatcher: Arc<Dispatcher>,
    pub(crate) state: StateDir,
    pub(crate) upstream: Upstream,
}

impl Follower {
    /// Follows for ever.
    pub(crate) async fn run(self) {
        let (mut pause, mut failing, mut known) = (PAUSE_MIN, false, None);
        loop {
            match self.step(&mut known).await {
                Ok(()) => (pause, failing) = (PAUSE_MIN, false),
                Err(trouble) => {
                    if !std::mem::replace(&mut failing, true) {
                        tracing::warn!(%trouble, "the node keeps the orders that it has and tries again");
                    }
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(PAUSE_MAX);
                }
            }
        }
    }

    /// Tells the bans that were spoken, then asks, until orders come or another ban is spoken.
    async fn step(&self, known: &mut Option<Digest>) -> Result<(), Trouble> {
        while let Some(notice) = self.standing.first_untold() {
            // On the disk first: it must hold even when this process ends before the server answers.
            self.standing.keep(&self.state)?;
            let everywhere = match self.upstream.ban(&notice).await {
                Ok(answer) => answer.everywhere,
                // Telling it again would not help, and must not keep orders away for ever.
                Err(error) if is_final(&error) => {
                    tracing::warn!(%error, "the server does not take a ban: it holds on this node alone");
                    false
                }
                Err(error) => return Err(error.into()),
            };
            self.standing.was_told(notice, everywhere);
            // Asked anew, the answer comes at once and says whether the ban is still in force.
            *known = None;
        }
        tokio::select! {
            answer = self.upstream.orders(*known, ORDERS_BYTES_MAX) => match answer? {
                Some(bytes) => {
                    self.follow(&bytes)?;
                    *known = Some(Digest::of(&bytes));
                    Ok(())
                }
                None => Ok(()),
            },
            () = self.standing.spoken.notified() => Ok(()),
        }
    }

    fn follow(&self, bytes: &[u8]) -> Result<(), Trouble> {
        let malformed = |error: &dyn std::fmt::Display| Trouble::Malformed(error.to_string());
        let orders: Orders = serde_json::from_slice(bytes).map_err(|e| malformed(&e))?;
        orders.check().map_err(|e| malformed(&e))?;
        let before = self.standing.availability();
        if before != orders.availability {
            tracing::info!(%before, now = %orders.availability, "an operator changed what this node takes");
        }
        self.standing.obey(orders);
        self.standing.keep(&self.state)?;
        self.dispatcher.hold_bans();
        Ok(())
    }
}

/// Whether the server has understood and said no, for a reason that lies in the message.
fn is_final(error: &UpstreamError) -> bool {
    matches!(error, UpstreamError::Refused { status, .. }
        if [StatusCode::BAD_REQUEST, StatusCode::UNPROCESSABLE_ENTITY].contains(status))
}

#[cfg(test)]
mod tests;
