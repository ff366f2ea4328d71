//! The node's slice of the environment, read once at start.
//!
//! A missing or malformed variable is an error that names it. Nothing reads the environment later.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use mfaas_dispatch::WORKERS_CAP;
use mfaas_ident::{NodeName, TenantName};
use mfaas_ring::preload::SpeculationControls;
use mfaas_startup::{VariableError, Variables};

use crate::grant::LocalGrants;
use crate::ingress::Bounds;
use crate::limiter::Share;
use crate::serving::{BulkWorkers, IsolationMinimum, Sharing, parse_controls};

/// Calls that run at a time, at most.
const WORKERS_MAX: usize = 128;
/// Where calls come in, unless the operator says where.
const INGRESS_DEFAULT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7800);
/// Servers of one site, at most.
const SERVERS_MAX: usize = 8;
/// Bytes of the advertised address, at most: as much as a host's name and a port have.
const ADVERTISED_BYTES_MAX: usize = 300;
/// Tenants that the operator isolates, at most.
const ISOLATED_MAX: usize = 1_024;
/// Worker processes that may be there for a gigabyte of memory, unless the operator says how many: each
/// takes about two MiB while it sleeps, so together a quarter of the machine.
const PROCESSES_PER_GIB: usize = 128;
/// As few as this where that is less.
const PROCESSES_MIN: usize = 64;

/// Where a container sees its own limit, with control groups of version 2 and 1.
const CONTAINER_LIMITS: [&str; 2] =
    ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
/// Bulk workers together have one part in so many of the machine's memory, unless the operator says how much.
const BULK_MEMORY_PART: usize = 2;

/// What caches of functions may take together, unless the operator says how much.
const CACHE_MEMORY_MIB_DEFAULT: usize = 256;
/// The most that they can be given: a terabyte.
const CACHE_MEMORY_MIB_MAX: usize = 1 << 20;

/// The most calls a second of one function that one caller can be given.
const CALLER_RATE_MAX: u32 = 100_000_000;
/// The most calls on their way.
const CALLER_CONCURRENCY_MAX: u32 = 1_000_000;

/// What every subcommand needs to talk to its server.
#[derive(Debug, Clone)]
pub(crate) struct Membership {
    /// `MFAAS_NODE_NAME`.
    pub(crate) name: NodeName,
    /// `MFAAS_SERVER`: `https://host:port`, no path, several with commas between them. The only servers this node ever asks,
    /// in this order.
    pub(crate) servers: Vec<String>,
    /// `MFAAS_CA_FILE`: the only certificate authority that is believed, PEM.
    pub(crate) ca_file: PathBuf,
    /// `MFAAS_STATE_DIR`.
    pub(crate) state_dir: PathBuf,
}

/// What `serve` needs besides.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    pub(crate) membership: Membership,
    pub(crate) ingress: IngressConfig,
    pub(crate) workers: WorkerConfig,
    pub(crate) local_api: LocalApiConfig,
    /// `MFAAS_ROOT_KEY_FILE`: what is pinned, a root key in PEM or a key list that names its root.
    pub(crate) root_key_file: PathBuf,
    /// `MFAAS_METRICS_LISTEN`: where metrics are shown, alone; with the ingress if absent.
    pub(crate) metrics_listen: Option<SocketAddr>,
    /// `MFAAS_ISOLATION_SOCKET`: where the isolation controller of this machine listens, if it is to know what is primary.
    pub(crate) isolation_socket: Option<PathBuf>,
    /// `MFAAS_CACHE_MEMORY_MIB`: what the caches of functions may take of this node's memory together.
    pub(crate) cache_memory_mib: usize,
    /// `MFAAS_BROKER_SOCKET`: where the data broker of this node listens; without it, functions that bind data other than caches are
    /// not served.
    pub(crate) broker_socket: Option<PathBuf>,
    /// `MFAAS_READY_FILE`, if any.
    pub(crate) ready_file: Option<PathBuf>,
}

/// Where calls come from the network, and how many.
#[derive(Debug, Clone)]
pub(crate) struct IngressConfig {
    /// `MFAAS_INGRESS_LISTEN`.
    pub(crate) listen: SocketAddr,
    /// `MFAAS_INGRESS_ADVERTISE`: where callers reach the ingress, `http://host:port` or `https://host:port`; the address that
    /// is listened on when absent.
    pub(crate) advertise: Option<String>,
    /// `MFAAS_INGRESS_…`: what the ingress takes at once.
    pub(crate) bounds: Bounds,
    /// `MFAAS_CALLER_RATE` and `MFAAS_CALLER_CONCURRENCY`: what one caller gets of one function on this node.
    pub(crate) caller_share: Share,
}

