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

/// All of it.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    /// `MFAAS_BROKER_SOCKET`: where the node asks.
    pub(crate) socket: PathBuf,
    /// `MFAAS_BROKER_USERS`: users, by name or id, whose programs may ask, beside root and this program's own.
    pub(crate) users: BTreeSet<u32>,
    /// `MFAAS_DATA_DATABASE_URL`: where functions' data lies.
    pub(crate) database_url: String,
    /// `MFAAS_DATA_CONNECTIONS`.
    pub(crate) connections: u32,
    /// `MFAAS_METRICS_LISTEN`.
    pub(crate) metrics_listen: Option<SocketAddr>,
    /// `MFAAS_READY_FILE`.
    pub(crate) ready_file: Option<PathBuf>,
}

impl Config {
    /// Reads the variables.
    pub(crate) fn read(variables: &Variables) -> Result<Self, VariableError> {
        Ok(Self {
            socket: variables.required("MFAAS_BROKER_SOCKET")?.into(),
            users: variables.users("MFAAS_BROKER_USERS", USERS_MAX)?,
            database_url: variables.required("MFAAS_DATA_DATABASE_URL")?,
            connections: variables.number(
                "MFAAS_DATA_CONNECTIONS",
                1..=CONNECTIONS_MAX,
                CONNECTIONS_DEFAULT,
            )?,
            metrics_listen: variables.parsed("MFAAS_METRICS_LISTEN")?,
            ready_file: variables.optional("MFAAS_READY_FILE")?.map(PathBuf::from),
        })
    }
}
