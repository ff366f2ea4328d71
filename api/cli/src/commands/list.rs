//! `mfaas list`: the functions of the tenant.

use mfaas_ident::Class;
use mfaas_wire::{FunctionView, Page};

use crate::failure::{Exit, Failure};
use crate::screen::table;
use crate::settings::Context;

/// List the functions.
///
/// For example: `mfaas list`
#[derive(Debug, clap::Args)]
pub(crate) struct List {}

impl List {
    /// Asks and shows.
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let page: Page<FunctionView> = context.client()?.get("/v1/functions").await?;
        context.screen.result(&page, || {
            let rows: Vec<_> = page.items.iter().map(row).collect();
            if rows.is_empty() {
                "no functions yet: mfaas new hello && mfaas deploy hello".to_owned()
            } else {
                table(&["name", "class", "live", "latest", "since"], &rows)
            }
        })?;
        Ok(Exit::Ok)
    }
}

fn row(function: &FunctionView) -> Vec<String> {
    let number =
        |version: Option<mfaas_ident::VersionNumber>| version.map_or("-".to_owned(), |v| v.to_string());
    vec![
        function.name.to_string(),
        function.class.map_or("-", Class::as_str).to_owned(),
        number(function.live_version),
        function.latest_version.to_string(),
        function.created_at.format("%Y-%m-%d %H:%M").to_string(),
    ]
}
