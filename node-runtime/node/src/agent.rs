//! The agent: asks the server for the serving set, verifies it, and brings the node to the
//! state that it names.
//!
//! Nothing is loaded that [`gate`] and [`crate::image`] did not let through. A document that is refused
//! changes nothing: the node keeps what it serves and says why. Before a set is used, it and its
//! epoch are on the disk.

mod gate;
mod reconcile;
mod report;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use chrono::Utc;
use mfaas_attest::{RevokedCalls, SHARDS_AT_ONCE_MAX, ServingSet, ShardRef, Trust, TrustedRoot, Verified};
use mfaas_delivery::{RefusedVersion, SetState};
use mfaas_ident::{Digest, ToolchainId};
use mfaas_rules::codes;
use tokio::sync::watch;

pub(crate) use report::{Reporter, Status};

use crate::function_tree::{Name, Walk};
use crate::ingress::Callers;
use crate::refused::Refused;
use crate::serving::{Dispatcher, Stalled};
use crate::state::{StateDir, StateError};
use crate::upstream::{POLL_WAIT, Upstream, UpstreamError};
use gate::{Admitted, Gate, KEY_LIST_BYTES_MAX, SET_BYTES_MAX};
use reconcile::Reconciler;

/// Between two questions when the server gives no answer or a bad one.
const PAUSE_MIN: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// How long a missing blob is left alone before it is asked for again.
const RETRY_PAUSE: Duration = Duration::from_secs(2);
/// How often expiry is looked at.
const LOOK: Duration = Duration::from_secs(1);
/// Functions that are reconciled at once: between two such steps the node asks for a newer set.
const FUNCTIONS_AT_ONCE: usize = 100;
/// How long the server may take for that.
const GLANCE: Duration = Duration::from_millis(200);
/// How often the cache is rid of what nothing needs any more, and always after a start.
const PRUNE_EVERY: Duration = Duration::from_secs(3_600);
/// How often the list of keys is asked for without a reason.
const KEY_LIST_AGE_MAX: Duration = Duration::from_secs(300);
/// How many key lists are taken before the node looks at something else again: a server that always has another one must not
/// keep it from serving.
const KEY_LISTS_AT_ONCE: usize = 64;

/// The agent's state.
#[derive(Debug)]
pub(crate) struct Agent {
    gate: Gate,
    state: StateDir,
    upstream: Upstream,
    /// Who learns of the keys for call tokens, and which tokens were revoked.
    callers: Arc<Callers>,
    status: watch::Sender<Status>,
    /// The set that the node follows; `None` before the first.
    set: Option<Arc<Verified<ServingSet>>>,
    /// What every image was verified against.
    basis: Option<Basis>,
    /// Functions that are yet to be brought to what the tree says.
    queue: VecDeque<Name>,
    reconciler: Reconciler,
    pruned: Option<tokio::time::Instant>,
}

/// What a set and the keys of the moment demand of every image alike.
#[derive(Debug, PartialEq, Eq)]
struct Basis {
    toolchains: BTreeSet<ToolchainId>,
    abi_versions: BTreeSet<u32>,
    lints: BTreeSet<String>,
    trust: Trust,
}

impl Basis {
    fn of(set: &ServingSet, trust: Trust) -> Self {
        Self {
            toolchains: set.accepted_toolchains.clone(),
            abi_versions: set.abi_versions.clone(),
            lints: set.required_lints.clone(),
            trust,
        }
    }
}

impl Agent {
    /// An agent that has seen what the state directory says, and serves nothing yet.
    pub(crate) fn new(
        root: TrustedRoot,
        state: StateDir,
        upstream: Upstream,
        dispatcher: Arc<Dispatcher>,
        callers: Arc<Callers>,
    ) -> Result<(Self, watch::Receiver<Status>), StateError> {
        let gate = Gate::new(root, state.seen()?);
        let (status, receiver) = watch::channel(Status::default());
        let reconciler = Reconciler::new(state.clone(), upstream.clone(), dispatcher);
        let agent = Self {
            gate,
            state,
            upstream,
            callers,
            status,
            set: None,
            basis: None,
            queue: VecDeque::new(),
            reconciler,
            pruned: None,
        };
        Ok((agent, receiver))
    }

