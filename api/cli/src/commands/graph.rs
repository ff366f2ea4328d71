//! `mfaas graph`: which functions a function calls, and which those call.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use mfaas_ident::{Binding, CalleeName, FunctionName, VersionNumber};
use mfaas_wire::{FunctionView, VersionView};
use serde::Serialize;

use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::settings::Context;

/// Show which functions a function calls, and which those call in their turn: by the versions that are live.
///
/// For example: `mfaas graph search`
#[derive(Debug, clap::Args)]
pub(crate) struct Graph {
    /// The function.
    #[arg(value_name = "NAME")]
    name: FunctionName,
}

/// A function of the graph.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Node {
    function: CalleeName,
    /// Nothing of one that is not deployed, or has no live version: calls of it fail. Nor of another tenant's, whose that is to know.
    live_version: Option<VersionNumber>,
    /// What it calls, if it is the tenant's.
    calls: BTreeSet<CalleeName>,
}

/// What programs read: the function itself first.
#[derive(Debug, Serialize)]
struct Shown {
    functions: Vec<Node>,
}

impl Graph {
    /// Asks and shows.
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let client = context.client()?;
        // One that is not there is the user's mistake; of those that it calls it is news.
        let _: FunctionView = client.get(&format!("/v1/functions/{}", self.name)).await?;
        let root = CalleeName::from(self.name);
        let (mut functions, mut seen) = (Vec::new(), BTreeSet::from([root.clone()]));
        let mut next = VecDeque::from([root.clone()]);
        while let Some(name) = next.pop_front() {
            let node = node(&client, name).await?;
            next.extend(node.calls.iter().filter(|callee| seen.insert((*callee).clone())).cloned());
            functions.push(node);
        }
        context.screen.result(&Shown { functions: functions.clone() }, || text(&root, &functions))?;
        Ok(Exit::Ok)
    }
}

async fn node(client: &Client, function: CalleeName) -> Result<Node, Failure> {
    if function.tenant.is_some() {
        return Ok(Node { function, live_version: None, calls: BTreeSet::new() });
    }
    let path = format!("/v1/functions/{function}");
    let found: Option<FunctionView> = client.find(&path).await?;
    let live_version = found.and_then(|found| found.live_version);
    let calls = match live_version {
        Some(version) => {
            let version: VersionView = client.get(&format!("{path}/versions/{version}")).await?;
            version.bindings.values().filter_map(Binding::function).cloned().collect()
        }
        None => BTreeSet::new(),
    };
    Ok(Node { function, live_version, calls })
}

/// A tree: what a function calls stands below it, once.
fn text(root: &CalleeName, functions: &[Node]) -> String {
    let nodes: BTreeMap<&CalleeName, &Node> = functions.iter().map(|node| (&node.function, node)).collect();
    let (mut lines, mut drawn) = (Vec::new(), BTreeSet::new());
    let mut stack = vec![(root, 0)];
    while let Some((name, depth)) = stack.pop() {
        let Some(node) = nodes.get(name) else { continue };
        let is_again = !drawn.insert(name);
        let note = match node.live_version {
            None if name.tenant.is_some() => " (of another tenant)",
            None => " (has no live version)",
            Some(_) if is_again && !node.calls.is_empty() => " (see above)",
            Some(_) => "",
        };
        lines.push(format!("{}{name}{note}", "  ".repeat(depth)));
        if !is_again {
            stack.extend(node.calls.iter().rev().map(|callee| (callee, depth + 1)));
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests;
