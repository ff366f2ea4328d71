//! `mfaas completions`: for the shell.

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
    /// Prints what completes the words of `program`.
    pub(crate) fn run(self, context: &Context, program: &mut clap::Command) -> Result<Exit, Failure> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, program, "mfaas", &mut script);
        context.screen.bytes(&script)?;
        Ok(Exit::Ok)
    }
}
