//! The agent: asks the server for the serving set, believes it or not, and brings the node to the
//! state that it names.
//!
//! Nothing is loaded that [`gate`] and [`image`] did not let through. A document that is refused
//! changes nothing: the node keeps what it serves and says why. Before a set is used, it and its
//! epoch are on the disk.

mod gate;
mod image;
mod reconcile;
mod report;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use chrono::Utc;
use mfaas_attest::{ServingSet, TrustedRoot, Verified};
use mfaas_delivery::SetState;
use mfaas_ident::Digest;
use mfaas_rules::codes;
use tokio::sync::watch;

pub(crate) use gate::Refused;
pub(crate) use image::{ImageKey, VerifiedImage, sealed_memory};
pub(crate) use report::{Reporter, Status};

use crate::ingress::Callers;
use crate::serving::{Awaited, Dispatcher};
use crate::state::{StateDir, StateError};
use crate::upstream::{Upstream, UpstreamError};
use gate::{Admitted, Gate, KEY_LIST_BYTES_MAX, SET_BYTES_MAX};

/// Between two questions when the server gives no answer or a bad one.
const PAUSE_MIN: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// How long a missing blob is left alone before it is asked for again.
const RETRY_PAUSE: Duration = Duration::from_secs(2);
/// How often expiry is looked at.
const LOOK: Duration = Duration::from_secs(1);
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
    dispatcher: Arc<Dispatcher>,
    /// Who learns of the keys for call tokens.
    callers: Arc<Callers>,
    status: watch::Sender<Status>,
    /// The set that the node follows; `None` before the first.
    set: Option<Arc<Verified<ServingSet>>>,
    loaded: Loaded,
    /// Some blob of the set could not be fetched: try again.
    incomplete: bool,
}

/// What is in force.
#[derive(Debug, Default)]
struct Loaded {
    images: BTreeMap<ImageKey, Arc<VerifiedImage>>,
    routes: reconcile::Routes,
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
        let (status, heard) = watch::channel(Status::default());
        let agent = Self {
            gate,
            state,
            upstream,
            dispatcher,
            callers,
            status,
            set: None,
            loaded: Loaded::default(),
            incomplete: false,
        };
        Ok((agent, heard))
    }

    /// Serves the last good set from the disk, then follows the server for ever.
    pub(crate) async fn run(mut self) {
        self.recall().await;
        let mut pause = PAUSE_MIN;
        let mut told = None;
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
                Ok(()) => (pause, told) = (PAUSE_MIN, None),
                Err(trouble) => {
                    told = tell_once(told, &trouble);
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

    /// What the disk holds is verified like anything from the network. Trouble with it is told and
    /// leaves the node without a set, which the server will then give.
    async fn recall(&mut self) {
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
        let answer = question.serving_set(known, SET_BYTES_MAX);
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
                    if self.incomplete && started.elapsed() > RETRY_PAUSE {
                        return self.load_again().await;
                    }
                }
            }
        }
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
                // First the set, then its epoch: after a crash between the two the set on the disk
                // is the newer one, which is accepted.
                self.state.store_serving_set(envelope)?;
                self.state.record_seen(&self.gate.seen())?;
                let set = Arc::new(*set);
                // Keys that were withdrawn open nothing from now on. Before the first set is in force callers hear that it is not,
                // instead of that what they ask for is closed.
                if self.set.is_some() {
                    self.callers.hold_keys(&set.call_keys);
                }
                self.set = Some(Arc::clone(&set));
                let loaded = self.load_again().await;
                self.callers.hold_keys(&set.call_keys);
                loaded
            }
            Admitted::Expired(set) => {
                self.state.record_seen(&self.gate.seen())?;
                // It still says which keys were withdrawn, and each key has its own end.
                self.callers.hold_keys(&set.call_keys);
                self.status.send_modify(|status| status.set = SetState::Expired);
                let message = format!("epoch {} was valid until {}", set.epoch, set.expires_at);
                Err(Trouble::Refused(Refused::new(codes::MF0703, message)))
            }
        }
    }

    /// Brings the node to the set that it follows, unless that set is expired.
    async fn load_again(&mut self) -> Result<(), Trouble> {
        let Some(set) = self.set.clone() else { return Ok(()) };
        if set.is_expired(Utc::now()) {
            self.note_expiry();
            return Ok(());
        }
        // Until everything was tried, a name of the set that leads nowhere is no unknown name.
        self.dispatcher.await_set(Awaited { set: Arc::clone(&set), only: None });
        let outcome = reconcile::bring_to(self, &set).await;
        self.incomplete = outcome.incomplete;
        if outcome.complete {
            // What was refused for good does not come.
            self.dispatcher.await_set(Awaited { set: Arc::clone(&set), only: Some(outcome.coming) });
        }
        self.status.send_modify(|status| {
            status.epoch = if outcome.complete { set.epoch } else { status.epoch };
            status.set = if outcome.complete { SetState::Current } else { status.set };
            status.loaded = self.loaded.routes.loaded();
            status.refused = outcome.refused;
            status.problems = outcome.problems;
        });
        Ok(())
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

/// Logs a trouble unless it is the same as the last one; returns what was told last.
fn tell_once(told: Option<String>, trouble: &Trouble) -> Option<String> {
    let text = trouble.to_string();
    if told.as_ref() != Some(&text) {
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
