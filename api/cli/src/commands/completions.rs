//! `mfaas completions`: for the shell.

use clap::CommandFactory as _;

use crate::commands::Arguments;
use crate::failure::{Exit, Failure};
use crate::settings::Context;

/// Print the completion script for a shell.
///
/// For example: `mfaas completions bash`
#[derive(Debug, clap::Args)]
pub(crate) struct Completions {
    /// bash, elvish, fish, powershell or zsh.
    #[arg(value_name = "SHELL")]
    shell: clap_complete::Shell,
}

impl Completions {
    /// Prints it.
    pub(crate) fn run(self, context: &Context) -> Result<Exit, Failure> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Arguments::command(), "mfaas", &mut script);
        context.screen.bytes(&script)?;
        Ok(Exit::Ok)
    }
}
