//! News of deployments: one listener on the catalog, any number of event streams.
//!
//! What travels inside the process is only the hint that there is something to read. A lost hint costs
//! at most one poll interval, never an event.

use mfaas_ident::DeploymentId;
use tokio::sync::broadcast;

/// Hints that wait for a slow stream; one that falls behind further just reads.
const HINTS_MAX: usize = 1_024;

/// Spreads hints to the streams of this process.
#[derive(Clone)]
pub(crate) struct News(broadcast::Sender<DeploymentId>);

impl Default for News {
    fn default() -> Self {
        Self(broadcast::Sender::new(HINTS_MAX))
    }
}

impl News {
    /// Tells every stream that this deployment has something new.
    pub(crate) fn tell(&self, id: DeploymentId) {
        // Nobody listening is no failure.
        let _ = self.0.send(id);
    }

    /// Hints from now on.
    pub(crate) fn listen(&self) -> broadcast::Receiver<DeploymentId> {
        self.0.subscribe()
    }
}