    /// Serves the last good set from the disk, then follows the server for ever.
    pub(crate) async fn run(mut self) {
        self.recall().await;
        let mut pause = PAUSE_MIN;
        let mut logged = None;
        let mut key_list_due = tokio::time::Instant::now();
        loop {
            let step = async {
                if key_list_due <= tokio::time::Instant::now() {
                    let reached = self.refresh_key_list().await?;
                    let pause = if reached { KEY_LIST_AGE_MAX } else { PAUSE_MIN };
                    key_list_due = tokio::time::Instant::now() + pause;
                }
                self.follow().await
            };
            match step.await {
                Ok(()) => (pause, logged) = (PAUSE_MIN, None),
                Err(trouble) => {
                    logged = log_once(logged, &trouble);
                    self.note_expiry();
                    if let Trouble::Refused(refused) = &trouble {
                        // A rotated key may be the reason: ask for the list before the next try.
                        key_list_due = tokio::time::Instant::now();
                        self.problem(refused);
                    }
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(PAUSE_MAX);
                }
            }
        }
    }

    /// What the disk holds is verified like anything from the network. Trouble with it is logged and
    /// leaves the node without a set, which the server will then give.
    async fn recall(&mut self) {
        self.reconciler.recall_aliases();
        let recalled = async {
            if let Some(list) = self.state.key_list(self.gate.pin())? {
                self.gate.resume(&list)?;
            }
            match self.state.serving_set()? {
                Some(set) => self.consider(&set).await,
                None => Ok(()),
            }
        };
        if let Err(trouble) = recalled.await {
            tracing::error!(%trouble, "the last serving set on the disk is not used");
            if let Trouble::Refused(refused) = &trouble {
                self.problem(refused);
            }
        }
    }

    /// One long question, interrupted for what cannot wait that long.
    async fn follow(&mut self) -> Result<(), Trouble> {
        let known = self.known();
        let question = self.upstream.clone();
        if known.is_some() && !self.queue.is_empty() {
            let glance = question.serving_set(known, Duration::ZERO, SET_BYTES_MAX);
            // Without a server, or a fast one, the set that is here goes on.
            if let Ok(Ok(Some(envelope))) = tokio::time::timeout(GLANCE, glance).await {
                return self.consider(&envelope).await;
            }
            return self.reconcile_next().await;
        }
        let answer = question.serving_set(known, POLL_WAIT, SET_BYTES_MAX);
        tokio::pin!(answer);
        let started = tokio::time::Instant::now();
        loop {
            tokio::select! {
                answer = &mut answer => {
                    return match answer? {
                        Some(envelope) => self.consider(&envelope).await,
                        None => {
                            // A server that stops answers at once: do not ask in a tight loop.
                            tokio::time::sleep_until(started + PAUSE_MIN).await;
                            Ok(())
                        }
                    };
                }
                () = tokio::time::sleep(LOOK) => {
                    self.note_expiry();
                    if started.elapsed() > RETRY_PAUSE && self.queue_what_may_come() {
                        return self.reconcile_next().await;
                    }
                }
            }
        }
    }

    /// Tries again what could not be had; `false` when there is nothing of that kind.
    fn queue_what_may_come(&mut self) -> bool {
        self.queue.extend(self.reconciler.unfinished().cloned());
        !self.queue.is_empty()
    }

    /// The set that the server need not send. One that came from the future may be asked for again, so an expired one is not known.
    fn known(&self) -> Option<Digest> {
        let set = self.set.as_ref().filter(|set| !set.is_expired(Utc::now()));
        set.map(|set| set.digest())
    }

    /// Goes from the key list that the node has to the newest, each durable before the next; `false` if there may be more.
    async fn refresh_key_list(&mut self) -> Result<bool, Trouble> {
        for _ in 0..KEY_LISTS_AT_ONCE {
            let version = self.gate.key_list_version();
            let next = self.upstream.key_list_after(version, KEY_LIST_BYTES_MAX).await?;
            let is_next = match &next {
                Some(list) => self.gate.key_list(list)?,
                None => false,
            };
            let Some(list) = next.filter(|_| is_next) else {
                self.gate.check_reached()?;
                return Ok(true);
            };
            self.state.store_key_list(self.gate.pin(), &list)?;
            self.state.record_seen(&self.gate.seen())?;
        }
        Ok(false)
    }

