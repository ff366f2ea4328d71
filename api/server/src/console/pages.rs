//! The pages: each reads what it shows and renders it.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use chrono::Utc;
use mfaas_catalog::Deployment;
use mfaas_ident::{DeploymentId, Scope};
use mfaas_wire::{CrateView, DeploymentView, NodeState};

use super::frame::{Frame, html};
use super::rows::{
    DeploymentRow, DiagnosticRow, EventRow, FunctionRow, NodeRow, RefusalRow, builders_at_work, event_rows,
    place, time, tone, waited_ms, whole_ms,
};
use crate::caller::Caller;
use crate::extract::Path;
use crate::limits;
use crate::refusal::Refusal;
use crate::responses;
use crate::responses::crates::waiting_crates;
use crate::state::App;

#[derive(Template)]
#[template(path = "dashboard.html")]
struct DashboardPage {
    frame: Frame,
    functions_count: usize,
    live_count: usize,
    deployments: Vec<DeploymentRow>,
    builders: String,
    waiting: Vec<CrateView>,
    nodes: Option<Nodes>,
}

/// The nodes, for those who may see them.
struct Nodes {
    ready: usize,
    items: Vec<NodeRow>,
}

/// What runs, what came in, what waits.
pub(super) async fn dashboard(
    State(app): State<App>,
    caller: Caller,
    frame: Frame,
) -> Result<Response, Refusal> {
    let functions = app.catalog.functions(&caller.tenant, None, limits::PAGE_ROWS_MAX).await?;
    let recent = app.catalog.deployments(&caller.tenant, None, None, limits::CONSOLE_ROWS_MAX / 5).await?;
    let ids: Vec<_> = recent.iter().map(|row| row.id).collect();
    let places = app.catalog.queue_places(&ids).await?;
    let row = |found: Deployment| DeploymentRow {
        place: places.get(&found.id).copied().map(place),
        ..responses::deployment(found, "").into()
    };
    let page = DashboardPage {
        frame: frame.at("dashboard"),
        functions_count: functions.len(),
        live_count: functions.iter().filter(|function| function.live_version.is_some()).count(),
        deployments: recent.into_iter().map(row).collect(),
        builders: builders_at_work(&app.catalog.builders().await?),
        waiting: waiting_crates(&app.catalog, &caller).await?,
        nodes: nodes(&app, &caller).await?,
    };
    html(&page, &page.frame.nonce)
}

async fn nodes(app: &App, caller: &Caller) -> Result<Option<Nodes>, Refusal> {
    if !caller.token.holds(Scope::Operate) {
        return Ok(None);
    }
    let now = Utc::now();
    let rows = app.catalog.nodes().await?;
    let views: Vec<_> = rows.into_iter().map(|row| responses::nodes::node_view(row, now)).collect();
    let ready = views.iter().filter(|view| view.state == NodeState::Ready).count();
    Ok(Some(Nodes { ready, items: views.into_iter().map(NodeRow::from).collect() }))
}

#[derive(Template)]
#[template(path = "functions.html")]
struct FunctionsPage {
    frame: Frame,
    functions: Vec<FunctionRow>,
    truncated: bool,
}

/// The functions of the tenant.
pub(super) async fn functions(
    State(app): State<App>,
    caller: Caller,
    frame: Frame,
) -> Result<Response, Refusal> {
    let limit = limits::PAGE_ROWS_MAX;
    let functions = app.catalog.functions(&caller.tenant, None, limit).await?;
    let page = FunctionsPage {
        frame: frame.at("functions"),
        truncated: functions.len() >= limit as usize,
        functions: functions.into_iter().map(|row| responses::function(row).into()).collect(),
    };
    html(&page, &page.frame.nonce)
}

#[derive(Template)]
#[template(path = "deployment.html")]
struct DeploymentPage {
    frame: Frame,
    id: String,
    function: String,
    state: &'static str,
    tone: &'static str,
    running: bool,
    version: String,
    created_at: String,
    source: String,
    source_bytes: u64,
    attempts: u32,
    /// Where it stands in the queue, and who takes builds from it.
    queued: Option<String>,
    review_url: Option<&'static str>,
    diagnostics: Vec<DiagnosticRow>,
    refusals: Vec<RefusalRow>,
    events: Vec<EventRow>,
    /// The length of the timeline.
    whole_ms: i64,
    /// When the page was made, in milliseconds on the timeline.
    now_ms: i64,
    /// Where the timeline would begin without the waits that it leaves out, in milliseconds since 1970.
    origin_ms: i64,
    last_seq: u64,
}

/// One deployment with its stages; live as long as it runs.
pub(super) async fn deployment(
    State(app): State<App>,
    caller: Caller,
    frame: Frame,
    Path(id): Path<DeploymentId>,
) -> Result<Response, Refusal> {
    let row = app.catalog.deployment(&caller.tenant, id).await?;
    let events = app.catalog.events_after(&caller.tenant, id, 0, limits::PAGE_ROWS_MAX).await?;
    let view: DeploymentView = responses::deployment(row, "");
    let refusals = refusals(&app, &caller, &view).await?;
    let queued = match app.catalog.queue_places(&[id]).await?.get(&id) {
        Some(found) => {
            Some(format!("{}; {}", place(*found), builders_at_work(&app.catalog.builders().await?)))
        }
        None => None,
    };
    let last_seq = events.last().map_or(0, |event| event.seq);
    let (now, running) = (Utc::now(), !view.state.ends_stream());
    let events = event_rows(
        events.into_iter().map(responses::event).collect(),
        view.created_at,
        running.then_some(now),
    );
    let waited = waited_ms(&events);
    let page = DeploymentPage {
        frame,
        id: view.id.to_string(),
        function: view.function.to_string(),
        state: view.state.as_str(),
        tone: tone(view.state),
        running,
        version: view.version.map_or_else(|| "–".to_owned(), |version| version.to_string()),
        created_at: time(view.created_at),
        source: view.source_digest.short(),
        source_bytes: view.source_bytes,
        attempts: view.attempts,
        queued,
        review_url: view.review_url.map(|_| "/crates"),
        diagnostics: view.diagnostics.into_iter().map(DiagnosticRow::from).collect(),
        refusals,
        last_seq,
        whole_ms: whole_ms(&events),
        origin_ms: view.created_at.timestamp_millis() + waited,
        now_ms: ((now - view.created_at).num_milliseconds() - waited).max(0),
        events,
    };
    html(&page, &page.frame.nonce)
}

/// Which nodes do not serve the version that came of the deployment.
async fn refusals(app: &App, caller: &Caller, view: &DeploymentView) -> Result<Vec<RefusalRow>, Refusal> {
    let Some(version) = view.version else { return Ok(Vec::new()) };
    let mut rows = Vec::new();
    for status in app.catalog.nodes().await? {
        let Some((_, report)) = &status.row.report else { continue };
        let refused = responses::node_refusals(report, &caller.tenant, &view.function);
        let node = &status.row.node.name;
        rows.extend(refused.into_iter().filter(|row| row.version == version).map(|row| RefusalRow {
            node: node.to_string(),
            code: row.code,
            message: row.message,
            hint: row.hint,
        }));
    }
    rows.truncate(limits::CONSOLE_ROWS_MAX as usize);
    Ok(rows)
}
