//! One leased build from the claim to its ending.
//!
//! While the build runs the lease is renewed; when it is lost, or the program stops, the sandbox is
//! cancelled. Whatever happens, the build ends in the registry, is given back, or is left to a
//! newer lease: nothing here commits without the fencing token.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mfaas_blobs::BlobError;
use mfaas_catalog::{CatalogError, ClaimedBuild, Lease};
use mfaas_delivery::{DeploymentState, Diagnostic, Event, Stage};
use mfaas_rules::limits::{ARCHIVE, HEARTBEAT_SECONDS, LEASE_SECONDS};
use mfaas_rules::{Finding, Layer};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use super::state::{BuilderState, RETRY_AFTER};
use crate::error::BuilderError;
use crate::journal::{Journal, Progress, Review, Stop};
use crate::stages::{self, ProvenArtifact};

/// How long events are gathered into one statement: people do not notice, the database does.
const GATHER: Duration = Duration::from_millis(15);
/// Events in one statement.
const GATHER_MAX: usize = 64;

/// How a build ends.
enum Ending {
    Built(Box<ProvenArtifact>),
    Refused(Stage, Vec<Diagnostic>),
    Waiting(Review),
    Failed(Stage, Vec<Diagnostic>),
}

/// Executes a claimed build and commits its ending. An error means that the attempt was given
/// up, given back or lost.
pub(super) async fn execute(
    builder: &Arc<BuilderState>,
    claimed: &ClaimedBuild,
) -> Result<DeploymentState, BuilderError> {
    let lease = &claimed.lease;
    let heartbeat = Heartbeat::start(builder, lease);
    let result = match attempt(builder, claimed, heartbeat.lost).await {
        Ok(ending) => commit(builder, lease, ending).await,
        Err(error) => Err(error),
    };
    heartbeat.task.abort();
    match result {
        Ok(state) => Ok(state),
        Err(BuilderError::Cancelled) => {
            until_answered(builder, || builder.catalog.release(lease)).await?;
            Ok(DeploymentState::Received)
        }
        // A newer lease decides: there is nothing to give back.
        Err(error @ BuilderError::Catalog(CatalogError::Fenced)) => Err(error),
        Err(error) if error.is_of_the_machine() => {
            let cause = error.to_string();
            let pause = until_answered(builder, || builder.catalog.postpone(lease, &cause)).await?;
            tracing::warn!(deployment = %lease.deployment(), cause, ?pause, "the build goes back into the queue");
            builder.let_down.store(true, Ordering::Relaxed);
            Ok(DeploymentState::Received)
        }
        Err(error) => {
            until_answered(builder, || builder.catalog.give_up_attempt(lease)).await?;
            Err(error)
        }
    }
}

/// Asks the database until it answers, or the program stops. An outage is no reason to lose a build that is done.
async fn until_answered<T, F>(builder: &BuilderState, ask: impl Fn() -> F) -> Result<T, CatalogError>
where
    F: Future<Output = Result<T, CatalogError>>,
{
    ask_until_answered(&builder.unanswered, builder.stopping.subscribe(), ask).await
}

async fn ask_until_answered<T, F>(
    unanswered: &AtomicUsize,
    mut stopping: watch::Receiver<bool>,
    ask: impl Fn() -> F,
) -> Result<T, CatalogError>
where
    F: Future<Output = Result<T, CatalogError>>,
{
    let mut waiting = None;
    loop {
        match ask().await {
            Err(error) if error.is_transient() && !*stopping.borrow_and_update() => {
                if waiting.is_none() {
                    tracing::warn!(%error, "the database does not answer; asking until it does");
                    waiting = Some(Waiting::new(unanswered));
                }
                // An error means that the program is at its end, and the next try is the last.
                let _ = tokio::time::timeout(RETRY_AFTER, stopping.changed()).await;
            }
            answer => return answer,
        }
    }
}

/// One who waits for the database, while it lives.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Renews a lease until it is aborted; says so once when the lease is lost.
struct Heartbeat {
    task: JoinHandle<()>,
    lost: oneshot::Receiver<()>,
}

impl Heartbeat {
    fn start(builder: &Arc<BuilderState>, lease: &Lease) -> Self {
        let (builder, lease) = (builder.clone(), lease.clone());
        let (notify, lost) = oneshot::channel();
        let task = tokio::spawn(async move {
            loop {
                tokio::time::sleep(Duration::from_secs(HEARTBEAT_SECONDS.into())).await;
                let renew = async || {
                    builder.catalog.heartbeat(&lease, Duration::from_secs(LEASE_SECONDS.into())).await
                };
                match until_answered(&builder, renew).await {
                    Ok(()) => {}
                    Err(CatalogError::Fenced) => break,
                    // The lease may outlast a short outage; if not, the commit finds out.
                    Err(error) => {
                        tracing::warn!(deployment = %lease.deployment(), %error, "the lease could not be renewed");
                    }
                }
            }
            // Nobody listens when the build has ended meanwhile.
            let _ = notify.send(());
        });
        Self { task, lost }
    }
}