    /// Judges an envelope and, when it is good, makes it durable and then brings the node there.
    async fn consider(&mut self, envelope: &[u8]) -> Result<(), Trouble> {
        let admitted = self.gate.serving_set(envelope, Utc::now())?;
        match admitted {
            Admitted::Valid(set) => {
                let revoked = self.revoked_calls(&set).await?;
                let walk = self.walk_to(set.functions).await?;
                // First the set, then its epoch: after a crash between the two the set on the disk
                // is the newer one, which is accepted.
                self.state.store_serving_set(envelope)?;
                self.state.record_seen(&self.gate.seen())?;
                let set = Arc::new(*set);
                // Keys that were withdrawn, and tokens that were revoked, open nothing from now on. Before the first set is in force callers hear that it is not,
                // instead of that what they ask for is closed.
                if self.set.is_some() {
                    self.callers.hold(&set.call_keys, &revoked);
                }
                self.queue_changes(&set, walk);
                self.set = Some(Arc::clone(&set));
                let reconciled = self.reconcile_next().await;
                self.callers.hold(&set.call_keys, &revoked);
                reconciled
            }
            Admitted::Expired(set) => {
                self.state.record_seen(&self.gate.seen())?;
                // It still says which keys were withdrawn and which tokens were revoked, and each key has its own end.
                let revoked = self.revoked_calls(&set).await?;
                self.callers.hold(&set.call_keys, &revoked);
                self.status.send_modify(|status| status.set = SetState::Expired);
                self.callers.note_expired();
                let so = match self.set {
                    Some(_) => "serving goes on, nothing new is loaded",
                    None => "the node serves nothing until the server gives it the next one",
                };
                let message = format!("serving set {} was valid until {}: {so}", set.epoch, set.expires_at);
                Err(Trouble::Refused(Refused::new(codes::MF0703, message)))
            }
        }
    }

    /// The call tokens that the set revokes, from the disk or from the server. Their document is on the disk when this returns.
    async fn revoked_calls(&self, set: &ServingSet) -> Result<Arc<RevokedCalls>, Trouble> {
        let Some(digest) = set.revoked_calls else { return Ok(Arc::default()) };
        let read = |bytes: &[u8]| RevokedCalls::read(bytes, &digest).map_err(gate::refused_shard);
        if let Some(bytes) = self.state.blob(digest)? {
            return Ok(Arc::new(read(&bytes)?));
        }
        let fetched = self.upstream.shards(&[digest]).await?;
        let revoked = read(fetched.first().map_or(&[][..], Vec::as_slice))?;
        self.state.store_blobs(&fetched)?;
        Ok(Arc::new(revoked))
    }

    /// Reads the shards on the way to the tree below `root` that this node has not read, from the disk or from the server. They are
    /// on the disk when it returns.
    async fn walk_to(&self, root: ShardRef) -> Result<Walk, Trouble> {
        let tree = || self.reconciler.tree();
        let mut walk = tree().walk_to(root);
        loop {
            // The last ones first: what they lead to is wanted next, and little waits at any time.
            let wanted: Vec<Digest> = walk.wanted().rev().take(SHARDS_AT_ONCE_MAX).collect();
            if wanted.is_empty() {
                return Ok(walk);
            }
            let mut missing = Vec::new();
            for digest in wanted {
                match self.state.blob(digest)? {
                    Some(bytes) => walk.read(&tree(), digest, &bytes).map_err(gate::refused_shard)?,
                    None => missing.push(digest),
                }
            }
            if missing.is_empty() {
                continue;
            }
            let shards = self.upstream.shards(&missing).await?;
            for (digest, bytes) in missing.iter().zip(&shards) {
                walk.read(&tree(), *digest, bytes).map_err(gate::refused_shard)?;
            }
            self.state.store_blobs(&shards)?;
        }
    }

