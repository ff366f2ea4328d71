//! Nodes and bans, and the forms with which an operator changes them.

use askama::Template;
use axum::extract::State;
use axum::response::{IntoResponse as _, Redirect, Response};
use chrono::Utc;
use mfaas_ident::NodeName;
use mfaas_wire::{Availability, BanView, Condition, NodeView};

use super::form::SignedForm;
use super::frame::{Frame, html};
use super::rows::{NodeRow, time};
use crate::caller::Caller;
use crate::extract::Path;
use crate::limits;
use crate::refusal::Refusal;
use crate::responses;
use crate::state::App;

#[derive(Template)]
#[template(path = "nodes.html")]
struct NodesPage {
    frame: Frame,
    nodes: Vec<Node>,
    bans: Vec<BanRow>,
}

/// A node with what can be said to it.
struct Node {
    row: NodeRow,
    availability: &'static str,
    tone: &'static str,
    since: String,
    choices: Vec<Choice>,
}

/// A button.
struct Choice {
    value: &'static str,
    word: &'static str,
}

/// A ban in force.
pub(super) struct BanRow {
    pub(super) id: i64,
    pub(super) tenant: String,
    pub(super) function: String,
    pub(super) version: String,
    pub(super) artifact: String,
    pub(super) node: String,
    pub(super) crashes: u32,
    pub(super) since: String,
}

impl From<BanView> for BanRow {
    fn from(view: BanView) -> Self {
        Self {
            id: view.id,
            tenant: view.tenant.to_string(),
            function: view.function.to_string(),
            version: view.version.to_string(),
            artifact: view.digest.short(),
            node: view.node.to_string(),
            crashes: view.crashes,
            since: time(view.since),
        }
    }
}

/// The page.
pub(super) async fn show(State(app): State<App>, _caller: Caller, frame: Frame) -> Result<Response, Refusal> {
    let now = Utc::now();
    let nodes = app.catalog.nodes().await?.into_iter().map(|row| node(responses::nodes::node_view(row, now)));
    let bans = app.catalog.bans(None, None, limits::BANS_SHOWN_MAX).await?;
    let page = NodesPage {
        frame: frame.at("nodes"),
        nodes: nodes.collect(),
        bans: bans.into_iter().map(|row| responses::ban(row).into()).collect(),
    };
    html(&page, &page.frame.nonce)
}

fn node(view: NodeView) -> Node {
    let choices = [
        (Availability::Active, "Uncordon"),
        (Availability::Cordoned, "Cordon"),
        (Availability::Draining, "Drain"),
    ];
    let other = choices.into_iter().filter(|(availability, _)| *availability != view.availability);
    let (availability, tone) = standing(&view);
    Node {
        availability,
        tone,
        since: view.availability_since.map(time).unwrap_or_default(),
        choices: other.map(|(value, word)| Choice { value: value.as_str(), word }).collect(),
        row: view.into(),
    }
}

/// What a node is meant to take, or that it is there. Only what the node says itself counts as drained.
fn standing(view: &NodeView) -> (&'static str, &'static str) {
    match (view.availability, view.condition) {
        (Availability::Active, _) => (Availability::Active.as_str(), "good"),
        (Availability::Cordoned, _) => (Availability::Cordoned.as_str(), "wait"),
        (Availability::Draining, Some(Condition::Drained)) => (Condition::Drained.as_str(), "off"),
        (Availability::Draining, _) => (Availability::Draining.as_str(), "busy"),
    }
}

/// Says what a node is to take.
pub(super) async fn set_availability(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<NodeName>,
    form: SignedForm,
) -> Result<Response, Refusal> {
    let availability = Availability::parse(form.one("availability")?);
    let availability =
        availability.ok_or_else(|| Refusal::invalid("A node is active, cordoned or draining."))?;
    app.catalog.set_availability(&caller.actor(), &name, availability).await?;
    Ok(Redirect::to("/nodes").into_response())
}

/// Lifts a ban.
pub(super) async fn lift(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<i64>,
    _form: SignedForm,
) -> Result<Response, Refusal> {
    app.catalog.lift_ban(&caller.actor(), id).await?;
    Ok(Redirect::to("/nodes#bans").into_response())
}
