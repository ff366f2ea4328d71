//! Uploads: received as a stream, stored by digest, recorded once, followed by their events.
//! Nothing here looks into an upload.

use std::time::SystemTime;

use axum::body::Body;
use axum::extract::State;
use axum::response::sse::{KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use chrono::{DateTime, Utc};
use futures::StreamExt as _;
use http::{HeaderMap, StatusCode};
use mfaas_catalog::{Deployment, NewDeployment, Recorded};
use mfaas_ident::{DeploymentId, FunctionName, TraceParent};
use mfaas_rules::codes;
use mfaas_rules::review::ReviewState;
use mfaas_trace::Work;
use mfaas_wire::schema;
use mfaas_wire::{
    DeploymentAccepted, DeploymentState, DeploymentView, IDEMPOTENCY_KEY, Page, Problem, RequestView,
    UPLOAD_BYTES_MAX,
};
use serde::Deserialize;
use uuid::Uuid;

use super::incoming::{publish, receive};
use super::paging::{cursor, page, rows};
use super::reviews::whole;
use crate::caller::Caller;
use crate::event_stream::Follow;
use crate::extract::{Path, Query};
use crate::refusal::Refusal;
use crate::shares::Taken;
use crate::state::App;
use crate::{limits, responses};

/// Uploads the source of a function; answers before anything is compiled.
#[utoipa::path(
    post, path = "/v1/functions/{name}/deployments", tag = "deployments", operation_id = "create_deployment",
    params(
        ("name" = inline(schema::FunctionName), Path, description = "The function"),
        ("Idempotency-Key" = inline(Option<schema::IdempotencyKey>), Header, description = "A repeat with the same key and bytes answers with the first deployment"),
    ),
    request_body(content = inline(schema::Binary), content_type = "application/gzip", description = "tar.gz of the crate, at most 10 MiB"),
    responses(
        (status = 202, description = "Stored and queued", body = DeploymentAccepted),
        (status = 403, description = "The token may not deploy (MF0902), or the tenant has as many functions as it may have (MF0918)", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "Larger than 10 MiB (MF0101)", body = Problem, content_type = "application/problem+json"),
        (status = 429, description = "The tenant has used up its share of the queue (MF0917), or the server is busy (MF0912)", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "The key was used for another upload (MF0905)", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn create(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<FunctionName>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    let (key, began) = (idempotency_key(&headers)?, SystemTime::now());
    let place = trace_parent(&headers);
    let incoming = receive(&app, &headers, body, (UPLOAD_BYTES_MAX, too_large)).await?;
    let source_bytes = incoming.bytes();
    let new = NewDeployment {
        tenant: &caller.tenant,
        function: &name,
        person: &caller.token.person,
        idempotency_key: &key,
        source_digest: incoming.digest(),
        source_bytes,
        trace_parent: Some(place),
    };
    let limits = &app.config.tenant_queue;
    let recorded =
        app.catalog.record_deployment(&caller.actor(), &new, limits, publish(&app, &incoming)).await;
    let is_new = matches!(recorded, Ok(Recorded::Created(_)));
    if !is_new && let Err(error) = app.blobs.discard(&incoming).await {
        tracing::warn!(%error, "an upload that was not recorded is left to the sweep");
    }
    let (Recorded::Created(deployment) | Recorded::Repeated(deployment)) = recorded?;
    metrics::counter!("mfaas_upload_bytes_total").increment(source_bytes);
    if is_new {
        tell_received(&deployment, &place, began);
    }
    let events_url = format!("/v1/deployments/{}/events", deployment.id);
    let deployment = responses::deployment(deployment, &app.review_url());
    Ok((StatusCode::ACCEPTED, axum::Json(DeploymentAccepted { deployment, events_url })).into_response())
}

/// Says once that a deployment is here, in the log and in its trace.
fn tell_received(deployment: &Deployment, place: &TraceParent, began: SystemTime) {
    let Deployment { id, tenant, function, source_digest, .. } = deployment;
    let trace = place.trace_id();
    tracing::info!(deployment = %id, %tenant, %function, source = %source_digest, trace, "a deployment was received");
    let attributes = [("mfaas.deployment", id.to_string())];
    let (ended, attributes) = (SystemTime::now(), attributes.as_slice());
    mfaas_trace::record(place, Work { name: "receive", began, ended, attributes });
}

/// Where the caller is in a trace, or one of our own. What is no place in a trace is passed over, as the standard asks.
fn trace_parent(headers: &HeaderMap) -> TraceParent {
    let text = headers.get("traceparent").and_then(|value| value.to_str().ok());
    text.and_then(|text| TraceParent::parse(text).ok()).unwrap_or_else(mfaas_trace::new_trace)
}

/// The caller's key, or one of our own: then every upload is its own.
fn idempotency_key(headers: &HeaderMap) -> Result<String, Refusal> {
    let mut values = headers.get_all(IDEMPOTENCY_KEY).iter();
    let key = match (values.next(), values.next()) {
        (None, _) => return Ok(format!("server-{}", Uuid::new_v4())),
        (Some(value), None) => value.to_str().unwrap_or(""),
        (Some(_), Some(_)) => "",
    };
    let is_visible = key.bytes().all(|byte| byte.is_ascii_graphic());
    if is_visible && (1..=limits::IDEMPOTENCY_KEY_BYTES_MAX).contains(&key.len()) {
        return Ok(key.to_owned());
    }
    Err(Refusal::invalid("`Idempotency-Key` is given once and has 1 to 200 visible ASCII characters."))
}

fn too_large() -> Refusal {
    Refusal::new(codes::MF0101, format!("The upload is larger than {UPLOAD_BYTES_MAX} bytes."))
}

/// One deployment.
#[utoipa::path(
    get, path = "/v1/deployments/{id}", tag = "deployments", operation_id = "show_deployment",
    params(("id" = Uuid, Path, description = "The deployment")),
    responses((status = 200, body = DeploymentView))
)]
pub(super) async fn show(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<DeploymentId>,
) -> Result<axum::Json<DeploymentView>, Refusal> {
    let row = app.catalog.deployment(&caller.tenant, id).await?;
    let mut view = responses::deployment(row, &app.review_url());
    if view.state == DeploymentState::Waiting {
        for (request, members) in app.catalog.requests_of(id).await? {
            view.requests.push(whole(&app, request, members).await?);
        }
        let url = review_url(&app, &view.requests);
        let first = view.requests.first().map(|request| request.name.clone());
        view.problem = view.problem.map(|problem| problem.with_review(first, url.clone()));
        view.review_url = Some(url);
    }
    Ok(axum::Json(view))
}

/// The one review that is open, or the queue.
fn review_url(app: &App, requests: &[RequestView]) -> String {
    let members = requests.iter().flat_map(|request| &request.members);
    let mut open = members.filter(|member| member.state == Some(ReviewState::Open));
    match (open.next().and_then(|member| member.review), open.next()) {
        (Some(review), None) => format!("{}/{review}", app.review_url()),
        _ => app.review_url(),
    }
}

/// Where a stream begins.
#[derive(Debug, Deserialize)]
pub(crate) struct StreamQuery {
    /// The same as `Last-Event-ID`, for clients that cannot set a header.
    after: Option<i64>,
}

/// The deployment's events as server-sent events; `id` counts up, `event` is the kind. Ends when
/// the deployment is final or waits for a reviewer.
#[utoipa::path(
    get, path = "/v1/deployments/{id}/events", tag = "deployments", operation_id = "follow_deployment",
    params(
        ("id" = Uuid, Path, description = "The deployment"),
        ("Last-Event-ID" = inline(Option<schema::RowCursor>), Header, description = "Resume behind this event"),
        ("after" = inline(Option<schema::RowCursor>), Query, description = "The same, for clients that cannot set a header"),
    ),
    responses((status = 200, description = "Events, one JSON object each", body = inline(schema::EventFrame), content_type = "text/event-stream"))
)]
pub(crate) async fn events(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<DeploymentId>,
    Query(query): Query<StreamQuery>,
    headers: HeaderMap,
) -> Result<impl IntoResponse, Refusal> {
    let asked_for = cursor(query.after)?;
    let after = match headers.get("last-event-id") {
        None => asked_for,
        Some(value) => value
            .to_str()
            .ok()
            .and_then(|text| text.parse().ok())
            .filter(|after| *after >= 0)
            .ok_or_else(|| Refusal::invalid("`Last-Event-ID` is a whole number."))?,
    };
    let after = after.unsigned_abs();
    let place = app.streams.take(&caller.token.tenant, 1).map_err(|taken| {
        Refusal::busy(match taken {
            Taken::Share => "The tenant has as many open streams as it may.",
            Taken::All => "The server has as many open streams as it may.",
        })
    })?;
    let stream = Follow::new(&app, caller, id, after).await?.stream();
    let stream = stream.map(move |event| {
        // The place lives as long as the stream.
        let _held = &place;
        event
    });
    Ok(Sse::new(stream).keep_alive(KeepAlive::new().interval(limits::STREAM_KEEP_ALIVE)))
}

