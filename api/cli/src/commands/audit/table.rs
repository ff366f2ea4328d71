//! `mfaas audit table`: three counts of unsafe code beside each other, for a list of crates.
//!
//! The work is the builder's (`mfaas-builder table`, a program beside this one), which downloads,
//! compiles in its sandbox and counts; what it prints goes to standard output as it is, since it makes
//! every text of a crate visible itself.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use mfaas_supervisor::{Siblings, current_toolchain};

use crate::commands::up::home_of;
use crate::failure::{Exit, Failure};
use crate::settings::Context;

/// Count the unsafe code of a list of crates in three ways.
///
/// Takes minutes, and downloads the crates.
///
/// For example: `mfaas audit table --list crates.txt`
#[derive(Debug, clap::Args)]
pub(super) struct Table {
    /// The list, a line for each crate: `name version`; the one that ships with mfaas when absent.
    #[arg(long, value_name = "FILE")]
    list: Option<PathBuf>,
    /// Where to keep what is downloaded, for the next time.
    #[arg(long, value_name = "DIR")]
    work: Option<PathBuf>,
    /// The home whose toolchain is used; the usual one when absent.
    #[arg(long, value_name = "DIR", env = "MFAAS_HOME")]
    home: Option<PathBuf>,
}

impl Table {
    /// Runs the builder and hands on what it prints.
    pub(super) fn run(&self, context: &Context) -> Result<Exit, Failure> {
        let builder = Siblings::beside_us()?.path("mfaas-builder");
        let mut command = self.command(&builder, context.screen.is_json());
        if self.home.is_some() {
            let home = home_of(self.home.as_deref())?;
            command.env("MFAAS_TOOLCHAIN_DIR", current_toolchain(&home)?);
        }
        let output = command.output().map_err(Failure::io("cannot start", &builder))?;
        if !output.status.success() {
            // The builder has said on standard error why.
            return Err(Failure::Told(Exit::Failed));
        }
        context.screen.bytes(&output.stdout)?;
        Ok(Exit::Ok)
    }

    fn command(&self, builder: &std::path::Path, json: bool) -> Command {
        let mut command = Command::new(builder);
        command.arg("table").stdin(Stdio::null()).stderr(Stdio::inherit());
        for (name, value) in [("--list", &self.list), ("--work", &self.work)] {
            if let Some(value) = value {
                command.arg(name).arg(value);
            }
        }
        if json {
            command.arg("--json");
        }
        command
    }
}

#[cfg(test)]
mod tests;
