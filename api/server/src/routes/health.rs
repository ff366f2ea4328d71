//! For the operators of the server: is it alive, can it work, what does it count.

use std::time::Duration;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;
use mfaas_wire::{Problem, Readiness};
use serde::Serialize;
use utoipa::ToSchema;

use crate::refusal::Refusal;
use crate::state::App;
use crate::{numbers, parts};

/// How long the database may take to say that it is there.
const READY_WAIT_MAX: Duration = Duration::from_secs(2);

/// Answer of a health route.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Health {
    /// Always `ok`; a server that is not answers with a problem.
    status: &'static str,
}

/// Alive: answers as long as the process does.
#[utoipa::path(
    get, path = "/healthz", tag = "operation", operation_id = "healthz", security(()),
    responses((status = 200, body = Health))
)]
pub(super) async fn healthz() -> axum::Json<Health> {
    axum::Json(Health { status: "ok" })
}

/// Able to answer: the database does, and its schema is current. What else is not as it should be is named, and ends
/// no readiness: `blobs` (the blob store takes bytes) as the last look in the background found it, `builders` as they are.
#[utoipa::path(
    get, path = "/readyz", tag = "operation", operation_id = "readyz", security(()),
    responses(
        (status = 200, body = Readiness, description = "The server answers; `degraded` names what waits or fails"),
        (status = 503, description = "The database is not available, or the server stops (MF0910)", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn readyz(State(app): State<App>) -> Result<axum::Json<Readiness>, Refusal> {
    if app.stop.is_cancelled() {
        return Err(Refusal::unavailable("The server is stopping.", "stop was requested"));
    }
    let ready = async {
        app.catalog.ready().await?;
        Ok(axum::Json(parts::readiness(&app.catalog, &app.blobs_look).await?))
    };
    // Whoever asks gives up soon, and then knows less.
    tokio::time::timeout(READY_WAIT_MAX, ready)
        .await
        .unwrap_or_else(|_| Err(Refusal::unavailable("The database does not answer.", "no answer in time")))
}

/// Numbers in Prometheus' text format.
#[utoipa::path(
    get, path = "/metrics", tag = "operation", operation_id = "metrics", security(()),
    responses((status = 200, body = String, content_type = "text/plain"))
)]
pub(super) async fn metrics(State(app): State<App>) -> Response {
    numbers::refresh(&app).await;
    app.metrics.run_upkeep();
    let headers = [(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
    (headers, app.metrics.render()).into_response()
}
