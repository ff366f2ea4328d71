//! Every way a command can end badly, and the exit code of each.
//!
//! The codes are a contract: scripts branch on them. An answer that we do not understand is a
//! plain failure, never a success.

use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use mfaas_supervisor::SupervisorError;
use mfaas_wire::Problem;

/// What the process tells its parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done.
    Ok = 0,
    /// Something broke.
    Failed = 1,
    /// The command line makes no sense.
    Usage = 2,
    /// Refused by policy.
    Refused = 3,
    /// No token, or one that does not open this.
    SignIn = 4,
    /// The compiler refused the source.
    CompileError = 5,
    /// A dependency waits for a reviewer.
    Waiting = 6,
    /// The function failed or went over its budget.
    FunctionFailed = 7,
    /// Still pending at `--timeout`.
    Pending = 8,
    /// A signature or digest does not match.
    Unverified = 9,
    /// Ctrl-C.
    Interrupted = 130,
}

impl Exit {
    /// The exit code for a finding or problem with this stable code.
    pub(crate) fn of_code(code: &str) -> Self {
        match code {
            "MF0204" | "MF0205" | "MF0206" => Self::Waiting,
            // Refused by the linker for what policy does not offer, or for what a dependency does; the others of the
            // family are the compiler's, three are faults on the server's side.
            "MF0407" | "MF0411" | "MF0412" | "MF0604" => Self::Refused,
            "MF0409" | "MF0410" | "MF0413" => Self::Failed,
            "MF0601" | "MF0602" | "MF0606" => Self::Unverified,
            _ => match code.get(..4) {
                Some("MF01" | "MF02" | "MF03" | "MF05") => Self::Refused,
                Some("MF04") => Self::CompileError,
                Some("MF08") => Self::FunctionFailed,
                Some(_) | None => Self::Failed,
            },
        }
    }

    /// What a program that ends with the same codes has told.
    pub(crate) fn of_status(status: ExitStatus) -> Self {
        match status.code() {
            Some(0) => Self::Ok,
            Some(2) => Self::Usage,
            Some(3) => Self::Refused,
            Some(4) => Self::SignIn,
            Some(5) => Self::CompileError,
            Some(6) => Self::Waiting,
            Some(7) => Self::FunctionFailed,
            Some(8) => Self::Pending,
            Some(9) => Self::Unverified,
            Some(130) => Self::Interrupted,
            Some(_) | None => Self::Failed,
        }
    }

    /// The exit code for a problem document: what the status says about access goes first.
    pub(crate) fn of_problem(problem: &Problem) -> Self {
        match problem.status {
            401 | 403 => Self::SignIn,
            _ => Self::of_code(&problem.code),
        }
    }
}

/// Why a command did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The arguments do not fit together.
    #[error("{0}")]
    Usage(String),
    /// No token is configured, or the command needs one.
    #[error("{0}")]
    SignIn(String),
    /// The server said no; the document says why.
    #[error("{}", problem_line(.0))]
    Problem(Box<Problem>),
    /// The command has already said everything; only the exit code is left.
    #[error("ended with exit code {}", *.0 as i32)]
    Told(Exit),
    /// No answer from the other side.
    #[error("cannot reach {what}: {cause}")]
    Unreachable {
        /// The address.
        what: String,
        /// The innermost reason.
        cause: String,
    },
    /// The other side answered with something that is not in the contract.
    #[error("{what} answered with something unexpected: {cause}")]
    Protocol {
        /// The address.
        what: String,
        /// What was wrong with it.
        cause: String,
    },
    /// Time ran out while the thing was still going on.
    #[error("{0}")]
    Pending(String),
    /// A signature, digest or key does not match.
    #[error("verification failed: {0}")]
    Unverified(String),
    /// A file or directory.
    #[error("{what} {}: {source}", path.display())]
    Io {
        /// For example `cannot read`.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: std::io::Error,
    },
    /// Anything else on this machine.
    #[error("{0}")]
    Local(String),
    /// Ctrl-C or SIGTERM.
    #[error("interrupted")]
    Interrupted,
}

impl Failure {
    /// For `map_err`: names what was tried and on which path.
    pub(crate) fn io(what: &'static str, path: impl AsRef<Path>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.as_ref().to_owned();
        move |source| Self::Io { what, path, source }
    }

    /// The exit code.
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Usage(_) => Exit::Usage,
            Self::SignIn(_) => Exit::SignIn,
            Self::Problem(problem) => Exit::of_problem(problem),
            Self::Told(exit) => *exit,
            Self::Unreachable { .. } | Self::Protocol { .. } | Self::Io { .. } | Self::Local(_) => {
                Exit::Failed
            }
            Self::Pending(_) => Exit::Pending,
            Self::Unverified(_) => Exit::Unverified,
            Self::Interrupted => Exit::Interrupted,
        }
    }

    /// What to try next, where we know it.
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::SignIn(_) => Some("run `mfaas login`, or set MFAAS_TOKEN".to_owned()),
            Self::Problem(problem) if !problem.hint.is_empty() => Some(problem.hint.clone()),
            Self::Unreachable { .. } => {
                Some("is it running? `mfaas up` starts everything, `mfaas doctor` looks closer".to_owned())
            }
            _ => None,
        }
    }
}

impl From<SupervisorError> for Failure {
    fn from(error: SupervisorError) -> Self {
        match error {
            SupervisorError::Usage(text) => Self::Usage(text),
            SupervisorError::Unverified(text) => Self::Unverified(text),
            SupervisorError::Io { what, path, source } => Self::Io { what, path, source },
            SupervisorError::Protocol { what, cause } => Self::Protocol { what, cause },
            SupervisorError::Local(text) => Self::Local(text),
            SupervisorError::Interrupted => Self::Interrupted,
        }
    }
}

fn problem_line(problem: &Problem) -> String {
    let detail = if problem.detail.is_empty() { &problem.title } else { &problem.detail };
    format!("{}: {detail}", problem.code)
}

#[cfg(test)]
mod tests;
