//! What a program that listens says of itself.

use std::time::Duration;

use mfaas_ident::sanitise_line;

use crate::client::innermost;
use crate::failure::Failure;

/// How long a program may take to say how it is.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(3);

/// Of what a program says is wrong with it.
const REASON_CHARS_MAX: usize = 300;

/// A client for programs of this machine.
pub(crate) fn client() -> Result<reqwest::Client, Failure> {
    reqwest::Client::builder()
        .timeout(ANSWER_WAIT_MAX)
        .no_proxy()
        // A connection that is kept says nothing about whether others are taken.
        .pool_max_idle_per_host(0)
        .build()
        .map_err(|error| Failure::Local(format!("cannot make an HTTP client: {error}")))
}

/// Nothing from the program at `base` that is ready; else a line that says why it is not.
pub(crate) async fn ask(http: &reqwest::Client, base: &str) -> Result<(), String> {
    let answer = get(http, base, "/readyz").await?;
    if answer.status().is_success() {
        return Ok(());
    }
    let answer = answer.text().await.unwrap_or_default();
    // A problem of the server's, or a sentence.
    let problem: Option<serde_json::Value> = serde_json::from_str(&answer).ok();
    let detail =
        problem.as_ref().and_then(|problem| problem["detail"].as_str().or(problem["title"].as_str()));
    Err(sanitise_line(detail.unwrap_or(answer.trim()), REASON_CHARS_MAX))
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
