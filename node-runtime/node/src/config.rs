//! The node's slice of the environment, read once at start.
//!
//! A missing or malformed variable is an error that names it. Nothing reads the environment later.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;

use mfaas_dispatch::WORKERS_CAP;
use mfaas_ident::{NodeName, TenantName};

use crate::grant::DoorGrants;
use crate::ingress::Share;

/// Workers that tenants share, at most.
const WORKERS_MAX: usize = 128;
/// Tenants with workers of their own, at most, whoever gives them: together with the shared ones these
/// are all workers that a dispatcher can name.
const PRIVATE_CORDONS_CAP: usize = WORKERS_CAP - WORKERS_MAX;
/// Tenants that get workers of their own by what their functions declare, unless the operator says
/// another number. Each takes a process while it is called and for a minute after.
const PRIVATE_CORDONS_DEFAULT: usize = 32;

/// Calls a second of one function that one caller gets, unless the operator says another number: more than a node of many cores
/// answers, so that it meets only who floods.
const CALLER_RATE_DEFAULT: u32 = 100_000;
/// The largest such number.
const CALLER_RATE_MAX: u32 = 100_000_000;
/// Calls on their way of one function that one caller may have, unless the operator says another number: half of what waits for
/// the dispatcher at most, so that one caller never has all of it.
const CALLER_CONCURRENCY_DEFAULT: u32 = 2_048;
/// The largest such number.
const CALLER_CONCURRENCY_MAX: u32 = 1_000_000;

/// What every subcommand needs to talk to its server.
#[derive(Debug, Clone)]
pub(crate) struct Membership {
    /// `MFAAS_NODE_NAME`.
    pub(crate) name: NodeName,
    /// `MFAAS_SERVER`: `https://host:port`, no path. The only server this node ever asks.
    pub(crate) server: String,
    /// `MFAAS_CA_FILE`: the only certificate authority that is believed, PEM.
    pub(crate) ca_file: PathBuf,
    /// `MFAAS_STATE_DIR`.
    pub(crate) state_dir: PathBuf,
}

/// What `serve` needs besides.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    pub(crate) membership: Membership,
    /// `MFAAS_INGRESS_LISTEN`.
    pub(crate) ingress_listen: SocketAddr,
    /// `MFAAS_WORKERS`, one for each core by default.
    pub(crate) workers: usize,
    /// `MFAAS_WORKER_CORES`: numbers with commas between them, one for each of the first workers; these cores run
    /// nothing else of the node. None if absent: then everything runs everywhere.
    pub(crate) worker_cores: BTreeSet<usize>,
    /// `MFAAS_ISOLATED_TENANTS`: names with commas between them; each has workers of its own.
    pub(crate) isolated: BTreeSet<TenantName>,
    /// `MFAAS_PRIVATE_CORDONS`: other tenants that have workers of their own at a time because their
    /// functions declare it, at most; 0 refuses such functions.
    pub(crate) private_cordons: usize,
    /// `MFAAS_ROOT_KEY_FILE`: the pinned root, PEM.
    pub(crate) root_key_file: PathBuf,
    /// `MFAAS_DOOR_SOCKET`: where programs of this machine call through rings; nowhere if absent.
    pub(crate) door_socket: Option<PathBuf>,
    /// `MFAAS_DOOR_CALLS`: `tenant/function` and `tenant/*` with commas between them, which programs of this machine may
    /// call besides what is public.
    pub(crate) door_grants: DoorGrants,
    /// `MFAAS_CALLER_RATE` and `MFAAS_CALLER_CONCURRENCY`: what one caller gets of one function on this node.
    pub(crate) caller_share: Share,
    /// `MFAAS_READY_FILE`, if any.
    pub(crate) ready_file: Option<PathBuf>,
}

