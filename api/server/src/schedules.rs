//! Calls that schedules ask for. Each server looks what is due; the catalog gives each time to one of them.
//!
//! A time is called for once: a call that a node may have begun is never made again, and one that is lost with its server
//! stays lost. What no node has taken is tried again for a while. Must never let the schedules of one tenant take more than its
//! share of the places.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http::header::{HeaderName, HeaderValue};
use mfaas_catalog::{CatalogError, Claim, ClaimedRun, RunEnd, RunOutcome};
use mfaas_ident::{SCHEDULE_CALLER, TenantName};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::shares::Shares;
use crate::site_calls::{SiteCall, SiteCalls, Tried, unreachable};
use crate::state::App;
use crate::{cron, limits};

/// For which time the function is called; by which schedule, its call token says. Any caller can say the same.
const SCHEDULED_FOR: HeaderName = HeaderName::from_static("x-scheduled-for");

/// What all calls share.
struct Caller {
    app: App,
    calls: SiteCalls,
    /// Cancelled when calls have to end.
    cut: CancellationToken,
}

/// Calls what is due, until the server stops.
pub(crate) async fn run(app: App) {
    let calls = match SiteCalls::new(app.clone(), limits::SCHEDULED_CALL_TIME_MAX) {
        Ok(calls) => calls,
        Err(error) => {
            return tracing::error!(cause = error.cause(), "schedules are not called by this server");
        }
    };
    let caller = Arc::new(Caller { app: app.clone(), calls, cut: CancellationToken::new() });
    let places = Shares::new(limits::SCHEDULED_CALLS_MAX, limits::TENANT_SCHEDULED_CALLS_MAX);
    let mut calls = JoinSet::new();
    while !app.stop.is_cancelled() {
        if let Err(error) = begin_due(&caller, &places, &mut calls).await {
            tracing::warn!(%error, "cannot look which schedules are due; trying again");
        }
        tokio::select! {
            () = sleep(limits::SCHEDULES_LOOK_EVERY) => {}
            () = app.stop.cancelled() => {}
        }
        while calls.try_join_next().is_some() {}
    }
    let mut ended = pin!(async { while calls.join_next().await.is_some() {} });
    if timeout(limits::SCHEDULED_CALLS_DRAIN, ended.as_mut()).await.is_err() {
        tracing::warn!("calls of schedules are under way while the server stops, and count as lost");
        caller.cut.cancel();
        let _ = timeout(limits::SCHEDULED_CALLS_DRAIN, ended).await;
    }
}

/// Begins a call for each time that is due, as far as there is room.
async fn begin_due(
    caller: &Arc<Caller>,
    places: &Shares<TenantName>,
    calls: &mut JoinSet<()>,
) -> Result<(), CatalogError> {
    while places.taken() < limits::SCHEDULED_CALLS_MAX && !caller.app.stop.is_cancelled() {
        let (busy, lost_after) = (places.full(), limits::SCHEDULED_CALL_LOST_AFTER);
        match caller.app.catalog.claim_schedule(&busy, lost_after, cron::next).await? {
            None => return Ok(()),
            Some(Claim::Skipped) => count("skipped"),
            Some(Claim::Run(run)) => {
                // Nobody else takes places, so this one is there.
                let place = places.take(&run.tenant, 1);
                let caller = Arc::clone(caller);
                calls.spawn(async move {
                    let end = tokio::select! {
                        end = timeout(limits::SCHEDULED_CALL_TIME_MAX, caller.call(&run)) => end.unwrap_or(unreachable(None)),
                        () = caller.cut.cancelled() => RunEnd { outcome: RunOutcome::Lost, status: None, code: None },
                    };
                    caller.tell(&run, &end).await;
                    drop(place);
                });
            }
        }
    }
    Ok(())
}

impl Caller {
    /// Calls the function, and again as long as no node has taken the call.
    async fn call(&self, run: &ClaimedRun) -> RunEnd {
        for _ in 1..limits::SCHEDULED_CALL_TRIES {
            match self.try_call(run).await {
                Tried::Ended(end) => return end,
                Tried::NotTaken(_) => {}
            }
            tokio::select! {
                () = sleep(limits::SCHEDULED_CALL_PAUSE) => {}
                () = self.app.stop.cancelled() => {}
            }
        }
        match self.try_call(run).await {
            Tried::Ended(end) | Tried::NotTaken(end) => end,
        }
    }

    async fn try_call(&self, run: &ClaimedRun) -> Tried {
        let due_at = run.due_at.format("%Y-%m-%dT%H:%M:%SZ").to_string();
        let Ok(due_at) = HeaderValue::try_from(due_at) else { return Tried::Ended(unreachable(None)) };
        let call = SiteCall {
            tenant: &run.tenant,
            function: &run.function,
            caller: format!("{SCHEDULE_CALLER}{}", run.name),
            headers: [(SCHEDULED_FOR, due_at)].into_iter().collect(),
            body: run.body.clone(),
        };
        self.calls.try_call(&call).await
    }

    /// Writes down how a call ended.
    async fn tell(&self, run: &ClaimedRun, end: &RunEnd) {
        count(end.outcome.as_str());
        let ClaimedRun { tenant, function, name, .. } = run;
        let (outcome, code) = (end.outcome.as_str(), end.code.as_deref());
        tracing::debug!(%tenant, %function, schedule = %name, outcome, status = end.status, code, "called");
        for _ in 0..limits::SCHEDULED_END_TRIES {
            match self.app.catalog.end_run(run, end).await {
                Ok(()) => return,
                Err(error) => {
                    tracing::warn!(%tenant, %function, schedule = %name, %error, "the end of a scheduled call is not on record yet")
                }
            }
            sleep(Duration::from_secs(1)).await;
        }
    }
}

fn count(outcome: &'static str) {
    metrics::counter!("mfaas_scheduled_calls_total", "outcome" => outcome).increment(1);
}
