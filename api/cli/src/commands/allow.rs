//! `mfaas allow`: the name that `mfaas crate` and `mfaas review` had together in the release before. It is still
//! accepted, says what is called how now, and does the same.

use super::crates::CrateCommand;
use super::review::ReviewCommand;
use crate::failure::{Exit, Failure};
use crate::settings::Context;

/// The former name of `mfaas crate` and `mfaas review`.
#[derive(Debug, clap::Args)]
pub(crate) struct Allow {
    #[command(subcommand)]
    command: FormerCommand,
}

#[derive(Debug, clap::Subcommand)]
enum FormerCommand {
    #[command(flatten)]
    Crate(CrateCommand),
    #[command(flatten)]
    Review(FormerReviewCommand),
}

/// The commands about reviews, which had other names than `list` and `show`.
#[derive(Debug, clap::Subcommand)]
enum FormerReviewCommand {
    /// The former name of `mfaas review list`.
    Queue,
    /// The former name of `mfaas review approve`.
    Approve(super::review::Approve),
    /// The former name of `mfaas review deny`.
    Deny(super::review::Deny),
    /// The former name of `mfaas review mark`.
    Mark(super::review::Mark),
}

/// What is meant by a command of the release before.
#[derive(Debug)]
enum Meant {
    Crate(CrateCommand),
    Review(ReviewCommand),
}

impl Allow {
    /// Says the new name, then does what it does.
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let meant = self.command.meant();
        let (name, what) = match &meant {
            Meant::Crate(_) => ("mfaas crate", "crates"),
            Meant::Review(_) => ("mfaas review", "reviews"),
        };
        context.screen.note(&format!(
            "`mfaas allow` is now `{name}` for {what}; the next release does not know the former name"
        ));
        match meant {
            Meant::Crate(command) => command.run(context).await,
            Meant::Review(command) => command.run(context).await,
        }
    }
}

impl FormerCommand {
    /// `show` with a number was a review's.
    fn meant(self) -> Meant {
        match self {
            Self::Crate(CrateCommand::Show { name }) => match name.parse() {
                Ok(review) => Meant::Review(ReviewCommand::show(review)),
                Err(_) => Meant::Crate(CrateCommand::Show { name }),
            },
            Self::Crate(command) => Meant::Crate(command),
            Self::Review(command) => Meant::Review(match command {
                FormerReviewCommand::Queue => ReviewCommand::List,
                FormerReviewCommand::Approve(approve) => ReviewCommand::Approve(approve),
                FormerReviewCommand::Deny(deny) => ReviewCommand::Deny(deny),
                FormerReviewCommand::Mark(mark) => ReviewCommand::Mark(mark),
            }),
        }
    }
}

#[cfg(test)]
mod tests;
