//! `mfaas audit`: who did what, and whether the record of it still holds.

mod archive;
mod chain;
mod table;

use std::path::PathBuf;

use mfaas_wire::{AuditEntry, Page};

use crate::failure::{Exit, Failure};
use crate::screen;
use crate::settings::Context;

/// The audit log, oldest first; `audit archive` moves its oldest rows into a file, `audit table` counts unsafe code in crates.
///
/// Every change has a row: who did what, when, with which token. Each row holds the hash of the one before.
///
/// For example: `mfaas audit --verify`
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Audit {
    #[command(subcommand)]
    command: Option<AuditCommand>,
    /// Compute the chain of hashes again from where the last time ended, and compare it with what the newest serving set names;
    /// ends with 9 if a row was changed, added or removed.
    #[arg(long, conflicts_with_all = ["after", "limit"])]
    verify: bool,
    /// With --verify: from the first row.
    #[arg(long, requires = "verify")]
    all: bool,
    /// With --verify: from the first row, which is in an archive of `mfaas audit archive`; once for each archive.
    #[arg(long = "archive", value_name = "FILE", requires = "verify")]
    archives: Vec<PathBuf>,
    /// Show what comes behind this row.
    #[arg(long, value_name = "SEQ", default_value_t = 0)]
    after: i64,
    /// Rows at once.
    #[arg(long, value_name = "ROWS", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
}

#[derive(Debug, clap::Subcommand)]
enum AuditCommand {
    Archive(archive::Archive),
    Table(table::Table),
}

impl Audit {
    /// Whether a server is asked.
    pub(crate) fn needs_profile(&self) -> bool {
        self.command.is_none()
    }

    /// Asks and shows.
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        match &self.command {
            Some(AuditCommand::Archive(archive)) => archive.run(context),
            Some(AuditCommand::Table(table)) => table.run(context),
            None if self.verify => chain::verify(context, self.all, &self.archives).await,
            None => self.list(context).await,
        }
    }

    async fn list(self, context: &Context) -> Result<Exit, Failure> {
        let path = format!("/v1/audit?after={}&limit={}", self.after, self.limit);
        let page: Page<AuditEntry> = context.client()?.get(&path).await?;
        context.screen.result(&page, || {
            let rows: Vec<_> = page.items.iter().map(row).collect();
            screen::table(&["row", "at", "who", "did", "to"], &rows)
        })?;
        if let Some(next) = &page.next {
            context.screen.note(&format!("more: mfaas audit --after {next}"));
        }
        Ok(Exit::Ok)
    }
}

fn row(entry: &AuditEntry) -> Vec<String> {
    vec![
        entry.seq.to_string(),
        entry.at.format("%Y-%m-%d %H:%M:%S").to_string(),
        mfaas_ident::sanitise_line(&entry.actor, 60),
        entry.action.clone(),
        mfaas_ident::sanitise_line(&entry.subject, 60),
    ]
}
