//! What is done with a home's site as its owner, beside running it: the commands of `mfaas-server` that back it up, restore it
//! and archive its audit log.
//!
//! They run as whoever asked, who can read and write where the files are to lie, and hand blobs on by the group that all who
//! write them share. Must never give a password as an argument, or a key to a backup.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use mfaas_rules::codes;

use crate::config::{OWNER_ROLE, UpConfig};
use crate::error::SupervisorError;
use crate::identity::Identities;
use crate::launch::{Siblings, run_as_self};
use crate::layout::Home;
use crate::postgres;
use crate::programs::Programs;
use crate::state::is_supervised;

/// What makes the site the one that nodes and statements know; a backup has none of it.
const KEYS: [&str; 4] = ["root-key/root.pub", "root-key/keylist.json", "signer/keys", "server/tls/ca.pem"];

/// A backup, and how it is to be restored.
#[derive(Debug, Clone)]
pub struct RestoreOptions {
    /// The directory of backups, absolute.
    pub directory: PathBuf,
    /// Which one; the newest when absent.
    pub at: Option<String>,
    /// In the place of a site that is there.
    pub replace: bool,
    /// As JSON.
    pub json: bool,
    /// An external database; as before, or a private cluster, when absent.
    pub database_url: Option<String>,
    /// The blob store; as before, or a directory of the home, when absent.
    pub blobs_url: Option<String>,
}

impl RestoreOptions {
    fn arguments(&self) -> Vec<OsString> {
        let mut arguments = vec!["restore".into(), self.directory.clone().into()];
        if let Some(name) = &self.at {
            arguments.extend(["--at".into(), name.into()]);
        }
        if self.json {
            arguments.push("--json".into());
        }
        arguments
    }
}

/// Runs a command of `mfaas-server` as the owner of this home's site, whose database has to run, and returns what it printed.
pub fn run_as_owner(home: &Home, arguments: Vec<OsString>) -> Result<String, SupervisorError> {
    let config = UpConfig::load(home)?.ok_or_else(|| {
        SupervisorError::Usage(format!(
            "there is no site in {}: name its home with --home",
            home.root().display()
        ))
    })?;
    if config.external_database.is_none() && !is_supervised(home)? {
        return Err(SupervisorError::Local(
            "the site's database does not run: start the site with `mfaas up`".to_owned(),
        ));
    }
    run(home, &config, arguments)
}

/// Reads a backup to its end; nothing is touched.
pub fn verify_backup(options: &RestoreOptions) -> Result<String, SupervisorError> {
    let server = Siblings::beside_us()?.path("mfaas-server");
    run_as_self(&server, options.arguments().into_iter().chain(["--dry-run".into()]))
}

/// Puts a backup into the home's database, which runs, and its blob store.
pub(crate) fn put_back(
    home: &Home,
    config: &UpConfig,
    options: &RestoreOptions,
) -> Result<String, SupervisorError> {
    let replace = options.replace.then(|| "--replace".into());
    run(home, config, options.arguments().into_iter().chain(replace).collect())
}

fn run(home: &Home, config: &UpConfig, mut arguments: Vec<OsString>) -> Result<String, SupervisorError> {
    if arguments.first().is_some_and(|command| command != "audit") {
        arguments.extend(["--pg-bin".into(), postgres::find_postgres()?.into()]);
    }
    let siblings = Siblings::beside_us()?;
    let programs = Programs { home, config, siblings: &siblings, log: "warn" };
    // As we are: see above.
    programs.server_command(OWNER_ROLE)?.args(arguments).run(home, &Identities::OneUid)
}

/// Fails where a restored site could not go on as the one that it was.
pub(crate) fn demand_keys(home: &Home) -> Result<(), SupervisorError> {
    let missing: Vec<&str> = KEYS.into_iter().filter(|path| !is_there(&home.join(path))).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let code = codes::MF1006;
    Err(SupervisorError::Local(format!(
        "{code}: {} has no {}\n{}",
        home.root().display(),
        missing.join(", "),
        code.hint()
    )))
}

fn is_there(path: &Path) -> bool {
    match std::fs::read_dir(path) {
        Ok(mut entries) => entries.next().is_some(),
        Err(_) => path.is_file(),
    }
}

/// The file that says that a restore into a new home has begun.
fn mark(home: &Home) -> PathBuf {
    home.join("restoring")
}

/// Says so, where there was no site before.
pub(crate) fn mark_restoring(home: &Home) -> Result<(), SupervisorError> {
    if home.join("postgres/PG_VERSION").exists() {
        return Ok(());
    }
    let path = mark(home);
    std::fs::write(&path, "").map_err(SupervisorError::io("cannot write", &path))
}

/// Takes it back: everything is there.
pub(crate) fn unmark_restoring(home: &Home) -> Result<(), SupervisorError> {
    let path = mark(home);
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(SupervisorError::io("cannot remove", &path)(error))
        }
        _ => Ok(()),
    }
}

/// Fails where a site would begin anew in the place of one that was to be restored.
pub(crate) fn demand_restored(home: &Home) -> Result<(), SupervisorError> {
    if !mark(home).exists() {
        return Ok(());
    }
    let code = codes::MF1005;
    Err(SupervisorError::Local(format!(
        "{code}: {} ({}) {}",
        code.title(),
        mark(home).display(),
        code.hint()
    )))
}
