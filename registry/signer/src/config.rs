//! This program's slice of the configuration: environment variables, read once.

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use mfaas_ident::Access;

/// What `serve` needs.
#[derive(Debug)]
pub(crate) struct ServeConfig {
    /// Connects as `mfaas_signer`.
    pub(crate) database_url: String,
    /// Where uploads and artifacts are.
    pub(crate) blobs_url: String,
    /// Holds the online keys.
    pub(crate) keys_dir: PathBuf,
    /// Written once the loop runs.
    pub(crate) ready_file: Option<PathBuf>,
    /// Who may call a function whose manifest does not say.
    pub(crate) default_access: Access,
}

impl ServeConfig {
    /// Reads the environment; a missing variable is an error that names it.
    pub(crate) fn from_env() -> anyhow::Result<Self> {
        Ok(Self {
            database_url: required("MFAAS_DATABASE_URL")?,
            blobs_url: required("MFAAS_BLOBS_URL")?,
            keys_dir: required("MFAAS_KEYS_DIR")?.into(),
            ready_file: optional("MFAAS_READY_FILE")?.map(PathBuf::from),
            default_access: match optional("MFAAS_DEFAULT_ACCESS")? {
                Some(word) => Access::parse(&word).context("MFAAS_DEFAULT_ACCESS")?,
                None => Access::Tenant,
            },
        })
    }
}

/// A variable that must be set and not empty.
pub(crate) fn required(name: &str) -> anyhow::Result<String> {
    optional(name)?.with_context(|| format!("{name} is not set"))
}

fn optional(name: &str) -> anyhow::Result<Option<String>> {
    match std::env::var(name) {
        Ok(value) if value.is_empty() => bail!("{name} is set but empty"),
        Ok(value) => Ok(Some(value)),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(std::env::VarError::NotUnicode(_)) => bail!("{name} is not UTF-8"),
    }
}
