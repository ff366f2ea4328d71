//! This program's slice of the configuration: environment variables, read once.

use std::net::SocketAddr;
use std::path::PathBuf;

use mfaas_attest::SandboxLevel;
use mfaas_ident::Access;
use mfaas_rules::limits::BUILDS_AGREEMENT_MAX;
use mfaas_startup::{VariableError, Variables};

/// What `serve` needs.
#[derive(Debug)]
pub(crate) struct ServeConfig {
    /// Connects as `mfaas_signer`.
    pub(crate) database_url: String,
    /// Where uploads and artifacts are.
    pub(crate) blobs_url: String,
    /// Holds the online keys.
    pub(crate) keys_dir: PathBuf,
    /// The site's authority, if this signer issues certificates.
    pub(crate) authority: Option<AuthorityConfig>,
    /// Written once the loop runs.
    pub(crate) ready_file: Option<PathBuf>,
    /// Where metrics are shown; nowhere if absent.
    pub(crate) metrics_listen: Option<SocketAddr>,
    /// Who may call a function whose manifest does not say.
    pub(crate) default_access: Access,
    /// The weakest sandbox that a build may have had.
    pub(crate) sandbox_minimum: SandboxLevel,
    /// How many builders have to make the same from a source before it is signed.
    pub(crate) builds_agreement: usize,
}

/// What certificates are issued with.
#[derive(Debug)]
pub(crate) struct AuthorityConfig {
    /// Holds the authority's certificate and key.
    pub(crate) ca_dir: PathBuf,
    /// How many nodes join within an hour at most.
    pub(crate) joins_per_hour: usize,
}

/// The range of `MFAAS_JOINS_PER_HOUR`, and what it is when nobody says.
const JOINS_PER_HOUR_MAX: usize = 100_000;
const JOINS_PER_HOUR: usize = 1_000;

impl ServeConfig {
    /// Reads and checks every variable.
    pub(crate) fn read(variables: &Variables) -> Result<Self, VariableError> {
        Ok(Self {
            database_url: variables.required("MFAAS_DATABASE_URL")?,
            blobs_url: variables.required("MFAAS_BLOBS_URL")?,
            keys_dir: variables.required("MFAAS_KEYS_DIR")?.into(),
            authority: authority(variables)?,
            ready_file: variables.optional("MFAAS_READY_FILE")?.map(PathBuf::from),
            metrics_listen: variables.parsed("MFAAS_METRICS_LISTEN")?,
            default_access: variables
                .parsed_by("MFAAS_DEFAULT_ACCESS", Access::parse)?
                .unwrap_or(Access::Tenant),
            sandbox_minimum: variables
                .parsed_by("MFAAS_SANDBOX_MINIMUM", sandbox_level)?
                .unwrap_or(SandboxLevel::Full),
            builds_agreement: variables.number("MFAAS_BUILDS_AGREEMENT", 1..=BUILDS_AGREEMENT_MAX, 1)?,
        })
    }
}

fn authority(variables: &Variables) -> Result<Option<AuthorityConfig>, VariableError> {
    let joins_per_hour = variables.number("MFAAS_JOINS_PER_HOUR", 1..=JOINS_PER_HOUR_MAX, JOINS_PER_HOUR)?;
    let ca_dir = variables.optional("MFAAS_CA_DIR")?.map(PathBuf::from);
    Ok(ca_dir.map(|ca_dir| AuthorityConfig { ca_dir, joins_per_hour }))
}

fn sandbox_level(text: &str) -> Result<SandboxLevel, &'static str> {
    match text {
        "full" => Ok(SandboxLevel::Full),
        "landlock" => Ok(SandboxLevel::Landlock),
        _ => Err("expected full or landlock"),
    }
}
