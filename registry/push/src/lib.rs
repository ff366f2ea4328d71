//! Brings nodes to the desired state: hands out the newest serving set and each node's directives, takes reports, and
//! says where desired and reported differ.
//!
//! Nodes reconcile to the state, never through the history: whoever was away gets the newest set
//! and nothing else. Must never open or change a signed document, and never tell a node to load anything
//! that is not signed: directives, which are not, can only take away.

mod status;

use std::time::Duration;

use mfaas_catalog::{Catalog, CatalogError, Channel, Held, NodeStatus, RecordedReport, StoredServingSet};
use mfaas_delivery::{Directives, MessageError, Report};
use mfaas_ident::{BuildVersion, Digest, NodeName};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

pub use status::{Difference, Summary};

/// The longest time that a node may be kept waiting.
pub const LONG_POLL_MAX: Duration = Duration::from_secs(30);
/// How often the newest set is looked up without a wake-up; a lost notification costs this much.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// How often the directives of waiting nodes are looked up without a wake-up.
const DIRECTIVES_LOOK_EVERY: Duration = Duration::from_secs(10);
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

/// Watchers of the newest set and of directives for all the nodes that wait on this server.
///
/// Dropping it stops them.
#[derive(Debug)]
pub struct Push {
    catalog: Catalog,
    /// The digest of the newest set.
    newest: watch::Receiver<Option<String>>,
    /// Changes with every hint that somebody's directives may have changed.
    directives: watch::Receiver<u64>,
    watchers: [JoinHandle<()>; 2],
}

impl Drop for Push {
    fn drop(&mut self) {
        self.watchers.iter().for_each(JoinHandle::abort);
    }
}

impl Push {
    /// Starts watching. Needs a tokio runtime.
    pub fn start(catalog: Catalog) -> Self {
        let (sender, newest) = watch::channel(None);
        let (hint, directives) = watch::channel(0);
        let watchers = [
            tokio::spawn(watch_sets(catalog.clone(), sender)),
            tokio::spawn(watch_directives(catalog.clone(), hint)),
        ];
        metrics::describe_histogram!(
            "mfaas_push_seconds",
            "From the signature of a serving set to a node's report that it is in force there."
        );
        Self { catalog, newest, directives, watchers }
    }

    /// The newest serving set as soon as it is another one than `held`; `None` after `wait`
    /// ([`LONG_POLL_MAX`] at most).
    ///
    /// A node may hold what this server has never seen, for example after a failover that lost it. It is given what there is,
    /// and is never led back by it: what is older it refuses.
    pub async fn desired_for(
        &self,
        node: &NodeName,
        held: Held,
        wait: Duration,
    ) -> Result<Option<StoredServingSet>, PushError> {
        let until = Instant::now() + wait.min(LONG_POLL_MAX);
        let mut newest = self.newest.clone();
        loop {
            // What is signed from here on is seen by the wait below.
            newest.mark_unchanged();
            if let Some(set) = self.catalog.serving_set_unless(&held).await? {
                tracing::debug!(%node, epoch = %set.epoch, "handed out a serving set");
                return Ok(Some(set));
            }
            match tokio::time::timeout_at(until, newest.changed()).await {
                Ok(Ok(())) => {}
                // Time is up, or the watcher has ended with the server.
                Ok(Err(_)) | Err(_) => return Ok(None),
            }
        }
    }

    /// The directives of the node as bytes, as soon as their digest is not `known`; `None` after `wait`
    /// ([`LONG_POLL_MAX`] at most).
    ///
    /// The bytes themselves are compared and no number of a version, so a database that was restored from a backup
    /// leads its nodes to what it holds.
    pub async fn directives_for(
        &self,
        node: &NodeName,
        known: Option<Digest>,
        wait: Duration,
    ) -> Result<Option<Vec<u8>>, PushError> {
        let until = Instant::now() + wait.min(LONG_POLL_MAX);
        let mut hints = self.directives.clone();
        loop {
            // What is hinted at from here on is seen by the wait below.
            hints.mark_unchanged();
            let directives = encode(&self.catalog.directives(node).await?);
            if known != Some(Digest::of(&directives)) {
                tracing::debug!(%node, "handed out directives");
                return Ok(Some(directives));
            }
            match tokio::time::timeout_at(until, hints.changed()).await {
                Ok(Ok(())) => {}
                // Time is up, or the watcher has ended with the server.
                Ok(Err(_)) | Err(_) => return Ok(None),
            }
        }
    }

    /// Checks and keeps what a node says about itself; an older report than the last is dropped.
    pub async fn record_report(
        &self,
        node: &NodeName,
        report: &Report,
        build: Option<&BuildVersion>,
    ) -> Result<(), PushError> {
        report.check()?;
        match self.catalog.record_report(node, report, build).await? {
            RecordedReport::Old => {
                tracing::debug!(%node, sequence = report.sequence, "dropped an old report");
            }
            RecordedReport::Kept => {}
            RecordedReport::Reached(after) => {
                tracing::debug!(%node, epoch = %report.epoch, ?after, "a node has reached a serving set");
                metrics::histogram!("mfaas_push_seconds").record(after.as_secs_f64());
            }
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

/// Names, digests and numbers: there is nothing in directives that JSON cannot hold.
fn encode(directives: &Directives) -> Vec<u8> {
    serde_json::to_vec(directives).unwrap_or_default()
}

/// Keeps telling `hint` that directives may have changed, for ever.
async fn watch_directives(catalog: Catalog, hint: watch::Sender<u64>) {
    loop {
        if let Err(error) = follow_directives(&catalog, &hint).await {
            tracing::warn!(%error, "lost the watch on directives, starting again");
        }
        tokio::time::sleep(LISTEN_AGAIN_AFTER).await;
    }
}

async fn follow_directives(catalog: &Catalog, hint: &watch::Sender<u64>) -> Result<(), CatalogError> {
    let mut wakes = catalog.listen(&[Channel::Directives]).await?;
    loop {
        // Whatever woke us, whoever waits looks: a lost notification costs one look.
        hint.send_modify(|hints| *hints = hints.wrapping_add(1));
        wakes.next(DIRECTIVES_LOOK_EVERY).await?;
    }
}

/// Keeps `newest` at the newest set's digest, for ever.
async fn watch_sets(catalog: Catalog, newest: watch::Sender<Option<String>>) {
    loop {
        if let Err(error) = follow(&catalog, &newest).await {
            tracing::warn!(%error, "lost the watch on serving sets, starting again");
        }
        tokio::time::sleep(LISTEN_AGAIN_AFTER).await;
    }
}

async fn follow(catalog: &Catalog, newest: &watch::Sender<Option<String>>) -> Result<(), CatalogError> {
    let mut wakes = catalog.listen(&[Channel::ServingSet]).await?;
    loop {
        let digest = catalog.serving_set_digest().await?;
        newest.send_if_modified(|known| std::mem::replace(known, digest.clone()) != digest);
        // Whatever woke us, the answer is to look.
        wakes.next(LOOK_EVERY).await?;
    }
}

#[cfg(test)]
mod tests;
