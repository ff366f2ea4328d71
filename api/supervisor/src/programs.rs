//! What each program is started with: its slice of the configuration and nothing else.

use std::ffi::OsString;
use std::net::SocketAddr;

use sha2::{Digest as _, Sha256};

use crate::config::{ACQUIRER_ROLE, BUILDER_ROLE, SERVER_ROLE, SIGNER_ROLE, UpConfig};
use crate::error::SupervisorError;
use crate::identity::Role;
use crate::launch::{Launch, Siblings};
use crate::layout::Home;

/// What tenants may ask a broker for, where whoever starts it says so.
const BOUND_VARIABLES: [&str; 3] =
    ["MFAAS_DATA_OPERATIONS", "MFAAS_DATA_RESOURCE_MIB", "MFAAS_VOLUME_MIB_PER_SECOND"];

/// Where the server finds events of objects.
const EVENTS_VARIABLE: &str = "MFAAS_EVENTS_DATABASE_URL";

/// Variables by which a program finds its way to others: proxies, certificates, and cargo's configuration file.
const NETWORK_VARIABLES: [&str; 9] = [
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "CARGO_HTTP_CAINFO",
    "MFAAS_REGISTRY_CONFIG",
];

/// Variables by which a program finds an S3-compatible store and is let in there.
const STORE_VARIABLES: [&str; 18] = [
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
    "AWS_ENDPOINT",
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_S3",
    "AWS_ALLOW_HTTP",
    "AWS_VIRTUAL_HOSTED_STYLE_REQUEST",
    "AWS_PROXY_URL",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_ROLE_ARN",
    "AWS_ROLE_SESSION_NAME",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
    "SSL_CERT_FILE",
];

/// The facts of one machine from which every program's environment is made.
#[derive(Debug)]
pub(crate) struct Programs<'a> {
    /// Where everything lives.
    pub(crate) home: &'a Home,
    /// What was decided once.
    pub(crate) config: &'a UpConfig,
    /// The executables.
    pub(crate) siblings: &'a Siblings,
    /// The filter for the programs' logs.
    pub(crate) log: &'a str,
}

