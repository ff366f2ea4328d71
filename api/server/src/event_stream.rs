//! The events of one deployment as a stream: what the catalog holds, then what comes.

use std::convert::Infallible;

use axum::response::sse;
use futures::Stream;
use mfaas_catalog::CatalogError;
use mfaas_delivery::{DeploymentState, Event};
use mfaas_ident::DeploymentId;
use tokio::sync::broadcast;
use tokio::time::{Instant, timeout};

use crate::caller::Caller;
use crate::state::App;
use crate::{limits, responses};

/// Events of one deployment behind `after`, as they happen, until it is final or waits.
pub(crate) struct Follow {
    app: App,
    caller: Caller,
    id: DeploymentId,
    after: u64,
    state: DeploymentState,
    hints: broadcast::Receiver<DeploymentId>,
    /// When the caller's token was looked up last.
    looked_up: Instant,
    ends_at: Instant,
}

impl Follow {
    /// Follows a deployment of the tenant that the caller means; another's is not found.
    pub(crate) async fn new(
        app: &App,
        caller: Caller,
        id: DeploymentId,
        after: u64,
    ) -> Result<Self, CatalogError> {
        // Listening begins before the first look, so that nothing falls between the two.
        let hints = app.news.listen();
        let state = app.catalog.deployment(&caller.tenant, id).await?.state;
        let looked_up = Instant::now();
        let ends_at = looked_up + limits::STREAM_LIFE_MAX;
        Ok(Self { app: app.clone(), caller, id, after, state, hints, looked_up, ends_at })
    }

    /// The stream; it ends early when the server stops, the database is away or the caller's token ends, and the client
    /// resumes with the id of the last event it saw.
    pub(crate) fn stream(mut self) -> impl Stream<Item = Result<sse::Event, Infallible>> {
        async_stream::stream! {
            loop {
                let page = match self.read().await {
                    Ok(Some(page)) => page,
                    Ok(None) => return,
                    Err(error) => {
                        tracing::warn!(deployment = %self.id, %error, "an event stream was cut");
                        return;
                    }
                };
                let drained = page.len() < limits::EVENTS_PER_READ_MAX as usize;
                for event in page {
                    yield Ok(wire_event(event));
                }
                if drained && (self.state.ends_stream() || !self.wait().await) {
                    return;
                }
            }
        }
    }

    /// What is new; `None` when the caller may not read any more.
    async fn read(&mut self) -> Result<Option<Vec<Event>>, CatalogError> {
        if self.looked_up.elapsed() >= limits::STREAM_TOKEN_LOOK {
            if !self.app.catalog.is_token_good(self.caller.token.id).await? {
                return Ok(None);
            }
            self.looked_up = Instant::now();
        }
        let page = self
            .app
            .catalog
            .events_after(&self.caller.tenant, self.id, self.after, limits::EVENTS_PER_READ_MAX)
            .await?;
        if let Some(last) = page.last() {
            self.after = last.seq;
        }
        if let Some(state) = page.iter().rev().find_map(|event| event.state) {
            self.state = state;
        }
        Ok(Some(page))
    }

    /// Waits for a hint or the poll interval; `false` when the stream has to end.
    async fn wait(&mut self) -> bool {
        let hint = async {
            loop {
                match self.hints.recv().await {
                    Ok(id) if id == self.id => return,
                    Ok(_) => {}
                    Err(broadcast::error::RecvError::Lagged(_) | broadcast::error::RecvError::Closed) => {
                        return;
                    }
                }
            }
        };
        tokio::select! {
            // Both an early hint and the end of the interval mean: look again.
            _ = timeout(limits::STREAM_POLL, hint) => Instant::now() < self.ends_at,
            () = self.app.stop.cancelled() => false,
        }
    }
}

fn wire_event(event: Event) -> sse::Event {
    let (id, kind) = (event.seq.to_string(), event.kind.as_str());
    let bare = sse::Event::default().id(id).event(kind);
    // An event is plain data; it always has a JSON form.
    bare.json_data(responses::event(event))
        .unwrap_or_else(|_| sse::Event::default().comment("unreadable event"))
}
