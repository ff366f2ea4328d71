//! `mfaas schedule`: when the site calls a function by itself.

use chrono::{DateTime, Utc};
use mfaas_ident::{FunctionName, ScheduleName};
use mfaas_wire::{Page, Removed, ScheduleView, SetSchedule};

use crate::failure::{Exit, Failure};
use crate::screen::table;
use crate::settings::Context;

/// Call functions at set times.
#[derive(Debug, clap::Args)]
pub(crate) struct Schedule {
    #[command(subcommand)]
    command: ScheduleCommand,
}

#[derive(Debug, clap::Subcommand)]
enum ScheduleCommand {
    /// Say when a function is called, and with what; the version that is live then, by POST. Replaces what the schedule said.
    ///
    /// For example: `mfaas schedule set report nightly --cron "0 3 * * *"`
    Set {
        /// The function.
        #[arg(value_name = "FUNCTION")]
        function: FunctionName,
        /// The schedule's name, unique within the function.
        #[arg(value_name = "NAME")]
        name: ScheduleName,
        /// Minute, hour, day of the month, month and day of the week, as in crontab(5), in UTC.
        #[arg(long, value_name = "EXPRESSION")]
        cron: String,
        /// The request body, 16 KiB at most; nothing when absent.
        #[arg(long, short, value_name = "TEXT", default_value = "")]
        data: String,
    },
    /// List the schedules of a function: when each is due, and what came of its last call.
    ///
    /// For example: `mfaas schedule list report`
    List {
        /// The function.
        #[arg(value_name = "FUNCTION")]
        function: FunctionName,
    },
    /// Delete a schedule. A call that has begun goes on.
    ///
    /// For example: `mfaas schedule delete report nightly`
    Delete {
        /// The function.
        #[arg(value_name = "FUNCTION")]
        function: FunctionName,
        /// The schedule.
        #[arg(value_name = "NAME")]
        name: ScheduleName,
    },
}

impl Schedule {
    /// Asks and shows.
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let client = context.client()?;
        match self.command {
            ScheduleCommand::Set { function, name, cron, data } => {
                let path = format!("/v1/functions/{function}/schedules/{name}");
                let set: ScheduleView = client.put(&path, &SetSchedule { cron, body: data }).await?;
                context.screen.result(&set, || {
                    format!("{function} is called by {name} next at {}", moment(set.due_at))
                })?;
            }
            ScheduleCommand::List { function } => {
                let page: Page<ScheduleView> =
                    client.get(&format!("/v1/functions/{function}/schedules")).await?;
                context.screen.result(&page, || text(&function, &page.items))?;
            }
            ScheduleCommand::Delete { function, name } => {
                let path = format!("/v1/functions/{function}/schedules/{name}");
                let removed: Removed = client.delete(&path).await?;
                context.screen.result(&removed, || format!("{function} is not called by {name} any more"))?;
            }
        }
        Ok(Exit::Ok)
    }
}

fn moment(at: Option<DateTime<Utc>>) -> String {
    at.map_or_else(|| "never".to_owned(), |at| at.format("%Y-%m-%d %H:%M UTC").to_string())
}

/// A line for each schedule.
fn text(function: &FunctionName, items: &[ScheduleView]) -> String {
    if items.is_empty() {
        return format!("{function} has no schedule; `mfaas schedule set` makes one");
    }
    let last = |item: &ScheduleView| {
        let Some(last) = &item.last else { return "-".to_owned() };
        format!("{} {}", last.begun_at.format("%Y-%m-%d %H:%M:%S"), last.words())
    };
    let rows: Vec<_> = items
        .iter()
        .map(|item| {
            let counts = [item.runs, item.failures, item.skipped].map(|count| count.to_string());
            let [runs, failures, skipped] = counts;
            vec![
                item.name.to_string(),
                item.cron.clone(),
                moment(item.due_at),
                runs,
                failures,
                skipped,
                last(item),
            ]
        })
        .collect();
    table(&["name", "cron", "next", "runs", "failed", "skipped", "last"], &rows)
}

#[cfg(test)]
mod tests;
