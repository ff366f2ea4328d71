//! Why a site was not backed up or restored.

use std::path::PathBuf;

use mfaas_blobs::BlobError;
use mfaas_catalog::CatalogError;
use mfaas_rules::{Code, codes};

/// One variant for each thing that somebody would do differently.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// A part is not what the manifest says.
    #[error("{what} of the backup {backup} is missing or damaged: {cause}")]
    Damaged {
        /// Which backup.
        backup: String,
        /// Which part.
        what: &'static str,
        /// What was found.
        cause: String,
    },
    /// This release cannot know what is in it.
    #[error("the backup {backup} was made by release {release}: {what}")]
    Newer {
        /// Which backup.
        backup: String,
        /// By which release.
        release: String,
        /// What is newer.
        what: String,
    },
    /// Nothing is replaced unless somebody says so.
    #[error("the database that this was to come into has tables already")]
    Occupied,
    /// Programs would go on with what they remember.
    #[error("{connections} connections of programs to the database are open")]
    InUse {
        /// How many.
        connections: u64,
    },
    /// There is no such backup.
    #[error("{} has no {what}", directory.display())]
    None {
        /// Where.
        directory: PathBuf,
        /// What was looked for.
        what: String,
    },
    /// Two commands at a time would remove each other's blobs.
    #[error("another command works on {}: wait for its end", .0.display())]
    Busy(PathBuf),
    /// A program of PostgreSQL.
    #[error("{program} failed: {said}")]
    Program {
        /// `pg_dump`, `pg_restore` or `psql`.
        program: &'static str,
        /// What it said.
        said: String,
    },
    /// The registry.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    /// One of the two stores.
    #[error(transparent)]
    Blobs(#[from] BlobError),
    /// A file of the directory.
    #[error("cannot {what} {}", path.display())]
    Io {
        /// For example `write`.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: std::io::Error,
    },
}

impl BackupError {
    /// The stable code, for what is no fault of machine, database or store.
    pub fn code(&self) -> Option<Code> {
        match self {
            Self::Damaged { .. } => Some(codes::MF1001),
            Self::Newer { .. } => Some(codes::MF1002),
            Self::Occupied => Some(codes::MF1003),
            Self::InUse { .. } => Some(codes::MF1004),
            Self::Blobs(error) => error.code(),
            Self::None { .. } | Self::Busy(_) | Self::Program { .. } | Self::Catalog(_) | Self::Io { .. } => {
                None
            }
        }
    }

    /// For `map_err`: what was tried with which file.
    pub(crate) fn io(what: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { what, path, source }
    }
}
