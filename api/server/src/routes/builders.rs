//! Builders as operators see them.

use axum::extract::State;
use mfaas_catalog::Builder;
use mfaas_ident::sanitise_line;
use mfaas_wire::{BuilderView, BuildersView};

use crate::caller::Caller;
use crate::parts;
use crate::refusal::Refusal;
use crate::state::App;

/// What is shown of a builder's own words.
const TEXT_CHARS_MAX: usize = 500;

/// The builders that were seen lately, and how many of them have to agree.
#[utoipa::path(
    get, path = "/v1/builders", tag = "operation", operation_id = "list_builders",
    responses((status = 200, body = BuildersView))
)]
pub(super) async fn list(
    State(app): State<App>,
    _caller: Caller,
) -> Result<axum::Json<BuildersView>, Refusal> {
    let agreement = app.catalog.builds_agreement().await?;
    let builders = app.catalog.builders().await?;
    let identities = u32::try_from(parts::identities(&builders)).unwrap_or(u32::MAX);
    let builders = builders.into_iter().map(view).collect();
    Ok(axum::Json(BuildersView { agreement, identities, builders }))
}

fn view(builder: Builder) -> BuilderView {
    let shown = |text: String| sanitise_line(&text, TEXT_CHARS_MAX);
    BuilderView {
        instance: shown(builder.instance),
        role: shown(builder.role),
        seen_at: builder.seen_at,
        unwell: builder.unwell.map(shown),
    }
}