    /// Takes the new tree, and notes what it takes to bring the node there: what changed before everything else.
    fn queue_changes(&mut self, set: &ServingSet, walk: Walk) {
        let changed = self.reconciler.take(walk);
        self.reconciler.narrow_grants(&changed);
        let basis = Some(Basis::of(set, self.gate.trust(Utc::now())));
        if self.basis != basis {
            // Other keys or rules: no image is what it was.
            self.basis = basis;
            self.queue = self.reconciler.names().difference(&changed).cloned().collect();
        }
        for name in changed {
            self.queue.push_front(name);
        }
    }

    /// Brings the next functions to the set that the node follows, unless that set is expired.
    async fn reconcile_next(&mut self) -> Result<(), Trouble> {
        let Some(set) = self.set.clone() else { return Ok(()) };
        if set.is_expired(Utc::now()) {
            self.note_expiry();
            return Ok(());
        }
        put_first(&mut self.queue, &self.reconciler.take_wanted());
        let next = self.queue.len().min(FUNCTIONS_AT_ONCE);
        let names: Vec<Name> = self.queue.drain(..next).collect();
        let trust = self.gate.trust(Utc::now());
        let reconciled = self.reconciler.bring(&set, trust, &names).await;
        if reconciled.is_err() {
            names.into_iter().rev().for_each(|name| self.queue.push_front(name));
        }
        let is_whole = self.queue.is_empty();
        if is_whole {
            self.settle().await;
        }
        let tree = self.reconciler.tree();
        let is_named = |row: &RefusedVersion| {
            let function = tree.function(&row.tenant, &row.function);
            function.is_some_and(|function| function.aliases.values().any(|version| *version == row.version))
        };
        self.status.send_modify(|status| {
            if is_whole {
                (status.epoch, status.digest) = (set.epoch, Some(set.digest()));
                status.set = SetState::Current;
            }
            status.functions = set.functions.functions;
            status.versions = self.reconciler.versions();
            status.list(self.reconciler.refused(), is_named);
            status.problems.clear();
        });
        reconciled.map_err(|Stalled| {
            Trouble::Refused(Refused::new(codes::MF0709, "loader or workers could not be started"))
        })
    }

    /// Everything of the set was tried.
    async fn settle(&mut self) {
        self.reconciler.settle();
        if self.pruned.is_none_or(|pruned| pruned.elapsed() > PRUNE_EVERY) {
            self.pruned = Some(tokio::time::Instant::now());
            self.reconciler.prune(self.set.as_deref().map(|set| &**set)).await;
        }
    }

    fn note_expiry(&mut self) {
        let expired = self.set.as_ref().is_some_and(|set| set.is_expired(Utc::now()));
        self.status.send_if_modified(|status| {
            let news = expired && status.set != SetState::Expired;
            if news {
                tracing::error!("the serving set has expired: serving goes on, nothing new is loaded");
                status.set = SetState::Expired;
                status.note(report::problem(codes::MF0703, "the serving set has expired"));
            }
            news
        });
    }

    fn problem(&self, refused: &Refused) {
        metrics::counter!("mfaas_documents_refused_total", "code" => refused.code.id()).increment(1);
        let problem = report::problem(refused.code, &refused.message);
        self.status.send_if_modified(|status| status.note(problem));
    }
}

/// What callers already ask for comes before the rest.
fn put_first(queue: &mut VecDeque<Name>, wanted: &BTreeSet<Name>) {
    if wanted.is_empty() {
        return;
    }
    let (first, rest): (Vec<Name>, Vec<Name>) = queue.drain(..).partition(|name| wanted.contains(name));
    queue.extend(first.into_iter().chain(rest));
}

/// Logs a trouble unless it is the same as the last one; returns what was logged last.
fn log_once(logged: Option<String>, trouble: &Trouble) -> Option<String> {
    let text = trouble.to_string();
    if logged.as_ref() != Some(&text) {
        tracing::warn!(trouble = %text, "the node keeps what it serves and tries again");
    }
    Some(text)
}

/// Why a step of the agent did not get through. The node keeps what it serves.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error("{0}")]
    Refused(Refused),
    #[error(transparent)]
    Upstream(#[from] UpstreamError),
    #[error(transparent)]
    State(#[from] StateError),
}

impl From<Refused> for Trouble {
    fn from(refused: Refused) -> Self {
        Self::Refused(refused)
    }
}

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