/// What functions run in.
#[derive(Debug, Clone)]
pub(crate) struct WorkerConfig {
    /// `MFAAS_WORKERS`, one for each core by default: workers that tenants share, or calls that run at a
    /// time where they do not.
    pub(crate) count: usize,
    /// `MFAAS_WORKER_CORES`: numbers with commas between them, one for each of the first workers; these cores run
    /// nothing else of the node. None if absent: then everything runs everywhere.
    pub(crate) cores: BTreeSet<usize>,
    /// `MFAAS_SHARE_WORKERS`: what must hold calls where tenants share workers.
    pub(crate) sharing: Sharing,
    /// `MFAAS_ISOLATION_MINIMUM`: what must hold a call at least.
    pub(crate) minimum: IsolationMinimum,
    /// `MFAAS_ISOLATED_TENANTS`: names with commas between them; each has workers of its own where others
    /// share.
    pub(crate) isolated: BTreeSet<TenantName>,
    /// `MFAAS_WORKER_PROCESSES`: worker processes at a time, sleeping ones too. Beyond it the one that was
    /// idle longest leaves, and calls wait if none is.
    pub(crate) processes_max: usize,
    /// `MFAAS_BULK_WORKERS` and `MFAAS_BULK_MEMORY_MIB`: worker processes of bulk functions at a time, and the memory that all
    /// of them may have together. Nothing where there is too little of it, or the operator wants none.
    pub(crate) bulk: Option<BulkWorkers>,
    /// `MFAAS_SPECULATION_CONTROLS`: what workers ask of the kernel against speculation, names with commas
    /// between them or `none`; all of it if absent.
    pub(crate) speculation: SpeculationControls,
}

/// Where calls come from programs of this machine, and which.
#[derive(Debug, Clone)]
pub(crate) struct LocalApiConfig {
    /// `MFAAS_LOCAL_SOCKET`: where programs of this machine call through rings; nowhere if absent.
    pub(crate) socket: Option<PathBuf>,
    /// `MFAAS_LOCAL_CALLS`: `tenant/function` and `tenant/*` with commas between them, which programs of this machine may
    /// call besides what is public.
    pub(crate) grants: LocalGrants,
}

impl Membership {
    /// Reads the variables.
    pub(crate) fn read(variables: &Variables) -> Result<Self, VariableError> {
        Ok(Self {
            name: variables.parsed("MFAAS_NODE_NAME")?.ok_or(VariableError::Missing("MFAAS_NODE_NAME"))?,
            servers: servers(&variables.required("MFAAS_SERVER")?)?,
            ca_file: variables.required("MFAAS_CA_FILE")?.into(),
            state_dir: variables.required("MFAAS_STATE_DIR")?.into(),
        })
    }
}

impl Config {
    /// Reads everything that `serve` needs.
    pub(crate) fn read(variables: &Variables) -> Result<Self, VariableError> {
        Ok(Self {
            membership: Membership::read(variables)?,
            ingress: IngressConfig::read(variables)?,
            workers: WorkerConfig::read(variables)?,
            local_api: LocalApiConfig::read(variables)?,
            root_key_file: variables.required("MFAAS_ROOT_KEY_FILE")?.into(),
            metrics_listen: variables.parsed("MFAAS_METRICS_LISTEN")?,
            isolation_socket: variables.optional("MFAAS_ISOLATION_SOCKET")?.map(PathBuf::from),
            cache_memory_mib: variables.number(
                "MFAAS_CACHE_MEMORY_MIB",
                0..=CACHE_MEMORY_MIB_MAX,
                CACHE_MEMORY_MIB_DEFAULT,
            )?,
            broker_socket: variables.optional("MFAAS_BROKER_SOCKET")?.map(PathBuf::from),
            ready_file: variables.optional("MFAAS_READY_FILE")?.map(PathBuf::from),
        })
    }
}

impl IngressConfig {
    fn read(variables: &Variables) -> Result<Self, VariableError> {
        Ok(Self {
            listen: variables.parsed("MFAAS_INGRESS_LISTEN")?.unwrap_or(INGRESS_DEFAULT),
            advertise: variables.parsed_by("MFAAS_INGRESS_ADVERTISE", advertised)?,
            bounds: Bounds::read(variables)?,
            caller_share: Share {
                rate: variables.number("MFAAS_CALLER_RATE", 1..=CALLER_RATE_MAX, Share::default().rate)?,
                concurrency: variables.number(
                    "MFAAS_CALLER_CONCURRENCY",
                    1..=CALLER_CONCURRENCY_MAX,
                    Share::default().concurrency,
                )?,
            },
        })
    }
}

