//! Logs go to stderr: text for people, or one JSON object a line with `MFAAS_LOG_JSON=1`.

use std::io::Write as _;

use tracing_subscriber::EnvFilter;

/// Installs the log by `MFAAS_LOG` (a filter, `info` by default) and `MFAAS_LOG_JSON`.
pub fn install() -> anyhow::Result<()> {
    let filter = std::env::var("MFAAS_LOG").unwrap_or_else(|_| "info".to_owned());
    let filter =
        EnvFilter::try_new(filter).map_err(|error| anyhow::anyhow!("MFAAS_LOG is not valid: {error}"))?;
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let installed = match std::env::var("MFAAS_LOG_JSON").as_deref() {
        Ok("1") => log.json().try_init(),
        Ok("" | "0") | Err(_) => log.with_ansi(false).try_init(),
        Ok(other) => anyhow::bail!("MFAAS_LOG_JSON is not valid: expected 0 or 1, found {other:?}"),
    };
    installed.map_err(|error| anyhow::anyhow!("the log cannot be installed: {error}"))
}

/// The reason why the program ends, on stderr.
pub fn last_words(error: &anyhow::Error) {
    // Nobody is left to tell that stderr is closed.
    let _ = writeln!(std::io::stderr(), "mfaas-server: {error:#}");
}
