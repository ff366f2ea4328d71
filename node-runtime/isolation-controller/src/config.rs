//! What the controller is told by its variables.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use crate::groups::Naming;
use mfaas_isolation::{CORES_MAX, CoreSet};
use mfaas_isolation_client::{Change, Limit, Mode};
use mfaas_startup::{VariableError, Variables};

/// Users of primary programs that can be named.
const USERS_MAX: usize = 16;
/// The least that the secondary may be given, in bytes: less and no build ends.
const MEMORY_MIN: u64 = 256 << 20;

/// What the secondary's control groups are called.
const GROUP_DEFAULT: &str = "mfaas-secondary";
const GROUP_BYTES_MAX: usize = 64;

/// Disks that can be named, and the least that one can be said to do: its hundredth part is the unit of shares.
const DISKS_MAX: usize = 16;
const DISK_IOPS_MIN: u64 = 100;
const DISK_BYTES_MIN: u64 = 1 << 20;

/// Interfaces that can be named, and the least that the secondary may be given of one: less and no download ends.
const INTERFACES_MAX: usize = 16;
const EGRESS_BYTES_MIN: u64 = 125_000;
/// The kernel's bound for names of interfaces, in bytes.
const INTERFACE_BYTES_MAX: usize = 15;

/// All of it.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    /// `MFAAS_ISOLATION_SOCKET`: where programs of this machine ask.
    pub(crate) socket: PathBuf,
    /// `MFAAS_STATE_DIR`: the kill switch and what was set by command.
    pub(crate) state_dir: PathBuf,
    /// `MFAAS_ISOLATION_GROUP` and `MFAAS_ISOLATION_MOVES_PRIMARY`.
    pub(crate) group: GroupConfig,
    /// `MFAAS_PRIMARY_USERS`: users, by name or id, whose programs may say that they are primary, and may change settings, beside
    /// root and this program's own.
    pub(crate) primary_users: BTreeSet<u32>,
    /// `MFAAS_SECONDARY_USERS`: users whose programs may say that they are secondary, besides.
    pub(crate) secondary_users: BTreeSet<u32>,
    /// `MFAAS_DISKS`.
    pub(crate) disks: Vec<DiskConfig>,
    /// `MFAAS_EGRESS`.
    pub(crate) egress: Vec<EgressConfig>,
    /// What holds until a command says otherwise.
    pub(crate) settings: Settings,
    /// `MFAAS_METRICS_LISTEN`.
    pub(crate) metrics_listen: Option<SocketAddr>,
    /// `MFAAS_READY_FILE`.
    pub(crate) ready_file: Option<PathBuf>,
}

/// A disk that primary and secondary share, and what it does at most.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DiskConfig {
    /// Its number, as the kernel writes it.
    pub(crate) device: String,
    pub(crate) iops: u64,
    pub(crate) bytes_per_s: u64,
}

impl FromStr for DiskConfig {
    type Err = &'static str;

    /// `254:0=20000/500000000`: its number, I/Os and bytes a second.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parse = || {
            let (device, rates) = text.split_once('=')?;
            let (major, minor) = device.split_once(':')?;
            let (iops, bytes) = rates.split_once('/')?;
            let _: (u32, u32) = (major.parse().ok()?, minor.parse().ok()?);
            let disk = Self {
                device: device.to_owned(),
                iops: iops.parse().ok()?,
                bytes_per_s: bytes.parse().ok()?,
            };
            (disk.iops >= DISK_IOPS_MIN && disk.bytes_per_s >= DISK_BYTES_MIN).then_some(disk)
        };
        parse().ok_or("expected MAJOR:MINOR=IOS/BYTES a second, 100 and 1048576 at least, for example 254:0=20000/500000000")
    }
}

/// An interface through which primary and secondary send, and what the secondary may send at most.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EgressConfig {
    pub(crate) interface: String,
    pub(crate) bytes_per_s: u64,
}

impl FromStr for EgressConfig {
    type Err = &'static str;

    /// `eth0=12500000`: its name, and bytes a second.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parse = || {
            let (interface, bytes) = text.split_once('=')?;
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
            let is_name = (1..=INTERFACE_BYTES_MAX).contains(&interface.len())
                && interface.starts_with(|c: char| c.is_ascii_alphanumeric())
                && interface.chars().all(is_plain);
            let bytes_per_s = bytes.parse().ok().filter(|bytes| *bytes >= EGRESS_BYTES_MIN)?;
            is_name.then(|| Self { interface: interface.to_owned(), bytes_per_s })
        };
        parse().ok_or("expected INTERFACE=BYTES a second, 125000 at least, for example eth0=12500000")
    }
}

/// Each interface once.
fn egress(variables: &Variables) -> Result<Vec<EgressConfig>, VariableError> {
    const NAME: &str = "MFAAS_EGRESS";
    let all: Vec<EgressConfig> = variables.list(NAME, INTERFACES_MAX)?.into_iter().collect();
    let twice = all.windows(2).find(|two| two[0].interface == two[1].interface);
    match twice {
        Some(two) => Err(VariableError::invalid(NAME, format!("{} is named twice", two[0].interface))),
        None => Ok(all),
    }
}

