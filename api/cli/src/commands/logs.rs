//! `mfaas logs`: what a function wrote, and what its node says about it.

use std::time::Duration;

use mfaas_ident::FunctionName;
use mfaas_wire::{LogLine, Page};

use crate::failure::{Exit, Failure};
use crate::settings::Context;

/// How often `--follow` asks.
const FOLLOW_EVERY: Duration = Duration::from_millis(500);

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
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=1000))]
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
            let path = format!("/v1/functions/{}/logs?after={after}&limit={}", self.name, self.limit);
            let page: Page<LogLine> = client.get(&path).await?;
            after = page.items.iter().map(|line| line.seq).max().unwrap_or(after);
            if !self.follow || !page.items.is_empty() {
                context
                    .screen
                    .result(&page, || page.items.iter().map(line).collect::<Vec<_>>().join("\n"))?;
            }
            if !self.follow {
                return Ok(Exit::Ok);
            }
            tokio::time::sleep(FOLLOW_EVERY).await;
        }
    }
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
