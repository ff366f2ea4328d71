//! `mfaas backup`: database and blobs of this machine's site, saved while it runs.

use std::ffi::OsString;
use std::path::PathBuf;

use mfaas_supervisor::run_as_owner;

use crate::commands::up::{absolute, home_of};
use crate::failure::{Exit, Failure};
use crate::settings::Context;

/// Save database and blobs of this machine's site into a directory, while it runs.
///
/// Blobs that a backup before has are not copied again. Keys are never part of a backup: keep `root-key`, `signer/keys` and
/// `server` of the home elsewhere, once. A site on several machines is saved with `mfaas-server backup`.
///
/// For example: `mfaas backup /backup/mfaas --keep 14`
#[derive(Debug, clap::Args)]
pub(crate) struct Backup {
    /// The directory of backups; made for its owner alone where it is missing.
    directory: PathBuf,
    /// Remove all backups of the directory but the newest N, once this one is finished.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    keep: Option<u16>,
    /// The home that was given to `mfaas up`.
    #[arg(long, value_name = "DIR", env = "MFAAS_HOME")]
    home: Option<PathBuf>,
}

impl Backup {
    /// Lets the server's program do it, as the owner of the database.
    pub(crate) fn run(self, context: &Context) -> Result<Exit, Failure> {
        let mut arguments: Vec<OsString> = vec!["backup".into(), absolute(&self.directory)?.into()];
        if let Some(keep) = self.keep {
            arguments.extend(["--keep".into(), keep.to_string().into()]);
        }
        if context.screen.is_json() {
            arguments.push("--json".into());
        }
        let said = run_as_owner(&home_of(self.home.as_deref())?, arguments)?;
        context.screen.bytes(format!("{said}\n").as_bytes())?;
        Ok(Exit::Ok)
    }
}
