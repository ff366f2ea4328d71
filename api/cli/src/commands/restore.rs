//! `mfaas restore`: a backup put into a home whose site does not run.

use std::path::PathBuf;

use mfaas_supervisor::{RestoreOptions, restore, verify_backup};

use crate::commands::up::{DEFAULT_PORTS, absolute, home_of};
use crate::failure::{Exit, Failure};
use crate::settings::Context;

/// Put a backup into a home whose site does not run; start it with `mfaas up` then.
///
/// Everything is read and verified before anything is touched. The site's keys have to be in the home already, since no backup
/// holds any. A site on several machines is restored with `mfaas-server restore`.
///
/// For example: `mfaas restore /backup/mfaas --dry-run`
#[derive(Debug, clap::Args)]
pub(crate) struct Restore {
    /// The directory of backups.
    directory: PathBuf,
    /// Which one; the newest when absent.
    #[arg(long, value_name = "NAME")]
    at: Option<String>,
    /// In the place of a site that is there: its database is lost.
    #[arg(long)]
    replace: bool,
    /// Read and verify the backup, and change nothing.
    #[arg(long, conflicts_with = "replace")]
    dry_run: bool,
    /// The home that will be given to `mfaas up`.
    #[arg(long, value_name = "DIR", env = "MFAAS_HOME")]
    home: Option<PathBuf>,
    /// An existing database (URL of its owner) in the place of a private cluster; kept from then on.
    #[arg(long, value_name = "URL", env = "DATABASE_URL", hide_env_values = true)]
    database_url: Option<String>,
    /// An existing blob store, s3://BUCKET/PREFIX, in the place of a directory of the home; kept from then on.
    #[arg(long, value_name = "URL", env = "MFAAS_BLOBS_URL")]
    blobs_url: Option<String>,
}

impl Restore {
    /// Verifies, and restores unless that was all.
    pub(crate) fn run(self, context: &Context) -> Result<Exit, Failure> {
        let options = RestoreOptions {
            directory: absolute(&self.directory)?,
            at: self.at,
            replace: self.replace,
            json: context.screen.is_json(),
            database_url: self.database_url,
            blobs_url: self.blobs_url,
        };
        let said = match self.dry_run {
            true => verify_backup(&options)?,
            false => restore(&home_of(self.home.as_deref())?, DEFAULT_PORTS, &options)?,
        };
        context.screen.bytes(format!("{said}\n").as_bytes())?;
        Ok(Exit::Ok)
    }
}
