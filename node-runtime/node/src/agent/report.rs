//! What the node reports to its server: after every change, and every ten seconds.

use std::sync::Arc;
use std::time::Duration;

use mfaas_delivery::{
    NODE_PROTOCOL, NodeProblem, REPORT_PROBLEMS_MAX, REPORT_REFUSED_MAX, RefusedVersion, Report, SetState,
};
use mfaas_ident::{Class, Digest, Epoch, sanitise_line};
use mfaas_rules::{Code, codes};
use tokio::sync::watch;

use crate::serving::{Dispatcher, Protection};
use crate::upstream::Upstream;

const INTERVAL: Duration = Duration::from_secs(10);
/// Bans and dead workers show between two changes of the set; looked at this often.
const LOOK: Duration = Duration::from_secs(1);
const MESSAGE_BYTES_MAX: usize = 400;

/// A problem with a sanitised, bounded sentence.
pub(crate) fn problem(code: Code, message: &str) -> NodeProblem {
    NodeProblem { code, message: sanitise_line(message, MESSAGE_BYTES_MAX) }
}

/// Where the node stands.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Status {
    /// The epoch whose set is in force, and the digest of its envelope.
    pub(crate) epoch: Epoch,
    pub(crate) digest: Option<Digest>,
    pub(crate) set: SetState,
    /// Functions of the set that the node follows, which may be ahead of the one in force.
    pub(crate) functions: u32,
    /// Versions that answer.
    pub(crate) versions: usize,
    /// Versions of the set that do not, as many as a report holds, and how many there are.
    pub(crate) refused: Vec<RefusedVersion>,
    pub(crate) refused_total: usize,
    /// How many of them an alias names; they come first.
    pub(crate) refused_first: usize,
    pub(crate) problems: Vec<NodeProblem>,
}

impl Status {
    /// Takes over what is not loaded. Those first that an alias names: whether a function is ready depends on them.
    pub(crate) fn list<'a>(
        &mut self,
        refused: impl Iterator<Item = &'a RefusedVersion>,
        is_named: impl Fn(&RefusedVersion) -> bool,
    ) {
        let (first, rest): (Vec<_>, Vec<_>) = refused.partition(|row| is_named(row));
        (self.refused_first, self.refused_total) = (first.len(), first.len() + rest.len());
        self.refused = first.into_iter().chain(rest).take(REPORT_REFUSED_MAX).cloned().collect();
    }

    /// Adds a problem, or replaces the last one of the same code. `true` when that changed
    /// something.
    pub(crate) fn note(&mut self, problem: NodeProblem) -> bool {
        if self.problems.contains(&problem) {
            return false;
        }
        self.problems.retain(|known| known.code != problem.code);
        self.problems.push(problem);
        if self.problems.len() > REPORT_PROBLEMS_MAX {
            self.problems.remove(0);
        }
        true
    }
}

/// Sends reports.
#[derive(Debug)]
pub(crate) struct Reporter {
    pub(crate) upstream: Upstream,
    pub(crate) dispatcher: Arc<Dispatcher>,
    pub(crate) status: watch::Receiver<Status>,
    pub(crate) boot: uuid::Uuid,
    pub(crate) ingress_url: String,
    pub(crate) protection: Arc<Protection>,
}

impl Reporter {
    /// Reports for ever. A report that cannot be sent is replaced by the next one.
    pub(crate) async fn run(mut self) {
        let mut sequence = 0;
        let mut failing = false;
        let mut last: Option<(tokio::time::Instant, Report)> = None;
        loop {
            let report = self.report(sequence);
            let due =
                last.as_ref().is_none_or(|(at, sent)| at.elapsed() >= INTERVAL || differs(sent, &report));
            if due {
                sequence += 1;
                match self.upstream.report(&report).await {
                    Ok(()) => {
                        failing = false;
                        last = Some((tokio::time::Instant::now(), report));
                    }
                    Err(error) if !std::mem::replace(&mut failing, true) => {
                        tracing::warn!(%error, "the report cannot be sent; the next one will be tried");
                    }
                    Err(_) => {}
                }
            }
            tokio::select! {
                changed = self.status.changed() => if changed.is_err() { return },
                () = tokio::time::sleep(LOOK) => {}
            }
        }
    }

    fn report(&mut self, sequence: u64) -> Report {
        let status = self.status.borrow_and_update().clone();
        let banned = self.dispatcher.banned();
        let (refused_total, refused_first) =
            (status.refused_total + banned.len(), status.refused_first + banned.len());
        // A ban is the node's own doing and comes first.
        let banned = banned.into_iter().map(|(served, crashes)| RefusedVersion {
            tenant: served.key.tenant.clone(),
            function: served.key.function.clone(),
            version: served.key.version,
            digest: served.key.digest,
            code: codes::MF0813,
            message: format!("banned after {crashes} crashes of its worker"),
        });
        let refused = banned.chain(status.refused).take(REPORT_REFUSED_MAX).collect();
        let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        Report {
            protocol: NODE_PROTOCOL,
            boot: self.boot,
            sequence,
            epoch: status.epoch,
            set_digest: status.digest,
            set: status.set,
            ingress_url: self.ingress_url.clone(),
            condition: self.dispatcher.standing().condition(self.dispatcher.is_idle()),
            workers: count(self.dispatcher.snapshot_of(Class::Micro).workers),
            protection: self.protection.text(),
            functions: status.functions,
            versions: count(status.versions),
            loaded: Vec::new(),
            refused,
            refused_total: count(refused_total),
            refused_first: Some(count(refused_first)),
            problems: status.problems,
        }
    }
}

/// Whether anything but the count changed.
fn differs(sent: &Report, now: &Report) -> bool {
    let mut same_count = now.clone();
    same_count.sequence = sent.sequence;
    same_count != *sent
}

#[cfg(test)]
mod tests;
