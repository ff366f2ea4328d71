//! `mfaas review`: open reviews, what there is to read for them, votes, and notes about hotspots.

mod delta;
mod list;
mod show;
mod votes;

pub(crate) use votes::{Approve, Deny, Mark};

use crate::failure::{Exit, Failure};
use crate::settings::Context;

/// Reviews of crates: read what waits for a decision, and vote.
#[derive(Debug, clap::Args)]
pub(crate) struct Review {
    #[command(subcommand)]
    command: ReviewCommand,
}

impl Review {
    /// Asks and shows.
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        self.command.run(context).await
    }
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum ReviewCommand {
    /// List the open reviews, with the suggestion of the rules and the approvals so far.
    ///
    /// For example: `mfaas review list`
    List,
    /// Show a review: the reasons for it, how much there is to read, votes, and notes about hotspots.
    ///
    /// With --json it has every fact and every hotspot. The console shows the source.
    ///
    /// For example: `mfaas review show 7`
    Show(show::Show),
    /// Vote to allow the crate. Unsafe code takes two people, and its requester cannot vote.
    ///
    /// For example: `mfaas review approve 7 --note "every index is checked before it is used"`
    Approve(votes::Approve),
    /// Vote against the crate; one vote against ends the review.
    ///
    /// Deployments that wait for the crate end with the note.
    ///
    /// For example: `mfaas review deny 7 --note "it opens files"`
    Deny(votes::Deny),
    /// Record what you found at a hotspot.
    ///
    /// A hotspot is a place in the source that a reviewer has to look at.
    ///
    /// For example: `mfaas review mark 7 src/lib.rs:12:5:unsafe justified --note "the length was checked above"`
    Mark(votes::Mark),
}

impl ReviewCommand {
    /// The command that shows this review.
    pub(crate) fn show(review: i64) -> Self {
        Self::Show(show::Show { review })
    }

    /// Asks and shows.
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        match self {
            Self::List => list::list(context).await,
            Self::Show(show) => show.run(context).await,
            Self::Approve(approve) => approve.run(context).await,
            Self::Deny(deny) => deny.run(context).await,
            Self::Mark(mark) => mark.run(context).await,
        }
    }
}
