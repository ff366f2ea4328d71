//! What all connections share.

use std::sync::{Arc, Mutex};

use mfaas_blobs::Blobs;
use mfaas_broker_protocol::Caller;
use mfaas_kv::Store;

use crate::abandoned::Abandoned;
use crate::config::Bounds;
use crate::held::Held;
use crate::rate::Rate;
use crate::reads::Reads;
use crate::stored::Stored;
use crate::turns::Turns;

/// Operations on objects at a time.
pub(crate) const OBJECT_OPERATIONS: u32 = 16;
/// What calls that have not ended have read and want to change, of all tenants, in bytes.
const HELD_BYTES_MAX: usize = 1 << 30;
/// What they are uploading.
const UPLOADING_BYTES_MAX: usize = 512 << 20;

/// What all connections share.
#[derive(Debug)]
pub(crate) struct Broker {
    pub(crate) store: Store,
    /// Where objects lie, if this broker is told of a place.
    pub(crate) objects: Option<Blobs>,
    /// At the database.
    pub(crate) turns: Arc<Turns>,
    /// At the store of objects, so that nobody waits for it who wants something else.
    pub(crate) object_turns: Arc<Turns>,
    pub(crate) rate: Mutex<Rate>,
    /// What calls have read and want to change.
    pub(crate) held: Held,
    /// What calls are uploading.
    pub(crate) uploading: Held,
    /// What calls have stored that are over, and no entry names.
    pub(crate) abandoned: Abandoned,
    pub(crate) stored: Stored,
    pub(crate) reads: Reads,
}

impl Broker {
    /// Over a store with so many connections for reads, and as many for commits: that many operations run at a time.
    pub(crate) fn new(store: Store, objects: Option<Blobs>, connections: u32, bounds: &Bounds) -> Self {
        Self {
            store,
            objects,
            turns: Arc::new(Turns::new(connections as usize)),
            object_turns: Arc::new(Turns::new(OBJECT_OPERATIONS as usize)),
            rate: Mutex::new(Rate::new(bounds.operations_per_second)),
            held: Held::within(HELD_BYTES_MAX),
            uploading: Held::within(UPLOADING_BYTES_MAX),
            abandoned: Abandoned::default(),
            stored: Stored::new(bounds.resource_bytes),
            reads: Reads::new(bounds.audited_reads),
        }
    }
}

/// A call as the store names it.
pub(crate) fn of_store(caller: &Caller) -> mfaas_kv::Caller {
    let Caller { id, tenant, function, version, trace } = caller.clone();
    mfaas_kv::Caller { call: id, tenant, function, version, trace }
}
