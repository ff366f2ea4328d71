//! What can go wrong in this program that is not the tenant's fault. What *is* the tenant's
//! fault is a finding, never an error.

use std::path::{Path, PathBuf};

use mfaas_rules::Code;

use crate::acquire::AcquireError;

/// An internal failure. While a build is running it costs one attempt; at the command line it
/// ends the program.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BuilderError {
    /// A variable of the environment is missing or not usable.
    #[error("{name}: {problem}")]
    Config {
        /// The variable.
        name: &'static str,
        /// What is wrong with it, as a sentence fragment.
        problem: String,
    },
    /// A file operation failed.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The toolchain is not the one that this program builds with, or it was altered.
    #[error("toolchain {}: {problem}", path.display())]
    Toolchain {
        /// The toolchain's directory, or the sysroot it should come from.
        path: PathBuf,
        /// What is wrong with it, as a sentence fragment.
        problem: String,
    },
    /// The dependency cache is not usable or could not be built.
    #[error("dependency cache {}: {problem}", path.display())]
    Deps {
        /// The cache's directory.
        path: PathBuf,
        /// What is wrong with it, as a sentence fragment.
        problem: String,
    },
    /// A trusted command (cargo, or rustc on our own sources) failed.
    #[error("{command} failed: {problem}")]
    Command {
        /// Which command, in a few words.
        command: &'static str,
        /// Its last words, sanitised.
        problem: String,
    },
    /// A dependency's compilation did what none of an honest crate does.
    #[error("{code}: {problem}")]
    Unit {
        /// The stable code.
        code: Code,
        /// What it did, and of which crate; sanitised.
        problem: String,
    },
    /// The cage could not be set up, or is weaker than the configured minimum.
    #[error("the build cage: {0}")]
    Cage(String),
    /// A thread of this program ended by a panic, which its log shows.
    #[error("a build's thread panicked")]
    Panicked,
    /// The build was told to end: this program stops, or lost its lease.
    #[error("the build was cancelled")]
    Cancelled,
    /// The source could not be written to our own disk.
    #[error("the source tree: {0}")]
    Unpack(#[source] mfaas_unpack::UnpackError),
    /// The program of the throw-away load is not beside this one.
    #[error("mfaas-worker is not beside this program, at {}", .0.display())]
    WorkerMissing(PathBuf),
    /// A crate could not be acquired.
    #[error("{0}")]
    Acquire(#[from] AcquireError),
    /// The registry's database did not do what it was asked.
    #[error("the registry: {0}")]
    Catalog(#[from] mfaas_catalog::CatalogError),
    /// The blob store did not do what it was asked.
    #[error("the blob store: {0}")]
    Blobs(#[from] mfaas_blobs::BlobError),
}

impl BuilderError {
    /// Wraps an I/O error with the path it is about.
    pub(crate) fn io(path: impl AsRef<Path>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.as_ref().to_path_buf();
        move |source| Self::Io { path, source }
    }
}
