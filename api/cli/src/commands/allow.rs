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
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        allow: Allow,
    }

    /// The variant that a line of the release before leads to.
    fn meant(line: &str) -> String {
        let line = Line::try_parse_from(line.split(' ')).unwrap_or_else(|error| panic!("{line}: {error}"));
        let text = format!("{:?}", line.allow.command.meant());
        text.split(['{', ' ']).next().unwrap().to_owned()
    }

    #[test]
    fn every_line_of_the_release_before_leads_to_a_command_of_today() {
        for (line, wanted) in [
            ("allow list", "Crate(List)"),
            ("allow show regex", "Crate(Show"),
            ("allow show 7", "Review(Show(Show"),
            ("allow request regex@1.11 --takeover", "Crate(Request(Request"),
            ("allow requests", "Crate(Requests"),
            ("allow queue", "Review(List)"),
            ("allow approve 7 --note sound", "Review(Approve(Approve"),
            ("allow deny 7 --note unsound", "Review(Deny(Deny"),
            ("allow mark 7 src/lib.rs:1:1:unsafe seen", "Review(Mark(Mark"),
            ("allow revoke regex@1.11.1 --reason flaw", "Crate(Revoke(Revoke"),
            ("allow advisories db", "Crate(Advisories(Advisories"),
            ("allow audits a=b", "Crate(Audits(Audits"),
            ("allow export", "Crate(Export)"),
            ("allow import file", "Crate(Import(Import"),
            ("allow cargo-config", "Crate(CargoConfig)"),
        ] {
            assert_eq!(meant(line), wanted, "{line}");
        }
    }
}
