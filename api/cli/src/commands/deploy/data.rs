//! What a new version reaches that the one before it did not, data and functions, and the other way round.

use std::collections::{BTreeMap, BTreeSet};

use mfaas_ident::{
    Binding, Bindings, CalleeName, DataAccess, FunctionBinding, FunctionName, ResourceKind, ResourceName,
    VersionNumber,
};
use mfaas_wire::{FunctionView, VersionView};
use serde::Serialize;

use crate::client::Client;
use crate::failure::Failure;

/// What two versions do not reach in the same way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub(crate) enum DataChange {
    /// A resource.
    Resource {
        kind: ResourceKind,
        resource: ResourceName,
        /// What the version before may do with it; nothing if it does not reach it.
        before: Option<DataAccess>,
        /// What the new one may.
        after: Option<DataAccess>,
    },
    /// A function that one of them calls.
    Function {
        /// [`FunctionBinding::KIND`].
        kind: &'static str,
        function: CalleeName,
        /// Whether the version before calls it.
        before: bool,
        /// Whether the new one does.
        after: bool,
    },
}

impl DataChange {
    /// For people.
    pub(super) fn line(&self) -> String {
        let (kind, resource, before, after) = match self {
            Self::Function { function, after: true, .. } => return format!("now also calls `{function}`"),
            Self::Function { function, after: false, .. } => return format!("no longer calls `{function}`"),
            Self::Resource { kind, resource, before, after } => (kind, resource, before, after),
        };
        let what = match (kind, before, after) {
            (ResourceKind::Secret, _, Some(_)) => "now also uses",
            (ResourceKind::Http, _, Some(DataAccess::Write)) => "now also sends anything to",
            (ResourceKind::Http, Some(DataAccess::Write), Some(DataAccess::Read)) => {
                "no longer sends but GET to"
            }
            (ResourceKind::Http, _, Some(DataAccess::Read)) => "now also sends GET to",
            (_, _, Some(DataAccess::Write)) => "now also writes",
            (_, Some(DataAccess::Write), Some(DataAccess::Read)) => "no longer writes",
            (_, _, Some(DataAccess::Read)) => "now also reads",
            (_, _, None) => "no longer reaches",
        };
        format!("{what} {kind} `{resource}`")
    }
}

/// What the version reaches that is live now; nothing where none is.
pub(super) async fn of_live(client: &Client, name: &FunctionName) -> Result<Bindings, Failure> {
    let function: Option<FunctionView> = client.find(&format!("/v1/functions/{name}")).await?;
    let Some(version) = function.and_then(|function| function.live_version) else {
        return Ok(Bindings::new());
    };
    Ok(of_version(client, name, version).await?.unwrap_or_default())
}

/// What a version reaches, if it is still there.
pub(super) async fn of_version(
    client: &Client,
    name: &FunctionName,
    version: VersionNumber,
) -> Result<Option<Bindings>, Failure> {
    let path = format!("/v1/functions/{name}/versions/{version}");
    Ok(client.find::<VersionView>(&path).await?.map(|version| version.bindings))
}

/// By resource: a function may have several names for one, and reaches it as far as the widest of them does.
pub(super) fn changes(before: &Bindings, after: &Bindings) -> Vec<DataChange> {
    let mut changes = changed_calls(before, after);
    let (before, after) = (reach(before), reach(after));
    let all: BTreeSet<_> = before.keys().chain(after.keys()).collect();
    let change = |of: &(ResourceKind, ResourceName)| {
        let (kind, resource) = of.clone();
        let (before, after) = (before.get(of).copied(), after.get(of).copied());
        (before != after).then_some(DataChange::Resource { kind, resource, before, after })
    };
    changes.splice(..0, all.into_iter().filter_map(change));
    changes
}

fn changed_calls(before: &Bindings, after: &Bindings) -> Vec<DataChange> {
    let calls = |of: &Bindings| of.values().filter_map(Binding::function).cloned().collect::<BTreeSet<_>>();
    let (before, after) = (calls(before), calls(after));
    let change = |function: &CalleeName| DataChange::Function {
        kind: FunctionBinding::KIND,
        function: function.clone(),
        before: before.contains(function),
        after: after.contains(function),
    };
    before.symmetric_difference(&after).map(change).collect()
}

/// Each resource with the widest access that a binding asks for.
pub(crate) fn reach(bindings: &Bindings) -> BTreeMap<(ResourceKind, ResourceName), DataAccess> {
    let mut reached = BTreeMap::new();
    for bound in bindings.values().filter_map(Binding::resource) {
        let widest = reached.entry((bound.kind, bound.resource.clone())).or_insert(bound.access);
        *widest = bound.access.max(*widest);
    }
    reached
}

#[cfg(test)]
mod tests;
