//! News of deployments: one listener on the catalog, any number of event streams.
//!
//! A stream reads the catalog itself; what travels inside the process is only the hint that
//! there is something to read. A lost hint costs at most one poll interval, never an event.

use std::convert::Infallible;

use axum::response::sse;
use futures::Stream;
use mfaas_catalog::CatalogError;
use mfaas_delivery::{DeploymentState, Event};
use mfaas_ident::{DeploymentId, TenantName};
use tokio::sync::broadcast;
use tokio::time::{Instant, timeout};

use crate::app::App;
use crate::limits;
use crate::views;

/// Hints that wait for a slow stream; one that falls behind further just reads.
const HINTS_MAX: usize = 1_024;

/// Spreads hints to the streams of this process.
#[derive(Clone)]
pub struct News(broadcast::Sender<DeploymentId>);

impl Default for News {
    fn default() -> Self {
        Self(broadcast::Sender::new(HINTS_MAX))
    }
}

impl News {
    /// Tells every stream that this deployment has something new.
    pub fn tell(&self, id: DeploymentId) {
        // Nobody listening is no failure.
        let _ = self.0.send(id);
    }

    fn listen(&self) -> broadcast::Receiver<DeploymentId> {
        self.0.subscribe()
    }
}

/// Events of one deployment behind `after`, as they happen, until it is final or waits.
pub struct Follow {
    app: App,
    tenant: TenantName,
    id: DeploymentId,
    after: u64,
    state: DeploymentState,
    hints: broadcast::Receiver<DeploymentId>,
    ends_at: Instant,
}

impl Follow {
    /// Follows a deployment of the tenant; another's is not found.
    pub async fn new(
        app: &App,
        tenant: TenantName,
        id: DeploymentId,
        after: u64,
    ) -> Result<Self, CatalogError> {
        // Listening begins before the first look, so that nothing falls between the two.
        let hints = app.news.listen();
        let state = app.catalog.deployment(&tenant, id).await?.state;
        let ends_at = Instant::now() + limits::STREAM_LIFE_MAX;
        Ok(Self { app: app.clone(), tenant, id, after, state, hints, ends_at })
    }

    /// The stream; it ends early when the server stops or the database is away, and the client
    /// resumes with the id of the last event it saw.
    pub fn stream(mut self) -> impl Stream<Item = Result<sse::Event, Infallible>> {
        async_stream::stream! {
            loop {
                let page = match self.read().await {
                    Ok(page) => page,
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

    async fn read(&mut self) -> Result<Vec<Event>, CatalogError> {
        let page = self
            .app
            .catalog
            .events_after(&self.tenant, self.id, self.after, limits::EVENTS_PER_READ_MAX)
            .await?;
        if let Some(last) = page.last() {
            self.after = last.seq;
        }
        if let Some(state) = page.iter().rev().find_map(|event| event.state) {
            self.state = state;
        }
        Ok(page)
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
    bare.json_data(views::event(event)).unwrap_or_else(|_| sse::Event::default().comment("unreadable event"))
}