impl WorkerConfig {
    fn read(variables: &Variables) -> Result<Self, VariableError> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from).min(WORKERS_MAX);
        let count = variables.number("MFAAS_WORKERS", 1..=WORKERS_MAX, cores)?;
        let processes = count.saturating_add(1)..=WORKERS_CAP;
        let many = processes_by_memory().clamp(*processes.start(), *processes.end());
        if variables.optional("MFAAS_PRIVATE_CORDONS")?.is_some() {
            tracing::warn!(
                "MFAAS_PRIVATE_CORDONS has no effect any more: set MFAAS_WORKER_PROCESSES to bound worker processes"
            );
        }
        Ok(Self {
            count,
            cores: variables.list("MFAAS_WORKER_CORES", WORKERS_MAX)?,
            sharing: variables.parsed("MFAAS_SHARE_WORKERS")?.unwrap_or_default(),
            minimum: variables.parsed("MFAAS_ISOLATION_MINIMUM")?.unwrap_or_default(),
            isolated: variables.list("MFAAS_ISOLATED_TENANTS", ISOLATED_MAX)?,
            processes_max: variables.number("MFAAS_WORKER_PROCESSES", processes, many)?,
            bulk: bulk(variables, cores)?,
            speculation: speculation(variables)?,
        })
    }
}

impl LocalApiConfig {
    fn read(variables: &Variables) -> Result<Self, VariableError> {
        Ok(Self {
            socket: variables.optional("MFAAS_LOCAL_SOCKET")?.map(PathBuf::from),
            grants: variables.parsed_by("MFAAS_LOCAL_CALLS", LocalGrants::parse)?.unwrap_or_default(),
        })
    }
}

fn bulk(variables: &Variables, cores: usize) -> Result<Option<BulkWorkers>, VariableError> {
    let memory_mib = usize::try_from(memory_bytes() >> 20).unwrap_or(usize::MAX);
    let given_mib =
        variables.number("MFAAS_BULK_MEMORY_MIB", 0..=memory_mib, memory_mib / BULK_MEMORY_PART)?;
    let bytes = (given_mib as u64) << 20;
    if variables.optional("MFAAS_BULK_WORKERS")?.is_none() {
        return Ok(BulkWorkers::as_many_as_fit(bytes, cores));
    }
    let count = variables.number("MFAAS_BULK_WORKERS", 0..=WORKERS_MAX, cores)?;
    match BulkWorkers::within(bytes, count) {
        None if count > 0 => {
            let expected = format!(
                "{count} bulk workers do not fit into the {given_mib} MiB of MFAAS_BULK_MEMORY_MIB: give them more, or set fewer"
            );
            Err(VariableError::invalid("MFAAS_BULK_WORKERS", expected))
        }
        workers => Ok(workers),
    }
}

fn speculation(variables: &Variables) -> Result<SpeculationControls, VariableError> {
    let controls = variables.parsed_by("MFAAS_SPECULATION_CONTROLS", parse_controls)?;
    Ok(controls.unwrap_or(SpeculationControls::ALL))
}

/// Of the machine, or of the container that this runs in.
fn memory_bytes() -> u64 {
    let info = rustix::system::sysinfo();
    let machine = info.totalram.saturating_mul(u64::from(info.mem_unit));
    // Where there is no limit the file is not there, or holds a word or a number beyond any machine.
    let limit = |file: &&str| std::fs::read_to_string(file).ok()?.trim().parse::<u64>().ok();
    CONTAINER_LIMITS.iter().filter_map(limit).fold(machine, u64::min)
}

/// What the machine's memory has room for.
fn processes_by_memory() -> usize {
    let gib = usize::try_from(memory_bytes() >> 30).unwrap_or(usize::MAX);
    gib.saturating_mul(PROCESSES_PER_GIB).max(PROCESSES_MIN)
}

fn servers(list: &str) -> Result<Vec<String>, VariableError> {
    let urls = list.split(',').map(str::trim).filter(|url| !url.is_empty());
    let servers: Vec<String> = urls.map(|url| url.trim_end_matches('/').to_owned()).collect();
    let are_addresses = servers.iter().all(|url| url.strip_prefix("https://").is_some_and(is_authority));
    if !are_addresses || !(1..=SERVERS_MAX).contains(&servers.len()) {
        let expected = format!(
            "expected https://host:port without a path, or up to {SERVERS_MAX} of them with commas between"
        );
        return Err(VariableError::invalid("MFAAS_SERVER", expected));
    }
    Ok(servers)
}

/// Whether a text is a host and perhaps a port.
fn is_authority(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-.:[]".contains(c);
    !text.is_empty() && text.chars().all(plain)
}

/// What callers are told: the address of the ingress as the site sees it.
fn advertised(url: &str) -> Result<String, &'static str> {
    let url = url.trim_end_matches('/');
    let authority = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
    match authority {
        Some(authority) if is_authority(authority) && url.len() <= ADVERTISED_BYTES_MAX => Ok(url.to_owned()),
        _ => Err("expected http://host:port or https://host:port without a path"),
    }
}

#[cfg(test)]
mod tests;
