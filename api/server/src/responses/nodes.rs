//! Nodes as people see them: what each should serve and what it says it serves.
//!
//! What a node says is hostile until sanitised: a node can be taken over.

use chrono::{DateTime, Utc};
use mfaas_attest::ServedFunction;
use mfaas_catalog::{JoinToken, NodeStatus, SetFunction};
use mfaas_delivery::{Report, SetState};
use mfaas_ident::{FunctionName, TenantName, VersionNumber, sanitise_line};
use mfaas_wire::{Availability, Endpoint, IsolationView, JoinTokenView, NodeState, NodeView};

use crate::limits;

use super::isolation::isolation_view;
use super::node_refusals;

/// Complaints of a node that are shown.
const PROBLEMS_MAX: usize = 20;

/// One node as it stands at `now`.
pub(crate) fn node_view(status: NodeStatus, now: DateTime<Utc>) -> NodeView {
    let state = node_state(&status, now);
    let desired_epoch = status.desired.0;
    let (name, joined_at) = (status.row.node.name, status.row.node.joined_at);
    let report = status.row.report.as_ref();
    let isolation = status.row.isolation.map(|(at, report)| isolation_view(at, report));
    NodeView {
        name,
        state,
        cordoned: status.row.availability != Availability::Active,
        availability: status.row.availability,
        availability_since: status.row.availability_since,
        condition: report.map(|(_, report)| report.condition),
        joined_at,
        desired_epoch,
        reported_epoch: report.map(|(_, report)| report.epoch.0),
        reported_at: report.map(|(at, _)| *at),
        ingress_url: report.map(|(_, report)| sanitise_line(&report.ingress_url, 300)),
        loaded: report.map_or(0, |(_, report)| report.versions()),
        workers: report.map_or(0, |(_, report)| report.workers),
        build: status.row.build,
        protection: report.map(|(_, report)| sanitise_line(&report.protection, 300)),
        problems: problems(report.map(|(_, report)| report), isolation.as_ref()),
        isolation,
    }
}

/// A join token, without what it is shown by.
pub(crate) fn join_token_view(token: JoinToken) -> JoinTokenView {
    JoinTokenView {
        id: token.id.to_string(),
        node: token.node,
        uses: token.uses_max,
        uses_left: token.uses_max.saturating_sub(token.uses),
        created_by: token.created_by,
        created_at: token.created_at,
        expires_at: token.expires_at,
        revoked_at: token.revoked_at,
    }
}

/// How a node stands at `now`.
pub(crate) fn node_state(status: &NodeStatus, now: DateTime<Utc>) -> NodeState {
    let Some((at, report)) = &status.row.report else { return NodeState::Joined };
    if is_silent(*at, now) {
        return NodeState::Silent;
    }
    match report.set {
        SetState::Current if status.is_of_this_history() && report.epoch >= status.desired => {
            NodeState::Ready
        }
        SetState::Current | SetState::None | SetState::Expired => NodeState::Behind,
    }
}

fn is_silent(reported_at: DateTime<Utc>, now: DateTime<Utc>) -> bool {
    (now - reported_at).num_seconds() > limits::NODE_SILENT_S
}

fn problems(report: Option<&Report>, isolation: Option<&IsolationView>) -> Vec<String> {
    let settings = isolation.and_then(|isolation| isolation.refused.as_ref()).into_iter();
    let settings = settings.map(|refused| {
        let (code, message, revision) = (&refused.code, &refused.message, refused.revision);
        format!("{code} {message} (revision {revision} of the site's isolation)")
    });
    let problems = report.into_iter().flat_map(|report| &report.problems);
    let whole = problems.map(|row| format!("{} {}", row.code, sanitise_line(&row.message, 300)));
    let refused = report.into_iter().flat_map(|report| &report.refused).map(|row| {
        let message = sanitise_line(&row.message, 300);
        format!("{}/{}@{}: {} {message}", row.tenant, row.function, row.version, row.code)
    });
    whole.chain(settings).chain(refused).take(PROBLEMS_MAX).collect()
}

/// A node reports the epoch of its set and what of that is not loaded, so what it serves of a function follows once that is not
/// before the first epoch that has the function as it is. A node that is behind other functions' changes alone is ready.
pub(crate) fn endpoint(
    status: NodeStatus,
    tenant: &TenantName,
    name: &FunctionName,
    served: Option<&SetFunction>,
    public_url: Option<&str>,
) -> Endpoint {
    let is_of_this_history = status.is_of_this_history();
    let is_draining = status.row.availability == Availability::Draining;
    let node = status.row.node.name;
    let Some((reported_at, report)) = status.row.report else {
        return Endpoint {
            node,
            url: None,
            live_version: None,
            loaded_versions: Vec::new(),
            refused_versions: Vec::new(),
            reported_at: None,
            ready: false,
        };
    };
    let is_heard =
        !is_silent(reported_at, Utc::now()) && report.set == SetState::Current && is_of_this_history;
    let known = served.filter(|served| is_heard && report.epoch >= served.epoch);
    let is_loaded = |version: VersionNumber| {
        let rows = &mut report.refused.iter();
        !rows.any(|row| row.tenant == *tenant && row.function == *name && row.version == version)
    };
    // A node lists what an alias names before the rest, of which it may not list all.
    let is_told = |function: &ServedFunction, version: VersionNumber| {
        let is_named = || function.aliases.values().any(|named| *named == version);
        report.lists_all_refused() || (report.lists_what_aliases_name() && is_named())
    };
    let loaded_versions: Vec<VersionNumber> = known.map_or(Vec::new(), |known| {
        let versions = known.function.versions.iter().map(|row| row.version);
        versions.filter(|version| is_told(&known.function, *version) && is_loaded(*version)).collect()
    });
    let live = known.filter(|known| !known.is_changing).and_then(|known| known.function.resolve(None));
    let live_version = live.map(|row| row.version).filter(|version| loaded_versions.contains(version));
    // Where the site says that calls come in, or where the node does.
    let base = match public_url {
        Some(url) => url.to_owned(),
        None => sanitise_line(report.ingress_url.trim_end_matches('/'), 300),
    };
    Endpoint {
        node,
        url: Some(format!("{base}/f/{tenant}/{name}")),
        live_version,
        loaded_versions,
        refused_versions: node_refusals(&report, tenant, name),
        reported_at: Some(reported_at),
        ready: live_version.is_some() && !is_draining,
    }
}
