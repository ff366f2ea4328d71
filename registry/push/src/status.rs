//! Desired against reported, as plain data.

use mfaas_catalog::NodeStatus;
use mfaas_delivery::SetState;
use mfaas_ident::{Epoch, NodeName};

/// All nodes in one sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// The newest signed epoch; 0 before the first.
    pub desired: Epoch,
    /// How many nodes there are.
    pub nodes: usize,
    /// Those that are not where they should be.
    pub behind: Vec<Difference>,
}

/// One node that is not where it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Which node.
    pub node: NodeName,
    /// What it reported; `None` when it never did.
    pub reported: Option<Epoch>,
    /// Its set has expired.
    pub expired: bool,
    /// Versions that it would not load.
    pub refused: usize,
}

impl Summary {
    /// Compares every node with what it should serve.
    pub fn of(nodes: &[NodeStatus]) -> Self {
        Self {
            desired: nodes.iter().map(|node| node.desired).max().unwrap_or_default(),
            nodes: nodes.len(),
            behind: nodes.iter().filter(|node| !node.is_converged()).map(difference).collect(),
        }
    }

    /// True when every node serves what it should.
    pub fn is_converged(&self) -> bool {
        self.behind.is_empty()
    }
}

fn difference(node: &NodeStatus) -> Difference {
    let report = node.row.report.as_ref().map(|(_, report)| report);
    Difference {
        node: node.row.node.name.clone(),
        reported: report.map(|report| report.epoch),
        expired: report.is_some_and(|report| report.set == SetState::Expired),
        refused: report.map_or(0, |report| report.refused.len().max(report.refused_total as usize)),
    }
}