/// A variable that is missing or does not say what it should.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    #[error("{0} is not set")]
    Missing(&'static str),
    #[error("{variable}: {reason}")]
    Malformed { variable: &'static str, reason: String },
}

/// Where variables come from; the environment, or a table in a test.
pub(crate) type Lookup<'a> = &'a dyn Fn(&'static str) -> Option<String>;

/// The process's environment. Text that is not UTF-8 counts as absent.
pub(crate) fn environment(name: &'static str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

impl Membership {
    /// Reads the four variables.
    pub(crate) fn read(lookup: Lookup<'_>) -> Result<Self, ConfigError> {
        let server = required(lookup, "MFAAS_SERVER")?;
        check_server(&server)?;
        Ok(Self {
            name: parsed("MFAAS_NODE_NAME", &required(lookup, "MFAAS_NODE_NAME")?)?,
            server: server.trim_end_matches('/').to_owned(),
            ca_file: required(lookup, "MFAAS_CA_FILE")?.into(),
            state_dir: required(lookup, "MFAAS_STATE_DIR")?.into(),
        })
    }
}

impl Config {
    /// Reads everything that `serve` needs.
    pub(crate) fn read(lookup: Lookup<'_>) -> Result<Self, ConfigError> {
        let listen = lookup("MFAAS_INGRESS_LISTEN").unwrap_or_else(|| "127.0.0.1:7800".to_owned());
        let workers = match lookup("MFAAS_WORKERS") {
            Some(text) => parsed("MFAAS_WORKERS", &text)?,
            None => std::thread::available_parallelism().map_or(1, usize::from).min(WORKERS_MAX),
        };
        if !(1..=WORKERS_MAX).contains(&workers) {
            let reason = format!("a number from 1 to {WORKERS_MAX}");
            return Err(ConfigError::Malformed { variable: "MFAAS_WORKERS", reason });
        }
        let isolated = listed(
            "MFAAS_ISOLATED_TENANTS",
            &lookup("MFAAS_ISOLATED_TENANTS").unwrap_or_default(),
            PRIVATE_CORDONS_CAP,
        )?;
        Ok(Self {
            membership: Membership::read(lookup)?,
            ingress_listen: parsed("MFAAS_INGRESS_LISTEN", &listen)?,
            workers,
            worker_cores: listed(
                "MFAAS_WORKER_CORES",
                &lookup("MFAAS_WORKER_CORES").unwrap_or_default(),
                WORKERS_MAX,
            )?,
            private_cordons: private_cordons(lookup, PRIVATE_CORDONS_CAP - isolated.len())?,
            isolated,
            root_key_file: required(lookup, "MFAAS_ROOT_KEY_FILE")?.into(),
            door_socket: lookup("MFAAS_DOOR_SOCKET").map(PathBuf::from),
            door_grants: parsed_by(
                "MFAAS_DOOR_CALLS",
                &lookup("MFAAS_DOOR_CALLS").unwrap_or_default(),
                DoorGrants::parse,
            )?,
            caller_share: Share {
                rate: bounded(lookup, "MFAAS_CALLER_RATE", CALLER_RATE_DEFAULT, CALLER_RATE_MAX)?,
                concurrency: bounded(
                    lookup,
                    "MFAAS_CALLER_CONCURRENCY",
                    CALLER_CONCURRENCY_DEFAULT,
                    CALLER_CONCURRENCY_MAX,
                )?,
            },
            ready_file: lookup("MFAAS_READY_FILE").map(PathBuf::from),
        })
    }
}

fn required(lookup: Lookup<'_>, variable: &'static str) -> Result<String, ConfigError> {
    lookup(variable).ok_or(ConfigError::Missing(variable))
}

fn parsed<T>(variable: &'static str, text: &str) -> Result<T, ConfigError>
where
    T: std::str::FromStr,
    T::Err: std::fmt::Display,
{
    parsed_by(variable, text, str::parse)
}

fn parsed_by<T, E: std::fmt::Display>(
    variable: &'static str,
    text: &str,
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> Result<T, ConfigError> {
    parse(text).map_err(|e| ConfigError::Malformed { variable, reason: e.to_string() })
}

/// A number from 1 to `most`; there is none that means no limit.
fn bounded(lookup: Lookup<'_>, variable: &'static str, default: u32, most: u32) -> Result<u32, ConfigError> {
    let Some(text) = lookup(variable) else { return Ok(default) };
    let number: u32 = parsed(variable, &text)?;
    if (1..=most).contains(&number) {
        return Ok(number);
    }
    Err(ConfigError::Malformed { variable, reason: format!("a number from 1 to {most}") })
}

/// At most `most` different things with commas between them.
fn listed<T>(variable: &'static str, list: &str, most: usize) -> Result<BTreeSet<T>, ConfigError>
where
    T: std::str::FromStr + Ord,
    T::Err: std::fmt::Display,
{
    let things: BTreeSet<_> = list
        .split(',')
        .map(str::trim)
        .filter(|thing| !thing.is_empty())
        .map(|thing| parsed(variable, thing))
        .collect::<Result<_, _>>()?;
    if things.len() > most {
        return Err(ConfigError::Malformed { variable, reason: format!("at most {most} of them") });
    }
    Ok(things)
}

/// A number up to `left`, which is what the operator's own tenants leave.
fn private_cordons(lookup: Lookup<'_>, left: usize) -> Result<usize, ConfigError> {
    let variable = "MFAAS_PRIVATE_CORDONS";
    let Some(text) = lookup(variable) else { return Ok(PRIVATE_CORDONS_DEFAULT.min(left)) };
    let number: usize = parsed(variable, &text)?;
    if number > left {
        let reason = format!("a number from 0 to {left}: {PRIVATE_CORDONS_CAP} less MFAAS_ISOLATED_TENANTS");
        return Err(ConfigError::Malformed { variable, reason });
    }
    Ok(number)
}

fn check_server(server: &str) -> Result<(), ConfigError> {
    let authority = server.strip_prefix("https://").unwrap_or_default().trim_end_matches('/');
    let plain = |c: char| c.is_ascii_alphanumeric() || "-.:[]".contains(c);
    if authority.is_empty() || !authority.chars().all(plain) {
        let reason = "https://host:port without a path".to_owned();
        return Err(ConfigError::Malformed { variable: "MFAAS_SERVER", reason });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
