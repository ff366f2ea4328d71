//! `mfaas logs`: what a function wrote, and what its node says about it.

use std::time::Duration;

use mfaas_ident::FunctionName;
use mfaas_wire::{LogLine, Page};

use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::settings::Context;

/// How often `--follow` asks.
const FOLLOW_EVERY: Duration = Duration::from_millis(500);

/// Lines of one answer, at most.
const LINES_MAX: u32 = 1000;

/// Show the log lines of a function.
///
/// For example: `mfaas logs hello --follow`
#[derive(Debug, clap::Args)]
pub(crate) struct Logs {
    /// The function.
    #[arg(value_name = "NAME")]
    name: FunctionName,
    /// Only lines behind this number.
    #[arg(long, value_name = "SEQ", default_value_t = 0)]
    after: i64,
    /// At most this many lines at once.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=i64::from(LINES_MAX)))]
    limit: u32,
    /// Keep showing new lines until Ctrl-C.
    #[arg(long, short)]
    follow: bool,
}

impl Logs {
    /// Asks and shows, once or until interrupted.
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let client = context.client()?;
        let mut after = self.after;
        loop {
            let page: Page<LogLine> = client.get(&lines_after(&self.name, after, self.limit)).await?;
            after = last_of(&page).unwrap_or(after);
            if !self.follow || !page.items.is_empty() {
                show(context, &page)?;
            }
            if !self.follow {
                return Ok(Exit::Ok);
            }
            tokio::time::sleep(FOLLOW_EVERY).await;
        }
    }
}

/// Where the lines of a function end for now; one that is not deployed has none.
pub(super) async fn end(client: &Client, name: &FunctionName) -> Result<i64, Failure> {
    let mut end = 0;
    loop {
        let page: Option<Page<LogLine>> = client.find(&lines_after(name, end, LINES_MAX)).await?;
        match page.as_ref().and_then(last_of) {
            Some(last) => end = last,
            None => return Ok(end),
        }
    }
}

/// Shows the lines behind a number, some at a time, and gives the last one's.
pub(super) async fn show_after(
    context: &Context,
    client: &Client,
    name: &FunctionName,
    after: i64,
) -> Result<i64, Failure> {
    let page: Option<Page<LogLine>> = client.find(&lines_after(name, after, LINES_MAX)).await?;
    let Some((page, last)) = page.and_then(|page| last_of(&page).map(|last| (page, last))) else {
        return Ok(after);
    };
    show(context, &page)?;
    Ok(last)
}

fn lines_after(name: &FunctionName, after: i64, limit: u32) -> String {
    format!("/v1/functions/{name}/logs?after={after}&limit={limit}")
}

fn last_of(page: &Page<LogLine>) -> Option<i64> {
    page.items.iter().map(|line| line.seq).max()
}

fn show(context: &Context, page: &Page<LogLine>) -> Result<(), Failure> {
    context.screen.result(page, || page.items.iter().map(line).collect::<Vec<_>>().join("\n"))
}

fn line(line: &LogLine) -> String {
    let message = mfaas_ident::sanitise_line(&line.message, 8_000);
    format!(
        "{} {}@{} {:5} {message}",
        line.at.format("%Y-%m-%d %H:%M:%S%.3f"),
        line.node,
        line.version,
        mfaas_ident::sanitise_line(&line.level, 8)
    )
}
