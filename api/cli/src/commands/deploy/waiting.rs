//! Why an admitted version is not served yet: what keeps each node from taking it.

use std::time::Duration;

use mfaas_ident::VersionNumber;
use mfaas_wire::{Availability, Endpoint, NodeState, NodeView};

/// How long a version may take to be served before that is explained, and how often it is looked at again.
pub(super) const SAID_AFTER: Duration = Duration::from_secs(3);

/// Nodes that are named, at most.
const NODES_MAX: usize = 5;

/// What keeps every node from taking `version`, and what to do; nothing while one of them is going to.
pub(super) fn why(nodes: &[NodeView], endpoints: &[Endpoint], version: VersionNumber) -> Option<String> {
    if nodes.is_empty() {
        return Some(
            "no node has joined; `mfaas up` runs one, `mfaas-node join` adds another machine".to_owned(),
        );
    }
    let kept: Vec<(&NodeView, String)> =
        nodes.iter().map(|node| Some((node, obstacle(node, endpoints, version)?))).collect::<Option<_>>()?;
    let named = kept.iter().take(NODES_MAX).map(|(node, why)| format!("{} {why}", node.name));
    let more = kept.len().saturating_sub(NODES_MAX);
    let rest = (more > 0).then(|| format!("and {more} more take none"));
    let all: Vec<String> = named.chain(rest).collect();
    let closed = kept.iter().find(|(node, _)| node.availability != Availability::Active);
    let hint = match closed {
        Some((node, _)) => format!("`mfaas node uncordon {}` lets it take new versions", node.name),
        None => "`mfaas node list` and the nodes' logs say more".to_owned(),
    };
    Some(format!("{}; {hint}", all.join(", ")))
}

/// What keeps one node from it, as the end of a sentence that begins with its name.
fn obstacle(node: &NodeView, endpoints: &[Endpoint], version: VersionNumber) -> Option<String> {
    match (node.availability, node.state) {
        (Availability::Draining, _) => Some("is drained and takes neither calls nor new versions".to_owned()),
        (Availability::Cordoned, _) => Some("is cordoned and takes no new versions".to_owned()),
        (Availability::Active, NodeState::Silent) => Some(match node.reported_at {
            Some(at) => format!("is not connected since {}", at.format("%Y-%m-%d %H:%M:%S UTC")),
            None => "is not connected".to_owned(),
        }),
        (Availability::Active, NodeState::Joined) => Some("has joined and never connected".to_owned()),
        (Availability::Active, NodeState::Ready | NodeState::Behind) => {
            let endpoint = endpoints.iter().find(|endpoint| endpoint.node == node.name)?;
            let refusal = endpoint.refused_versions.iter().find(|row| row.version == version)?;
            Some(format!("does not take it ({} {})", refusal.code, refusal.message))
        }
    }
}

#[cfg(test)]
mod tests;