impl Programs<'_> {
    fn base(&self, role: Role, name: &str) -> Launch {
        let launch = Launch::new(role, self.siblings.path(name)).env("MFAAS_LOG", self.log);
        let launch = match std::env::var_os("MFAAS_LOG_JSON") {
            Some(json) => launch.env("MFAAS_LOG_JSON", json),
            None => launch,
        };
        inherited(launch, &mfaas_trace::VARIABLES)
    }

    /// With a listener for metrics, if they have listeners: `behind` the server's port, so that one option says where all are.
    fn with_metrics(&self, launch: Launch, behind: u16) -> Launch {
        let Some(asked) = &self.config.metrics_listen else { return launch };
        let address = match asked.parse::<SocketAddr>() {
            Ok(address) if address.port() != 0 => {
                SocketAddr::new(address.ip(), address.port().saturating_add(behind)).to_string()
            }
            // Any free port; or nothing that the program takes, and it says so.
            Ok(_) | Err(_) => asked.clone(),
        };
        launch.env("MFAAS_METRICS_LISTEN", address)
    }

    /// A program with the rights of the given database role, and with the site's blob store.
    fn with_stores(&self, role: Role, name: &str, database_role: &str) -> Result<Launch, SupervisorError> {
        let address = self.config.database(self.home, database_role)?;
        let launch = self.base(role, name).env("MFAAS_DATABASE_URL", address.to_url());
        Ok(self.with_store(launch, "MFAAS_BLOBS_URL", (self.config.blobs_url.as_deref(), "blobs")))
    }

    /// With a store at this address, or in this directory of the home.
    fn with_store(
        &self,
        launch: Launch,
        variable: &'static str,
        (url, directory): (Option<&str>, &str),
    ) -> Launch {
        match url {
            Some(url) => inherited(launch.env(variable, url), &STORE_VARIABLES),
            None => {
                let mut url = OsString::from("file://");
                url.push(self.home.join(directory));
                launch.env(variable, url)
            }
        }
    }

    /// `mfaas-signer` with its database and its key.
    pub(crate) fn signer(&self) -> Result<Launch, SupervisorError> {
        let launch = self
            .with_stores(Role::Signer, "mfaas-signer", SIGNER_ROLE)?
            .env("MFAAS_KEYS_DIR", self.home.join("signer/keys"))
            .env("MFAAS_CA_DIR", self.home.join("signer/ca"))
            .env("MFAAS_SANDBOX_MINIMUM", &self.config.sandbox_minimum)
            .env("MFAAS_READY_FILE", self.home.ready_file(Role::Signer));
        let launch = self.with_metrics(launch, 2);
        let settings = [
            ("MFAAS_DEFAULT_ACCESS", self.config.default_access.map(|access| access.as_str().to_owned())),
            ("MFAAS_BUILDS_AGREEMENT", self.config.builds_agreement.map(|number| number.to_string())),
        ];
        Ok(with_settings(launch, settings))
    }

    /// `mfaas-server`, listening on the two given addresses.
    pub(crate) fn server(&self, http: &str, nodes: &str) -> Result<Launch, SupervisorError> {
        let launch = self
            .with_stores(Role::Server, "mfaas-server", SERVER_ROLE)?
            .env("MFAAS_LISTEN", http)
            .env("MFAAS_NODE_LISTEN", nodes)
            .env("MFAAS_TLS_DIR", self.home.join("server/tls"))
            .env("MFAAS_READY_FILE", self.home.ready_file(Role::Server));
        let mut launch = self.with_metrics(launch, 0);
        launch = match self.config.events_database(self.home)? {
            Some(url) => launch.env(EVENTS_VARIABLE, url),
            None => inherited(launch, &[EVENTS_VARIABLE]),
        };
        if let Some(url) = &self.config.public_url {
            launch = launch.env("MFAAS_PUBLIC_URL", url).env("MFAAS_HOSTS", host_of(url)?);
        }
        let provider = self.home.join("server/oidc/config.json");
        if provider.is_file() {
            // It is asked over the network, on the way that this machine has.
            launch = with_network(launch).env("MFAAS_OIDC_FILE", provider);
        }
        Ok(launch)
    }

    /// An administrative command of `mfaas-server` with the rights of the given database role.
    pub(crate) fn server_command(&self, role: &str) -> Result<Launch, SupervisorError> {
        Ok(self
            .with_stores(Role::Server, "mfaas-server", role)?
            .env("MFAAS_TLS_DIR", self.home.join("server/tls")))
    }

    /// `mfaas-isolation`, which the programs of this home ask; its control groups have a name of this home's own.
    pub(crate) fn isolation(&self) -> Launch {
        let home = Sha256::digest(self.home.root().as_os_str().as_encoded_bytes());
        let launch = self
            .base(Role::Isolation, "mfaas-isolation")
            .env("MFAAS_ISOLATION_SOCKET", self.home.isolation_socket())
            .env("MFAAS_ISOLATION_GROUP", format!("mfaas-secondary-{}", hex::encode(&home[..4])))
            // No unit of systemd's is torn apart: the programs of a home are children of one process.
            .env("MFAAS_ISOLATION_MOVES_PRIMARY", "1")
            .env("MFAAS_STATE_DIR", self.home.join("isolation/state"))
            .env("MFAAS_READY_FILE", self.home.ready_file(Role::Isolation))
            .env("PATH", "/usr/bin:/bin");
        let launch = self.with_metrics(launch, 6);
        let users = |role: Role| rustix::process::geteuid().is_root().then(|| role.user().to_owned());
        let secondary =
            [Role::Builder, Role::Acquirer].into_iter().filter_map(users).collect::<Vec<_>>().join(",");
        let settings = [
            ("MFAAS_ISOLATION_MODE", self.config.isolation.clone()),
            ("MFAAS_PRIMARY_USERS", users(Role::Node)),
            ("MFAAS_SECONDARY_USERS", Some(secondary)),
        ];
        with_settings(launch, settings)
    }

    /// Where programs ask for their place, unless nobody gives any.
    fn with_isolation(&self, launch: Launch) -> Launch {
        match self.config.has_isolation() {
            true => launch.env("MFAAS_ISOLATION_SOCKET", self.home.isolation_socket()),
            false => launch,
        }
    }

    /// `mfaas-broker`, which reaches the data in this database for functions of the node.
    pub(crate) fn broker(&self, database: &str) -> Launch {
        let launch = self
            .base(Role::Broker, "mfaas-broker")
            .env("MFAAS_BROKER_SOCKET", self.home.broker_socket())
            .env("MFAAS_DATA_DATABASE_URL", database)
            .env("MFAAS_READY_FILE", self.home.ready_file(Role::Broker))
            .env("PATH", "/usr/bin:/bin");
        let launch =
            self.with_store(launch, "MFAAS_OBJECTS_URL", (self.config.objects_url.as_deref(), "objects"));
        let volumes = (self.config.volumes_url.as_deref(), "volumes");
        let launch = self.with_store(launch, "MFAAS_VOLUMES_URL", volumes);
        let node = rustix::process::geteuid().is_root().then(|| Role::Node.user().to_owned());
        let [http_file, redis_file] = [&self.config.http_file, &self.config.redis_file]
            .map(|file| file.as_ref().map(|file| file.display().to_string()));
        let settings =
            [("MFAAS_BROKER_USERS", node), ("MFAAS_HTTP_FILE", http_file), ("MFAAS_REDIS_FILE", redis_file)];
        inherited(with_settings(self.with_metrics(launch, 7), settings), &BOUND_VARIABLES)
    }

    /// `mfaas-builder` with one toolchain and one set of dependencies.
    pub(crate) fn builder(
        &self,
        toolchain: &std::path::Path,
        dependencies: &std::path::Path,
    ) -> Result<Launch, SupervisorError> {
        let launch = self
            .with_stores(Role::Builder, "mfaas-builder", BUILDER_ROLE)?
            .arg("serve")
            .env("MFAAS_TOOLCHAIN_DIR", toolchain)
            .env("MFAAS_DEPS_DIR", dependencies)
            .env("MFAAS_SITE_DEPS_DIR", self.home.join("acquirer/deps"))
            .env("MFAAS_WORK_DIR", self.home.join("builder/work"))
            .env("MFAAS_SANDBOX_MINIMUM", &self.config.sandbox_minimum)
            .env("MFAAS_READY_FILE", self.home.ready_file(Role::Builder));
        Ok(self.with_isolation(self.with_metrics(launch, 3)))
    }

    /// `mfaas-builder acquire`, which finds out what requests come down to and builds what was approved.
    pub(crate) fn acquirer(
        &self,
        toolchain: &std::path::Path,
        dependencies: &std::path::Path,
    ) -> Result<Launch, SupervisorError> {
        let launch = self
            .with_stores(Role::Acquirer, "mfaas-builder", ACQUIRER_ROLE)?
            .arg("acquire")
            .env("MFAAS_TOOLCHAIN_DIR", toolchain)
            .env("MFAAS_DEPS_DIR", dependencies)
            .env("MFAAS_SITE_DEPS_DIR", self.home.join("acquirer/deps"))
            .env("MFAAS_SEED_DIR", self.home.join("seed"))
            .env("MFAAS_WORK_DIR", self.home.join("acquirer/work"))
            .env("MFAAS_SANDBOX_MINIMUM", &self.config.sandbox_minimum)
            .env("MFAAS_AUTOMATIC_ADMISSION", if self.config.automatic_admission { "1" } else { "0" })
            .env("MFAAS_READY_FILE", self.home.ready_file(Role::Acquirer));
        Ok(with_network(self.with_isolation(self.with_metrics(launch, 4))))
    }

    /// A command of `mfaas-builder` that needs no database.
    pub(crate) fn builder_command(&self) -> Launch {
        self.base(Role::Builder, "mfaas-builder")
            .env("MFAAS_WORK_DIR", self.home.join("builder/work"))
            .env("MFAAS_SANDBOX_MINIMUM", &self.config.sandbox_minimum)
            .env("PATH", "/usr/bin:/bin")
    }

    /// `mfaas-node`, which talks to the server's mTLS listener at `nodes`.
    pub(crate) fn node(&self, nodes: &str, ingress: &str) -> Result<Launch, SupervisorError> {
        let launch = self
            .base(Role::Node, "mfaas-node")
            .env("MFAAS_NODE_NAME", &self.config.node_name)
            .env("MFAAS_SERVER", format!("https://{nodes}"))
            .env("MFAAS_CA_FILE", self.home.join("ca.pem"))
            .env("MFAAS_STATE_DIR", self.home.join("node/state"))
            .env("MFAAS_INGRESS_LISTEN", ingress)
            .env("MFAAS_ROOT_KEY_FILE", self.home.join("root.pub"))
            .env("MFAAS_READY_FILE", self.home.ready_file(Role::Node));
        let launch = self.with_isolation(self.with_metrics(launch, 5));
        let broker = self.config.data_database(self.home)?.map(|_| self.home.broker_socket());
        let settings = [
            ("MFAAS_BROKER_SOCKET", broker.map(|socket| socket.display().to_string())),
            ("MFAAS_WORKERS", self.config.workers.map(|number| number.to_string())),
            ("MFAAS_WORKER_PROCESSES", self.config.worker_processes.map(|number| number.to_string())),
            ("MFAAS_BULK_WORKERS", self.config.bulk_workers.map(|number| number.to_string())),
            ("MFAAS_BULK_MEMORY_MIB", self.config.bulk_memory_mib.map(|number| number.to_string())),
            ("MFAAS_SHARE_WORKERS", self.config.share_workers.clone()),
            ("MFAAS_INGRESS_CONNECTIONS", self.config.ingress_connections.map(|number| number.to_string())),
            (
                "MFAAS_INGRESS_PEER_CONNECTIONS",
                self.config.ingress_peer_connections.map(|number| number.to_string()),
            ),
            ("MFAAS_INGRESS_PROXIES", self.config.ingress_proxies.clone()),
        ];
        Ok(with_settings(launch, settings))
    }
}

