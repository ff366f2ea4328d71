//! Key-value data of functions: what a call sees and changes, and how its changes take effect.
//!
//! A call reads and writes through a [`Transaction`] of its own, which remembers what it has seen and keeps what it wants to
//! change. Until the call has succeeded nothing of it is in the database, and it holds no connection and no lock there,
//! however long it waits. Then [`Stores::commit`] looks, in one serializable transaction, whether all that the call has seen is
//! still so, and carries out its changes together with the call's identity and an audit record for each of them.
//!
//! What follows from that:
//! - A call that is lost before its commit, with its worker or its node, or ends otherwise than well, has done nothing.
//! - A commit whose acknowledgement was lost is asked for again, with the call's identity and the same transaction, and takes
//!   effect once. A call that runs again has another identity.
//! - Of two calls of which one saw what the other changed, one meets [`KvError::Conflict`] and has to run again. All that took
//!   effect could have happened one call after the other.
//! - There is no change without its audit record.
//!
//! Values that a call reads are those of the moment of each read; that they belong together is found out at the commit. A
//! call that scans, or reads more than one thing, and changes nothing has to commit as well before its answer counts.
//!
//! What lies under a key may be bytes, or a [`Blob`]: bytes in a store of their own, which the database knows by number. A blob is
//! announced before it is stored, named by an entry when a call that put it commits, and never changed. One that no entry names is
//! counted among what its resource holds until it is removed ([`Store::doom`]).
//!
//! A resource lies in PostgreSQL, or in a Redis server that the operator names for it, where a script does what the transaction does
//! here. A call may read in several stores and changes data of one ([`Stores::may_change`]).
//!
//! What changes objects writes events of that, for triggers of functions, which servers hand out.
//!
//! Files of volumes, and servers, are elsewhere and change at once; what calls do to them is audited here ([`Store::announce_change`]).
//!
//! The database locks what commits look at: beyond `max_pred_locks_per_relation` entries of one commit it locks more than that, and
//! calls that do not meet may stand in each other's way, which costs time and nothing else. Whoever turns `synchronous_commit` off
//! gives up what a crash of the server takes.

mod address;
mod backend;
mod changes;
mod commit;
mod connections;
mod error;
mod events;
mod homes;
mod key;
mod operations;
mod part;
mod redis;
mod retry;
mod schema;
mod store;
mod stores;
mod transaction;

pub use changes::{AuditedChange, ChangeKind, ChangeOutcome, StoreKind};
pub use error::{KvError, StoreError};
pub use events::WAITING_EVENTS_MAX;
pub use key::{Key, Place};
pub use redis::RedisServer;
pub use store::{AuditedRead, Caller, Committed, Store, Summed, Swept};
pub use stores::Stores;
pub use transaction::{Blob, Expiry, Page, Transaction, Value};

/// What a call may use; beyond it is [`KvError::Limit`].
pub mod limits {
    /// Bytes of a key, which has one at least.
    pub const KEY_BYTES_MAX: usize = 512;
    /// Bytes of a value.
    pub const VALUE_BYTES_MAX: usize = 64 << 10;
    /// Keys that one call reads, one by one or by scans.
    pub const READ_KEYS_MAX: usize = 1_024;
    /// Bytes of keys and values that one call reads.
    pub const READ_BYTES_MAX: usize = 8 << 20;
    /// Scans of one call.
    pub const SCANS_MAX: usize = 64;
    /// Entries that one scan gives.
    pub const SCAN_ENTRIES_MAX: usize = 256;
    /// Keys that one call changes.
    pub const WRITTEN_KEYS_MAX: usize = 256;
    /// Bytes of all values and keys that one call changes.
    pub const WRITTEN_BYTES_MAX: usize = 1 << 20;
    /// What an entry counts for in what a resource holds, besides the bytes of its key and value.
    pub const ENTRY_BYTES: u64 = 128;
    /// What a blob counts for there, besides its bytes: a block of a disk.
    pub const BLOB_BYTES: u64 = 4_096;
    /// The longest time after which an entry expires: a year.
    pub const EXPIRY_MAX: std::time::Duration = std::time::Duration::from_secs(366 * 24 * 3_600);
}

#[cfg(test)]
mod tests;
