//! The connection to the database: encrypted as its address says, to the server that takes writes, and given up when nothing
//! answers any more.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use mfaas_startup::{DatabaseAddress, DatabaseHost, DatabaseTls, UnusableDatabase};
use postgres::config::SslMode;
use postgres::error::SqlState;
use postgres::{Client, Config, NoTls};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::ledger::SchemaTooOld;

/// A statement of ours that takes longer is stuck.
const STATEMENT_MS_MAX: &str = "15000";
const IDLE_IN_TRANSACTION_MS_MAX: &str = "60000";
/// How long one server has to take a connection.
const CONNECT_MAX: Duration = Duration::from_secs(3);
/// A machine that is gone sends no end of a connection: one that has been silent for so long is asked, so often, and is then
/// given up.
const SILENCE_MAX: Duration = Duration::from_secs(10);
const PROBE_EVERY: Duration = Duration::from_secs(5);
const PROBES_MAX: u32 = 3;
/// What was sent and not received within this time is lost.
const UNRECEIVED_MAX: Duration = Duration::from_secs(20);

/// Connects to the first server of the address that takes writes, and listens for wake-ups.
pub(crate) fn connect(database_url: &str) -> anyhow::Result<Client> {
    let address: DatabaseAddress = database_url.parse().context("MFAAS_DATABASE_URL")?;
    // What is wrong with a server that is no standby says more than that another one is.
    let mut wrong = anyhow::Error::new(UnusableDatabase::Standby);
    for host in &address.hosts {
        match connect_to(&address, host) {
            Ok(client) => return Ok(client),
            Err(error) if error.downcast_ref() == Some(&UnusableDatabase::Standby) => {}
            Err(error) => wrong = error,
        }
    }
    Err(wrong).context("the database is not available")
}

/// Whether a database at a program's start may be on its way: it cannot be reached, starts, or is being migrated, or another
/// server takes over.
pub(crate) fn is_worth_waiting_for(error: &anyhow::Error) -> bool {
    if error.is::<SchemaTooOld>() || error.downcast_ref() == Some(&UnusableDatabase::Standby) {
        return true;
    }
    let database = error.chain().find_map(|cause| cause.downcast_ref::<postgres::Error>());
    database.is_some_and(|error| match error.code() {
        None => true,
        Some(code) if *code == SqlState::UNDEFINED_TABLE => true,
        Some(code) => ["08", "53", "57P"].iter().any(|class| code.code().starts_with(class)),
    })
}

fn connect_to(address: &DatabaseAddress, host: &DatabaseHost) -> anyhow::Result<Client> {
    let config = configuration(address, host);
    let connected = match &address.tls {
        None => config.connect(NoTls),
        Some(tls) => config.connect(MakeRustlsConnect::new(client_config(tls)?)),
    };
    let mut client = connected.map_err(|error| {
        // The library keeps the reason in the cause.
        let error = anyhow::Error::new(error);
        match UnusableDatabase::of_refusal(&format!("{error:#}")) {
            Some(unusable) => unusable.into(),
            None => error.context(host.to_string()),
        }
    })?;
    let row = client.query_one(UnusableDatabase::QUESTION, &[])?;
    UnusableDatabase::unless(row.try_get(0)?, row.try_get(1)?, STATEMENT_MS_MAX)
        .with_context(|| host.to_string())?;
    client.batch_execute("LISTEN mfaas_signer")?;
    Ok(client)
}

fn configuration(address: &DatabaseAddress, host: &DatabaseHost) -> Config {
    let mut config = Config::new();
    match host {
        DatabaseHost::Tcp(name, port) => config.host(name).port(*port),
        DatabaseHost::Socket(directory, port) => config.host_path(directory).port(*port),
    };
    config
        .user(&address.user)
        .dbname(&address.database)
        .application_name("mfaas-signer")
        .options(&format!(
            "-c statement_timeout={STATEMENT_MS_MAX} -c idle_in_transaction_session_timeout={IDLE_IN_TRANSACTION_MS_MAX}"
        ))
        .ssl_mode(if address.tls.is_some() { SslMode::Require } else { SslMode::Disable })
        .connect_timeout(CONNECT_MAX)
        .tcp_user_timeout(UNRECEIVED_MAX)
        .keepalives_idle(SILENCE_MAX)
        .keepalives_interval(PROBE_EVERY)
        .keepalives_retries(PROBES_MAX);
    if let Some(password) = &address.password {
        config.password(password);
    }
    config
}

/// Certificates of servers count by the authorities of the machine and those that the address names.
fn client_config(tls: &DatabaseTls) -> anyhow::Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    // What of the machine cannot be read counts for nothing; without any the handshake says that the issuer is unknown.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if let Some(file) = &tls.roots {
        let unread = || format!("sslrootcert {}", file.display());
        for certificate in CertificateDer::pem_file_iter(file).with_context(unread)? {
            roots.add(certificate.with_context(unread)?).with_context(unread)?;
        }
    }
    let config = ClientConfig::builder().with_root_certificates(Arc::new(roots));
    let Some((certificate, key)) = &tls.client else { return Ok(config.with_no_client_auth()) };
    let unread = || format!("sslcert {}", certificate.display());
    let chain = CertificateDer::pem_file_iter(certificate).with_context(unread)?.collect::<Result<_, _>>();
    let key = PrivateKeyDer::from_pem_file(key).with_context(|| format!("sslkey {}", key.display()))?;
    config.with_client_auth_cert(chain.with_context(unread)?, key).context("sslcert and sslkey")
}
