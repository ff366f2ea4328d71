//! `mfaas audit archive`: the oldest rows of the log, moved into a file.

use std::ffi::OsString;
use std::path::PathBuf;

use mfaas_supervisor::run_as_owner;

use crate::commands::up::{absolute, home_of};
use crate::failure::{Exit, Failure};
use crate::settings::Context;

/// Move the oldest rows of the audit log into a file.
///
/// Rows leave the log once the file is on the disk. `mfaas audit --verify --archive FILE` verifies it with the rest as one chain.
/// The log of a site on several machines is archived with `mfaas-server audit archive`.
///
/// For example: `mfaas audit archive --before 2026-01-01 --into audit-2025.jsonl`
#[derive(Debug, clap::Args)]
pub(super) struct Archive {
    /// What is older goes: a day (in UTC), or a moment such as 2026-01-01T12:00:00Z; at least 24 hours ago.
    #[arg(long, value_name = "DATE")]
    before: String,
    /// The file, which must not be there yet.
    #[arg(long, value_name = "FILE")]
    into: PathBuf,
    /// The home that was given to `mfaas up`.
    #[arg(long, value_name = "DIR", env = "MFAAS_HOME")]
    home: Option<PathBuf>,
}

impl Archive {
    /// Lets the server's program do it, as the owner of the database.
    pub(super) fn run(&self, context: &Context) -> Result<Exit, Failure> {
        let mut arguments: Vec<OsString> = vec!["audit".into(), "archive".into()];
        arguments.extend(["--before".into(), self.before.clone().into()]);
        arguments.extend(["--into".into(), absolute(&self.into)?.into()]);
        if context.screen.is_json() {
            arguments.push("--json".into());
        }
        let said = run_as_owner(&home_of(self.home.as_deref())?, arguments)?;
        context.screen.bytes(format!("{said}\n").as_bytes())?;
        Ok(Exit::Ok)
    }
}
