//! `up.json`: what one machine's installation has decided once and keeps: passwords of the
//! database roles, ports, the node's name.
//!
//! The file is 0600 and is the only place below the home where passwords are written.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

use mfaas_ident::Access;
use mfaas_startup::{DatabaseAddress, DatabaseHost};
use rand::RngCore as _;
use serde::{Deserialize, Serialize};

use crate::error::SupervisorError;
use crate::files::write_atomically;
use crate::layout::Home;
use crate::options::UpOptions;
use crate::ports::Ports;

/// The format that this program writes and the only one it reads.
const FORMAT: u32 = 1;

/// The database roles, each with its own password. The first owns the schema.
pub(crate) const OWNER_ROLE: &str = "mfaas_owner";
/// The role of `mfaas-server`.
pub(crate) const SERVER_ROLE: &str = "mfaas_server";
/// The role of `mfaas-builder`.
pub(crate) const BUILDER_ROLE: &str = "mfaas_builder";
/// The role of `mfaas-signer`.
pub(crate) const SIGNER_ROLE: &str = "mfaas_signer";

/// The role of `mfaas-builder acquire`.
pub(crate) const ACQUIRER_ROLE: &str = "mfaas_acquirer";

/// The role of `mfaas-broker`, and the name of its database in a private cluster. It has no rights in the site's.
pub(crate) const DATA_ROLE: &str = "mfaas_data";

/// The role of `mfaas-server` in the database of functions' data: for events alone, as the broker grants it.
pub(crate) const EVENTS_ROLE: &str = "mfaas_events";

/// Every role, the owner included.
const ROLES: [&str; 7] =
    [OWNER_ROLE, SERVER_ROLE, BUILDER_ROLE, SIGNER_ROLE, ACQUIRER_ROLE, DATA_ROLE, EVENTS_ROLE];

/// The database's name in a private cluster, and the port in the name of its socket.
const DATABASE: &str = "mfaas";
const DATABASE_PORT: u16 = 5432;

/// What `up` remembers from run to run.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct UpConfig {
    format: u32,
    /// The ports asked for; 0 takes any free one at each start.
    pub(crate) ports: Ports,
    /// Worker processes of the node; one a core when absent.
    pub(crate) workers: Option<u32>,
    /// What must hold calls where tenants share workers; the node's default when absent.
    #[serde(default)]
    pub(crate) share_workers: Option<String>,
    /// How builds are kept from being felt by calls: a mode of the isolation controller, or `off`; its default when absent.
    #[serde(default)]
    pub(crate) isolation: Option<String>,
    /// Worker processes of the node at a time; its default when absent.
    #[serde(default)]
    pub(crate) worker_processes: Option<u32>,
    /// Bulk workers of the node at a time; its default when absent.
    #[serde(default)]
    pub(crate) bulk_workers: Option<u32>,
    /// What they may have together, in MiB; its default when absent.
    #[serde(default)]
    pub(crate) bulk_memory_mib: Option<u32>,
    /// Connections that the node takes at once; its default when absent.
    #[serde(default)]
    pub(crate) ingress_connections: Option<u32>,
    /// Of these, of one peer; its default when absent.
    #[serde(default)]
    pub(crate) ingress_peer_connections: Option<u32>,
    /// Proxies before the node, addresses with commas between them.
    #[serde(default)]
    pub(crate) ingress_proxies: Option<String>,
    /// What a release before this one remembered. It has no effect.
    #[serde(default, skip_serializing, rename = "private_cordons")]
    _private_cordons: Option<u32>,
    /// The name under which this machine's node joined.
    pub(crate) node_name: String,
    /// The weakest sandbox that the builder may fall back to.
    #[serde(rename = "cage_minimum")]
    pub(crate) sandbox_minimum: String,
    /// How many builders have to make the same before it is signed; one when absent.
    #[serde(default)]
    pub(crate) builds_agreement: Option<u8>,
    /// Where the server shows its metrics, and the others on ports behind it; with HTTP when absent.
    #[serde(default)]
    pub(crate) metrics_listen: Option<String>,
    /// The address on which the server listens for nodes; 127.0.0.1 when absent.
    #[serde(default)]
    pub(crate) node_listen: Option<IpAddr>,
    /// Names that the server's certificate has besides those of this machine for itself.
    #[serde(default)]
    pub(crate) names: Vec<String>,
    /// Who may call a function whose manifest does not say; its tenant when absent.
    #[serde(default)]
    pub(crate) default_access: Option<Access>,
    /// Whether the rules may admit a crate in which nothing was found, without a person.
    #[serde(default)]
    pub(crate) automatic_admission: bool,
    /// How people reach the console, where that is not this machine.
    #[serde(default)]
    pub(crate) public_url: Option<String>,
    /// The blob store of the site; a directory of the home when absent.
    #[serde(default)]
    pub(crate) blobs_url: Option<String>,
    /// Where the private cluster keeps its write-ahead log; nowhere when absent or empty.
    #[serde(default)]
    pub(crate) wal_archive: Option<String>,
    /// An external database's owner URL; a private cluster when absent.
    pub(crate) external_database: Option<String>,
    /// Where the data of functions lies; in the private cluster, if there is one, when absent.
    #[serde(default)]
    pub(crate) data_database: Option<String>,
    /// Where objects of functions lie; a directory of the home when absent.
    #[serde(default)]
    pub(crate) objects_url: Option<String>,
    /// Where files of volumes lie; a directory of the home when absent.
    #[serde(default)]
    pub(crate) volumes_url: Option<String>,
    /// Which servers functions may ask, and with which secrets; none when absent.
    #[serde(default)]
    pub(crate) http_file: Option<PathBuf>,
    /// Which Redis servers hold resources of functions' data; none when absent.
    #[serde(default)]
    pub(crate) redis_file: Option<PathBuf>,
    /// Password by database role.
    passwords: BTreeMap<String, String>,
}

