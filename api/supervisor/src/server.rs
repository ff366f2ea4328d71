//! What the supervisor asks the server, with the token of a profile.
//!
//! Must never ask another machine: the token travels in the clear.

use std::time::Duration;

use mfaas_wire::Problem;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{SupervisorError, innermost};
use crate::health;

/// How long an exchange may take.
const EXCHANGE_WAIT_MAX: Duration = Duration::from_secs(60);

/// The server of this machine.
pub(crate) struct Server {
    http: reqwest::Client,
    runtime: tokio::runtime::Runtime,
    base: String,
}

impl Server {
    /// The server that listens at `address`, which is of this machine.
    pub(crate) fn at(address: &str) -> Result<Self, SupervisorError> {
        Ok(Self { http: health::client()?, runtime: runtime()?, base: format!("http://{address}") })
    }

    /// GET of a JSON document. The supervisor itself is single-threaded and waits for nothing else meanwhile.
    pub(crate) fn get<T: DeserializeOwned>(&self, token: &str, path: &str) -> Result<T, String> {
        self.exchange(self.http.get(self.url(path)).bearer_auth(token), path)
    }

    /// POST of a JSON document, answered by another one.
    pub(crate) fn post<B: Serialize, T: DeserializeOwned>(
        &self,
        token: &str,
        path: &str,
        body: &B,
    ) -> Result<T, String> {
        self.exchange(self.http.post(self.url(path)).bearer_auth(token).json(body), path)
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    fn exchange<T: DeserializeOwned>(
        &self,
        request: reqwest::RequestBuilder,
        path: &str,
    ) -> Result<T, String> {
        self.runtime.block_on(async {
            let answer = request.timeout(EXCHANGE_WAIT_MAX).send().await;
            let answer =
                answer.map_err(|error| format!("cannot reach {}: {}", self.base, innermost(&error)))?;
            let status = answer.status();
            let body = health::body(answer).await?;
            if !status.is_success() {
                return Err(refusal(&body).unwrap_or_else(|| format!("{path} answered with status {status}")));
            }
            serde_json::from_slice(&body)
                .map_err(|error| format!("{path} answered with something unexpected: {error}"))
        })
    }

    /// What a program at `address` goes on without, or why it is not ready.
    pub(crate) fn ask(&self, address: &str) -> Result<Vec<health::Trouble>, String> {
        self.runtime.block_on(health::ask(&self.http, &format!("http://{address}")))
    }
}

/// The sentence of a problem document.
fn refusal(body: &[u8]) -> Option<String> {
    let problem: Problem = serde_json::from_slice(body).ok()?;
    let detail = if problem.detail.is_empty() { problem.title } else { problem.detail };
    Some(format!("{}: {detail}", problem.code))
}

/// For one exchange after another.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime, SupervisorError> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| SupervisorError::Local(format!("cannot start the runtime: {error}")))
}
