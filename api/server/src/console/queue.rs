//! The queue: what reviewers have to decide, and what they decided last.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use chrono::{DateTime, Utc};
use mfaas_catalog::ReviewRow;
use mfaas_rules::review::ReviewState;
use serde::Deserialize;

use super::frame::{Frame, html};
use super::report::suggestion;
use super::review::tone;
use super::rows::{age, joined, lines, time};
use crate::caller::Caller;
use crate::extract::Query;
use crate::limits;
use crate::refusal::Refusal;
use crate::state::App;

/// The states of decided reviews, in the order of the page.
const CLOSED: [ReviewState; 4] =
    [ReviewState::Approved, ReviewState::Denied, ReviewState::Revoked, ReviewState::Withdrawn];

#[derive(Template)]
#[template(path = "reviews.html")]
struct QueuePage {
    frame: Frame,
    open: Vec<QueueRow>,
    /// The address of the next page of open reviews.
    next: Option<i64>,
    closed: Vec<Closed>,
}

/// The reviews that ended in one state.
struct Closed {
    state: &'static str,
    rows: Vec<QueueRow>,
    more: bool,
}

/// One review.
pub(super) struct QueueRow {
    pub(super) id: i64,
    pub(super) name: String,
    pub(super) version: String,
    pub(super) state: &'static str,
    pub(super) state_tone: &'static str,
    pub(super) suggestion: String,
    pub(super) tone: &'static str,
    /// The most severe class of risk.
    pub(super) risk: &'static str,
    pub(super) people: usize,
    pub(super) yes: usize,
    pub(super) waiting: u32,
    pub(super) requesters: String,
    pub(super) age: String,
    pub(super) closed_at: String,
    pub(super) reason: String,
}

/// A review as a row.
pub(super) fn row(review: &ReviewRow, now: DateTime<Utc>) -> QueueRow {
    let (suggestion, colour) = suggestion(&review.judgement);
    QueueRow {
        id: review.id,
        name: review.name.to_string(),
        version: review.version.to_string(),
        state: review.state.as_str(),
        state_tone: tone(review.state),
        suggestion,
        tone: colour,
        risk: review.judgement.reasons.first().map_or("nothing found", |reason| reason.risk.label()),
        people: review.people.count(),
        yes: review.votes.iter().filter(|vote| vote.approve).count(),
        waiting: review.waiting,
        requesters: joined(&review.requesters),
        age: age(review.opened_at, now),
        closed_at: review.closed_at.map(time).unwrap_or_default(),
        reason: lines(&review.reason),
    }
}

/// Where the page of open reviews begins.
#[derive(Deserialize)]
pub(super) struct QueueQuery {
    after: Option<i64>,
}

/// The page.
pub(super) async fn show(
    State(app): State<App>,
    _caller: Caller,
    frame: Frame,
    Query(query): Query<QueueQuery>,
) -> Result<Response, Refusal> {
    let (now, limit) = (Utc::now(), limits::CONSOLE_ROWS_MAX);
    let after = query.after.unwrap_or(0);
    let mut open = app.catalog.reviews(Some(ReviewState::Open), after, limit + 1).await?;
    let more = open.len() > limit as usize;
    open.truncate(limit as usize);
    let mut closed = Vec::new();
    for state in CLOSED {
        let limit = limits::CONSOLE_CLOSED_MAX;
        let found = app.catalog.closed_reviews(state, limit + 1).await?;
        let rows = found.iter().take(limit as usize).map(|review| row(review, now)).collect();
        closed.push(Closed { state: state.as_str(), rows, more: found.len() > limit as usize });
    }
    let page = QueuePage {
        frame: frame.at("reviews"),
        next: open.last().map(|review| review.id).filter(|_| more),
        open: open.iter().map(|review| row(review, now)).collect(),
        closed,
    };
    html(&page, &page.frame.nonce)
}