/// Fetches what the build needs, runs it on a thread, and waits for its ending.
async fn attempt(
    builder: &Arc<BuilderState>,
    claimed: &ClaimedBuild,
    lost: oneshot::Receiver<()>,
) -> Result<Ending, BuilderError> {
    let upload = match builder.blobs.get(&claimed.source_digest, ARCHIVE.upload_bytes_max).await {
        Ok(upload) => upload.to_vec(),
        Err(error) => return damaged(error),
    };
    let allowlist =
        builder.catalog.allowlist_snapshot(&claimed.tenant, &builder.context.toolchain.id()).await?;
    let (events, receiver) = mpsc::unbounded_channel();
    let writer = tokio::spawn(write_events(builder.clone(), claimed.lease.clone(), receiver));
    let context = builder.build_context().await?;
    let (sandbox, deps) = (context.sandbox.clone(), context.deps.clone());
    let mut build = tokio::task::spawn_blocking(move || {
        let sender = EventSender(events);
        let journal = Journal::new(&sender);
        let result = stages::build(upload, &allowlist, &context, &journal);
        (result, journal.current())
    });
    let mut stopping = builder.stopping.subscribe();
    let cut_short = async {
        tokio::select! {
            _ = lost => {}
            // An error means that the program is at its end.
            _ = stopping.changed() => {}
        }
    };
    let ended = tokio::select! {
        ended = &mut build => ended,
        () = cut_short => {
            sandbox.cancel();
            build.await
        }
    };
    let (result, stage) = ended.map_err(|_| BuilderError::Panicked)?;
    // All events are written before the ending is.
    writer.await.map_err(|_| BuilderError::Panicked)??;
    match result {
        Ok(artifact) => Ok(Ending::Built(Box::new(artifact))),
        Err(Stop::Refused(diagnostics)) => Ok(Ending::Refused(stage, diagnostics)),
        Err(Stop::Waiting(review)) => match builder.lacks(&deps, &review.unbuilt).await? {
            Some(lacking) => Err(lacking),
            None => Ok(Ending::Waiting(review)),
        },
        Err(Stop::Failed(error)) => Err(error),
    }
}

/// A stored upload that is damaged or gone cannot be built by anybody; any other failure may
/// pass.
fn damaged(error: BlobError) -> Result<Ending, BuilderError> {
    match error.code() {
        Some(code) => {
            let finding = Finding::new(code, Layer::Archive, error.to_string());
            Ok(Ending::Failed(Stage::Unpack, vec![Diagnostic::from(&finding)]))
        }
        None => Err(error.into()),
    }
}

/// Stores what is to be stored and commits, fenced.
async fn commit(
    builder: &BuilderState,
    lease: &Lease,
    ending: Ending,
) -> Result<DeploymentState, BuilderError> {
    match ending {
        Ending::Built(artifact) => {
            let mut hold = until_answered(builder, || builder.catalog.hold_blobs()).await?;
            let stored = builder.blobs.put(artifact.bytes().to_vec().into()).await?;
            if stored != artifact.digest() {
                return Err(BuilderError::Blobs(BlobError::Corrupt {
                    digest: artifact.digest(),
                    found: stored,
                }));
            }
            hold.confirm().await?;
            until_answered(builder, || builder.catalog.finish_built(lease, artifact.claim())).await?;
            Ok(DeploymentState::Built)
        }
        Ending::Refused(stage, diagnostics) => {
            until_answered(builder, || builder.catalog.finish_refused(lease, stage, &diagnostics)).await?;
            Ok(DeploymentState::Refused)
        }
        Ending::Waiting(review) => {
            let diagnostics: Vec<Diagnostic> = review.findings.iter().map(Diagnostic::from).collect();
            until_answered(builder, || builder.catalog.finish_waiting(lease, &diagnostics, &review.wanted))
                .await?;
            Ok(DeploymentState::Waiting)
        }
        Ending::Failed(stage, diagnostics) => {
            until_answered(builder, || builder.catalog.finish_failed(lease, stage, &diagnostics)).await?;
            Ok(DeploymentState::Failed)
        }
    }
}

/// Events on their way from the build's thread to the writer.
struct EventSender(mpsc::UnboundedSender<Event>);

impl Progress for EventSender {
    fn report(&self, event: Event) {
        // The writer ends early only when the lease is lost; then nobody wants the events.
        let _ = self.0.send(event);
    }
}

/// Writes events until the build has ended. At most two for each stage and one with warnings come,
/// so the channel needs no bound.
async fn write_events(
    builder: Arc<BuilderState>,
    lease: Lease,
    mut receiver: mpsc::UnboundedReceiver<Event>,
) -> Result<(), BuilderError> {
    let mut batch = Vec::new();
    while receiver.recv_many(&mut batch, GATHER_MAX).await > 0 {
        tokio::time::sleep(GATHER).await;
        while batch.len() < GATHER_MAX
            && let Ok(event) = receiver.try_recv()
        {
            batch.push(event);
        }
        match builder.catalog.append_events(&lease, &batch).await {
            Ok(()) => {}
            Err(error @ CatalogError::Fenced) => return Err(error.into()),
            // Events are for people; the ending, which counts, is written with its own check.
            Err(error) => {
                tracing::warn!(deployment = %lease.deployment(), %error, "events could not be stored");
            }
        }
        batch.clear();
    }
    Ok(())
}

#[cfg(test)]
mod tests;
