//! Triggers as the tenant sees them.

use std::collections::HashMap;

use chrono::DateTime;
use mfaas_catalog::{Trigger, TriggerState};
use mfaas_ident::sanitise_line;
use mfaas_wire::{EndedCallView, ObjectChange, TriggerView};

use crate::refusal::Refusal;
use crate::state::App;

/// The longest name of who set a trigger, in bytes.
const ACTOR_BYTES_MAX: usize = 200;

/// Triggers with what came of their events.
pub(crate) async fn trigger_views(app: &App, triggers: Vec<Trigger>) -> Result<Vec<TriggerView>, Refusal> {
    let ids: Vec<_> = triggers.iter().map(|trigger| trigger.id).collect();
    let states = match &app.events {
        Some(events) if !ids.is_empty() => events.states(&ids).await.map_err(|error| {
            Refusal::unavailable("The database of events does not answer; try again later.", error)
        })?,
        Some(_) | None => Vec::new(),
    };
    let mut states: HashMap<_, _> = states.into_iter().collect();
    let views = triggers.into_iter().map(|trigger| {
        let word = match (&app.events, trigger.is_granted) {
            (None, _) => "off",
            (Some(_), false) => "not_granted",
            (Some(_), true) => "active",
        };
        let state = states.remove(&trigger.id).unwrap_or_default();
        view(trigger, state, word)
    });
    Ok(views.collect())
}

/// The same for a page that shows more than triggers: it is there also when the database of events is not.
pub(crate) async fn trigger_views_if_known(app: &App, triggers: Vec<Trigger>) -> Vec<TriggerView> {
    match trigger_views(app, triggers.clone()).await {
        Ok(views) => views,
        Err(refusal) => {
            tracing::warn!(cause = refusal.cause(), "a page does not show what came of triggers");
            let unknown = |trigger| view(trigger, TriggerState::default(), "unknown");
            triggers.into_iter().map(unknown).collect()
        }
    }
}

fn view(trigger: Trigger, state: TriggerState, word: &str) -> TriggerView {
    let on = [(trigger.changes.on_put, ObjectChange::Put), (trigger.changes.on_delete, ObjectChange::Delete)];
    let last = state.last.map(|(at, outcome, status, code)| EndedCallView {
        ended_at: DateTime::from_timestamp_millis(at).unwrap_or_default(),
        outcome,
        status,
        code,
    });
    TriggerView {
        function: trigger.function,
        name: trigger.name,
        resource: trigger.changes.resource,
        prefix: trigger.changes.prefix,
        on: on.into_iter().filter_map(|(is_on, change)| is_on.then_some(change)).collect(),
        set_at: trigger.set_at,
        set_by: sanitise_line(&trigger.set_by, ACTOR_BYTES_MAX),
        state: word.to_owned(),
        waiting: state.waiting,
        oldest_at: state.oldest_ms.and_then(DateTime::from_timestamp_millis),
        delivered: state.delivered,
        failed: state.failed,
        dropped: state.dropped,
        last,
    }
}
