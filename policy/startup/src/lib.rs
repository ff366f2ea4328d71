//! What every service does as a process: it logs, reads its environment and the address of its database once, installs one TLS
//! provider, says when it is ready and stops at SIGTERM or SIGINT. Server, builder, acquirer, signer and node do it in the same
//! way, here.

mod database;
mod logging;
mod ready;
mod shutdown;
mod variables;

pub use database::{DatabaseAddress, DatabaseAddressError, DatabaseHost, DatabaseTls, UnusableDatabase};
pub use logging::{LoggingError, start_log, start_log_here, start_sending};
pub use ready::write_ready_file;
pub use shutdown::{Shutdown, shutdown_flag};
pub use variables::{VariableError, Variables};

/// Another TLS provider was installed first.
#[derive(Debug, thiserror::Error)]
#[error("another TLS provider is installed already")]
pub struct TlsProviderError;

/// Makes ring the provider of every TLS connection of this process: listeners, blob store, database. Called once.
pub fn install_tls_provider() -> Result<(), TlsProviderError> {
    rustls::crypto::ring::default_provider().install_default().map_err(|_| TlsProviderError)
}
