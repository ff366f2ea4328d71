//! `mfaas rollback`: moves an alias to an earlier version.

use mfaas_ident::{AliasName, FunctionName, VersionNumber};
use mfaas_wire::{AliasView, MoveAlias, Page, VersionView};

use crate::failure::{Exit, Failure};
use crate::settings::Context;

/// Let an alias name another version again; nothing is built or deleted.
///
/// For example: `mfaas rollback hello --to 3`
#[derive(Debug, clap::Args)]
pub(crate) struct Rollback {
    /// The function.
    #[arg(value_name = "NAME")]
    name: FunctionName,
    /// The version to go to; the one before the current when absent.
    #[arg(long, value_name = "VERSION", value_parser = VersionNumber::parse)]
    to: Option<VersionNumber>,
    /// The alias to move.
    #[arg(long, value_name = "ALIAS", default_value = "live")]
    alias: AliasName,
}

impl Rollback {
    /// Moves the alias.
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let client = context.client()?;
        let version = match self.to {
            Some(version) => version,
            None => {
                let page: Page<VersionView> =
                    client.get(&format!("/v1/functions/{}/versions", self.name)).await?;
                previous(&page.items, &self.alias)?
            }
        };
        let path = format!("/v1/functions/{}/aliases/{}", self.name, self.alias);
        let moved: AliasView = client.put(&path, &MoveAlias { version }).await?;
        context
            .screen
            .result(&moved, || format!("{}@{} is version {} now", self.name, moved.alias, moved.version))?;
        Ok(Exit::Ok)
    }
}

/// The highest version below the one that the alias names, revoked ones left out.
fn previous(versions: &[VersionView], alias: &AliasName) -> Result<VersionNumber, Failure> {
    let current = versions
        .iter()
        .find(|version| version.aliases.contains(alias))
        .ok_or_else(|| Failure::Usage(format!("{alias} names no version; give --to")))?;
    versions
        .iter()
        .filter(|version| version.version < current.version && !version.revoked)
        .map(|version| version.version)
        .max()
        .ok_or_else(|| Failure::Usage(format!("there is no version before {}", current.version)))
}

#[cfg(test)]
mod tests;