/// What part of the list is wanted.
#[derive(Debug, Deserialize)]
pub(super) struct ListQuery {
    after: Option<DateTime<Utc>>,
    limit: Option<u32>,
}

/// The deployments of a function, newest first.
#[utoipa::path(
    get, path = "/v1/functions/{name}/deployments", tag = "deployments", operation_id = "list_deployments",
    params(
        ("name" = inline(schema::FunctionName), Path, description = "The function"),
        ("after" = Option<DateTime<Utc>>, Query, description = "`next` of the page before"),
        ("limit" = inline(Option<schema::PageRows>), Query, description = "How many rows at most"),
    ),
    responses((status = 200, body = Page<DeploymentView>))
)]
pub(super) async fn list_of_function(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<FunctionName>,
    Query(query): Query<ListQuery>,
) -> Result<axum::Json<Page<DeploymentView>>, Refusal> {
    let limit = rows(query.limit)?;
    let found = app.catalog.deployments(&caller.tenant, Some(&name), query.after, limit + 1).await?;
    let review_url = app.review_url();
    let views = found.into_iter().map(|row| responses::deployment(row, &review_url)).collect();
    let cursor = |view: &DeploymentView| view.created_at.to_rfc3339_opts(chrono::SecondsFormat::Micros, true);
    Ok(axum::Json(page(views, limit, cursor)))
}
