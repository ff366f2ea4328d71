//! What the operator says: which servers there are, and which secrets.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use ipnet::IpNet;
use mfaas_ident::ResourceName;
use serde::Deserialize;

use crate::error::OutboundError;

/// The whole file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct File {
    #[serde(default)]
    pub(crate) http: BTreeMap<ResourceName, ServerEntry>,
    #[serde(default)]
    pub(crate) secret: BTreeMap<ResourceName, SecretEntry>,
}

/// A server.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ServerEntry {
    /// Scheme, host and port: nothing else is reached.
    pub(crate) origin: String,
    /// Without TLS, through a network that is trusted.
    #[serde(default)]
    pub(crate) cleartext: bool,
    /// Networks that are not public, and may be reached all the same.
    #[serde(default)]
    pub(crate) networks: Vec<IpNet>,
    /// Certificate authorities, in PEM, in the place of those of the machine.
    pub(crate) ca_file: Option<PathBuf>,
}

/// A secret.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SecretEntry {
    /// What it is.
    pub(crate) file: PathBuf,
    /// Servers to which it may be sent.
    pub(crate) http: BTreeSet<ResourceName>,
    /// The header that carries it; `authorization` if absent.
    pub(crate) header: Option<String>,
    /// The word before it; `Bearer` in `authorization` and none elsewhere if absent.
    pub(crate) scheme: Option<String>,
    /// It is the password of this user (`Basic`).
    pub(crate) user: Option<String>,
}

impl File {
    /// Reads it; a path within it that does not begin at the root begins where the file lies.
    pub(crate) fn read(path: &Path) -> Result<Self, OutboundError> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| OutboundError::File { path: path.to_owned(), error })?;
        let mut file: Self = toml::from_str(&text).map_err(|error| {
            let error = Box::new(error);
            OutboundError::Syntax { path: path.to_owned(), error }
        })?;
        let directory = path.parent().unwrap_or(Path::new("."));
        for server in file.http.values_mut() {
            server.ca_file = server.ca_file.take().map(|file| directory.join(file));
        }
        for (name, secret) in &mut file.secret {
            secret.file = directory.join(&secret.file);
            if let Some(unknown) = secret.http.iter().find(|server| !file.http.contains_key(*server)) {
                let wrong = format!("it may be sent to `{unknown}`, and there is no such table under `http`");
                return Err(OutboundError::Entry { resource: name.clone(), wrong });
            }
        }
        Ok(file)
    }
}
