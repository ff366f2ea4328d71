//! Two versions of a function beside each other: what their signed statements say. The source is compared by its digest
//! alone, since the server never unpacks an upload.

use std::collections::{BTreeMap, BTreeSet};

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use mfaas_attest::Admission;
use mfaas_ident::{CrateName, FunctionName, VersionNumber};
use mfaas_wire::{bindings_text, callers_text};
use serde::Deserialize;

use super::frame::{Frame, html};
use super::rows::{joined, line};
use super::statement::admission;
use crate::caller::Caller;
use crate::extract::{Path, Query};
use crate::refusal::Refusal;
use crate::state::App;

#[derive(Template)]
#[template(path = "comparison.html")]
struct ComparisonPage {
    frame: Frame,
    name: FunctionName,
    tenant: String,
    from: VersionNumber,
    to: VersionNumber,
    /// `None` if one of the statements cannot be read.
    changes: Option<Changes>,
}

/// What the two statements say.
struct Changes {
    declarations: Vec<Row>,
    crates: Vec<Row>,
}

/// One thing in both versions.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    what: String,
    old: String,
    new: String,
    /// How it changed, in a word; empty if it did not.
    change: &'static str,
}

/// Which versions.
#[derive(Deserialize)]
pub(super) struct ComparisonQuery {
    from: VersionNumber,
    to: VersionNumber,
}

/// The page.
pub(super) async fn show(
    State(app): State<App>,
    caller: Caller,
    frame: Frame,
    Path(name): Path<FunctionName>,
    Query(query): Query<ComparisonQuery>,
) -> Result<Response, Refusal> {
    let ComparisonQuery { from, to } = query;
    let old = app.catalog.version(&caller.tenant, &name, from).await?;
    let new = app.catalog.version(&caller.tenant, &name, to).await?;
    let statements = admission(&app, &old).await?.zip(admission(&app, &new).await?);
    let changes = statements
        .map(|(old, new)| Changes { declarations: declarations(&old, &new), crates: crates(&old, &new) });
    let tenant = caller.tenant.to_string();
    let page = ComparisonPage { frame: frame.at("functions"), name, tenant, from, to, changes };
    html(&page, &page.frame.nonce)
}

/// What the function says about itself, and what came of it.
fn declarations(old: &Admission, new: &Admission) -> Vec<Row> {
    let texts = |said: &Admission| {
        let declared = said.declares();
        [
            ("Who may call", callers_text(declared.access(), &said.callers())),
            ("Data", bindings_text(&said.bound())),
            ("Class", declared.class.as_str().to_owned()),
            ("CPU time of a call", said.budget_us.to_string()),
            ("Memory", said.memory_bytes.to_string()),
            ("Isolation", declared.isolation.as_str().to_owned()),
            ("Idempotent", if declared.idempotent { "yes" } else { "no" }.to_owned()),
            ("Handler", line(said.handler.as_ref())),
            ("Image", format!("{} bytes", said.artifact_bytes)),
            ("Source", said.source_tree.short()),
            ("Toolchain", said.toolchain.0.short()),
            ("Policy", line(&said.policy_revision)),
        ]
    };
    let pairs = texts(old).into_iter().zip(texts(new));
    let row = |((what, old), (_, new)): ((&str, String), (_, String))| Row {
        change: if old == new { "" } else { "changed" },
        what: what.to_owned(),
        old,
        new,
    };
    pairs.map(row).collect()
}

/// The dependencies that are not the same in both.
fn crates(old: &Admission, new: &Admission) -> Vec<Row> {
    let used = |said: &Admission| {
        let mut found: BTreeMap<CrateName, BTreeSet<String>> = BTreeMap::new();
        for decision in &said.decisions {
            found.entry(decision.name.clone()).or_default().insert(decision.version.clone());
        }
        found
    };
    let (old, new) = (used(old), used(new));
    let names: BTreeSet<&CrateName> = old.keys().chain(new.keys()).collect();
    let row = |name: &CrateName| {
        let (before, after) = (old.get(name), new.get(name));
        let change = match (before, after) {
            (None, _) => "added",
            (_, None) => "removed",
            (Some(before), Some(after)) if before != after => "changed",
            (Some(_), Some(_)) => return None,
        };
        let versions = |found: Option<&BTreeSet<String>>| joined(found.into_iter().flatten());
        Some(Row { what: name.to_string(), old: versions(before), new: versions(after), change })
    };
    names.into_iter().filter_map(row).collect()
}
