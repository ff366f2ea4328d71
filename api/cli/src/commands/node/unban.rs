//! `mfaas node unban`: lets nodes run again what they banned.

use mfaas_ident::{FunctionName, TenantName, VersionNumber};
use mfaas_wire::{BanView, Page};

use crate::failure::{Exit, Failure};
use crate::settings::Context;

/// Lift the ban of a version that crashed its workers, on every node; needs the scope operate.
///
/// For example: `mfaas node unban acme/thumbs@12`
#[derive(Debug, clap::Args)]
pub(crate) struct Unban {
    /// The ban's number, as `node bans` shows it, or TENANT/FUNCTION or TENANT/FUNCTION@VERSION.
    #[arg(value_name = "BAN")]
    ban: Meant,
}

/// Which ban is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Meant {
    /// That one.
    Number(i64),
    /// All of a function, or of one version of it.
    Of(TenantName, FunctionName, Option<VersionNumber>),
}

impl std::str::FromStr for Meant {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(number) = text.parse::<u32>() {
            return Ok(Self::Number(number.into()));
        }
        let (tenant, rest) = text.split_once('/').ok_or("a number, or TENANT/FUNCTION[@VERSION]")?;
        let (function, version) = match rest.split_once('@') {
            Some((function, version)) => (function, Some(VersionNumber::parse(version))),
            None => (rest, None),
        };
        let tenant = TenantName::parse(tenant).map_err(|e| e.to_string())?;
        let function = FunctionName::parse(function).map_err(|e| e.to_string())?;
        Ok(Self::Of(tenant, function, version.transpose().map_err(|e| e.to_string())?))
    }
}

impl Meant {
    fn is(&self, ban: &BanView) -> bool {
        match self {
            Self::Number(id) => ban.id == *id,
            Self::Of(tenant, function, version) => {
                ban.tenant == *tenant
                    && ban.function == *function
                    && version.is_none_or(|version| ban.version == version)
            }
        }
    }
}

impl Unban {
    /// As `mfaas unban`, which the release before had.
    pub(crate) async fn run_by_former_name(self, context: &Context) -> Result<Exit, Failure> {
        context
            .screen
            .note("`mfaas unban` is now `mfaas node unban`; the next release does not know the former name");
        self.run(context).await
    }

    /// Asks and shows.
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let client = context.client()?;
        let page: Page<BanView> = client.get("/v1/bans").await?;
        let meant: Vec<_> = page.items.iter().filter(|ban| self.ban.is(ban)).collect();
        if meant.is_empty() {
            return Err(Failure::Local("no such ban is in force: see mfaas node bans".to_owned()));
        }
        let mut lifted: Vec<BanView> = Vec::new();
        for ban in meant {
            lifted.push(client.delete(&format!("/v1/bans/{}", ban.id)).await?);
        }
        context.screen.result(&Page { items: lifted.clone(), next: None }, || {
            let lines: Vec<_> = lifted.iter().map(line).collect();
            lines.join("\n")
        })?;
        Ok(Exit::Ok)
    }
}

fn line(ban: &BanView) -> String {
    format!("{}/{}@{} runs again; nodes take it up within seconds", ban.tenant, ban.function, ban.version)
}

#[cfg(test)]
mod tests;
