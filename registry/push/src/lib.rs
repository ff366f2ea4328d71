//! Brings nodes to the desired state: hands out the newest serving set, takes reports, and says
//! where the two differ.
//!
//! Nodes reconcile to the state, never through the history: whoever was away gets the newest set
//! and nothing else. Must never open or change a signed document, and never tell a node anything
//! that is not signed.

mod status;

use std::time::Duration;

use mfaas_catalog::{Catalog, CatalogError, Channel, NodeStatus, StoredServingSet};
use mfaas_delivery::{MessageError, Report};
use mfaas_ident::{Epoch, NodeName};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

pub use status::{Difference, Summary};

/// The longest time that a node may be kept waiting.
pub const LONG_POLL_MAX: Duration = Duration::from_secs(30);
/// How often the newest epoch is looked up without a wake-up; a lost notification costs this much.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Pause before a lost listener is made again.
const LISTEN_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Why a node's request was not served.
#[derive(Debug, thiserror::Error)]
pub enum PushError {
    /// The message breaks the protocol or its limits.
    #[error(transparent)]
    Message(#[from] MessageError),
    /// The catalog failed.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
}

/// One watcher of the newest epoch for all the nodes that wait on this server.
///
/// Dropping it stops the watcher.
#[derive(Debug)]
pub struct Push {
    catalog: Catalog,
    newest: watch::Receiver<Epoch>,
    watcher: JoinHandle<()>,
}

impl Drop for Push {
    fn drop(&mut self) {
        self.watcher.abort();
    }
}

impl Push {
    /// Starts watching. Needs a tokio runtime.
    pub fn start(catalog: Catalog) -> Self {
        let (sender, newest) = watch::channel(Epoch(0));
        let watcher = tokio::spawn(watch_epochs(catalog.clone(), sender));
        Self { catalog, newest, watcher }
    }

    /// The newest serving set as soon as its epoch is above `after`; `None` after `wait`
    /// ([`LONG_POLL_MAX`] at most).
    ///
    /// A node that asks with an epoch above ours gets nothing: it has seen what this server has
    /// not, for example a database restored from a backup, and must not be led back.
    pub async fn desired_for(
        &self,
        node: &NodeName,
        after: Epoch,
        wait: Duration,
    ) -> Result<Option<StoredServingSet>, PushError> {
        let until = Instant::now() + wait.min(LONG_POLL_MAX);
        let mut newest = self.newest.clone();
        loop {
            // Look before waiting: the watcher may be behind the database, never ahead of it.
            if let Some(set) = self.catalog.serving_set_after(after).await? {
                tracing::debug!(%node, epoch = %set.epoch, "handed out a serving set");
                return Ok(Some(set));
            }
            let changed = newest.wait_for(|epoch| *epoch > after);
            match tokio::time::timeout_at(until, changed).await {
                Ok(Ok(_)) => {}
                // Time is up, or the watcher has ended with the server.
                Ok(Err(_)) | Err(_) => return Ok(None),
            }
        }
    }

    /// Checks and keeps what a node says about itself; an older report than the last is dropped.
    pub async fn record_report(&self, node: &NodeName, report: &Report) -> Result<(), PushError> {
        report.check()?;
        if !self.catalog.record_report(node, report).await? {
            tracing::debug!(%node, sequence = report.sequence, "dropped an old report");
        }
        Ok(())
    }

    /// Every node, with what it should serve and what it said last.
    pub async fn nodes(&self) -> Result<Vec<NodeStatus>, PushError> {
        Ok(self.catalog.nodes().await?)
    }

    /// Desired against reported over all nodes.
    pub async fn summary(&self) -> Result<Summary, PushError> {
        Ok(Summary::of(&self.nodes().await?))
    }
}

/// Keeps `newest` at the newest epoch, for ever.
async fn watch_epochs(catalog: Catalog, newest: watch::Sender<Epoch>) {
    loop {
        if let Err(error) = follow(&catalog, &newest).await {
            tracing::warn!(%error, "lost the watch on serving sets, starting again");
        }
        tokio::time::sleep(LISTEN_AGAIN_AFTER).await;
    }
}

async fn follow(catalog: &Catalog, newest: &watch::Sender<Epoch>) -> Result<(), CatalogError> {
    let mut wakes = catalog.listen(&[Channel::ServingSet]).await?;
    loop {
        let known = *newest.borrow();
        if let Some(set) = catalog.serving_set_after(known).await? {
            newest.send_replace(set.epoch);
        }
        // Whatever woke us, the answer is to look.
        wakes.next(LOOK_EVERY).await?;
    }
}

#[cfg(test)]
mod tests;
