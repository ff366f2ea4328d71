//! `mfaas node`: the serving machines.

use mfaas_wire::{NodeView, Page};

use crate::failure::{Exit, Failure};
use crate::screen::table;
use crate::settings::Context;

/// The serving machines.
#[derive(Debug, clap::Args)]
pub(crate) struct Node {
    #[command(subcommand)]
    command: NodeCommand,
}

#[derive(Debug, clap::Subcommand)]
enum NodeCommand {
    /// List the nodes: what each should serve and what it says it serves.
    List,
}

impl Node {
    /// Asks and shows.
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let NodeCommand::List = self.command;
        let page: Page<NodeView> = context.client()?.get("/v1/nodes").await?;
        context.screen.result(&page, || {
            let rows: Vec<_> = page.items.iter().map(row).collect();
            table(&["node", "state", "epoch", "desired", "loaded", "ingress", "reported"], &rows)
        })?;
        for node in &page.items {
            node.problems
                .iter()
                .for_each(|problem| context.screen.note(&format!("{}: {problem}", node.name)));
        }
        Ok(Exit::Ok)
    }
}

fn row(node: &NodeView) -> Vec<String> {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    vec![
        node.name.to_string(),
        node.state.as_str().to_owned(),
        or_dash(node.reported_epoch.map(|epoch| epoch.to_string())),
        node.desired_epoch.to_string(),
        node.loaded.to_string(),
        or_dash(node.ingress_url.clone()),
        or_dash(node.reported_at.map(|at| at.format("%H:%M:%S").to_string())),
    ]
}