impl UpConfig {
    /// Reads `up.json`, or makes the first one with fresh passwords.
    pub(crate) fn load_or_new(home: &Home, ports: Ports) -> Result<Self, SupervisorError> {
        match Self::load(home)? {
            Some(mut config) => {
                // A release may bring a role that the one before did not have.
                for role in ROLES {
                    config.passwords.entry(role.to_owned()).or_insert_with(new_password);
                }
                Ok(Self { ports, ..config })
            }
            None => Ok(Self {
                format: FORMAT,
                ports,
                workers: None,
                share_workers: None,
                isolation: None,
                worker_processes: None,
                bulk_workers: None,
                bulk_memory_mib: None,
                ingress_connections: None,
                ingress_peer_connections: None,
                ingress_proxies: None,
                _private_cordons: None,
                node_name: "local".to_owned(),
                sandbox_minimum: "full".to_owned(),
                builds_agreement: None,
                metrics_listen: None,
                node_listen: None,
                names: Vec::new(),
                default_access: None,
                automatic_admission: false,
                public_url: None,
                blobs_url: None,
                wal_archive: None,
                external_database: None,
                data_database: None,
                objects_url: None,
                volumes_url: None,
                http_file: None,
                redis_file: None,
                passwords: ROLES.map(|role| (role.to_owned(), new_password())).into(),
            }),
        }
    }

    /// Whether there is an isolation controller. Where it may make no groups, builds would give way to everything on the machine: it is
    /// there only if it was asked for.
    pub(crate) fn has_isolation(&self) -> bool {
        match self.isolation.as_deref() {
            None => rustix::process::geteuid().is_root(),
            Some(mode) => mode != "off",
        }
    }

    /// Where the data of functions lies; nowhere where the site's database is somebody else's and nothing was said.
    pub(crate) fn data_database(&self, home: &Home) -> Result<Option<String>, SupervisorError> {
        if self.data_database.is_some() {
            return Ok(self.data_database.clone());
        }
        if self.external_database.is_some() {
            return Ok(None);
        }
        let address = self.database(home, DATA_ROLE)?;
        Ok(Some(DatabaseAddress { database: DATA_ROLE.to_owned(), ..address }.to_url()))
    }

    /// Where the server finds events; elsewhere than in a private cluster only who runs the site knows.
    pub(crate) fn events_database(&self, home: &Home) -> Result<Option<String>, SupervisorError> {
        if self.data_database.is_some() || self.external_database.is_some() {
            return Ok(None);
        }
        let address = self.database(home, EVENTS_ROLE)?;
        Ok(Some(DatabaseAddress { database: DATA_ROLE.to_owned(), ..address }.to_url()))
    }

    /// Takes over what was asked for; the rest stays as it was.
    pub(crate) fn apply(&mut self, options: &UpOptions) {
        take(&mut self.workers, &options.workers);
        take(&mut self.share_workers, &options.share_workers);
        take(&mut self.isolation, &options.isolation);
        take(&mut self.worker_processes, &options.worker_processes);
        take(&mut self.bulk_workers, &options.bulk_workers);
        take(&mut self.bulk_memory_mib, &options.bulk_memory_mib);
        take(&mut self.ingress_connections, &options.ingress_connections);
        take(&mut self.ingress_peer_connections, &options.ingress_peer_connections);
        take(&mut self.ingress_proxies, &options.ingress_proxies);
        take(&mut self.public_url, &options.public_url);
        take(&mut self.default_access, &options.default_access);
        take(&mut self.builds_agreement, &options.builds_agreement);
        take(&mut self.metrics_listen, &options.metrics_listen);
        take(&mut self.node_listen, &options.node_listen);
        take(&mut self.wal_archive, &options.wal_archive);
        take(&mut self.data_database, &options.data_database_url);
        take(&mut self.objects_url, &options.objects_url);
        take(&mut self.volumes_url, &options.volumes_url);
        take(&mut self.http_file, &options.http_file);
        take(&mut self.redis_file, &options.redis_file);
        if !options.names.is_empty() {
            self.names.clone_from(&options.names);
        }
        self.apply_stores(&options.database_url, &options.blobs_url);
        if let Some(automatic) = options.automatic_admission {
            self.automatic_admission = automatic;
        }
        if let Some(minimum) = &options.sandbox_minimum {
            self.sandbox_minimum.clone_from(minimum);
        }
    }

