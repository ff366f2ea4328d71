//! Where a setting comes from: a flag, else an `MFAAS_*` variable, else the profile file, else the
//! package's manifest. Flag and variable are told apart by clap; this module adds the rest.

use std::path::{Path, PathBuf};

use mfaas_attest::{PublicKey, TrustedRoot};
use mfaas_ident::TenantName;
use mfaas_supervisor::profile::{self, Profile};

use crate::client::{Client, DEFAULT_SERVER};
use crate::failure::Failure;
use crate::screen::Screen;

/// Options of every command.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Everywhere")]
pub(crate) struct Global {
    /// The server, for example http://127.0.0.1:7700.
    #[arg(long, global = true, env = "MFAAS_SERVER", value_name = "URL")]
    pub(crate) server: Option<String>,
    /// The access token; better in the variable or the profile, since arguments are visible.
    #[arg(long, global = true, env = "MFAAS_TOKEN", hide_env_values = true, value_name = "TOKEN")]
    pub(crate) token: Option<String>,
    /// Another tenant than the token's own; needs the scope admin.
    #[arg(long, global = true, env = "MFAAS_TENANT", value_name = "TENANT")]
    pub(crate) tenant: Option<TenantName>,
    /// PEM certificates of the authorities that vouch for the server and for nodes, and no others; for a private CA.
    #[arg(long, global = true, env = "MFAAS_CA_FILE", value_name = "FILE")]
    pub(crate) ca_file: Option<PathBuf>,
    /// The profile file, usually ~/.config/mfaas/profile.toml.
    #[arg(long, global = true, env = "MFAAS_PROFILE_FILE", value_name = "FILE")]
    pub(crate) profile_file: Option<PathBuf>,
    /// Print JSON and nothing else on standard output.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Say more on standard error.
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
    /// Say nothing on standard error but errors.
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
}

/// The settings of one run and the way to the terminal.
#[derive(Debug, Clone)]
pub(crate) struct Context {
    /// Flags and variables.
    pub(crate) global: Global,
    /// The profile file's path, where there can be one.
    pub(crate) profile_path: Option<PathBuf>,
    /// What stands in it.
    pub(crate) profile: Profile,
    /// Where things are said.
    pub(crate) screen: Screen,
}

impl Context {
    /// Reads the profile, unless the command has no use for one.
    pub(crate) fn of(global: Global, needs_profile: bool) -> Result<Self, Failure> {
        let profile_path = global.profile_file.clone().or_else(profile::default_path);
        let profile = match &profile_path {
            Some(path) if needs_profile => Profile::load(path)?,
            Some(_) | None => Profile::default(),
        };
        let screen = Screen::new(global.json, global.quiet, global.verbose);
        Ok(Self { global, profile_path, profile, screen })
    }

    /// The server's address.
    pub(crate) fn server(&self) -> &str {
        self.global.server.as_deref().or(self.profile.server.as_deref()).unwrap_or(DEFAULT_SERVER)
    }

    /// A client with a token; without one there is no point in asking.
    pub(crate) fn client(&self) -> Result<Client, Failure> {
        let token = self.token().ok_or_else(|| Failure::SignIn("no access token is set".to_owned()))?;
        self.client_with(token)
    }

    /// A client with this token, for the tenant that it opens or the other one that was named.
    pub(crate) fn client_with(&self, token: String) -> Result<Client, Failure> {
        Client::new(self.server(), self.ca_file(), Some(token), self.other_tenant())
    }

    /// The authorities whose certificates the server may have, where they are not those of the machine.
    pub(crate) fn ca_file(&self) -> Option<&Path> {
        self.global.ca_file.as_deref().or(self.profile.ca_file.as_deref())
    }

    /// The token of flag, variable or profile.
    pub(crate) fn token(&self) -> Option<String> {
        self.global.token.clone().or_else(|| self.profile.token.clone()).filter(|token| !token.is_empty())
    }

    /// The tenant that is worked for, where that is known: the one that was named, or the token's own.
    pub(crate) fn tenant(&self) -> Option<&TenantName> {
        self.global.tenant.as_ref().or(self.profile.tenant.as_ref())
    }

    /// The tenant to name in requests: only when it is not the one that the token opens anyway.
    fn other_tenant(&self) -> Option<String> {
        let wanted = self.global.tenant.as_ref()?;
        (self.profile.tenant.as_ref() != Some(wanted)).then(|| wanted.to_string())
    }

    /// `&tenant=` when somebody names the tenant that their token opens anyway: where an operator would see every
    /// tenant, they mean that one. Another tenant is named by the client.
    pub(crate) fn own_tenant_if_named(&self) -> String {
        match (&self.global.tenant, self.other_tenant()) {
            (Some(named), None) => format!("&tenant={named}"),
            _ => String::new(),
        }
    }

    /// What the profile pins: a root key, or a key list that names its root.
    pub(crate) fn pinned_root(&self) -> Result<TrustedRoot, Failure> {
        match (&self.profile.root_key, &self.profile.root_list) {
            (Some(text), None) => PublicKey::from_hex(text)
                .map(TrustedRoot::of_key)
                .map_err(|e| Failure::Unverified(format!("the pinned root key: {e}"))),
            (None, Some(path)) => {
                let list = std::fs::read(path).map_err(Failure::io("cannot read", path))?;
                TrustedRoot::of_list(list.trim_ascii())
                    .map_err(|e| Failure::Unverified(format!("{}: {e}", path.display())))
            }
            (Some(_), Some(_)) => Err(Failure::Unverified(
                "the profile pins root_key and root_list: keep the one that you trust".to_owned(),
            )),
            (None, None) => Err(Failure::Unverified(
                "no root is pinned in the profile (root_key, 64 hexadecimal digits, or root_list, the file of a key list)"
                    .to_owned(),
            )),
        }
    }
}

#[cfg(test)]
mod tests;
