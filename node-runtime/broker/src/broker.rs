//! What all connections share.

use std::sync::{Arc, Mutex};

use mfaas_blobs::Blobs;
use mfaas_broker_protocol::Caller;
use mfaas_kv::Store;

use crate::config::Bounds;
use crate::held::Held;
use crate::rate::Rate;
use crate::reads::Reads;
use crate::stored::Stored;
use crate::turns::Turns;

/// What all connections share.
#[derive(Debug)]
pub(crate) struct Broker {
    pub(crate) store: Store,
    /// Where objects lie, if this broker is told of a place.
    pub(crate) objects: Option<Blobs>,
    pub(crate) turns: Arc<Turns>,
    pub(crate) rate: Mutex<Rate>,
    pub(crate) held: Held,
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
            rate: Mutex::new(Rate::new(bounds.operations_per_second)),
            held: Held::default(),
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
