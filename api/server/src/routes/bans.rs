//! Bans: what crashed workers on some node and therefore runs on none.

use axum::extract::State;
use mfaas_wire::schema;
use mfaas_wire::{BanView, Page};

use crate::caller::Sight;
use crate::extract::Path;
use crate::limits;
use crate::refusal::Refusal;
use crate::responses;
use crate::state::App;

/// Bans in force, newest first: of the caller's tenant, for scope `operate` of all.
#[utoipa::path(
    get, path = "/v1/bans", tag = "operation", operation_id = "list_bans",
    params(("tenant" = inline(Option<schema::TenantName>), Query, description = "One tenant; for scope `operate` all when absent, for others their own")),
    responses((status = 200, body = Page<BanView>))
)]
pub(super) async fn list(State(app): State<App>, sight: Sight) -> Result<axum::Json<Page<BanView>>, Refusal> {
    let rows = app.catalog.bans(sight.tenant.as_ref(), None, limits::BANS_SHOWN_MAX).await?;
    Ok(axum::Json(Page { items: rows.into_iter().map(responses::ban).collect(), next: None }))
}

/// Lifts a ban: nodes run the artifact again, and ban it again if it crashes again.
#[utoipa::path(
    delete, path = "/v1/bans/{id}", tag = "operation", operation_id = "lift_ban",
    params(("id" = inline(schema::RowId), Path, description = "The ban")),
    responses((status = 200, body = BanView))
)]
pub(super) async fn lift(
    State(app): State<App>,
    sight: Sight,
    Path(id): Path<i64>,
) -> Result<axum::Json<BanView>, Refusal> {
    Ok(axum::Json(responses::ban(app.catalog.lift_ban(&sight.actor(), id).await?)))
}
