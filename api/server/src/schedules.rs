//! Calls that schedules ask for. Each server looks what is due; the catalog gives each time to one of them.
//!
//! A time is called for once: a call that a node may have begun is never made again, and one that is lost with its server
//! stays lost. What no node has taken is tried again for a while. Must never let the schedules of one tenant take more than its
//! share of the places.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use http::StatusCode;
use http::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use mfaas_catalog::{Actor, CatalogError, Claim, ClaimedRun, RunEnd, RunOutcome};
use mfaas_ident::{FunctionName, PersonName, ScheduleName, TenantName};
use mfaas_rules::{Code, codes};
use mfaas_wire::SCHEDULE_CALLER;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::refusal::Refusal;
use crate::shares::Shares;
use crate::state::App;
use crate::{calling, cron, limits};

/// For which time the function is called; by which schedule, its call token says. Any caller can say the same.
const SCHEDULED_FOR: HeaderName = HeaderName::from_static("x-scheduled-for");

/// With these a node says that it has begun nothing, and may take the call later. A function that says the same is called again.
const NOT_BEGUN: [Code; 6] =
    [codes::MF0811, codes::MF0815, codes::MF0816, codes::MF0818, codes::MF0820, codes::MF0824];

/// Whose token it is.
type Whose = (TenantName, FunctionName, ScheduleName);

/// What all calls share.
struct Caller {
    app: App,
    http: reqwest::Client,
    /// Tokens that are used for some time, since each one has a record.
    tokens: Mutex<HashMap<Whose, (Instant, HeaderValue)>>,
    /// Cancelled when calls have to end.
    cut: CancellationToken,
}

/// Calls what is due, until the server stops.
pub(crate) async fn run(app: App) {
    let http = match calling::http(limits::SCHEDULED_CALL_TIME_MAX) {
        Ok(http) => http,
        Err(error) => {
            return tracing::error!(cause = error.cause(), "schedules are not called by this server");
        }
    };
    let (tokens, cut) = (Mutex::default(), CancellationToken::new());
    let caller = Arc::new(Caller { app: app.clone(), http, tokens, cut });
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
        let (url, headers) = match self.prepare(run).await {
            Ok(prepared) => prepared,
            Err(refusal) => return refused(&refusal),
        };
        let request = self.http.post(url).headers(headers).body(run.body.clone());
        match request.send().await {
            Ok(answer) => self.judge(run, answer).await,
            // It has not left this machine. Of anything else nobody knows what the node made of it.
            Err(error) if error.is_connect() => Tried::NotTaken(unreachable(None)),
            Err(_) => Tried::Ended(unreachable(None)),
        }
    }

    async fn prepare(&self, run: &ClaimedRun) -> Result<(reqwest::Url, HeaderMap), Refusal> {
        let (_, url) = calling::node_for(&self.app, &run.tenant, &run.function, None).await?;
        let due_at = run.due_at.format("%Y-%m-%dT%H:%M:%SZ").to_string();
        let due_at = HeaderValue::try_from(due_at).map_err(Refusal::internal)?;
        let headers = [(SCHEDULED_FOR, due_at), (AUTHORIZATION, self.bearer(run).await?)];
        Ok((url, headers.into_iter().collect()))
    }

    /// A call token that names the schedule as the caller.
    async fn bearer(&self, run: &ClaimedRun) -> Result<HeaderValue, Refusal> {
        let whose = (run.tenant.clone(), run.function.clone(), run.name.clone());
        if let Some((made, bearer)) = self.tokens().get(&whose)
            && made.elapsed() < limits::SCHEDULE_TOKEN_USED
        {
            return Ok(bearer.clone());
        }
        let named =
            PersonName::parse(&format!("{SCHEDULE_CALLER}{}", run.name)).map_err(Refusal::internal)?;
        let (actor, life) = (Actor::program("mfaas-server"), limits::SCHEDULE_TOKEN_LIFE);
        let bearer = calling::bearer(&self.app, &actor, (&run.tenant, named), &run.function, life).await?;
        let mut tokens = self.tokens();
        tokens.retain(|_, (made, _)| made.elapsed() < limits::SCHEDULE_TOKEN_USED);
        tokens.insert(whose, (Instant::now(), bearer.clone()));
        Ok(bearer)
    }

    /// It may have been revoked: the next call brings another one, if this one was not made just now.
    fn forget_token(&self, run: &ClaimedRun) {
        let whose = (run.tenant.clone(), run.function.clone(), run.name.clone());
        let mut tokens = self.tokens();
        if tokens.get(&whose).is_some_and(|(made, _)| made.elapsed() >= limits::SCHEDULE_TOKEN_USED_MIN) {
            tokens.remove(&whose);
        }
    }

    fn tokens(&self) -> std::sync::MutexGuard<'_, HashMap<Whose, (Instant, HeaderValue)>> {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What an answer comes to.
    async fn judge(&self, run: &ClaimedRun, answer: reqwest::Response) -> Tried {
        let status = answer.status();
        if status.as_u16() < 400 {
            let (status, code) = (Some(status.as_u16()), None);
            return Tried::Ended(RunEnd { outcome: RunOutcome::Answered, status, code });
        }
        let code = code_of(answer).await;
        if status == StatusCode::UNAUTHORIZED {
            self.forget_token(run);
        }
        let is_for_now =
            [StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE, StatusCode::UNAUTHORIZED]
                .contains(&status);
        let has_not_begun =
            is_for_now && code.as_deref().is_some_and(|code| NOT_BEGUN.iter().any(|not| not.id() == code));
        let end = RunEnd { outcome: RunOutcome::Failed, status: Some(status.as_u16()), code };
        if has_not_begun { Tried::NotTaken(end) } else { Tried::Ended(end) }
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

/// What came of trying a call.
enum Tried {
    /// It is over, or nobody knows whether it began.
    Ended(RunEnd),
    /// It did not begin.
    NotTaken(RunEnd),
}

/// A call that did not leave: the function may be gone for good, or its nodes for a while.
fn refused(refusal: &Refusal) -> Tried {
    let code = refusal.problem().code.clone();
    let is_gone = code == codes::MF0903.id();
    let end = unreachable(Some(code));
    if is_gone { Tried::Ended(end) } else { Tried::NotTaken(end) }
}

fn unreachable(code: Option<String>) -> RunEnd {
    RunEnd { outcome: RunOutcome::Unreachable, status: None, code }
}

/// The code of a problem document, if the answer is one of a node's.
async fn code_of(mut answer: reqwest::Response) -> Option<String> {
    let mut bytes = Vec::new();
    while let Ok(Some(piece)) = answer.chunk().await {
        bytes.extend_from_slice(&piece);
        if bytes.len() > limits::SCHEDULED_CALL_ANSWER_BYTES_MAX {
            return None;
        }
    }
    let document: serde_json::Value = serde_json::from_slice(&bytes).ok()?;
    let code = document.get("code")?.as_str()?;
    let is_code = code.len() == 6 && code.starts_with("MF") && code[2..].bytes().all(|b| b.is_ascii_digit());
    is_code.then(|| code.to_owned())
}

fn count(outcome: &'static str) {
    metrics::counter!("mfaas_scheduled_calls_total", "outcome" => outcome).increment(1);
}
