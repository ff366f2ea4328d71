//! `mfaas allow`: which crates a function may use.

use mfaas_wire::{CrateView, Page};

use crate::failure::{Exit, Failure};
use crate::screen::table;
use crate::settings::Context;

/// The allowlist of dependencies.
#[derive(Debug, clap::Args)]
pub(crate) struct Allow {
    #[command(subcommand)]
    command: AllowCommand,
}

#[derive(Debug, clap::Subcommand)]
enum AllowCommand {
    /// List the crates with what was decided about them, and by whom.
    List,
}

impl Allow {
    /// Asks and shows.
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let AllowCommand::List = self.command;
        let page: Page<CrateView> = context.client()?.get("/v1/crates").await?;
        context.screen.result(&page, || {
            let rows: Vec<_> = page.items.iter().map(row).collect();
            table(&["crate", "version", "status", "decided by", "features"], &rows)
        })?;
        if page.items.iter().any(|item| !item.reviewed && item.decided_by.as_deref() == Some("seed")) {
            context
                .screen
                .note("seed = shipped with mfaas, not yet reviewed for hostile callers by this site");
        }
        Ok(Exit::Ok)
    }
}

fn row(item: &CrateView) -> Vec<String> {
    vec![
        item.name.to_string(),
        item.version.clone(),
        item.status.as_str().to_owned(),
        item.decided_by.clone().unwrap_or_else(|| "-".to_owned()),
        item.features.join(","),
    ]
}
