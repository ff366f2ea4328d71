//! What `mfaas up` can be asked for.

use std::net::IpAddr;
use std::path::PathBuf;

use mfaas_ident::{Access, PersonName};

use crate::profile::Owner;

/// What `mfaas up` was asked for, apart from the home and the ports.
#[derive(Debug, Clone)]
pub struct UpOptions {
    /// Worker processes of the node; as before, or one a core, when absent.
    pub workers: Option<u32>,
    /// What must hold calls where tenants share workers; as before, or the node's default, when absent.
    pub share_workers: Option<String>,
    /// How builds are kept from being felt by calls, or `off`; as before, or in the idle class, when absent.
    pub isolation: Option<String>,
    /// Worker processes of the node at a time; as before, or its default, when absent.
    pub worker_processes: Option<u32>,
    /// Bulk workers of the node at a time; as before, or its default, when absent.
    pub bulk_workers: Option<u32>,
    /// What they may have together, in MiB; as before, or its default, when absent.
    pub bulk_memory_mib: Option<u32>,
    /// Connections that the node takes at once; as before, or its default, when absent.
    pub ingress_connections: Option<u32>,
    /// Of these, of one peer; as before, or its default, when absent.
    pub ingress_peer_connections: Option<u32>,
    /// Proxies before the node; as before, or none, when absent.
    pub ingress_proxies: Option<String>,
    /// The weakest sandbox that is accepted; as before when absent.
    pub sandbox_minimum: Option<String>,
    /// How many builders have to agree; as before when absent.
    pub builds_agreement: Option<u8>,
    /// Where the server shows its metrics, and the others on ports behind it; as before, or with HTTP, when absent.
    pub metrics_listen: Option<String>,
    /// The address on which the server listens for nodes; as before, or 127.0.0.1, when absent.
    pub node_listen: Option<IpAddr>,
    /// Names that the server's certificate has besides those of this machine for itself; as before, or none, when empty.
    pub names: Vec<String>,
    /// Whether the rules may admit a crate by themselves; as before when absent.
    pub automatic_admission: Option<bool>,
    /// Who may call a function whose manifest does not say; as before when absent.
    pub default_access: Option<Access>,
    /// How people reach the console; as before when absent.
    pub public_url: Option<String>,
    /// The configuration of the OpenID provider; as before when absent.
    pub oidc: Option<PathBuf>,
    /// The blob store; as before, or a directory of the home, when absent.
    pub blobs_url: Option<String>,
    /// Where the private cluster keeps its write-ahead log; as before, or nowhere, when absent.
    pub wal_archive: Option<String>,
    /// An external database.
    pub database_url: Option<String>,
    /// Where the data of functions lies; as before, or in the private cluster, when absent.
    pub data_database_url: Option<String>,
    /// Where objects of functions lie; as before, or in a directory of the home, when absent.
    pub objects_url: Option<String>,
    /// Where files of volumes lie; as before, or in a directory of the home, when absent.
    pub volumes_url: Option<String>,
    /// Which servers functions may ask, and with which secrets; as before, or none, when absent.
    pub http_file: Option<PathBuf>,
    /// Which Redis servers hold resources of functions' data; as before, or none, when absent.
    pub redis_file: Option<PathBuf>,
    /// Toolchain and dependencies.
    pub materials: Materials,
    /// Where the first token goes.
    pub profile: PathBuf,
    /// Whom the profile belongs to, when root writes it for somebody else.
    pub profile_owner: Option<Owner>,
    /// Whom the first token names.
    pub person: PersonName,
    /// The filter for the programs' logs.
    pub log: String,
}

/// Where things come from and go to.
#[derive(Debug, Clone)]
pub struct Materials {
    /// The seed workspace: every dependency that is offered.
    pub seed: Option<PathBuf>,
    /// The sysroot to import; asked of rustup when absent.
    pub sysroot: Option<PathBuf>,
    /// The directory of toolchains.
    pub toolchains: PathBuf,
    /// The vendored sources.
    pub vendor: PathBuf,
    /// The directory of compiled dependencies.
    pub deps: PathBuf,
}
