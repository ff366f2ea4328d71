//! Performance isolation over REST: what a node said of its machine within the last hour, and the settings of the site.

use axum::extract::State;
use mfaas_delivery::{ISOLATION_CORES_MAX, IsolationSettings};
use mfaas_ident::NodeName;
use mfaas_wire::schema;
use mfaas_wire::{IsolationView, Page, SiteIsolationView};

use crate::caller::{Caller, Sight};
use crate::extract::{Json, Path};
use crate::refusal::Refusal;
use crate::responses::isolation::{isolation_view, site_isolation_view};
use crate::state::App;

/// What a node said of its machine within the last hour, every ten seconds, the oldest first.
#[utoipa::path(
    get, path = "/v1/nodes/{name}/isolation", tag = "operation", operation_id = "list_isolation",
    params(("name" = inline(schema::NodeName), Path, description = "The node")),
    responses((status = 200, body = Page<IsolationView>))
)]
pub(super) async fn history(
    State(app): State<App>,
    _caller: Caller,
    Path(name): Path<NodeName>,
) -> Result<axum::Json<Page<IsolationView>>, Refusal> {
    let samples = app.catalog.isolation_samples(&name).await?;
    let items = samples.into_iter().map(|(at, report)| isolation_view(at, report)).collect();
    Ok(axum::Json(Page { items, next: None }))
}

/// What the site wants of every machine with an isolation controller.
#[utoipa::path(
    get, path = "/v1/isolation", tag = "operation", operation_id = "show_site_isolation",
    responses((status = 200, body = SiteIsolationView))
)]
pub(super) async fn show(
    State(app): State<App>,
    _caller: Caller,
) -> Result<axum::Json<SiteIsolationView>, Refusal> {
    Ok(axum::Json(site_isolation_view(app.catalog.site_isolation().await?)))
}

/// Changes what is named; the rest stays. Every machine puts all of it into force once, within ten seconds.
#[utoipa::path(
    put, path = "/v1/isolation", tag = "operation", operation_id = "set_site_isolation",
    request_body = IsolationSettings,
    responses((status = 200, body = SiteIsolationView))
)]
pub(super) async fn set(
    State(app): State<App>,
    sight: Sight,
    Json(body): Json<IsolationSettings>,
) -> Result<axum::Json<SiteIsolationView>, Refusal> {
    if body == IsolationSettings::default() {
        return Err(Refusal::invalid("Name a setting: `off`, `mode`, `buffer_cores` or `memory_bytes`."));
    }
    body.check().map_err(|_| {
        let cores = format!("`buffer_cores` is a whole number from 1 to {ISOLATION_CORES_MAX}");
        Refusal::invalid(format!("{cores}, and `memory_bytes` is no more than a machine can have."))
    })?;
    let set = app.catalog.set_site_isolation(&sight.actor(), &body).await?;
    Ok(axum::Json(site_isolation_view(Some(set))))
}
