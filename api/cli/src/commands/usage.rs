//! `mfaas usage`: what calls used.

use std::fmt::Write as _;

use mfaas_ident::FunctionName;
use mfaas_wire::{UsageRowView, UsageView, duration_text};

use crate::failure::{Exit, Failure};
use crate::screen::table;
use crate::settings::Context;

/// What calls used: of your tenant, and with the scope operate of all tenants.
///
/// For example: `mfaas usage --since 7d --by day`
#[derive(Debug, clap::Args)]
pub(crate) struct Usage {
    /// Since when: how long ago (90m, 24h, 7d) or a moment of UTC (2027-01-02T03:00:00Z). Whole hours are counted.
    #[arg(long, value_name = "WHEN", default_value = "24h", value_parser = moment)]
    since: String,
    /// Until when; now if not given.
    #[arg(long, value_name = "WHEN", value_parser = moment)]
    until: Option<String>,
    /// Sum up by hour, by day (of UTC) or altogether.
    #[arg(long, value_name = "PERIOD", default_value = "total", value_parser = ["hour", "day", "total"])]
    by: String,
    /// One function.
    #[arg(long, value_name = "NAME")]
    function: Option<FunctionName>,
}

impl Usage {
    /// Asks and shows.
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let view: UsageView = context.client()?.get(&self.path(context)).await?;
        context.screen.result(&view, || text(&view))?;
        if view.truncated {
            context
                .screen
                .note("there is more than one answer holds: ask for less with --since or --function");
        }
        Ok(Exit::Ok)
    }

    fn path(&self, context: &Context) -> String {
        let mut path = format!("/v1/usage?since={}&by={}", self.since, self.by);
        // Writing to a String cannot fail, here and below.
        if let Some(until) = &self.until {
            let _ = write!(path, "&until={until}");
        }
        if let Some(function) = &self.function {
            let _ = write!(path, "&function={function}");
        }
        path + &context.own_tenant_if_named()
    }
}

/// Text that needs no escaping in an address; the server says which moments there are.
fn moment(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-:.".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        Ok(text.to_owned())
    } else {
        Err("how long ago (90m, 24h, 7d) or a moment of UTC (2027-01-02T03:00:00Z)".to_owned())
    }
}

fn text(view: &UsageView) -> String {
    if view.rows.is_empty() {
        return "nothing was called".to_owned();
    }
    let rows: Vec<_> = view.rows.iter().map(|row| cells(row, &view.by)).collect();
    let headings =
        ["from", "function", "calls", "cpu time", "mean run", "max run", "mean wait", "max memory", "kills"];
    // Of a total the first hour says nothing that was asked for.
    let first = usize::from(view.by == "total");
    let rows: Vec<_> = rows.into_iter().map(|row| row.into_iter().skip(first).collect()).collect();
    table(headings.get(first..).unwrap_or(&headings), &rows)
}

fn cells(row: &UsageRowView, by: &str) -> Vec<String> {
    let format = if by == "hour" { "%Y-%m-%d %H:%M" } else { "%Y-%m-%d" };
    vec![
        row.from.format(format).to_string(),
        format!("{}/{}@{}", row.tenant, row.function, row.version),
        row.calls.to_string(),
        duration_text(row.cpu_ns),
        duration_text(row.run_ns_mean()),
        duration_text(row.run_ns_max),
        duration_text(row.queue_ns.checked_div(row.calls).unwrap_or(0)),
        format!("{} KiB", row.memory_bytes_max.div_ceil(1024)),
        row.kills_text(),
    ]
}

#[cfg(test)]
mod tests;
