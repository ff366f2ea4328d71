//! The parts that the server can do without for a while: a blob store that takes bytes, builders that build.
//!
//! Without them reads are answered and deployments wait, so they degrade readiness and do not end it: all servers share
//! them, and a balancer that dropped all would help nobody. The store is looked at in the background, since a look
//! writes; no request waits for one. Must never show strangers where anything lies: paths and addresses stay in the log.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mfaas_blobs::Blobs;
use mfaas_catalog::{Builder, Catalog, CatalogError};
use mfaas_ident::sanitise_line;
use mfaas_wire::Readiness;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::limits;

/// Of what is shown to strangers.
const CAUSE_CHARS_MAX: usize = 120;

/// What the last look at the blob store has found wrong.
#[derive(Debug, Default)]
pub(crate) struct BlobsLook(Mutex<Option<String>>);

impl BlobsLook {
    fn cause(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Tells the log when it changes.
    fn note(&self, cause: Option<String>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match (&*known, &cause) {
            (None, Some(cause)) => {
                tracing::error!(cause, "the blob store takes no bytes; uploads are refused until it does");
            }
            (Some(_), None) => tracing::info!("the blob store takes bytes again"),
            (None, None) | (Some(_), Some(_)) => {}
        }
        *known = cause;
    }
}

/// Looks at the store again and again, until `stop`. One look at a time: a store that does not answer holds one task, not
/// one for each look.
pub(crate) async fn watch(blobs: Blobs, known: Arc<BlobsLook>, every: Duration, stop: CancellationToken) {
    tokio::select! {
        () = stop.cancelled() => {}
        () = async {
            loop {
                look(&blobs, &known).await;
                sleep(every).await;
            }
        } => {}
    }
}

/// One look, which ends when the store has answered, however long that takes.
pub(crate) async fn look(blobs: &Blobs, known: &BlobsLook) {
    let mut answer = std::pin::pin!(blobs.writable());
    let found = match timeout(limits::PART_ANSWER_MAX, answer.as_mut()).await {
        Ok(found) => found,
        Err(_) => {
            known.note(Some(blobs.silent(limits::PART_ANSWER_MAX).to_string()));
            answer.await
        }
    };
    known.note(found.err().map(|error| error.to_string()));
}

/// How the server is, its database apart, which has answered.
pub(crate) async fn readiness(catalog: &Catalog, known: &BlobsLook) -> Result<Readiness, CatalogError> {
    let (builders, agreement) = (catalog.builders().await?, catalog.builds_agreement().await?);
    let blobs = known.cause().map(|cause| without_places(&cause));
    Ok(Readiness::of([("blobs", blobs), ("builders", builders_cause(&builders, agreement))]))
}

/// How many different identities take builds.
pub(crate) fn identities(builders: &[Builder]) -> usize {
    let well = builders.iter().filter(|builder| builder.unwell.is_none());
    well.map(|builder| builder.role.as_str()).collect::<BTreeSet<_>>().len()
}

/// Why builds wait, if they do.
fn builders_cause(builders: &[Builder], agreement: Option<u32>) -> Option<String> {
    if builders.is_empty() {
        return Some("no builder was seen for half a minute".to_owned());
    }
    let unwell: Vec<&str> = builders.iter().filter_map(|builder| builder.unwell.as_deref()).collect();
    let needed = usize::try_from(agreement.unwrap_or(1)).unwrap_or(usize::MAX);
    let there = identities(builders);
    let mut causes = Vec::new();
    if let Some(first) = unwell.first() {
        let (count, all) = (unwell.len(), builders.len());
        causes.push(format!("{count} of {all} take no builds: {}", without_places(first)));
    }
    if needed > 1 && there < needed {
        causes.push(format!("{needed} with identities of their own have to agree, and {there} take builds"));
    }
    (!causes.is_empty()).then(|| causes.join("; "))
}

/// The last clause of an error, which says what went wrong; those before it say where.
fn without_places(cause: &str) -> String {
    let last = cause.rsplit(": ").next().unwrap_or_default();
    let names_a_place = last.contains(['/', '\\']) || last.is_empty();
    let told = if names_a_place { "the log of the program says why" } else { last };
    sanitise_line(told, CAUSE_CHARS_MAX)
}

#[cfg(test)]
mod tests;
