//! What every service does as a process: it logs, reads its environment once, installs one TLS provider, says when it is ready
//! and stops at SIGTERM or SIGINT. Server, builder, acquirer, signer and node do it in the same way, here.

mod logging;
mod ready;
mod shutdown;
mod variables;

pub use logging::{LoggingError, start_log};
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
