//! What can go wrong in this program that is not the tenant's fault. What *is* the tenant's
//! fault is a finding, never an error.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use mfaas_process_metrics::ListenError;
use mfaas_rules::Code;
use mfaas_startup::{LoggingError, TlsProviderError, VariableError};
use mfaas_unpack::UnpackError;
use rustix::io::Errno;

use crate::acquire::error::AcquireError;

/// An internal failure. While a build is running it costs one attempt, or none where the machine is at fault; at the
/// command line it ends the program.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BuilderError {
    /// A variable of the environment is missing or not usable.
    #[error(transparent)]
    Variable(#[from] VariableError),
    /// There is no log.
    #[error(transparent)]
    Logging(#[from] LoggingError),
    /// There is no TLS.
    #[error(transparent)]
    TlsProvider(#[from] TlsProviderError),
    /// Metrics cannot be shown.
    #[error(transparent)]
    Metrics(#[from] ListenError),
    /// Nobody makes what is built give way to calls.
    #[error("MFAAS_ISOLATION_SOCKET: {0}")]
    Isolation(#[from] mfaas_isolation_client::ClientError),
    /// An operation on a file of our own failed.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// What a sandboxed command was to leave behind cannot be taken. The command may have done that.
    #[error("{}: {source}", path.display())]
    Product {
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
    /// A dependency's compilation did what none of a benign crate does.
    #[error("{code}: {problem}")]
    Unit {
        /// The stable code.
        code: Code,
        /// What it did, and of which crate; sanitised.
        problem: String,
    },
    /// The sandbox could not be set up, or is weaker than the configured minimum.
    #[error("the build sandbox: {0}")]
    Sandbox(String),
    /// The sandbox was set up and lost before it said how the command ended. What ran in it may have done that.
    #[error("the build sandbox: {0}")]
    SandboxLost(String),
    /// There is no room for scratch files.
    #[error("the scratch directory {}: {problem}", path.display())]
    Scratch {
        /// The directory.
        path: PathBuf,
        /// What is missing, as a sentence fragment.
        problem: String,
    },
    /// A thread of this program ended by a panic, which its log shows.
    #[error("a build's thread panicked")]
    Panicked,
    /// The build was told to end: this program stops, or lost its lease.
    #[error("the build was cancelled")]
    Cancelled,
    /// The source could not be written to our own disk.
    #[error("the source tree: {0}")]
    Unpack(#[source] UnpackError),
    /// A program that builds need is not beside this one.
    #[error("{name} is not beside this program, at {}", file.display())]
    ProgramMissing {
        /// The program.
        name: &'static str,
        /// Where it was looked for.
        file: PathBuf,
    },
    /// A crate could not be acquired.
    #[error("{0}")]
    Acquire(#[from] AcquireError),
    /// The registry's database did not do what it was asked.
    #[error("the registry: {}", with_causes(.0))]
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

    /// The same for a path that a sandboxed command has written to.
    pub(crate) fn product(path: impl AsRef<Path>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.as_ref().to_path_buf();
        move |source| Self::Product { path, source }
    }

    /// Whether the machine failed, and not the build: the same source is built as soon as the machine works. What a
    /// source could bring about (a crash of this program or of the sandbox) is not among these, or it would be tried for ever.
    pub(crate) fn is_of_the_machine(&self) -> bool {
        match self {
            Self::Io { .. } => true,
            Self::Product { source, .. } => is_of_the_system(source),
            Self::Unpack(UnpackError::Disk { source, .. }) => !is_of_the_name(source),
            Self::Catalog(error) => error.is_transient(),
            Self::Blobs(error) => error.is_transient(),
            Self::Sandbox(_)
            | Self::Scratch { .. }
            | Self::Toolchain { .. }
            | Self::Deps { .. }
            | Self::ProgramMissing { .. } => true,
            Self::Variable(_)
            | Self::Logging(_)
            | Self::TlsProvider(_)
            | Self::Metrics(_)
            | Self::Isolation(_)
            | Self::Command { .. }
            | Self::Unit { .. }
            | Self::SandboxLost(_)
            | Self::Panicked
            | Self::Cancelled
            | Self::Unpack(_)
            | Self::Acquire(_) => false,
        }
    }
}

/// Whether the operating system has run out of something, or a device has failed.
fn is_of_the_system(error: &std::io::Error) -> bool {
    let kind = matches!(
        error.kind(),
        ErrorKind::StorageFull
            | ErrorKind::QuotaExceeded
            | ErrorKind::ReadOnlyFilesystem
            | ErrorKind::OutOfMemory
            | ErrorKind::StaleNetworkFileHandle
            | ErrorKind::TimedOut
            | ErrorKind::WouldBlock
    );
    kind || [Errno::IO, Errno::MFILE, Errno::NFILE]
        .iter()
        .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

/// Whether a file system that takes other names than we allow, or takes two of them for one, refuses a file's name.
fn is_of_the_name(error: &std::io::Error) -> bool {
    [Errno::NAMETOOLONG, Errno::INVAL, Errno::ILSEQ, Errno::EXIST, Errno::NOTDIR, Errno::ISDIR]
        .iter()
        .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

/// An error and what is behind it, on one line.
fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |line, cause| format!("{line}: {cause}"))
}

#[cfg(test)]
mod tests;
