//! The profile file: which server a person talks to, as which tenant, with which token, and the
//! root key that signatures are checked against.
//!
//! It holds a secret, so it is 0600 and this module refuses to read one that others can.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use mfaas_ident::TenantName;
use rustix::fs::{Gid, Mode, Uid};
use serde::{Deserialize, Serialize};

use crate::error::SupervisorError;
use crate::files::write_atomically;
use crate::identity;

/// Whom a file belongs to.
pub type Owner = (Uid, Gid);

/// What the file holds; every part may be missing.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// `http://127.0.0.1:7700`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// The path of the certificates, in PEM, of the authorities that vouch for the server; those of the machine if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
    /// The tenant that the token opens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<TenantName>,
    /// The secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// The pinned root key, 64 hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_key: Option<String>,
    /// In its place, the path of a key list that names its root: what to pin once the first root key is no more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_list: Option<PathBuf>,
}

impl std::fmt::Debug for Profile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Profile")
            .field("server", &self.server)
            .field("ca_file", &self.ca_file)
            .field("tenant", &self.tenant)
            .field("token", &self.token.as_ref().map(|_| "…"))
            .field("root_key", &self.root_key)
            .field("root_list", &self.root_list)
            .finish()
    }
}

/// The profile of an installation whose home was named, in that home.
pub const HOME_PROFILE: &str = "profile.toml";

/// Where the profile is when nobody says otherwise: in the installation that `MFAAS_HOME` names, if `mfaas up` left one there,
/// else `~/.config/mfaas/profile.toml`.
pub fn default_path() -> Option<PathBuf> {
    let of_home = std::env::var_os("MFAAS_HOME").map(|home| Path::new(&home).join(HOME_PROFILE));
    of_home.filter(|path| path.is_file()).or_else(personal_path)
}

fn personal_path() -> Option<PathBuf> {
    std::env::var_os("XDG_CONFIG_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .or_else(|| std::env::home_dir().map(|home| home.join(".config")))
        .map(|config| config.join("mfaas/profile.toml"))
}

/// Under sudo, the profile of the person who called, and whom it belongs to.
pub fn of_sudo_caller() -> Result<Option<(PathBuf, Owner)>, SupervisorError> {
    let caller = std::env::var("SUDO_USER").ok().filter(|user| user != "root");
    let Some(user) = caller.filter(|_| rustix::process::geteuid().is_root()) else { return Ok(None) };
    let (owner, directory) = (identity::lookup(&user)?, identity::home_of(&user)?);
    Ok(owner.zip(directory).map(|(owner, directory)| (directory.join(".config/mfaas/profile.toml"), owner)))
}

impl Profile {
    /// Reads the file; a missing one is an empty profile.
    pub fn load(path: &Path) -> Result<Self, SupervisorError> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(SupervisorError::io("cannot read", path)(error)),
        };
        let meta = std::fs::metadata(path).map_err(SupervisorError::io("cannot read", path))?;
        if meta.mode() & 0o077 != 0 {
            return Err(SupervisorError::Local(format!(
                "{} can be read by others and holds a token: chmod 600 {}",
                path.display(),
                path.display()
            )));
        }
        toml::from_str(&text)
            .map_err(|e| SupervisorError::Local(format!("{} is damaged: {}", path.display(), e.message())))
    }

    /// Writes the file 0600, for `owner` when root writes it for somebody else.
    pub fn save(&self, path: &Path, owner: Option<Owner>) -> Result<(), SupervisorError> {
        let text = toml::to_string(self).map_err(|e| SupervisorError::Local(e.to_string()))?;
        if let Some(parent) = path.parent() {
            make_private_dirs(parent, owner)?;
        }
        write_atomically(path, text.as_bytes(), 0o600)?;
        match owner {
            Some((uid, gid)) => rustix::fs::chown(path, Some(uid), Some(gid))
                .map_err(|e| SupervisorError::io("cannot chown", path)(e.into())),
            None => Ok(()),
        }
    }
}

/// Makes the missing directories down to `path`, 0700, for the owner of the file.
fn make_private_dirs(path: &Path, owner: Option<Owner>) -> Result<(), SupervisorError> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        make_private_dirs(parent, owner)?;
    }
    std::fs::create_dir(path).map_err(SupervisorError::io("cannot make", path))?;
    rustix::fs::chmod(path, Mode::RWXU).map_err(|e| SupervisorError::io("cannot chmod", path)(e.into()))?;
    if let Some((uid, gid)) = owner {
        rustix::fs::chown(path, Some(uid), Some(gid))
            .map_err(|e| SupervisorError::io("cannot chown", path)(e.into()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
