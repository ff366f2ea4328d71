//! Where log lines go: standard error, as text or as JSON lines.

use tracing_subscriber::EnvFilter;

use crate::config::LogConfig;
use crate::error::BuilderError;

/// Starts logging. Called once, before anything is logged.
pub(crate) fn start(config: &LogConfig) -> Result<(), BuilderError> {
    let filter = EnvFilter::try_new(&config.filter)
        .map_err(|error| BuilderError::Config { name: "MFAAS_LOG", problem: error.to_string() })?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    if config.json {
        builder.json().init()
    } else {
        builder.with_ansi(false).init()
    }
    Ok(())
}
