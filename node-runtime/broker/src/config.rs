//! What the broker is told by its variables.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;

use mfaas_startup::{VariableError, Variables};

/// Users of nodes that can be named.
const USERS_MAX: usize = 16;
/// Connections to the database for reads, and as many for commits, unless the operator says how many.
const CONNECTIONS_DEFAULT: u32 = 16;
const CONNECTIONS_MAX: u32 = 256;
/// What one resource may hold, unless the operator says how much: a gigabyte.
const RESOURCE_MIB_DEFAULT: u64 = 1_024;
const RESOURCE_MIB_MIN: u64 = 16;
const RESOURCE_MIB_MAX: u64 = 1 << 30;
/// Operations a second of one tenant on this node, unless the operator says another number.
const OPERATIONS_DEFAULT: u32 = 20_000;
const OPERATIONS_MAX: u32 = 10_000_000;
/// What is read and written of one volume in a second, in MiB: 0 for as much as there is, unless the operator says how much.
const VOLUME_MIB_DEFAULT: u64 = 0;
const VOLUME_MIB_MAX: u64 = 1 << 20;
/// One in so many reads is audited, unless the operator says another number.
const AUDITED_READS_DEFAULT: u64 = 1_000;
const AUDITED_READS_MAX: u64 = 1_000_000_000;
/// How long audit records are kept, unless the operator says how long.
const AUDIT_DAYS_DEFAULT: u32 = 90;
const AUDIT_DAYS_MAX: u32 = 36_500;

/// All of it.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    /// `MFAAS_BROKER_SOCKET`: where the node asks.
    pub(crate) socket: PathBuf,
    /// `MFAAS_BROKER_USERS`: users, by name or id, whose programs may ask, beside root and this program's own.
    pub(crate) users: BTreeSet<u32>,
    /// `MFAAS_DATA_DATABASE_URL`: where functions' data lies.
    pub(crate) database_url: String,
    /// `MFAAS_OBJECTS_URL`: where the bytes of objects lie.
    pub(crate) objects_url: Option<String>,
    /// `MFAAS_VOLUMES_URL`: where the files of volumes lie.
    pub(crate) volumes_url: Option<String>,
    /// `MFAAS_HTTP_FILE`: which servers functions may ask, and with which secrets.
    pub(crate) http_file: Option<PathBuf>,
    /// `MFAAS_REDIS_FILE`: which Redis servers there are, and which resources lie there.
    pub(crate) redis_file: Option<PathBuf>,
    /// `MFAAS_DATA_CONNECTIONS`.
    pub(crate) connections: u32,
    pub(crate) bounds: Bounds,
    /// `MFAAS_METRICS_LISTEN`.
    pub(crate) metrics_listen: Option<SocketAddr>,
    /// `MFAAS_READY_FILE`.
    pub(crate) ready_file: Option<PathBuf>,
}

/// What tenants may ask for and store, and what is audited of that.
#[derive(Debug, Clone)]
pub(crate) struct Bounds {
    /// `MFAAS_DATA_OPERATIONS`: operations a second of one tenant on this node.
    pub(crate) operations_per_second: u32,
    /// `MFAAS_DATA_RESOURCE_MIB`: what one resource may hold, in bytes of keys and values, and 128 for each entry.
    pub(crate) resource_bytes: u64,
    /// `MFAAS_VOLUME_MIB_PER_SECOND`: bytes of one volume that are read and written in a second through this broker, unless it is 0.
    pub(crate) volume_bytes_per_second: u64,
    /// `MFAAS_DATA_AUDITED_READS`: one in so many reads is audited; none if it is 0.
    pub(crate) audited_reads: u64,
    /// `MFAAS_DATA_AUDIT_DAYS`: how long audit records are kept.
    pub(crate) audit_days: u32,
}

impl Bounds {
    fn read(variables: &Variables) -> Result<Self, VariableError> {
        let resource_mib = variables.number(
            "MFAAS_DATA_RESOURCE_MIB",
            RESOURCE_MIB_MIN..=RESOURCE_MIB_MAX,
            RESOURCE_MIB_DEFAULT,
        )?;
        let volume_mib =
            variables.number("MFAAS_VOLUME_MIB_PER_SECOND", 0..=VOLUME_MIB_MAX, VOLUME_MIB_DEFAULT)?;
        Ok(Self {
            operations_per_second: variables.number(
                "MFAAS_DATA_OPERATIONS",
                1..=OPERATIONS_MAX,
                OPERATIONS_DEFAULT,
            )?,
            resource_bytes: resource_mib << 20,
            volume_bytes_per_second: volume_mib << 20,
            audited_reads: variables.number(
                "MFAAS_DATA_AUDITED_READS",
                0..=AUDITED_READS_MAX,
                AUDITED_READS_DEFAULT,
            )?,
            audit_days: variables.number("MFAAS_DATA_AUDIT_DAYS", 1..=AUDIT_DAYS_MAX, AUDIT_DAYS_DEFAULT)?,
        })
    }
}

impl Config {
    /// Reads the variables.
    pub(crate) fn read(variables: &Variables) -> Result<Self, VariableError> {
        Ok(Self {
            socket: variables.required("MFAAS_BROKER_SOCKET")?.into(),
            users: variables.users("MFAAS_BROKER_USERS", USERS_MAX)?,
            database_url: variables.required("MFAAS_DATA_DATABASE_URL")?,
            objects_url: variables.optional("MFAAS_OBJECTS_URL")?,
            volumes_url: variables.optional("MFAAS_VOLUMES_URL")?,
            http_file: variables.optional("MFAAS_HTTP_FILE")?.map(PathBuf::from),
            redis_file: variables.optional("MFAAS_REDIS_FILE")?.map(PathBuf::from),
            connections: variables.number(
                "MFAAS_DATA_CONNECTIONS",
                1..=CONNECTIONS_MAX,
                CONNECTIONS_DEFAULT,
            )?,
            bounds: Bounds::read(variables)?,
            metrics_listen: variables.parsed("MFAAS_METRICS_LISTEN")?,
            ready_file: variables.optional("MFAAS_READY_FILE")?.map(PathBuf::from),
        })
    }
}
