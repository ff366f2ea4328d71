//! Whom a function calls, directly or not, and which functions call it: drawn, and told as a list.
//!
//! The versions that are live count, as `mfaas graph` tells it. The list says the same to those who do not see the drawing.

use std::collections::BTreeMap;

use mfaas_catalog::{CallGraphFunction, DirectCallers};
use mfaas_ident::{CalleeName, FunctionName, TenantName};

use super::graph::{self, Edge, Graph, Node};
use super::rows::joined;
use crate::limits;
use crate::refusal::Refusal;
use crate::state::App;

/// What the page of a function shows of it.
pub(super) struct CallGraph {
    /// The function itself first.
    pub(super) rows: Vec<Row>,
    /// Not drawn where there is nothing to draw, and where nobody would find his way.
    pub(super) graph: Option<Graph>,
    pub(super) too_large: bool,
    /// There are more functions than rows.
    pub(super) is_cut: bool,
    pub(super) has_cycle: bool,
    pub(super) callers: Callers,
}

/// A row of the list.
pub(super) struct Row {
    pub(super) name: String,
    pub(super) live: String,
    pub(super) calls: String,
    pub(super) link: Option<String>,
}

/// The functions of the tenant that call it directly.
pub(super) struct Callers {
    pub(super) names: Vec<FunctionName>,
    /// There are more.
    pub(super) is_cut: bool,
    /// Set if the tenant has more functions than were looked at.
    pub(super) looked_at: Option<u32>,
}

impl CallGraph {
    /// There is nothing to draw.
    pub(super) fn calls_nothing(&self) -> bool {
        self.rows.len() <= 1 && !self.has_cycle
    }
}

/// By two statements, however large the graph is.
pub(super) async fn shown(app: &App, tenant: &TenantName, name: &FunctionName) -> Result<CallGraph, Refusal> {
    let listed = limits::GRAPH_FUNCTIONS_LISTED_MAX;
    let functions = app.catalog.call_graph(tenant, name, listed + 1).await?;
    let (looked_at, callers) = (limits::CALLERS_LOOKED_AT_MAX, limits::CONSOLE_ROWS_MAX);
    let found = app.catalog.direct_callers(tenant, name, looked_at + 1, callers + 1).await?;
    Ok(draw(functions, direct_callers(found)))
}

/// The list, and the graph if it helps.
fn draw(mut functions: Vec<CallGraphFunction>, callers: Callers) -> CallGraph {
    let listed = limits::GRAPH_FUNCTIONS_LISTED_MAX as usize;
    let is_cut = functions.len() > listed;
    functions.truncate(listed);
    let edges = edges(&functions);
    let has_cycle = graph::has_cycle(functions.len(), &edges);
    let too_large = functions.len() > limits::GRAPH_FUNCTIONS_MAX;
    let is_drawn = !edges.is_empty() && !too_large;
    CallGraph {
        rows: functions.iter().map(row).collect(),
        graph: is_drawn.then(|| graph::drawn(functions.iter().map(node).collect(), &edges)),
        too_large,
        is_cut,
        has_cycle,
        callers,
    }
}

/// Who calls whom, of those that are listed.
fn edges(functions: &[CallGraphFunction]) -> Vec<Edge> {
    let places: BTreeMap<&CalleeName, usize> =
        functions.iter().enumerate().map(|(at, function)| (&function.name, at)).collect();
    let ends = |function: &CallGraphFunction| -> Vec<usize> {
        function.calls.iter().filter_map(|callee| places.get(callee).copied()).collect()
    };
    let of = |(from, function)| ends(function).into_iter().map(move |to| (from, to));
    functions.iter().enumerate().flat_map(of).collect()
}

fn node(function: &CallGraphFunction) -> Node {
    let (class, marks) = standing(function);
    Node { link: link(function), ..Node::new(function.name.to_string(), marks, class) }
}

fn row(function: &CallGraphFunction) -> Row {
    let (class, marks) = standing(function);
    let is_followed = class == LIVE;
    Row {
        name: function.name.to_string(),
        live: function.live_version.map_or(marks, |version| version.to_string()),
        calls: match function.calls.is_empty() {
            true if is_followed => "nothing".to_owned(),
            _ => joined(&function.calls),
        },
        link: link(function),
    }
}

/// The class of a box whose calls are known.
const LIVE: &str = "live";

/// How its border looks, and what that means.
fn standing(function: &CallGraphFunction) -> (&'static str, String) {
    match function.live_version {
        _ if function.name.tenant.is_some() => ("foreign", "of another tenant".to_owned()),
        Some(version) => (LIVE, format!("version {version}")),
        None => ("absent", "no live version".to_owned()),
    }
}

/// The page of a function of the tenant; there is none where nothing was deployed.
fn link(function: &CallGraphFunction) -> Option<String> {
    let is_own = function.name.tenant.is_none();
    (is_own && function.is_deployed).then(|| format!("/functions/{}", function.name.function))
}

/// One more was asked for than is shown, of both.
fn direct_callers(found: DirectCallers) -> Callers {
    let DirectCallers { mut names, looked_at } = found;
    let shown = limits::CONSOLE_ROWS_MAX as usize;
    let is_cut = names.len() > shown;
    names.truncate(shown);
    let most = limits::CALLERS_LOOKED_AT_MAX;
    Callers { names, is_cut, looked_at: (looked_at > most).then_some(looked_at) }
}

#[cfg(test)]
mod tests;
