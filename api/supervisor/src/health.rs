//! What a program that listens says of itself.

use std::time::Duration;

use mfaas_ident::sanitise_line;
use mfaas_wire::{PartStatus, Readiness};
use serde::Serialize;

use crate::error::{SupervisorError, innermost};

/// How long a program may take to say how it is.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(3);

/// The largest answer that is read, in bytes: a page of nodes is the largest of them.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// Of what a program says is wrong with it.
const REASON_CHARS_MAX: usize = 300;

/// A client for programs of this machine.
pub fn client() -> Result<reqwest::Client, SupervisorError> {
    client_from(reqwest::Client::builder())
}

/// The same with what a builder already says about certificates.
pub fn client_from(builder: reqwest::ClientBuilder) -> Result<reqwest::Client, SupervisorError> {
    builder
        .timeout(ANSWER_WAIT_MAX)
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        // A connection that is kept says nothing about whether others are taken.
        .pool_max_idle_per_host(0)
        .build()
        .map_err(|error| SupervisorError::Local(format!("cannot make an HTTP client: {error}")))
}

/// Something that a program goes on without.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Trouble {
    /// As the program calls it.
    pub part: String,
    /// What is wrong with it.
    pub cause: String,
}

impl std::fmt::Display for Trouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.part, self.cause)
    }
}

/// What the program at `base`, which is ready, goes on without; or a line that says why it is not ready.
pub async fn ask(http: &reqwest::Client, base: &str) -> Result<Vec<Trouble>, String> {
    let answer = get(http, base, "/readyz").await?;
    let is_ready = answer.status().is_success();
    let answer = body(answer).await.unwrap_or_default();
    let answer = String::from_utf8_lossy(&answer);
    if is_ready {
        return Ok(troubles(&answer));
    }
    // A problem of the server's, or a sentence.
    let problem: Option<serde_json::Value> = serde_json::from_str(&answer).ok();
    let detail =
        problem.as_ref().and_then(|problem| problem["detail"].as_str().or(problem["title"].as_str()));
    Err(sanitise_line(detail.unwrap_or(answer.trim()), REASON_CHARS_MAX))
}

/// A node answers with a sentence, and has no parts.
fn troubles(answer: &str) -> Vec<Trouble> {
    let Ok(readiness) = serde_json::from_str::<Readiness>(answer) else { return Vec::new() };
    let degraded = readiness.parts.into_iter().filter(|part| part.status == PartStatus::Degraded);
    degraded
        .map(|part| Trouble {
            part: sanitise_line(&part.name, REASON_CHARS_MAX),
            cause: sanitise_line(part.cause.as_deref().unwrap_or("no cause was told"), REASON_CHARS_MAX),
        })
        .collect()
}

/// What the program at `base` answers at a path, or a line that says that it does not answer.
pub(crate) async fn get(http: &reqwest::Client, base: &str, path: &str) -> Result<reqwest::Response, String> {
    let base = base.trim_end_matches('/');
    http.get(format!("{base}{path}")).send().await.map_err(|error| {
        if error.is_timeout() {
            format!("no answer from {base} within {} s", ANSWER_WAIT_MAX.as_secs())
        } else {
            format!("{base} takes no connection: {}", innermost(&error))
        }
    })
}

/// The body of an answer, if it is not larger than what we are willing to hold.
pub(crate) async fn body(mut answer: reqwest::Response) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(|error| innermost(&error))? {
        if bytes.len() + chunk.len() > ANSWER_BYTES_MAX {
            return Err(format!("the answer is larger than {} MiB", ANSWER_BYTES_MAX >> 20));
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests;
