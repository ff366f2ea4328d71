//! Charts over an hour, a day and a month: of a function, of tenants, and for operators of builds and nodes.
//!
//! Each is drawn from the object that the API answers with, and the table under it is written from the same.

pub(super) mod figure;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use mfaas_ident::{FunctionName, Scope};

use super::chart::{Axis, span_text};
use super::frame::{Frame, html};
use crate::caller::Sight;
use crate::extract::{Path, Query};
use crate::limits;
use crate::refusal::Refusal;
use crate::responses::series::{self, SeriesParameters};
use crate::state::App;

use figure::Figure;

/// What can be looked at: the word in the address, and for people.
const SPANS: [(&str, &str); 3] = [("1h", "Last hour"), ("24h", "Last day"), ("30d", "Last 30 days")];

#[derive(Template)]
#[template(path = "charts.html")]
struct ChartsPage {
    frame: Frame,
    heading: String,
    /// Behind the heading, quieter.
    of: String,
    /// The other pages of charts: address, name, whether it is this one.
    views: Vec<View>,
    spans: Vec<View>,
    /// From when to when.
    span: String,
    figures: Vec<Figure>,
    /// What is said in the place of no figure.
    empty: &'static str,
    notes: Vec<String>,
}

/// A link to another page of charts, or to another span of time.
struct View {
    path: String,
    title: &'static str,
    here: bool,
}

/// Where a page of charts is, and what of it was asked for.
struct Place<'a> {
    path: String,
    parameters: &'a SeriesParameters,
    /// Which of the pages for everybody and operators; none for a function.
    view: Option<&'a str>,
}

/// CPU time and memory: of the caller's tenant, or of all for those who operate the site.
pub(super) async fn tenants(
    State(app): State<App>,
    sight: Sight,
    frame: Frame,
    Query(parameters): Query<SeriesParameters>,
) -> Result<Response, Refusal> {
    let view = series::tenant_series(&app.catalog, sight.tenant.as_ref(), &parameters).await?;
    let mut path = "/charts?".to_owned();
    if let Some(tenant) = sight.tenant.as_ref().filter(|tenant| **tenant != sight.token.tenant) {
        path.push_str(&format!("tenant={tenant}&"));
    }
    let of = sight.tenant.as_ref().map_or("of all tenants".to_owned(), |tenant| format!("of {tenant}"));
    let left_out: u64 = view.points.iter().map(|point| point.calls_left_out).sum();
    let axis = Axis { at: view.points.iter().map(|point| point.at).collect(), step_s: view.steps.step_s };
    let mut page =
        page(frame, &sight, &Place { path, parameters: &parameters, view: Some("/charts") }, &axis);
    page.of = of;
    page.figures = figure::of_tenants(&view, &axis, sight.tenant.is_none());
    page.notes.push(HATCHED.to_owned());
    page.notes.push("Memory is the most that one call had at once.".to_owned());
    if left_out > 0 {
        page.notes.push(format!(
            "{left_out} calls are in no chart of a function: more versions were called at once than have rows."
        ));
    }
    html(&page, &page.frame.nonce)
}

/// How long builds are queued and take.
pub(super) async fn builds(
    State(app): State<App>,
    sight: Sight,
    frame: Frame,
    Query(parameters): Query<SeriesParameters>,
) -> Result<Response, Refusal> {
    let view = series::build_series(&app.catalog, &parameters).await?;
    let axis = Axis { at: view.points.iter().map(|point| point.at).collect(), step_s: view.steps.step_s };
    let place =
        Place { path: "/charts/builds?".to_owned(), parameters: &parameters, view: Some("/charts/builds") };
    let mut page = page(frame, &sight, &place, &axis);
    page.figures = figure::of_builds(&view, &axis);
    page.notes.push(
        "By the time that builds ended. One that was queued again after it had begun is counted and has no times.".to_owned(),
    );
    page.notes.push(QUANTILES.to_owned());
    html(&page, &page.frame.nonce)
}

