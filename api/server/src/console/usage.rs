//! What calls used, for people: one table, for the last day, week or month.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use mfaas_ident::Scope;
use mfaas_wire::{UsageRowView, duration_text};
use serde::Deserialize;

use super::frame::{Frame, html};
use crate::caller::Sight;
use crate::extract::Query;
use crate::limits;
use crate::refusal::Refusal;
use crate::responses::usage::{UsageParameters, usage_view};
use crate::state::App;

/// What can be looked at: the word in the address, and for people.
const SPANS: [(&str, &str); 3] = [("24h", "Last day"), ("7d", "Last week"), ("30d", "Last 30 days")];

#[derive(Template)]
#[template(path = "usage.html")]
struct UsagePage {
    frame: Frame,
    spans: Vec<Span>,
    /// What charts of a function show: not more than they go back.
    here: &'static str,
    everybody: bool,
    rows: Vec<Row>,
    truncated: bool,
}

/// A link to another span of time.
struct Span {
    word: &'static str,
    title: &'static str,
    here: bool,
}

/// One version.
struct Row {
    tenant: String,
    function: String,
    version: String,
    calls: u64,
    cpu: String,
    mean: String,
    longest: String,
    queued: String,
    memory: String,
    kills: String,
}

/// Which span.
#[derive(Deserialize)]
pub(super) struct UsageSpan {
    since: Option<String>,
}

/// The page.
pub(super) async fn show(
    State(app): State<App>,
    sight: Sight,
    frame: Frame,
    Query(query): Query<UsageSpan>,
) -> Result<Response, Refusal> {
    let since = query.since.as_deref().unwrap_or(SPANS[0].0);
    let parameters = UsageParameters { since: Some(since.to_owned()), ..UsageParameters::default() };
    let view = usage_view(&app.catalog, sight.tenant.as_ref(), &parameters).await?;
    let shown = limits::USAGE_ROWS_SHOWN_MAX;
    let page = UsagePage {
        frame: frame.at("usage"),
        spans: SPANS.map(|(word, title)| Span { word, title, here: word == since }).into(),
        here: if since == SPANS[0].0 { "24h" } else { "30d" },
        everybody: sight.token.holds(Scope::Operate),
        truncated: view.truncated || view.rows.len() > shown,
        rows: view.rows.iter().take(shown).map(row).collect(),
    };
    html(&page, &page.frame.nonce)
}

fn row(view: &UsageRowView) -> Row {
    Row {
        tenant: view.tenant.to_string(),
        function: view.function.to_string(),
        version: view.version.to_string(),
        calls: view.calls,
        cpu: duration_text(view.cpu_ns),
        mean: duration_text(view.run_ns_mean()),
        longest: duration_text(view.run_ns_max),
        queued: duration_text(view.queue_ns.checked_div(view.calls).unwrap_or(0)),
        memory: format!("{} KiB", view.memory_bytes_max.div_ceil(1024)),
        kills: view.kills_text(),
    }
}
