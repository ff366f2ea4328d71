//! Schedules over REST: when a tenant's functions are called by the site.

use axum::extract::State;
use chrono::Utc;
use mfaas_catalog::NewSchedule;
use mfaas_ident::{FunctionName, ScheduleName};
use mfaas_wire::{Page, Removed, SCHEDULE_BODY_BYTES_MAX, ScheduleView, SetSchedule, schema};

use crate::caller::Caller;
use crate::cron;
use crate::extract::{Json, Path};
use crate::refusal::Refusal;
use crate::responses::schedules::schedule_view;
use crate::state::App;

/// The schedules of a function, by name, with what came of the last call of each.
#[utoipa::path(
    get, path = "/v1/functions/{name}/schedules", tag = "functions", operation_id = "list_schedules",
    params(("name" = inline(schema::FunctionName), Path, description = "The function")),
    responses((status = 200, body = Page<ScheduleView>))
)]
pub(super) async fn list(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<FunctionName>,
) -> Result<axum::Json<Page<ScheduleView>>, Refusal> {
    let (found, now) = (app.catalog.schedules(&caller.tenant, &name).await?, Utc::now());
    let items = found.into_iter().map(|row| schedule_view(&name, row, now)).collect();
    Ok(axum::Json(Page { items, next: None }))
}

/// Says when a function is called, and with what: its version that is live then, by `POST`. Replaces what the schedule said.
#[utoipa::path(
    put, path = "/v1/functions/{name}/schedules/{schedule}", tag = "functions", operation_id = "set_schedule",
    params(
        ("name" = inline(schema::FunctionName), Path, description = "The function"),
        ("schedule" = inline(schema::ScheduleName), Path, description = "The schedule"),
    ),
    request_body = SetSchedule,
    responses((status = 200, body = ScheduleView))
)]
pub(super) async fn set(
    State(app): State<App>,
    caller: Caller,
    Path((name, schedule)): Path<(FunctionName, ScheduleName)>,
    Json(body): Json<SetSchedule>,
) -> Result<axum::Json<ScheduleView>, Refusal> {
    let now = Utc::now();
    cron::first(&body.cron, now).map_err(Refusal::invalid)?;
    if body.body.len() > SCHEDULE_BODY_BYTES_MAX || body.body.contains('\0') {
        let what = format!("`body` has {SCHEDULE_BODY_BYTES_MAX} bytes at most, and none that is zero.");
        return Err(Refusal::invalid(what));
    }
    let new = NewSchedule { name: &schedule, cron: &body.cron, body: &body.body };
    let set = app.catalog.set_schedule(&caller.actor(), &caller.tenant, &name, new, cron::next).await?;
    Ok(axum::Json(schedule_view(&name, set, now)))
}

/// Removes a schedule. A call that has begun goes on.
#[utoipa::path(
    delete, path = "/v1/functions/{name}/schedules/{schedule}", tag = "functions", operation_id = "delete_schedule",
    params(
        ("name" = inline(schema::FunctionName), Path, description = "The function"),
        ("schedule" = inline(schema::ScheduleName), Path, description = "The schedule"),
    ),
    responses((status = 200, body = Removed))
)]
pub(super) async fn delete(
    State(app): State<App>,
    caller: Caller,
    Path((name, schedule)): Path<(FunctionName, ScheduleName)>,
) -> Result<axum::Json<Removed>, Refusal> {
    app.catalog.delete_schedule(&caller.actor(), &caller.tenant, &name, &schedule).await?;
    Ok(axum::Json(Removed { removed: format!("schedule {schedule} of {name}") }))
}
