//! What is in force of the directives and of the bans of this node's own, in memory and on the disk.
//!
//! Every call asks it, so it must never wait for the server or the disk there.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use chrono::Utc;
use mfaas_delivery::{Availability, Ban, BanNotice, Condition, Directives, NODE_PROTOCOL};
use mfaas_ident::{Digest, FunctionName, TenantName};
use tokio::sync::Notify;

use crate::image::ImageKey;
use crate::state::{StateDir, StateError};

/// The directives that are in force, and the bans of this node's own.
#[derive(Debug, Default)]
pub(crate) struct Standing {
    ledger: Mutex<Ledger>,
    /// Read on every call, so not behind the lock.
    refuses_calls: AtomicBool,
    calls_inside: AtomicUsize,
    /// A ban waits to be reported.
    pub(super) new_ban: Notify,
}

#[derive(Debug, Default)]
struct Ledger {
    directives: Option<Directives>,
    /// Banned here; the server does not have them yet.
    unreported: Vec<BanNotice>,
    /// Banned here and taken by the server; in the next directives, unless an operator lifted them meanwhile.
    reported: Vec<BanNotice>,
    /// Banned here; the server does not put them in force elsewhere.
    local: Vec<BanNotice>,
}

/// What the disk holds.
#[derive(Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    #[serde(rename = "orders")]
    directives: Option<Directives>,
    #[serde(rename = "unreported")]
    unreported: Vec<BanNotice>,
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
        // Counted before the flag is read: zero calls inside after the directive means that no further one comes in.
        self.calls_inside.fetch_add(1, Ordering::SeqCst);
        let pass = Pass(&self.calls_inside);
        (!self.refuses_calls.load(Ordering::SeqCst)).then_some(pass)
    }

    /// What the node is to take.
    pub(crate) fn availability(&self) -> Availability {
        self.lock().directives.as_ref().map(|directives| directives.availability).unwrap_or_default()
    }

    /// How far the directives are followed; `is_idle` says that every accepted call was answered.
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

    /// Notes that a version was banned on this node. Never blocks: the dispatcher calls it in the middle of its work.
    pub(crate) fn record_ban(&self, key: &ImageKey, crashes: u32) {
        let ban = Ban {
            tenant: key.tenant.clone(),
            function: key.function.clone(),
            version: key.version,
            digest: key.digest,
            crashes: crashes.max(1),
            since: Utc::now(),
        };
        let notice_id = uuid::Uuid::now_v7();
        self.lock().unreported.push(BanNotice { protocol: NODE_PROTOCOL, notice_id, ban });
        self.new_ban.notify_one();
    }

    /// Everything that must not run here, with the crashes that led to it.
    pub(crate) fn bans(&self) -> HashMap<BanKey, u32> {
        let ledger = self.lock();
        let ordered = ledger.directives.iter().flat_map(|directives| &directives.bans);
        let own =
            ledger.unreported.iter().chain(&ledger.reported).chain(&ledger.local).map(|notice| &notice.ban);
        ordered.chain(own).map(|ban| (BanKey::named_by(ban), ban.crashes)).collect()
    }

    /// Puts back what the disk holds; before the first call is let in.
    pub(crate) fn recall(&self, state: &StateDir) -> Result<(), StateError> {
        let Some(bytes) = state.directives()? else { return Ok(()) };
        match serde_json::from_slice::<Kept>(&bytes) {
            Ok(kept) if kept.directives.as_ref().is_none_or(|directives| directives.check().is_ok()) => {
                self.lock().unreported = kept.unreported;
                if let Some(directives) = kept.directives {
                    self.apply(directives);
                }
            }
            // What they forbade is unknown: nothing is called until the server has sent them again.
            Ok(_) | Err(_) => {
                tracing::error!(
                    "the directives on the disk cannot be read: no calls until the server sends them again"
                );
                let availability = Availability::Draining;
                self.apply(Directives { protocol: NODE_PROTOCOL, availability, bans: Vec::new() });
            }
        }
        Ok(())
    }

    pub(super) fn apply(&self, directives: Directives) {
        let refuses = directives.availability == Availability::Draining;
        let mut ledger = self.lock();
        ledger.directives = Some(directives);
        ledger.reported.clear();
        self.refuses_calls.store(refuses, Ordering::SeqCst);
    }

    pub(super) fn keep(&self, state: &StateDir) -> Result<(), StateError> {
        let kept = {
            let ledger = self.lock();
            // What was reported and is not in the directives yet is reported again after a crash, which changes nothing.
            let unreported = ledger.unreported.iter().chain(&ledger.reported).cloned().collect();
            Kept { directives: ledger.directives.clone(), unreported }
        };
        state.store_directives(&serde_json::to_vec(&kept).unwrap_or_default())
    }

    pub(super) fn first_unreported(&self) -> Option<BanNotice> {
        self.lock().unreported.first().cloned()
    }

    /// The server has answered the oldest ban that was not reported.
    pub(super) fn acknowledge(&self, notice: BanNotice, everywhere: bool) {
        let mut ledger = self.lock();
        ledger.unreported.retain(|unreported| unreported.notice_id != notice.notice_id);
        if everywhere { ledger.reported.push(notice) } else { ledger.local.push(notice) }
    }

    fn lock(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
