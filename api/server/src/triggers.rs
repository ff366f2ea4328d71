//! Calls that triggers ask for. Brokers' commits have written the events; each server looks what waits, and the database of functions'
//! data hands each event to one of them, for a while.
//!
//! An event is called for at least once: a function may hear of one again, under the same number, and never of one that it was called
//! for in vain eight times. Must never let the events of one tenant take more than its share of the places, nor call for what the
//! tenant may not read at that moment.

use std::collections::HashSet;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::DateTime;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use mfaas_catalog::{
    CatalogError, EndedCall, EventEnd, ObjectEvents, RunEnd, RunOutcome, Trigger, WaitingEvent,
};
use mfaas_ident::{TRIGGER_CALLER, TenantName};
use mfaas_wire::ObjectEvent;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::limits;
use crate::shares::Shares;
use crate::site_calls::{SiteCall, SiteCalls, Tried, unreachable};
use crate::state::App;

/// What all calls share.
struct Caller {
    app: App,
    events: ObjectEvents,
    calls: SiteCalls,
    /// Cancelled when calls have to end.
    cut: CancellationToken,
}

/// Calls for what waits, until the server stops; nothing where it has no way to events.
pub(crate) async fn run(app: App) {
    let Some(events) = app.events.clone() else { return };
    let calls = match SiteCalls::new(app.clone(), limits::TRIGGERED_CALL_TIME_MAX) {
        Ok(calls) => calls,
        Err(error) => {
            return tracing::error!(cause = error.cause(), "triggers are not called by this server");
        }
    };
    let caller = Arc::new(Caller { app: app.clone(), events, calls, cut: CancellationToken::new() });
    let places = Shares::new(limits::TRIGGERED_CALLS_MAX, limits::TENANT_TRIGGERED_CALLS_MAX);
    let (mut calls, mut looked) = (JoinSet::new(), None::<Instant>);
    while !app.stop.is_cancelled() {
        let mut pause = limits::TRIGGERS_LOOK_EVERY;
        let looks_again = looked.is_none_or(|at| at.elapsed() >= limits::TRIGGERS_COMPARED_EVERY);
        if looks_again && let Err(error) = compare(&caller).await {
            tracing::warn!(
                %error,
                "triggers may be missing where events are written; trying again"
            );
            pause = limits::TRIGGERS_COMPARED_EVERY;
        } else if looks_again {
            looked = Some(Instant::now());
        }
        if let Err(error) = begin_due(&caller, &places, &mut calls).await {
            tracing::warn!(%error, "cannot look which events wait; trying again");
            pause = limits::TRIGGERS_COMPARED_EVERY;
        }
        tokio::select! {
            () = sleep(pause) => {}
            // There is room for another one.
            Some(_) = calls.join_next() => {}
            () = app.stop.cancelled() => {}
        }
        while calls.try_join_next().is_some() {}
    }
    let mut ended = pin!(async { while calls.join_next().await.is_some() {} });
    if timeout(limits::TRIGGERED_CALLS_DRAIN, ended.as_mut()).await.is_err() {
        caller.cut.cancel();
        let _ = timeout(limits::TRIGGERED_CALLS_DRAIN, ended).await;
    }
}

/// Brings to the events what the catalog has: triggers that are missing there, are none any more, or whose tenant may not read the
/// resource any more, or again.
async fn compare(caller: &Caller) -> Result<(), CatalogError> {
    // Before the catalog: one that is known there was set here before, so it is gone if it is not found.
    let known = caller.events.known().await?;
    let (mut gone, mut after) = (known.iter().map(|(id, _)| *id).collect::<HashSet<_>>(), None);
    loop {
        let page = caller.app.catalog.site_triggers(after, limits::TRIGGERS_PAGE_MAX).await?;
        for trigger in &page {
            gone.remove(&trigger.id);
            if !known.contains(&(trigger.id, trigger.is_granted)) {
                caller.events.watch(trigger).await?;
            }
        }
        after = page.last().map(|trigger| trigger.id);
        if after.is_none() {
            break;
        }
    }
    let gone: Vec<_> = gone.into_iter().collect();
    if !gone.is_empty() {
        caller.events.remove(&gone).await?;
    }
    let waiting = caller.events.waiting().await?;
    metrics::gauge!("mfaas_trigger_events_waiting").set(waiting.events as f64);
    metrics::gauge!("mfaas_trigger_oldest_event_seconds").set(waiting.oldest_seconds);
    Ok(())
}

