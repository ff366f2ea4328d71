//! Where the database is, by the rules that hold for every database of a site: encrypted and verified where it is not on this machine.

use mfaas_startup::{DatabaseAddress, DatabaseHost};
use sqlx::postgres::{PgConnectOptions, PgSslMode};

use crate::KvError;

/// How the one server of an address is connected to.
pub(crate) fn options(url: &str) -> Result<PgConnectOptions, KvError> {
    let address: DatabaseAddress = url.parse()?;
    let [host] = &address.hosts[..] else { return Err(KvError::SeveralServers(address.hosts.len())) };
    let options = PgConnectOptions::new_without_pgpass().username(&address.user).database(&address.database);
    let mut options = match host {
        DatabaseHost::Tcp(name, port) => options.host(name).port(*port),
        DatabaseHost::Socket(directory, port) => options.socket(directory).port(*port),
    };
    if let Some(password) = &address.password {
        options = options.password(password);
    }
    let Some(tls) = &address.tls else { return Ok(options.ssl_mode(PgSslMode::Disable)) };
    options = options.ssl_mode(PgSslMode::VerifyFull);
    if let Some(roots) = &tls.roots {
        options = options.ssl_root_cert(roots);
    }
    if let Some((certificate, key)) = &tls.client {
        options = options.ssl_client_cert(certificate).ssl_client_key(key);
    }
    Ok(options)
}
