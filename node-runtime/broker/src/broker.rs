//! What all connections share.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use mfaas_blobs::Blobs;
use mfaas_broker_protocol::Caller;
use mfaas_ident::TenantName;
use mfaas_kv::Store;
use mfaas_rules::codes;

use crate::abandoned::Abandoned;
use crate::config::Bounds;
use crate::held::Held;
use crate::rate::Rate;
use crate::reads::Reads;
use crate::refusal::Refusal;
use crate::stored::Stored;
use crate::turns::Turns;
use crate::volume_store::VolumeStore;

/// What a change counts for in operations a second: it leaves more behind than a read, in the audit at least.
pub(crate) const CHANGE_OPERATIONS: u32 = 10;
pub(crate) const TOO_MANY_OPERATIONS: &str = "this tenant asks for more operations a second than it may";
/// Operations on objects at a time.
pub(crate) const OBJECT_OPERATIONS: u32 = 16;
/// What calls that have not ended have read and want to change, of all tenants, in bytes.
const HELD_BYTES_MAX: usize = 1 << 30;
/// What they are uploading.
const UPLOADING_BYTES_MAX: usize = 512 << 20;

/// Where data lies.
#[derive(Debug)]
pub(crate) struct Stores {
    pub(crate) store: Store,
    pub(crate) objects: Option<Blobs>,
    pub(crate) volumes: Option<VolumeStore>,
}

/// What all connections share.
#[derive(Debug)]
pub(crate) struct Broker {
    pub(crate) store: Store,
    /// Where objects lie, if this broker is told of a place.
    pub(crate) objects: Option<Blobs>,
    /// Where volumes lie, if this broker is told of a place.
    pub(crate) volumes: Option<VolumeStore>,
    /// At the database.
    pub(crate) turns: Arc<Turns>,
    /// At the store of objects, so that nobody waits for it who wants something else.
    pub(crate) object_turns: Arc<Turns>,
    /// At the files of volumes.
    pub(crate) volume_turns: Arc<Turns>,
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
    pub(crate) fn new(stores: Stores, connections: u32, bounds: &Bounds) -> Self {
        let Stores { store, objects, volumes } = stores;
        Self {
            store,
            objects,
            volumes,
            turns: Arc::new(Turns::new(connections as usize)),
            object_turns: Arc::new(Turns::new(OBJECT_OPERATIONS as usize)),
            volume_turns: Arc::new(Turns::new(mfaas_volumes::OPERATIONS_MAX)),
            rate: Mutex::new(Rate::new(bounds.operations_per_second)),
            held: Held::within(HELD_BYTES_MAX),
            uploading: Held::within(UPLOADING_BYTES_MAX),
            abandoned: Abandoned::default(),
            stored: Stored::new(bounds.resource_bytes),
            reads: Reads::new(bounds.audited_reads),
        }
    }
}

impl Broker {
    /// Completes the audit records of calls that are over.
    pub(crate) async fn write_file_audit(&self) {
        if let Some(volumes) = &self.volumes {
            volumes.audit.write(&self.store).await;
        }
    }

    /// What leaves something in the audit counts for more than its operation did.
    pub(crate) fn admits_change(&self, tenant: &TenantName) -> Result<(), Refusal> {
        let mut rate = self.rate.lock().unwrap_or_else(PoisonError::into_inner);
        if rate.admits(tenant, CHANGE_OPERATIONS - 1, Instant::now()) {
            return Ok(());
        }
        Err(Refusal::new(codes::MF1205, TOO_MANY_OPERATIONS))
    }
}

/// A call as the store names it.
pub(crate) fn of_store(caller: &Caller) -> mfaas_kv::Caller {
    let Caller { id, tenant, function, version, trace } = caller.clone();
    mfaas_kv::Caller { call: id, tenant, function, version, trace }
}
