//! What calls used: of the caller's tenant, or of everybody for those who operate the site.

use axum::extract::State;
use mfaas_wire::UsageView;
use mfaas_wire::schema;

use crate::caller::Sight;
use crate::extract::Query;
use crate::refusal::Refusal;
use crate::responses::usage::{UsageParameters, usage_view};
use crate::state::App;

/// What calls used, summed up by hour, day (of UTC) or altogether; each version by itself.
#[utoipa::path(
    get, path = "/v1/usage", tag = "operation", operation_id = "usage",
    params(
        ("since" = inline(Option<schema::Moment>), Query, description = "RFC 3339, or how long ago (`90m`, `24h`, `7d`); 24h by default. Whole hours are counted"),
        ("until" = inline(Option<schema::Moment>), Query, description = "The same; now by default"),
        ("by" = inline(Option<schema::UsagePeriod>), Query, description = "`hour`, `day` or `total` (default)"),
        ("function" = inline(Option<schema::FunctionName>), Query, description = "One function"),
        ("tenant" = inline(Option<schema::TenantName>), Query, description = "One tenant; for scope `operate` all when absent, for others their own"),
    ),
    responses((status = 200, body = UsageView))
)]
pub(super) async fn usage(
    State(app): State<App>,
    sight: Sight,
    Query(parameters): Query<UsageParameters>,
) -> Result<axum::Json<UsageView>, Refusal> {
    Ok(axum::Json(usage_view(&app.catalog, sight.tenant.as_ref(), &parameters).await?))
}