/// What can change while the controller runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Settings {
    /// `MFAAS_ISOLATION_MODE`.
    pub(crate) mode: Mode,
    /// `MFAAS_BUFFER_CORES`.
    pub(crate) buffer_cores: u32,
    /// `MFAAS_SECONDARY_MEMORY`, in bytes.
    pub(crate) memory_bytes: Option<u64>,
}

impl Config {
    /// Reads the variables.
    pub(crate) fn read(variables: &Variables, cores: &CoreSet) -> Result<Self, VariableError> {
        // A buffer of all cores would leave the secondary none for ever.
        let buffer_max = cores.len().saturating_sub(1).min(CORES_MAX) as u32;
        let memory = variables.parsed_by("MFAAS_SECONDARY_MEMORY", |text| {
            text.parse()
                .ok()
                .filter(|bytes| *bytes >= MEMORY_MIN)
                .ok_or("expected a number of bytes, 268435456 or more")
        })?;
        Ok(Self {
            socket: variables.required("MFAAS_ISOLATION_SOCKET")?.into(),
            state_dir: variables.required("MFAAS_STATE_DIR")?.into(),
            group: GroupConfig::read(variables)?,
            primary_users: variables.users("MFAAS_PRIMARY_USERS", USERS_MAX)?,
            secondary_users: variables.users("MFAAS_SECONDARY_USERS", USERS_MAX)?,
            disks: variables.list("MFAAS_DISKS", DISKS_MAX)?.into_iter().collect(),
            egress: egress(variables)?,
            settings: Settings {
                mode: variables.parsed("MFAAS_ISOLATION_MODE")?.unwrap_or_default(),
                buffer_cores: variables.number(
                    "MFAAS_BUFFER_CORES",
                    0..=buffer_max,
                    default_buffer(cores.len()).min(buffer_max),
                )?,
                memory_bytes: memory,
            },
            metrics_listen: variables.parsed("MFAAS_METRICS_LISTEN")?,
            ready_file: variables.optional("MFAAS_READY_FILE")?.map(PathBuf::from),
        })
    }
}

/// Where control groups are made: the controller, its watchdog and `lift` have to agree.
#[derive(Debug, Clone)]
pub(crate) struct GroupConfig {
    name: String,
    moves_primary: bool,
    marks_egress: bool,
}

impl GroupConfig {
    /// Reads the variables.
    pub(crate) fn read(variables: &Variables) -> Result<Self, VariableError> {
        Ok(Self {
            name: name(variables)?,
            moves_primary: variables.switch("MFAAS_ISOLATION_MOVES_PRIMARY")?,
            marks_egress: !egress(variables)?.is_empty(),
        })
    }

    /// For the groups.
    pub(crate) fn naming(&self) -> Naming<'_> {
        let Self { name, moves_primary, marks_egress } = self;
        Naming { name, moves_primary: *moves_primary, marks_egress: *marks_egress }
    }
}

fn name(variables: &Variables) -> Result<String, VariableError> {
    let name = variables.parsed_by("MFAAS_ISOLATION_GROUP", |text| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        let fits = text.len() <= GROUP_BYTES_MAX && text.chars().all(is_plain);
        if fits { Ok(text.to_owned()) } else { Err("expected letters, digits, hyphens and underscores") }
    })?;
    Ok(name.unwrap_or_else(|| GROUP_DEFAULT.to_owned()))
}

/// An eighth of the machine: eight cores of 48 were enough for the paper's 4,000 queries a second, and four for 2,000.
fn default_buffer(cores: usize) -> u32 {
    (cores / 8).max(1) as u32
}

impl Settings {
    /// The same with what a command has changed, or one sentence why not.
    pub(crate) fn changed(self, change: &Change, cores: usize) -> Result<Self, String> {
        let most = cores.saturating_sub(1) as u32;
        let buffer_cores = change.buffer_cores.unwrap_or(self.buffer_cores);
        if buffer_cores > most {
            return Err(format!(
                "{buffer_cores} buffer cores: this machine has {cores} cores, so {most} at most are possible"
            ));
        }
        let memory_bytes = match change.memory_bytes {
            None => self.memory_bytes,
            Some(Limit::None) => None,
            Some(Limit::At(bytes)) if bytes < MEMORY_MIN => {
                return Err(format!(
                    "{bytes} bytes of memory for the secondary: at least {MEMORY_MIN} are needed"
                ));
            }
            Some(Limit::At(bytes)) => Some(bytes),
        };
        Ok(Self { mode: change.mode.unwrap_or(self.mode), buffer_cores, memory_bytes })
    }
}

/// A change on top of another one.
pub(crate) fn merged(before: &Change, change: &Change) -> Change {
    Change {
        mode: change.mode.or(before.mode),
        buffer_cores: change.buffer_cores.or(before.buffer_cores),
        memory_bytes: change.memory_bytes.or(before.memory_bytes),
        // A file of its own, which has to be obeyed by whoever can read nothing else.
        off: None,
        revision: change.revision.or(before.revision),
    }
}

#[cfg(test)]
mod tests;
