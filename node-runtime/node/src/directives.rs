//! What the server wants of this node beside the serving set: whether it takes calls and new versions, and which
//! artifacts must not run.
//!
//! Directives are not signed, because they can only take away: nothing is ever loaded because of them. They are on the
//! disk as well, so a node that starts without its server keeps them. A ban of this node's own holds here
//! at once, is reported until the server has it, and is the server's from then on: it holds as long as directives name it.

mod standing;

use std::sync::Arc;
use std::time::Duration;

use mfaas_delivery::Directives;
use mfaas_ident::Digest;
use reqwest::StatusCode;

pub(crate) use standing::{BanKey, Standing};

use crate::serving::Dispatcher;
use crate::state::{StateDir, StateError};
use crate::upstream::{Upstream, UpstreamError};

/// Between two questions when the server gives no answer or a bad one.
const PAUSE_MIN: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// Directives at most, in bytes: 20,000 bans of about 300 bytes.
const DIRECTIVES_BYTES_MAX: usize = 16 << 20;

/// Why a step did not get through. The node keeps the directives that it has.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error(transparent)]
    Upstream(#[from] UpstreamError),
    #[error(transparent)]
    State(#[from] StateError),
    #[error("the directives of the server cannot be followed: {0}")]
    Malformed(String),
}

/// Asks for directives and follows them.
#[derive(Debug)]
pub(crate) struct Follower {
    pub(crate) standing: Arc<Standing>,
    pub(crate) dispatcher: Arc<Dispatcher>,
    pub(crate) state: StateDir,
    pub(crate) upstream: Upstream,
}

impl Follower {
    /// Follows for ever.
    pub(crate) async fn run(self) {
        let (mut pause, mut failing, mut known) = (PAUSE_MIN, false, None);
        loop {
            match self.step(&mut known).await {
                Ok(()) => (pause, failing) = (PAUSE_MIN, false),
                Err(trouble) => {
                    if !std::mem::replace(&mut failing, true) {
                        tracing::warn!(%trouble, "the node keeps the directives that it has and tries again");
                    }
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(PAUSE_MAX);
                }
            }
        }
    }

    /// Reports this node's bans, then asks, until directives come or another version is banned.
    async fn step(&self, known: &mut Option<Digest>) -> Result<(), Trouble> {
        while let Some(notice) = self.standing.first_unreported() {
            // On the disk first: it must hold even when this process ends before the server answers.
            self.standing.keep(&self.state)?;
            let everywhere = match self.upstream.ban(&notice).await {
                Ok(answer) => answer.everywhere,
                // Reporting it again would not help, and must not keep directives away for ever.
                Err(error) if is_final(&error) => {
                    tracing::warn!(%error, "the server does not take a ban: it holds on this node alone");
                    false
                }
                Err(error) => return Err(error.into()),
            };
            self.standing.acknowledge(notice, everywhere);
            // Asked anew, the answer comes at once and says whether the ban is still in force.
            *known = None;
        }
        tokio::select! {
            answer = self.upstream.directives(*known, DIRECTIVES_BYTES_MAX) => match answer? {
                Some(bytes) => {
                    self.follow(&bytes)?;
                    *known = Some(Digest::of(&bytes));
                    Ok(())
                }
                None => Ok(()),
            },
            () = self.standing.new_ban.notified() => Ok(()),
        }
    }

    fn follow(&self, bytes: &[u8]) -> Result<(), Trouble> {
        let malformed = |error: &dyn std::fmt::Display| Trouble::Malformed(error.to_string());
        let directives: Directives = serde_json::from_slice(bytes).map_err(|e| malformed(&e))?;
        directives.check().map_err(|e| malformed(&e))?;
        let before = self.standing.availability();
        if before != directives.availability {
            tracing::info!(%before, now = %directives.availability, "an operator changed what this node takes");
        }
        self.standing.apply(directives);
        self.standing.keep(&self.state)?;
        self.dispatcher.hold_bans();
        Ok(())
    }
}

/// Whether the server has understood and said no, for a reason that lies in the message.
fn is_final(error: &UpstreamError) -> bool {
    matches!(error, UpstreamError::Refused { status, .. }
        if [StatusCode::BAD_REQUEST, StatusCode::UNPROCESSABLE_ENTITY].contains(status))
}
