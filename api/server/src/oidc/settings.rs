//! The configuration of the provider: one file, read once at start. An unknown key, a missing role or a secret
//! that others can read is an error that names it.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use mfaas_ident::{Role, TenantName};
use openidconnect::url::{Host, Origin, Url};
use serde::Deserialize;

use crate::limits;
use mfaas_startup::VariableError;

/// The variable that names the file.
pub(super) const VARIABLE: &str = "MFAAS_OIDC_FILE";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    issuer: String,
    client_id: String,
    client_secret_file: PathBuf,
    #[serde(default = "default_scopes")]
    scopes: Vec<String>,
    #[serde(default)]
    person: PersonClaim,
    #[serde(default = "default_groups_claim")]
    groups_claim: String,
    roles: Vec<RoleRow>,
    #[serde(default = "default_session_minutes")]
    session_minutes: u32,
    #[serde(default)]
    origins: Vec<String>,
    #[serde(default)]
    only_signed_in_people_decide: bool,
}

/// Which claim names the person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum PersonClaim {
    /// `email`, if `email_verified` is true.
    #[default]
    Email,
    /// `sub`, behind the host of the issuer.
    Subject,
}

/// A group and what its people are. The first row whose group somebody is in counts.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RoleRow {
    pub(super) group: String,
    pub(super) role: Role,
    pub(super) tenant: TenantName,
}

/// What the file says, checked.
pub(crate) struct Settings {
    pub(super) issuer: String,
    pub(super) host: String,
    pub(super) client_id: String,
    pub(super) client_secret: String,
    pub(super) scopes: Vec<String>,
    pub(super) person: PersonClaim,
    pub(super) groups_claim: String,
    pub(super) roles: Vec<RoleRow>,
    pub(super) session_life: chrono::TimeDelta,
    pub(super) origins: Vec<Origin>,
    pub(super) only_signed_in_people_decide: bool,
}

fn default_scopes() -> Vec<String> {
    ["email", "profile"].map(str::to_owned).to_vec()
}

fn default_groups_claim() -> String {
    "groups".to_owned()
}

fn default_session_minutes() -> u32 {
    limits::PROVIDER_SESSION_MINUTES_DEFAULT
}

impl Settings {
    /// Reads the file, and the secret that it names.
    pub(super) fn read(path: &Path) -> Result<Self, VariableError> {
        let text = read(path)?;
        let file: File = serde_json::from_str(&text).map_err(|error| invalid(path, error))?;
        let secret_path = path.parent().unwrap_or(Path::new("")).join(&file.client_secret_file);
        let mode =
            std::fs::metadata(&secret_path).map_err(|error| invalid(&secret_path, error))?.permissions();
        if mode.mode() & 0o077 != 0 {
            return Err(invalid(&secret_path, "others can read it; `chmod 600` it"));
        }
        let secret = read(&secret_path)?.trim().to_owned();
        if secret.is_empty() {
            return Err(invalid(&secret_path, "the secret is empty"));
        }
        Self::check(file, secret).map_err(|reason| invalid(path, reason))
    }

    fn check(file: File, client_secret: String) -> Result<Self, String> {
        let issuer = address(&file.issuer).map_err(|why| format!("`issuer`: {why}"))?;
        let mut origins = vec![issuer.origin()];
        for origin in &file.origins {
            origins.push(address(origin).map_err(|why| format!("`origins`: {why}"))?.origin());
        }
        let groups: BTreeSet<_> = file.roles.iter().map(|row| &row.group).collect();
        if file.roles.is_empty() || groups.len() != file.roles.len() || groups.iter().any(|g| g.is_empty()) {
            return Err("`roles` names at least one group, and each once".to_owned());
        }
        if file.client_id.is_empty() || file.groups_claim.is_empty() {
            return Err("`client_id` and `groups_claim` cannot be empty".to_owned());
        }
        let max = limits::PROVIDER_SESSION_MINUTES_MAX;
        if !(1..=max).contains(&file.session_minutes) {
            return Err(format!("`session_minutes` is a number from 1 to {max}"));
        }
        Ok(Self {
            // As it stands: the provider's own spelling has to be the same, to the last slash.
            issuer: file.issuer,
            host: issuer.host_str().unwrap_or_default().to_owned(),
            client_id: file.client_id,
            client_secret,
            scopes: file.scopes.into_iter().filter(|scope| scope != "openid").collect(),
            person: file.person,
            groups_claim: file.groups_claim,
            roles: file.roles,
            session_life: chrono::TimeDelta::minutes(i64::from(file.session_minutes)),
            origins,
            only_signed_in_people_decide: file.only_signed_in_people_decide,
        })
    }
}

/// An address over https, or over http on this machine, where nobody listens in between.
fn address(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| error.to_string())?;
    let is_local = match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    let fits = url.has_host()
        && (url.scheme() == "https" || (url.scheme() == "http" && is_local))
        && url.query().is_none()
        && url.fragment().is_none()
        && url.username().is_empty();
    if fits { Ok(url) } else { Err("expected an address such as https://id.example".to_owned()) }
}

/// Codes come back to our own address: over a network that has to be https.
pub(super) fn check_public(url: &str) -> Result<(), VariableError> {
    let reason = "signing in with a provider needs https, or a name of this machine".to_owned();
    address(url).map(drop).map_err(|_| VariableError::Invalid { name: "MFAAS_PUBLIC_URL", reason })
}

fn read(path: &Path) -> Result<String, VariableError> {
    let mut text = String::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(limits::OIDC_FILE_BYTES_MAX + 1).read_to_string(&mut text))
        .map_err(|error| invalid(path, error))?;
    if text.len() as u64 > limits::OIDC_FILE_BYTES_MAX {
        return Err(invalid(path, "the file is too large"));
    }
    Ok(text)
}

fn invalid(path: &Path, why: impl std::fmt::Display) -> VariableError {
    VariableError::Invalid { name: VARIABLE, reason: format!("{}: {why}", path.display()) }
}
