//! PostgreSQL's own programs, which read and write dumps.
//!
//! Addresses reach them by their environment: arguments are visible to everybody.

use std::path::PathBuf;

use mfaas_startup::DatabaseAddress;
use tokio::process::Command;

use crate::backup::error::BackupError;

/// Where they are.
#[derive(Debug, Clone, Default)]
pub struct PostgresPrograms {
    directory: Option<PathBuf>,
}

impl PostgresPrograms {
    /// In this directory; on the search path if there is none.
    pub fn of(directory: Option<PathBuf>) -> Self {
        Self { directory }
    }

    /// One of them, with this database as its own; it ends with us.
    pub(crate) fn command(&self, program: &'static str, address: Option<&DatabaseAddress>) -> Command {
        let mut command = match &self.directory {
            Some(directory) => Command::new(directory.join(program)),
            None => Command::new(program),
        };
        command
            .env("PGAPPNAME", "mfaas-backup")
            .env("PGOPTIONS", "-c statement_timeout=0 -c idle_in_transaction_session_timeout=0")
            .envs(address.map(DatabaseAddress::libpq_variables).unwrap_or_default())
            .kill_on_drop(true);
        command
    }
}

/// What a program that failed has said, bounded and harmless.
pub(crate) fn failed(program: &'static str, stderr: &[u8]) -> BackupError {
    const SAID_BYTES_MAX: usize = 2_000;
    let said = mfaas_ident::sanitise(&String::from_utf8_lossy(stderr), SAID_BYTES_MAX);
    BackupError::Program { program, said: said.trim().to_owned() }
}

/// One that could not be started.
pub(crate) fn absent(program: &'static str) -> impl FnOnce(std::io::Error) -> BackupError {
    move |error| BackupError::Program {
        program,
        said: format!(
            "it cannot be started ({error}); install PostgreSQL's client programs, or name their directory with --pg-bin"
        ),
    }
}
