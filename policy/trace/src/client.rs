//! The way to the collector: one client for a signal, on a runtime of its own. The threads that export block, and belong to no
//! runtime. It follows no redirect: the headers of a request may hold a token.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use reqwest::redirect;
use tokio::runtime::Runtime;

/// A collector that gives no answer for so long is away, unless a variable names a shorter time.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// Why there is no way to a collector.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// It cannot be set up.
    #[error("what is sent to the collector needs a client: {0}")]
    Setup(#[from] reqwest::Error),
    /// There is no thread for it.
    #[error("what is sent to the collector needs a thread: {0}")]
    Thread(#[from] std::io::Error),
}

#[derive(Debug, Clone)]
pub(crate) struct CollectorClient {
    runtime: Arc<Runtime>,
    client: reqwest::Client,
    answer_max: Duration,
}

impl CollectorClient {
    /// Needs the program's TLS provider.
    pub(crate) fn start() -> Result<Self, ClientError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("collector")
            .enable_all()
            .build()?;
        let client = reqwest::Client::builder().redirect(redirect::Policy::none()).build()?;
        Ok(Self { runtime: Arc::new(runtime), client, answer_max: ANSWER_MAX })
    }

    /// The same, which waits for an answer as long as the first of these variables says that has a number of milliseconds.
    pub(crate) fn waiting(&self, variables: [&str; 2]) -> Self {
        let milliseconds = |name: &str| std::env::var(name).ok()?.parse().ok();
        let asked = variables.into_iter().find_map(milliseconds).map_or(ANSWER_MAX, Duration::from_millis);
        Self { answer_max: asked.min(ANSWER_MAX), ..self.clone() }
    }
}

#[async_trait]
impl HttpClient for CollectorClient {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (client, answer_max) = (self.client.clone(), self.answer_max);
        let sent = async move { tokio::time::timeout(answer_max, client.send_bytes(request)).await };
        self.runtime.spawn(sent).await??
    }
}

#[cfg(test)]
mod tests;
