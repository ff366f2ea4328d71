//! This program's slice of the configuration: environment variables, read once.

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use mfaas_attest::SandboxLevel;
use mfaas_ident::Access;
use mfaas_rules::limits::BUILDS_AGREEMENT_MAX;

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
    /// The weakest sandbox that a build may have had.
    pub(crate) sandbox_minimum: SandboxLevel,
    /// How many builders have to make the same from a source before it is signed.
    pub(crate) builds_agreement: usize,
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
            sandbox_minimum: match sandbox_minimum()?.as_deref() {
                None | Some("full") => SandboxLevel::Full,
                Some("landlock") => SandboxLevel::Landlock,
                Some(_) => bail!("MFAAS_SANDBOX_MINIMUM is neither full nor landlock"),
            },
            builds_agreement: match optional("MFAAS_BUILDS_AGREEMENT")?.map(|number| number.parse()) {
                None => 1,
                Some(Ok(number @ 1..=BUILDS_AGREEMENT_MAX)) => number,
                Some(_) => bail!("MFAAS_BUILDS_AGREEMENT is not a number from 1 to {BUILDS_AGREEMENT_MAX}"),
            },
        })
    }
}

/// A variable that must be set and not empty.
pub(crate) fn required(name: &str) -> anyhow::Result<String> {
    optional(name)?.with_context(|| format!("{name} is not set"))
}

/// `MFAAS_SANDBOX_MINIMUM`, or what the release before called it.
fn sandbox_minimum() -> anyhow::Result<Option<String>> {
    const OLD_NAME: &str = "MFAAS_CAGE_MINIMUM";
    if let Some(value) = optional("MFAAS_SANDBOX_MINIMUM")? {
        return Ok(Some(value));
    }
    let value = optional(OLD_NAME)?;
    if value.is_some() {
        tracing::warn!(
            "{OLD_NAME} is now called MFAAS_SANDBOX_MINIMUM; set that one, the next release ignores {OLD_NAME}"
        );
    }
    Ok(value)
}

fn optional(name: &str) -> anyhow::Result<Option<String>> {
    match std::env::var(name) {
        Ok(value) if value.is_empty() => bail!("{name} is set but empty"),
        Ok(value) => Ok(Some(value)),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(std::env::VarError::NotUnicode(_)) => bail!("{name} is not UTF-8"),
    }
}
