//! Calls that the site makes by itself, for schedules and triggers: how one is made, and what an answer says of it.
//!
//! What no node has begun is told apart from what one may have begun: only its caller knows what may be done twice.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use http::StatusCode;
use http::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use mfaas_catalog::{Actor, RunEnd, RunOutcome};
use mfaas_ident::{FunctionName, PersonName, TenantName};
use mfaas_rules::{Code, codes};

use crate::refusal::Refusal;
use crate::state::App;
use crate::{calling, limits};

/// With these a node says that it has begun nothing, and may take the call later. A function that says the same is called again.
const NOT_BEGUN: [Code; 6] =
    [codes::MF0811, codes::MF0815, codes::MF0816, codes::MF0818, codes::MF0820, codes::MF0824];

/// Whose token it is, and whom it names.
type Whose = (TenantName, FunctionName, String);

/// A call by the site.
pub(crate) struct SiteCall<'a> {
    pub(crate) tenant: &'a TenantName,
    pub(crate) function: &'a FunctionName,
    /// Who calls: the schedule or the trigger.
    pub(crate) caller: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

/// What all of them share.
pub(crate) struct SiteCalls {
    app: App,
    http: reqwest::Client,
    /// Tokens that are used for some time, since each one has a record.
    tokens: Mutex<HashMap<Whose, (Instant, HeaderValue)>>,
}

/// What came of trying a call.
pub(crate) enum Tried {
    /// It is over, or nobody knows whether it began.
    Ended(RunEnd),
    /// It did not begin.
    NotTaken(RunEnd),
}

impl SiteCalls {
    /// For calls that take so long at most.
    pub(crate) fn new(app: App, time_max: Duration) -> Result<Self, Refusal> {
        Ok(Self { app, http: calling::http(time_max)?, tokens: Mutex::default() })
    }

    /// Calls a node once.
    pub(crate) async fn try_call(&self, call: &SiteCall<'_>) -> Tried {
        let (url, headers) = match self.prepare(call).await {
            Ok(prepared) => prepared,
            Err(refusal) => return refused(&refusal),
        };
        let request = self.http.post(url).headers(headers).body(call.body.clone());
        match request.send().await {
            Ok(answer) => self.judge(call, answer).await,
            // It has not left this machine. Of anything else nobody knows what the node made of it.
            Err(error) if error.is_connect() => Tried::NotTaken(unreachable(None)),
            Err(_) => Tried::Ended(unreachable(None)),
        }
    }

    async fn prepare(&self, call: &SiteCall<'_>) -> Result<(reqwest::Url, HeaderMap), Refusal> {
        let (_, url) = calling::node_for(&self.app, call.tenant, call.function, None).await?;
        let mut headers = call.headers.clone();
        headers.insert(AUTHORIZATION, self.bearer(call).await?);
        Ok((url, headers))
    }

    /// A call token that names the caller.
    async fn bearer(&self, call: &SiteCall<'_>) -> Result<HeaderValue, Refusal> {
        let whose = whose(call);
        if let Some((made, bearer)) = self.tokens().get(&whose)
            && made.elapsed() < limits::SITE_CALL_TOKEN_USED
        {
            return Ok(bearer.clone());
        }
        let named = PersonName::parse(&call.caller).map_err(Refusal::internal)?;
        let (actor, life) = (Actor::program("mfaas-server"), limits::SITE_CALL_TOKEN_LIFE);
        let bearer = calling::bearer(&self.app, &actor, (call.tenant, named), call.function, life).await?;
        let mut tokens = self.tokens();
        tokens.retain(|_, (made, _)| made.elapsed() < limits::SITE_CALL_TOKEN_USED);
        tokens.insert(whose, (Instant::now(), bearer.clone()));
        Ok(bearer)
    }

    /// It may have been revoked: the next call brings another one, if this one was not made just now.
    fn forget_token(&self, call: &SiteCall<'_>) {
        let (whose, mut tokens) = (whose(call), self.tokens());
        if tokens.get(&whose).is_some_and(|(made, _)| made.elapsed() >= limits::SITE_CALL_TOKEN_USED_MIN) {
            tokens.remove(&whose);
        }
    }

    fn tokens(&self) -> MutexGuard<'_, HashMap<Whose, (Instant, HeaderValue)>> {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What an answer comes to.
    async fn judge(&self, call: &SiteCall<'_>, answer: reqwest::Response) -> Tried {
        let status = answer.status();
        if status.as_u16() < 400 {
            let (status, code) = (Some(status.as_u16()), None);
            return Tried::Ended(RunEnd { outcome: RunOutcome::Answered, status, code });
        }
        let code = code_of(answer).await;
        if status == StatusCode::UNAUTHORIZED {
            self.forget_token(call);
        }
        let is_for_now =
            [StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE, StatusCode::UNAUTHORIZED]
                .contains(&status);
        let has_not_begun =
            is_for_now && code.as_deref().is_some_and(|code| NOT_BEGUN.iter().any(|not| not.id() == code));
        let end = RunEnd { outcome: RunOutcome::Failed, status: Some(status.as_u16()), code };
        if has_not_begun { Tried::NotTaken(end) } else { Tried::Ended(end) }
    }
}

/// How a call ended that no node took, or none answered.
pub(crate) fn unreachable(code: Option<String>) -> RunEnd {
    RunEnd { outcome: RunOutcome::Unreachable, status: None, code }
}

fn whose(call: &SiteCall<'_>) -> Whose {
    (call.tenant.clone(), call.function.clone(), call.caller.clone())
}

/// A call that did not leave: the function may be gone for good, or its nodes for a while.
fn refused(refusal: &Refusal) -> Tried {
    let code = refusal.problem().code.clone();
    let is_gone = code == codes::MF0903.id();
    let end = unreachable(Some(code));
    if is_gone { Tried::Ended(end) } else { Tried::NotTaken(end) }
}

/// The code of a problem document, if the answer is one of a node's.
async fn code_of(mut answer: reqwest::Response) -> Option<String> {
    let mut bytes = Vec::new();
    while let Ok(Some(piece)) = answer.chunk().await {
        bytes.extend_from_slice(&piece);
        if bytes.len() > limits::SITE_CALL_ANSWER_BYTES_MAX {
            return None;
        }
    }
    let document: serde_json::Value = serde_json::from_slice(&bytes).ok()?;
    let code = document.get("code")?.as_str()?;
    let is_code = code.len() == 6 && code.starts_with("MF") && code[2..].bytes().all(|b| b.is_ascii_digit());
    is_code.then(|| code.to_owned())
}