/// What is not set is the program's to choose.
fn with_settings<const N: usize>(launch: Launch, settings: [(&'static str, Option<String>); N]) -> Launch {
    settings.into_iter().fold(launch, |launch, (name, setting)| match setting {
        Some(setting) => launch.env(name, setting),
        None => launch,
    })
}

/// How this machine reaches others, and how logs look, is all that a program takes from whoever started it.
fn with_network(launch: Launch) -> Launch {
    inherited(launch, &NETWORK_VARIABLES)
}

/// With those of the variables that this process has and the launch does not.
fn inherited(launch: Launch, names: &[&'static str]) -> Launch {
    names.iter().fold(launch, |launch, name| match std::env::var_os(name) {
        Some(value) if launch.env.iter().all(|(known, _)| known != name) => launch.env(name, value),
        _ => launch,
    })
}

/// The name that the server has to answer to.
fn host_of(url: &str) -> Result<String, SupervisorError> {
    let parsed =
        reqwest::Url::parse(url).map_err(|error| SupervisorError::Usage(format!("--public-url: {error}")))?;
    let host = parsed.host_str().filter(|host| !host.is_empty());
    host.map(str::to_owned).ok_or_else(|| SupervisorError::Usage("--public-url names no host".to_owned()))
}

/// The same program with one variable changed.
pub(crate) fn with_env(mut launch: Launch, name: &'static str, value: &str) -> Launch {
    launch.env.retain(|(known, _)| *known != name);
    launch.env(name, value)
}
