//! What all connections share.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use mfaas_blobs::Blobs;
use mfaas_broker_protocol::Caller;
use mfaas_ident::{ResourceName, TenantName};
use mfaas_kv::{Store, Transaction};
use mfaas_outbound::Outbound;
use mfaas_rules::codes;
use tokio::runtime::Handle;

use crate::abandoned::Abandoned;
use crate::change_audit::ChangeAudit;
use crate::config::Bounds;
use crate::data::Uploads;
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
/// Operations on the Redis servers at a time.
const REDIS_OPERATIONS: usize = 64;
/// Requests to servers at a time, and those of one tenant.
const REQUESTS: usize = 256;
const TENANT_REQUESTS: usize = 32;
/// What calls that have not ended have read and want to change, of all tenants, in bytes.
const HELD_BYTES_MAX: usize = 1 << 30;
/// What they are uploading.
const UPLOADING_BYTES_MAX: usize = 512 << 20;

/// Where data lies, and which servers there are.
#[derive(Debug)]
pub(crate) struct Stores {
    /// Key-value data, and what is known of the others.
    pub(crate) data: mfaas_kv::Stores,
    pub(crate) objects: Option<Blobs>,
    pub(crate) volumes: Option<VolumeStore>,
    pub(crate) outbound: Option<Outbound>,
}

#[cfg(test)]
impl Stores {
    /// A database alone.
    pub(crate) fn of(store: Store) -> Self {
        Self { data: mfaas_kv::Stores::of(store), objects: None, volumes: None, outbound: None }
    }
}

/// Whose operation is next at each place, so that nobody waits for one of them who wants something of another.
#[derive(Debug)]
pub(crate) struct AllTurns {
    pub(crate) database: Arc<Turns>,
    /// The Redis servers.
    pub(crate) redis: Arc<Turns>,
    /// The store of objects.
    pub(crate) objects: Arc<Turns>,
    /// The files of volumes.
    pub(crate) volumes: Arc<Turns>,
    pub(crate) servers: Arc<Turns>,
}

/// What all connections share.
#[derive(Debug)]
pub(crate) struct Broker {
    pub(crate) data: mfaas_kv::Stores,
    /// Where objects lie, if this broker is told of a place.
    pub(crate) objects: Option<Blobs>,
    /// Where volumes lie, if this broker is told of a place.
    pub(crate) volumes: Option<VolumeStore>,
    /// The servers that functions may ask, if this broker is told of any.
    pub(crate) outbound: Option<Outbound>,
    /// Where operations run that keep a processor busy: TLS, copies of whole objects. All others run one at a time, on the thread that
    /// reads what nodes ask.
    pub(crate) parallel: Handle,
    pub(crate) turns: AllTurns,
    pub(crate) rate: Mutex<Rate>,
    /// What calls have read and want to change.
    pub(crate) held: Held,
    /// What calls are uploading.
    pub(crate) uploading: Held,
    /// What calls have stored that are over, and no entry names.
    pub(crate) abandoned: Abandoned,
    pub(crate) stored: Stored,
    pub(crate) reads: Reads,
    /// What calls change at once.
    pub(crate) audit: ChangeAudit,
}

impl Broker {
    /// Over a store with so many connections for reads, and as many for commits: that many operations run at a time.
    pub(crate) fn new(stores: Stores, connections: u32, bounds: &Bounds, parallel: Handle) -> Self {
        let Stores { data, objects, volumes, outbound } = stores;
        Self {
            data,
            objects,
            volumes,
            outbound,
            parallel,
            turns: AllTurns {
                database: Arc::new(Turns::new(connections as usize)),
                redis: Arc::new(Turns::new(REDIS_OPERATIONS)),
                objects: Arc::new(Turns::new(OBJECT_OPERATIONS as usize)),
                volumes: Arc::new(Turns::new(mfaas_volumes::OPERATIONS_MAX)),
                servers: Arc::new(Turns::of(REQUESTS, TENANT_REQUESTS)),
            },
            rate: Mutex::new(Rate::new(bounds.operations_per_second)),
            held: Held::within(HELD_BYTES_MAX),
            uploading: Held::within(UPLOADING_BYTES_MAX),
            abandoned: Abandoned::default(),
            stored: Stored::new(bounds.resource_bytes),
            reads: Reads::new(bounds.audited_reads),
            audit: ChangeAudit::new(),
        }
    }
}

impl Broker {
    /// The same with one runtime for all.
    #[cfg(test)]
    pub(crate) fn here(stores: Stores, connections: u32, bounds: &Bounds) -> Self {
        Self::new(stores, connections, bounds, Handle::current())
    }

    /// The database: data that lies nowhere else, and the audit.
    pub(crate) fn store(&self) -> &Store {
        self.data.postgres()
    }

    /// Whose operation on this resource is next. What lies elsewhere is refused later.
    pub(crate) fn turns_of(&self, resource: &ResourceName) -> &Arc<Turns> {
        if self.data.is_in_postgres(resource).unwrap_or(true) {
            &self.turns.database
        } else {
            &self.turns.redis
        }
    }

    /// Whose commit is next where a call changes data, or looks whether what it saw is still so.
    pub(crate) fn turns_of_commit(&self, transaction: &Transaction) -> &Arc<Turns> {
        transaction.resources().next().map_or(&self.turns.database, |resource| self.turns_of(resource))
    }

    /// Keeps a piece of what a call uploads, if there is room for it.
    pub(crate) fn keep_piece(
        &self,
        tenant: &TenantName,
        uploads: &mut Uploads,
        (upload, piece): (u32, &[u8]),
    ) -> Result<(), Refusal> {
        if !self.uploading.has_room(tenant) {
            return Err(Refusal::new(codes::MF1205, "calls upload as much at the same time as may be"));
        }
        uploads.append(upload, piece)
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
