//! For whoever keeps the server running: is it alive, can it work, what does it count.

use std::time::{Duration, Instant};

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;
use mfaas_catalog::CatalogError;
use mfaas_wire::{Availability, DeploymentState, Problem};
use serde::Serialize;
use utoipa::ToSchema;

use crate::app::App;
use crate::refusal::Refusal;

/// How long database and blob store may take to say that they are there.
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

/// Able to work: the database answers and its schema is current, the blob store answers.
#[utoipa::path(
    get, path = "/readyz", tag = "operation", operation_id = "readyz", security(()),
    responses(
        (status = 200, body = Health),
        (status = 503, description = "Names what is missing (MF0910)", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(super) async fn readyz(State(app): State<App>) -> Result<axum::Json<Health>, Refusal> {
    if app.stop.is_cancelled() {
        return Err(Refusal::unavailable("The server is stopping.", "stop was requested"));
    }
    let ready = async {
        app.catalog.ready().await?;
        app.blobs.ready().await?;
        Ok(axum::Json(Health { status: "ok" }))
    };
    // Whoever asks gives up soon, and then knows less.
    tokio::time::timeout(READY_WAIT_MAX, ready).await.unwrap_or_else(|_| {
        Err(Refusal::unavailable("The database or the blob store does not answer.", "no answer in time"))
    })
}

/// Numbers in Prometheus' text format.
#[utoipa::path(
    get, path = "/metrics", tag = "operation", operation_id = "metrics", security(()),
    responses((status = 200, body = String, content_type = "text/plain"))
)]
pub(super) async fn metrics(State(app): State<App>) -> Response {
    // Whoever comes while somebody counts gets what was counted before: scrapes must not queue for the database.
    if let Ok(mut counted) = app.counted.try_lock()
        && counted.is_none_or(|at| at.elapsed() >= app.config.counts_life)
    {
        *counted = Some(Instant::now());
        if let Err(error) = count(&app).await {
            tracing::warn!(%error, "deployments, nodes and bans could not be counted");
        }
    }
    let streams = crate::limits::STREAMS_MAX - app.streams.available_permits();
    metrics::gauge!("mfaas_event_streams").set(streams as f64);
    app.metrics.run_upkeep();
    let headers = [(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
    (headers, app.metrics.render()).into_response()
}

/// Counts what is in the database.
async fn count(app: &App) -> Result<(), CatalogError> {
    let counted = app.catalog.deployment_counts().await?;
    for state in DeploymentState::ALL {
        // A state without any is not among them.
        let count = counted.iter().find(|row| row.state == state).map_or(0, |row| row.count);
        metrics::gauge!("mfaas_deployments", "state" => state.as_str()).set(count as f64);
    }
    for availability in Availability::ALL {
        let nodes = app.catalog.count_nodes(availability).await?;
        metrics::gauge!("mfaas_nodes", "availability" => availability.as_str()).set(nodes as f64);
    }
    for (well, health) in [(true, "well"), (false, "unwell")] {
        let builders = app.catalog.count_builders(well).await?;
        metrics::gauge!("mfaas_builders", "health" => health).set(builders as f64);
    }
    metrics::gauge!("mfaas_builds_postponed").set(app.catalog.count_postponed_builds().await? as f64);
    metrics::gauge!("mfaas_bans").set(app.catalog.count_bans().await? as f64);
    metrics::gauge!("mfaas_counted_seconds").set(chrono::Utc::now().timestamp() as f64);
    Ok(())
}
