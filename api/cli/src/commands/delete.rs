//! `mfaas delete`: takes a function out of service.

use std::io::{BufRead as _, IsTerminal as _};

use mfaas_ident::FunctionName;
use mfaas_wire::Removed;

use crate::failure::{Exit, Failure};
use crate::settings::Context;

/// Delete a function: nodes stop serving it, its records stay in the audit log.
///
/// For example: `mfaas delete hello --yes`
#[derive(Debug, clap::Args)]
pub(crate) struct Delete {
    /// The function.
    #[arg(value_name = "NAME")]
    name: FunctionName,
    /// Do not ask.
    #[arg(long, short = 'y')]
    yes: bool,
}

impl Delete {
    /// Asks back, then deletes.
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let client = context.client()?;
        if !self.yes && !confirmed(context, &self.name)? {
            return Err(Failure::Usage("nothing deleted".to_owned()));
        }
        let removed: Removed = client.delete(&format!("/v1/functions/{}", self.name)).await?;
        context.screen.result(&removed, || format!("{} is deleted", removed.removed))?;
        Ok(Exit::Ok)
    }
}

/// Only a person at a terminal can be asked; a script says --yes.
fn confirmed(context: &Context, name: &FunctionName) -> Result<bool, Failure> {
    let stdin = std::io::stdin();
    if !stdin.is_terminal() {
        return Err(Failure::Usage(format!("to delete {name} without a terminal, add --yes")));
    }
    context.screen.note(&format!("delete {name} with all its versions? Type its name:"));
    let mut line = String::new();
    stdin.lock().read_line(&mut line).map_err(Failure::io("cannot read", "the terminal"))?;
    Ok(line.trim() == name.as_str())
}