/// Begins a call for each event that is due, as far as there is room.
async fn begin_due(
    caller: &Arc<Caller>,
    places: &Shares<TenantName>,
    calls: &mut JoinSet<()>,
) -> Result<(), CatalogError> {
    while places.taken() < limits::TRIGGERED_CALLS_MAX && !caller.app.stop.is_cancelled() {
        let claimed = caller.events.claim(&places.full(), limits::TRIGGERED_CALL_LEASE).await?;
        let Some(event) = claimed else { return Ok(()) };
        // Nobody else takes places, so this one is there. A tenant without a name has none, and no call.
        let place = TenantName::parse(&event.tenant).map(|tenant| places.take(&tenant, 1));
        let caller = Arc::clone(caller);
        calls.spawn(async move {
            let (end, run) = tokio::select! {
                ended = caller.call(&event) => ended,
                () = caller.cut.cancelled() => again_or_failed(&event, lost()),
            };
            caller.tell(&event, end, &run).await;
            drop(place);
        });
    }
    Ok(())
}

impl Caller {
    async fn call(&self, event: &WaitingEvent) -> (EventEnd, RunEnd) {
        if event.tries > limits::TRIGGERED_CALL_TRIES {
            // The last one was lost with its server.
            return (EventEnd::Failed, lost());
        }
        let trigger = match self.app.catalog.trigger(event.trigger).await {
            Ok(Some(trigger)) if trigger.is_granted => trigger,
            Ok(_) => return (EventEnd::Dropped, unreachable(None)),
            Err(_) => return again_or_failed(event, unreachable(None)),
        };
        let call = match site_call(&trigger, event) {
            Ok(call) => call,
            Err(error) => {
                tracing::error!(%error, event = event.id, "an event cannot be written as JSON");
                return (EventEnd::Failed, unreachable(None));
            }
        };
        let tried = timeout(limits::TRIGGERED_CALL_TIME_MAX, self.calls.try_call(&call)).await;
        let run = match tried {
            Ok(Tried::Ended(run) | Tried::NotTaken(run)) => run,
            Err(_) => unreachable(None),
        };
        match run.outcome {
            RunOutcome::Answered => (EventEnd::Delivered, run),
            RunOutcome::Failed | RunOutcome::Unreachable | RunOutcome::Lost => again_or_failed(event, run),
        }
    }

    /// Writes down how a call ended. What is not on record is called for again.
    async fn tell(&self, event: &WaitingEvent, end: EventEnd, run: &RunEnd) {
        let outcome = if end == EventEnd::Dropped { "dropped" } else { run.outcome.as_str() };
        metrics::counter!("mfaas_trigger_calls_total", "outcome" => outcome).increment(1);
        let code = run.code.as_deref();
        tracing::debug!(
            tenant = event.tenant,
            event = event.id,
            outcome,
            status = run.status,
            code,
            "called"
        );
        let ended = EndedCall { outcome, status: run.status, code };
        for _ in 0..limits::TRIGGERED_END_TRIES {
            match self.events.end(event, end, ended).await {
                Ok(()) => return,
                Err(error) => {
                    tracing::warn!(event = event.id, %error, "the end of a call for an event is not on record yet")
                }
            }
            sleep(Duration::from_secs(1)).await;
        }
    }
}

/// The call that an event asks for.
fn site_call<'a>(trigger: &'a Trigger, event: &WaitingEvent) -> Result<SiteCall<'a>, serde_json::Error> {
    let body = serde_json::to_string(&ObjectEvent {
        id: event.id,
        resource: trigger.changes.resource.clone(),
        name: String::from_utf8_lossy(&event.name).into_owned(),
        event: event.event.clone(),
        size: event.bytes,
        changed_at: DateTime::from_timestamp_millis(event.changed_at_ms).unwrap_or_default(),
    })?;
    let headers: HeaderMap =
        [(CONTENT_TYPE, HeaderValue::from_static("application/json"))].into_iter().collect();
    let caller = format!("{TRIGGER_CALLER}{}", trigger.name);
    Ok(SiteCall { tenant: &trigger.tenant, function: &trigger.function, caller, headers, body })
}

/// After a call that came to nothing: one more, later each time, up to the last.
fn again_or_failed(event: &WaitingEvent, run: RunEnd) -> (EventEnd, RunEnd) {
    if event.tries >= limits::TRIGGERED_CALL_TRIES {
        return (EventEnd::Failed, run);
    }
    (EventEnd::Again(pause_after(event.tries)), run)
}

/// What is waited after so many calls in vain: four times as long each time.
fn pause_after(tries: u32) -> Duration {
    let factor = 4_u32.saturating_pow(tries.saturating_sub(1));
    limits::TRIGGERED_CALL_PAUSE.saturating_mul(factor).min(limits::TRIGGERED_CALL_PAUSE_MAX)
}

fn lost() -> RunEnd {
    RunEnd { outcome: RunOutcome::Lost, status: None, code: None }
}

#[cfg(test)]
mod tests;