    /// Takes over where database and blobs are; the rest stays as it was.
    pub(crate) fn apply_stores(&mut self, database_url: &Option<String>, blobs_url: &Option<String>) {
        take(&mut self.external_database, database_url);
        take(&mut self.blobs_url, blobs_url);
    }

    /// The address on which the server listens for nodes, and the one at which those of this machine find it there.
    pub(crate) fn node_addresses(&self) -> (IpAddr, IpAddr) {
        match self.node_listen.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST)) {
            any if any == IpAddr::V4(Ipv4Addr::UNSPECIFIED) => (any, Ipv4Addr::LOCALHOST.into()),
            any if any == IpAddr::V6(Ipv6Addr::UNSPECIFIED) => (any, Ipv6Addr::LOCALHOST.into()),
            one => (one, one),
        }
    }

    /// What the server's certificate names: the names that were asked for, and the address that nodes are listened for on.
    pub(crate) fn certificate_names(&self) -> Vec<String> {
        let (_, reached) = self.node_addresses();
        let address = (!reached.is_loopback()).then(|| reached.to_string());
        self.names.iter().cloned().chain(address).collect()
    }

    /// Reads `up.json`; `None` when there is none.
    pub(crate) fn load(home: &Home) -> Result<Option<Self>, SupervisorError> {
        let path = home.join("up.json");
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(SupervisorError::io("cannot read", &path)(error)),
        };
        let config: Self = serde_json::from_str(&text)
            .map_err(|e| SupervisorError::Local(format!("{} is damaged: {e}", path.display())))?;
        if config.format != FORMAT {
            return Err(SupervisorError::Local(format!(
                "{} has format {}, this mfaas knows format {FORMAT}",
                path.display(),
                config.format
            )));
        }
        Ok(Some(config))
    }

    /// Writes `up.json` atomically, 0600.
    pub(crate) fn save(&self, home: &Home) -> Result<(), SupervisorError> {
        let text = serde_json::to_string_pretty(self).map_err(|e| SupervisorError::Local(e.to_string()))?;
        write_atomically(&home.join("up.json"), text.as_bytes(), 0o600)
    }

    /// The password of a database role; every role has one since the file was made.
    pub(crate) fn password(&self, role: &str) -> Result<&str, SupervisorError> {
        self.passwords
            .get(role)
            .map(String::as_str)
            .ok_or_else(|| SupervisorError::Local(format!("up.json has no password for {role}")))
    }

    /// The database with the rights of `role`.
    pub(crate) fn database(&self, home: &Home, role: &str) -> Result<DatabaseAddress, SupervisorError> {
        let password = || self.password(role).map(|password| Some(password.to_owned()));
        let Some(owner) = &self.external_database else {
            return Ok(DatabaseAddress {
                hosts: vec![DatabaseHost::Socket(home.socket_dir(), DATABASE_PORT)],
                user: role.to_owned(),
                password: password()?,
                database: DATABASE.to_owned(),
                tls: None,
            });
        };
        let owner: DatabaseAddress =
            owner.parse().map_err(|error| SupervisorError::Usage(format!("DATABASE_URL: {error}")))?;
        if role == OWNER_ROLE {
            return Ok(owner);
        }
        Ok(DatabaseAddress { user: role.to_owned(), password: password()?, ..owner })
    }
}

fn take<T: Clone>(kept: &mut Option<T>, asked: &Option<T>) {
    if asked.is_some() {
        kept.clone_from(asked);
    }
}

/// The options that ask for something else than what the installation keeps; none where there is no installation.
pub fn options_that_differ(home: &Home, options: &UpOptions) -> Result<Vec<String>, SupervisorError> {
    let Some(kept) = UpConfig::load(home)? else { return Ok(Vec::new()) };
    let mut wanted = kept.clone();
    wanted.apply(options);
    let fields =
        |config: &UpConfig| serde_json::to_value(config).map_err(|e| SupervisorError::Local(e.to_string()));
    let (kept, wanted) = (fields(&kept)?, fields(&wanted)?);
    let changed =
        wanted.as_object().into_iter().flatten().filter(|(name, value)| kept.get(name) != Some(value));
    Ok(changed.map(|(field, _)| option_of(field)).collect())
}

/// 32 random bytes as hexadecimal: safe in a URL, in SQL and in an environment without quoting.
fn new_password() -> String {
    let mut bytes = [0; 32];
    rand::rng().fill_bytes(&mut bytes);
    hex::encode(bytes)
}

/// The option of `mfaas up` that sets a field of `up.json`.
fn option_of(field: &str) -> String {
    match field {
        "external_database" => "--database-url".to_owned(),
        "names" => "--name".to_owned(),
        "cage_minimum" => "--sandbox-minimum".to_owned(),
        field => format!("--{}", field.replace('_', "-")),
    }
}

#[cfg(test)]
mod tests;
