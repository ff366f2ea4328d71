//! `mfaas trigger`: for which changes of objects the site calls a function by itself.

use mfaas_ident::{FunctionName, ResourceName, TriggerName};
use mfaas_wire::{ObjectChange, Page, Removed, SetTrigger, TriggerView};

use crate::failure::{Exit, Failure};
use crate::screen::table;
use crate::settings::Context;

/// Call functions when objects change.
#[derive(Debug, clap::Args)]
pub(crate) struct Trigger {
    #[command(subcommand)]
    command: TriggerCommand,
}

/// A change as it is typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Change {
    /// Objects that are put: new ones, and others in their place.
    Put,
    /// Objects that are deleted.
    Delete,
}

impl Change {
    const fn on_the_wire(self) -> ObjectChange {
        match self {
            Self::Put => ObjectChange::Put,
            Self::Delete => ObjectChange::Delete,
        }
    }
}

#[derive(Debug, clap::Subcommand)]
enum TriggerCommand {
    /// Say for which changes of objects a function is called; the version that is live then, by POST. Replaces what the trigger said.
    ///
    /// For example: `mfaas trigger set resize uploads --resource photos --prefix in/`
    Set {
        /// The function.
        #[arg(value_name = "FUNCTION")]
        function: FunctionName,
        /// The trigger's name, unique within the function.
        #[arg(value_name = "NAME")]
        name: TriggerName,
        /// Whose objects: a resource of the kind `object` that your tenant was granted.
        #[arg(long, value_name = "RESOURCE")]
        resource: ResourceName,
        /// What the names of the objects begin with; all objects when absent.
        #[arg(long, value_name = "TEXT", default_value = "")]
        prefix: String,
        /// For which changes, with a comma between them.
        #[arg(long, value_name = "CHANGES", value_delimiter = ',', default_value = "put,delete")]
        on: Vec<Change>,
    },
    /// List the triggers of a function: what waits, and what came of events.
    ///
    /// For example: `mfaas trigger list resize`
    List {
        /// The function.
        #[arg(value_name = "FUNCTION")]
        function: FunctionName,
    },
    /// Delete a trigger, with the events that wait for it. A call that has begun goes on.
    ///
    /// For example: `mfaas trigger delete resize uploads`
    Delete {
        /// The function.
        #[arg(value_name = "FUNCTION")]
        function: FunctionName,
        /// The trigger.
        #[arg(value_name = "NAME")]
        name: TriggerName,
    },
}

impl Trigger {
    /// Asks and shows.
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let client = context.client()?;
        match self.command {
            TriggerCommand::Set { function, name, resource, prefix, on } => {
                let path = format!("/v1/functions/{function}/triggers/{name}");
                let on = on.into_iter().map(Change::on_the_wire).collect();
                let set: TriggerView = client.put(&path, &SetTrigger { resource, prefix, on }).await?;
                context.screen.result(&set, || {
                    format!("{function} is called by {name} for {} of {}", changes(&set), objects(&set))
                })?;
            }
            TriggerCommand::List { function } => {
                let page: Page<TriggerView> =
                    client.get(&format!("/v1/functions/{function}/triggers")).await?;
                context.screen.result(&page, || text(&function, &page.items))?;
            }
            TriggerCommand::Delete { function, name } => {
                let path = format!("/v1/functions/{function}/triggers/{name}");
                let removed: Removed = client.delete(&path).await?;
                context.screen.result(&removed, || format!("{function} is not called by {name} any more"))?;
            }
        }
        Ok(Exit::Ok)
    }
}

fn changes(item: &TriggerView) -> String {
    item.on.iter().map(|change| change.as_str()).collect::<Vec<_>>().join(",")
}

/// Where the objects are: the resource, and what their names begin with.
fn objects(item: &TriggerView) -> String {
    format!("{}/{}*", item.resource, item.prefix)
}

/// A line for each trigger.
fn text(function: &FunctionName, items: &[TriggerView]) -> String {
    if items.is_empty() {
        return format!("{function} has no trigger; `mfaas trigger set` makes one");
    }
    let last = |item: &TriggerView| {
        let Some(last) = &item.last else { return "-".to_owned() };
        format!("{} {}", last.ended_at.format("%Y-%m-%d %H:%M:%S"), last.words())
    };
    let rows: Vec<_> = items
        .iter()
        .map(|item| {
            let counts = [item.waiting, item.delivered, item.failed, item.dropped];
            let mut row = vec![item.name.to_string(), objects(item), changes(item), item.state.clone()];
            row.extend(counts.map(|count| count.to_string()));
            row.push(last(item));
            row
        })
        .collect();
    table(&["name", "objects", "on", "state", "waiting", "delivered", "failed", "dropped", "last"], &rows)
}

#[cfg(test)]
mod tests;