/// Load and pools of each node.
pub(super) async fn nodes(
    State(app): State<App>,
    sight: Sight,
    frame: Frame,
    Query(parameters): Query<SeriesParameters>,
) -> Result<Response, Refusal> {
    let view = series::node_series(&app.catalog, &parameters).await?;
    let axis = Axis { at: view.at.clone(), step_s: view.steps.step_s };
    let place =
        Place { path: "/charts/nodes?".to_owned(), parameters: &parameters, view: Some("/charts/nodes") };
    let mut page = page(frame, &sight, &place, &axis);
    page.figures =
        view.nodes.iter().take(limits::CHART_NODES_MAX).map(|node| figure::of_node(node, &axis)).collect();
    page.empty = "No node was heard.";
    page.notes.push(HATCHED.to_owned());
    if view.truncated || view.nodes.len() > limits::CHART_NODES_MAX {
        let nodes = limits::CHART_NODES_MAX;
        page.notes.push(format!("Only the first {nodes} nodes are drawn; GET /v1/series/nodes has more."));
    }
    page.notes.push(
        "Load is CPU time of handlers, of what the cores for calls have. Pools are the most at once of the moments at \
         which the node reported, every ten seconds."
            .to_owned(),
    );
    html(&page, &page.frame.nonce)
}

/// Calls and run times of a function, or of one of its versions.
pub(super) async fn function(
    State(app): State<App>,
    sight: Sight,
    frame: Frame,
    Path(name): Path<FunctionName>,
    Query(parameters): Query<SeriesParameters>,
) -> Result<Response, Refusal> {
    let tenant = sight.tenant.as_ref().unwrap_or(&sight.token.tenant);
    let view = series::function_series(&app.catalog, tenant, &name, &parameters).await?;
    let axis = Axis { at: view.points.iter().map(|point| point.at).collect(), step_s: view.steps.step_s };
    let mut path = format!("/functions/{name}/charts?tenant={tenant}&");
    if let Some(version) = parameters.version {
        path.push_str(&format!("version={version}&"));
    }
    let mut page = page(frame, &sight, &Place { path, parameters: &parameters, view: None }, &axis);
    page.heading =
        format!("{name}{}", parameters.version.map(|version| format!("@{version}")).unwrap_or_default());
    page.of = format!("of {tenant}");
    page.figures = figure::of_function(&view, &axis);
    page.notes.push(HATCHED.to_owned());
    page.notes.push(QUANTILES.to_owned());
    html(&page, &page.frame.nonce)
}

/// What is between what is known.
const HATCHED: &str =
    "In hatched steps no node was heard: what was called then counts in the step in which it is told.";

/// What is known of a quantile.
const QUANTILES: &str = "p50 and p99 are drawn at the upper edge of the bucket that they lie in; the true value is at most \
                         that, and above the edge below. The table names both.";

/// A page without its figures.
fn page(frame: Frame, sight: &Sight, place: &Place<'_>, axis: &Axis) -> ChartsPage {
    let operates = sight.token.holds(Scope::Operate);
    let views = [("/charts", "Tenants"), ("/charts/builds", "Builds"), ("/charts/nodes", "Nodes")];
    let views = views.into_iter().filter(|_| operates && place.view.is_some());
    let since = place.parameters.since.as_deref().unwrap_or(SPANS[0].0);
    let here = |word: &str| word == since && place.parameters.until.is_none();
    let span = |(word, title): (&'static str, _)| View {
        path: format!("{}since={word}", place.path),
        title,
        here: here(word),
    };
    ChartsPage {
        frame: frame.at(if place.view.is_some() { "charts" } else { "functions" }),
        heading: "Charts".to_owned(),
        of: String::new(),
        views: views
            .map(|(path, title)| View { path: path.to_owned(), title, here: place.view == Some(path) })
            .collect(),
        spans: SPANS.map(span).into(),
        span: span_text(&axis.at, axis.step_s),
        figures: Vec::new(),
        empty: "Nothing is known.",
        notes: vec!["Amounts are means over a step; the last one is not over.".to_owned()],
    }
}

#[cfg(test)]
mod tests;
