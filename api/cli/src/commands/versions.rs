//! `mfaas versions`: what a function has been.

use mfaas_ident::FunctionName;
use mfaas_wire::{Page, VersionView, bindings_text, callers_text};

use crate::failure::{Exit, Failure};
use crate::screen::table;
use crate::settings::Context;

/// List the versions of a function.
///
/// For example: `mfaas versions hello`
#[derive(Debug, clap::Args)]
pub(crate) struct Versions {
    /// The function.
    #[arg(value_name = "NAME")]
    name: FunctionName,
}

const HEADINGS: [&str; 12] = [
    "version",
    "aliases",
    "artifact",
    "class",
    "budget",
    "memory",
    "callers",
    "data",
    "isolation",
    "idempotent",
    "admitted",
    "",
];

impl Versions {
    /// Asks and shows.
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let page: Page<VersionView> =
            context.client()?.get(&format!("/v1/functions/{}/versions", self.name)).await?;
        context.screen.result(&page, || {
            let rows: Vec<_> = page.items.iter().map(row).collect();
            if rows.is_empty() {
                format!("{} has no version yet", self.name)
            } else {
                table(&HEADINGS, &rows)
            }
        })?;
        Ok(Exit::Ok)
    }
}

fn row(version: &VersionView) -> Vec<String> {
    let aliases: Vec<&str> = version.aliases.iter().map(mfaas_ident::AliasName::as_str).collect();
    vec![
        version.version.to_string(),
        if aliases.is_empty() { "-".to_owned() } else { aliases.join(",") },
        version.artifact_digest.short(),
        version.class.to_string(),
        format!("{} us", version.budget_us),
        format!("{} KiB", version.memory_bytes / 1024),
        callers_text(version.access, &version.callers),
        bindings_text(&version.bindings),
        version.isolation.to_string(),
        if version.idempotent { "yes" } else { "no" }.to_owned(),
        version.created_at.format("%Y-%m-%d %H:%M:%S").to_string(),
        if version.revoked { "revoked".to_owned() } else { String::new() },
    ]
}
