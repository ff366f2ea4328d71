//! Triggers over REST: for which changes of objects a tenant's functions are called by the site.

use axum::extract::State;
use mfaas_catalog::{CatalogError, ObjectEvents, Trigger, WatchedChanges};
use mfaas_ident::{FunctionName, ResourceKind, TriggerName};
use mfaas_rules::codes;
use mfaas_wire::{ObjectChange, Page, Removed, SetTrigger, TRIGGER_PREFIX_BYTES_MAX, TriggerView, schema};

use crate::caller::Caller;
use crate::extract::{Json, Path};
use crate::refusal::Refusal;
use crate::responses::triggers::trigger_views;
use crate::state::App;

/// The triggers of a function, by name, with what came of their events.
#[utoipa::path(
    get, path = "/v1/functions/{name}/triggers", tag = "functions", operation_id = "list_triggers",
    params(("name" = inline(schema::FunctionName), Path, description = "The function")),
    responses((status = 200, body = Page<TriggerView>))
)]
pub(super) async fn list(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<FunctionName>,
) -> Result<axum::Json<Page<TriggerView>>, Refusal> {
    let found = app.catalog.triggers(&caller.tenant, &name).await?;
    Ok(axum::Json(Page { items: trigger_views(&app, found).await?, next: None }))
}

/// Says for which changes of objects a function is called: its version that is live then, by `POST`, with one change as JSON. Replaces
/// what the trigger said; events that waited for that are dropped, unless it said the same.
#[utoipa::path(
    put, path = "/v1/functions/{name}/triggers/{trigger}", tag = "functions", operation_id = "set_trigger",
    params(
        ("name" = inline(schema::FunctionName), Path, description = "The function"),
        ("trigger" = inline(schema::TriggerName), Path, description = "The trigger"),
    ),
    request_body = SetTrigger,
    responses((status = 200, body = TriggerView))
)]
pub(super) async fn set(
    State(app): State<App>,
    caller: Caller,
    Path((name, trigger)): Path<(FunctionName, TriggerName)>,
    Json(body): Json<SetTrigger>,
) -> Result<axum::Json<TriggerView>, Refusal> {
    let changes = changes(body)?;
    // Says that there is no such function.
    app.catalog.function(&caller.tenant, &name).await?;
    let no_events = || Refusal::new(codes::MF1222, "The server of this site was not told where events are.");
    let events = app.events.as_ref().ok_or_else(no_events)?;
    demand_objects(&app, events, &caller, &changes).await?;
    let set = app.catalog.set_trigger(&caller.actor(), &caller.tenant, &name, (&trigger, &changes)).await?;
    // In this order: what is watched and not in the catalog is taken for deleted.
    events.watch(&set).await.map_err(unanswered)?;
    first_view(&app, set).await.map(axum::Json)
}

/// Removes a trigger, and events that wait for it. A call that has begun goes on.
#[utoipa::path(
    delete, path = "/v1/functions/{name}/triggers/{trigger}", tag = "functions", operation_id = "delete_trigger",
    params(
        ("name" = inline(schema::FunctionName), Path, description = "The function"),
        ("trigger" = inline(schema::TriggerName), Path, description = "The trigger"),
    ),
    responses((status = 200, body = Removed))
)]
pub(super) async fn delete(
    State(app): State<App>,
    caller: Caller,
    Path((name, trigger)): Path<(FunctionName, TriggerName)>,
) -> Result<axum::Json<Removed>, Refusal> {
    let id = app.catalog.delete_trigger(&caller.actor(), &caller.tenant, &name, &trigger).await?;
    if let Some(events) = &app.events
        && let Err(error) = events.remove(&[id]).await
    {
        // No event of it is called for any more; the next comparison removes them.
        tracing::warn!(%error, %trigger, "events of a deleted trigger are not removed yet");
    }
    Ok(axum::Json(Removed { removed: format!("trigger {trigger} of {name}") }))
}

/// Which changes are meant.
fn changes(body: SetTrigger) -> Result<WatchedChanges, Refusal> {
    if body.prefix.len() > TRIGGER_PREFIX_BYTES_MAX || body.prefix.contains('\0') {
        let what = format!("`prefix` has {TRIGGER_PREFIX_BYTES_MAX} bytes at most, and none that is zero.");
        return Err(Refusal::invalid(what));
    }
    let on = |change| body.on.contains(&change);
    let (on_put, on_delete) = (on(ObjectChange::Put), on(ObjectChange::Delete));
    if body.on.len() != usize::from(on_put) + usize::from(on_delete) || body.on.is_empty() {
        return Err(Refusal::invalid("`on` names `put`, `delete` or both, each once."));
    }
    Ok(WatchedChanges { resource: body.resource, prefix: body.prefix, on_put, on_delete })
}

/// Refuses what the tenant may not read, and what has no events.
async fn demand_objects(
    app: &App,
    events: &ObjectEvents,
    caller: &Caller,
    changes: &WatchedChanges,
) -> Result<(), Refusal> {
    let resource = &changes.resource;
    match app.catalog.granted_kind(&caller.tenant, resource).await? {
        None => {
            let what = format!("The tenant {} was not granted the resource `{resource}`.", caller.tenant);
            return Err(Refusal::new(codes::MF1201, what));
        }
        Some(ResourceKind::Object) => {}
        Some(other) => {
            let what =
                format!("`{resource}` is of the kind {}, and only objects have events.", other.as_str());
            return Err(Refusal::new(codes::MF1223, what));
        }
    }
    if events.lies_here(resource).await.map_err(unanswered)? {
        return Ok(());
    }
    let what = format!("`{resource}` lies in a Redis server, which keeps no objects.");
    Err(Refusal::new(codes::MF1223, what))
}

fn unanswered(error: CatalogError) -> Refusal {
    Refusal::unavailable("The database of events does not answer; set the trigger again.", error)
}

async fn first_view(app: &App, trigger: Trigger) -> Result<TriggerView, Refusal> {
    let mut views = trigger_views(app, vec![trigger]).await?;
    views.pop().ok_or_else(|| Refusal::internal("a trigger without a view"))
}
