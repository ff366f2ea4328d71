//! `mfaas node isolation --site`: what the site wants of all machines, and what their controllers say.

use mfaas_wire::{IsolationSettings, NodeView, Page, SiteIsolationView};

use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::screen::{mebibytes, table};
use crate::settings::Context;

const PATH: &str = "/v1/isolation";

/// Changes what is named, or shows what there is.
pub(super) async fn run(
    change: Option<IsolationSettings>,
    context: &Context,
    client: &Client,
) -> Result<Exit, Failure> {
    match change {
        Some(change) => {
            let set: SiteIsolationView = client.put(PATH, &change).await?;
            context
                .screen
                .result(&set, || format!("revision {}, for every machine of the site", set.revision))?;
        }
        None => {
            let site: SiteIsolationView = client.get(PATH).await?;
            let nodes: Page<NodeView> = client.get("/v1/nodes").await?;
            let shown = serde_json::json!({ "site": site, "nodes": nodes.items });
            context.screen.result(&shown, || drawing(&site, &nodes.items))?;
        }
    }
    Ok(Exit::Ok)
}

pub(super) fn drawing(site: &SiteIsolationView, nodes: &[NodeView]) -> String {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let settings = &site.settings;
    let memory = |bytes: u64| if bytes == 0 { "all".to_owned() } else { mebibytes(bytes) };
    let row = |name: &str, value: String| vec![name.to_owned(), value];
    let wanted = [
        row("revision", site.revision.to_string()),
        row("limits", or_dash(settings.off.map(|off| if off { "lifted" } else { "in force" }.to_owned()))),
        row("mode", or_dash(settings.mode.map(|mode| mode.to_string()))),
        row("buffer cores", or_dash(settings.buffer_cores.map(|cores| cores.to_string()))),
        row("memory of the secondary", or_dash(settings.memory_bytes.map(memory))),
    ];
    let nodes: Vec<_> = nodes.iter().map(node).collect();
    let head = ["node", "isolation", "primary", "secondary", "memory", "ended", "revision", "refused"];
    [table(&["of the site", ""], &wanted), table(&head, &nodes)].join("\n\n")
}

fn node(view: &NodeView) -> Vec<String> {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let isolation = view.isolation.as_ref();
    let said = isolation.and_then(|said| said.controller.as_ref());
    let cores = |used: Option<f64>| or_dash(used.map(|cores| format!("{cores:.2} cores")));
    let refused = isolation.and_then(|said| said.refused.as_ref());
    vec![
        view.name.to_string(),
        in_short(view),
        cores(said.and_then(|said| said.primary_used_cores)),
        cores(said.and_then(|said| said.secondary_used_cores)),
        or_dash(said.and_then(|said| said.memory_bytes).map(mebibytes)),
        or_dash(said.map(|said| said.killed.to_string())),
        or_dash(said.and_then(|said| said.revision).map(|revision| revision.to_string())),
        or_dash(refused.map(|refused| format!("{} {}", refused.code, refused.message))),
    ]
}

/// How a node's machine keeps its builds from calls: mode and cores of the secondary, or why not.
pub(in crate::commands::node) fn in_short(view: &NodeView) -> String {
    let Some(isolation) = &view.isolation else { return "-".to_owned() };
    match &isolation.controller {
        None => "unknown".to_owned(),
        Some(said) if said.off => "off".to_owned(),
        Some(said) => format!("{} {}/{}", said.mode, said.secondary_cores, said.cores),
    }
}
