//! One command in the build sandbox, and what became of it.
//!
//! Everything that runs because of somebody else's source goes through [`Sandbox::run`]: the
//! compiler on a tenant's crate, cargo on the dependencies, the throw-away load. There is no way
//! to run one of them without it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use mfaas_attest::SandboxLevel;
use mfaas_rules::limits::CompileLimits;
pub(crate) use mfaas_sandbox::Filter;
use mfaas_sandbox::{Access, Cancel, Exit, Level, Mount, Placement, SandboxError, SandboxSpec};

use crate::disk;
use crate::error::BuilderError;

/// A directory or file of the host, the path under which a command finds it, and what it may do
/// with it.
#[derive(Debug, Clone)]
pub(crate) struct View {
    pub(crate) host: PathBuf,
    pub(crate) inside: String,
    access: Access,
}

impl View {
    /// The path inside of something below.
    pub(crate) fn path(&self, relative: &str) -> String {
        format!("{}/{relative}", self.inside)
    }
}

/// A command with everything it may see.
#[derive(Debug)]
pub(crate) struct Job {
    /// The program's path inside.
    pub(crate) program: String,
    /// Its arguments.
    pub(crate) arguments: Vec<String>,
    /// Its whole environment.
    pub(crate) environment: Vec<(String, String)>,
    /// The directory it starts in, inside.
    pub(crate) directory: String,
    /// What it sees.
    pub(crate) views: Vec<View>,
    /// How much it may use.
    pub(crate) limits: CompileLimits,
    /// What kind of command it is: a sandbox offers each only the system calls it needs.
    pub(crate) filter: Filter,
}

/// What a command left behind.
#[derive(Debug)]
pub(crate) struct Ran {
    /// How it ended.
    pub(crate) exit: Exit,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    /// The limits it had.
    pub(crate) limits: CompileLimits,
    /// User and system time of all its processes, the sandbox's own included.
    pub(crate) cpu: Duration,
}

/// Address space of a worker that is no memory: the window of functions and what is kept free around it.
const WINDOW_BYTES: u64 = 8 << 30;

/// The weakest sandbox that the configuration accepts.
pub(crate) type SandboxMinimum = Level;

/// The level of a sandbox of this machine, if it is not below `minimum`.
fn reached(helper: &Path, minimum: SandboxMinimum) -> Result<Level, BuilderError> {
    let tried = mfaas_sandbox::try_out(helper).map_err(|error| BuilderError::Sandbox(error.to_string()))?;
    match tried.missing {
        Some(missing) if tried.level < minimum => {
            let level = tried.level;
            Err(BuilderError::Sandbox(format!("{level} is reached, {minimum} is demanded: {missing}")))
        }
        _ => Ok(tried.level),
    }
}

/// The sandbox that this machine can build. Decided once at start; a machine that loses a layer
/// later gets refusals, not weaker sandboxes.
#[derive(Debug, Clone)]
pub(crate) struct Sandbox {
    level: Level,
    helper: PathBuf,
    cancel: Cancel,
    /// Limits below those of each job, where somebody asked for them.
    ceiling: Option<CompileLimits>,
    /// Where the isolation controller of this machine listens, if it is to place each command.
    isolation: Option<PathBuf>,
}

impl Sandbox {
    /// Builds one to find out how strong it gets; less than `minimum` is an error.
    pub(crate) fn new(minimum: SandboxMinimum) -> Result<Self, BuilderError> {
        let helper = std::env::current_exe().map_err(BuilderError::io("this program's own file"))?;
        let level = reached(&helper, minimum)?;
        Ok(Self { level, helper, cancel: Cancel::new(), ceiling: None, isolation: None })
    }

    /// Whether one as strong as at the start can be built now.
    pub(crate) fn still_stands(&self) -> Result<(), BuilderError> {
        reached(&self.helper, self.level).map(|_| ())
    }

    /// How strong every sandbox of this process is.
    pub(crate) fn level(&self) -> SandboxLevel {
        match self.level {
            Level::Full => SandboxLevel::Full,
            Level::Landlock => SandboxLevel::Landlock,
        }
    }

    /// The same sandbox with its own end: [`Sandbox::cancel`] ends what runs in it and nothing else.
    pub(crate) fn separately(&self) -> Self {
        Self { cancel: Cancel::new(), ..self.clone() }
    }

    /// A sandbox that is never entered: it only tells where things are outside of one.
    pub(crate) fn in_place() -> Self {
        let cancel = Cancel::new();
        cancel.cancel();
        Self { level: Level::Landlock, helper: PathBuf::new(), cancel, ceiling: None, isolation: None }
    }

    /// The same sandbox, in which no command has more than these limits.
    pub(crate) fn with_at_most(self, ceiling: CompileLimits) -> Self {
        Self { ceiling: Some(ceiling), ..self }
    }

    /// The same sandbox, whose commands give way to calls as the isolation controller at this socket says.
    pub(crate) fn placed_by(self, isolation: Option<PathBuf>) -> Self {
        Self { isolation, ..self }
    }

    /// Ends what runs, and everything that is started later.
    pub(crate) fn cancel(&self) {
        self.cancel.cancel();
    }

    /// Something to read.
    pub(crate) fn read(&self, host: &Path, fixed: &str) -> View {
        self.view(host, fixed, Access::Read)
    }

    /// Something to read, and to map as code.
    pub(crate) fn load(&self, host: &Path, fixed: &str) -> View {
        self.view(host, fixed, Access::Load)
    }

    /// Something to execute.
    pub(crate) fn execute(&self, host: &Path, fixed: &str) -> View {
        self.view(host, fixed, Access::Execute)
    }

    /// Something to write, and never to map as code.
    pub(crate) fn write(&self, host: &Path, fixed: &str) -> View {
        self.view(host, fixed, Access::Write)
    }

    /// Something to write and then to run: for the trusted dependency build alone, which makes
    /// build scripts and macros and executes them.
    pub(crate) fn write_and_execute(&self, host: &Path, fixed: &str) -> View {
        self.view(host, fixed, Access::WriteAndExecute)
    }

    /// Where `host` will be found: at `fixed` in a full sandbox, at its own place in one without a
    /// root of its own.
    fn view(&self, host: &Path, fixed: &str, access: Access) -> View {
        let inside = Placement::at(self.level).inside(host, Path::new(fixed));
        View { host: host.to_path_buf(), inside: inside.to_string_lossy().into_owned(), access }
    }

    /// Runs one command to its end. Blocks.
    ///
    /// A command that did not succeed while there was less room to write than it may use was stopped by our disk, or may
    /// have been: that is no verdict about what it worked on.
    pub(crate) fn run(&self, job: Job) -> Result<Ran, BuilderError> {
        let writable: Vec<PathBuf> =
            job.views.iter().filter(|view| view.access.writable()).map(|view| view.host.clone()).collect();
        let mounts = job
            .views
            .into_iter()
            .map(|view| Mount { source: view.host, target: PathBuf::from(view.inside), access: view.access })
            .collect();
        let mut limits = self.ceiling.map_or(job.limits, |ceiling| job.limits.at_most(ceiling));
        if matches!(job.filter, Filter::ThrowawayLoad) {
            limits.memory_bytes_max += WINDOW_BYTES;
        }
        let spec = SandboxSpec {
            program: job.program.into(),
            arguments: job.arguments,
            environment: job.environment,
            directory: job.directory.into(),
            mounts,
            limits,
            level: self.level,
            filter: job.filter,
        };
        let failed = |error: SandboxError| match &error {
            SandboxError::Lost(_) => BuilderError::SandboxLost(error.to_string()),
            SandboxError::Refused { .. } | SandboxError::Helper { .. } | SandboxError::GaveWay(_) => {
                BuilderError::Sandbox(error.to_string())
            }
        };
        let sandbox = mfaas_sandbox::Sandbox::new(spec, &self.helper).map_err(failed)?;
        let sandbox = sandbox.placed_by(self.isolation.clone());
        let outcome = sandbox.run(&self.cancel).map_err(failed)?;
        match outcome.exit {
            Exit::Cancelled => Err(BuilderError::Cancelled),
            exit => {
                if !exit.success() && matches!(exit, Exit::Code(_) | Exit::Signal(_)) {
                    writable
                        .iter()
                        .try_for_each(|directory| disk::has_quota(directory, limits.file_bytes_max))?;
                }
                Ok(Ran { exit, stdout: outcome.stdout, stderr: outcome.stderr, limits, cpu: outcome.cpu })
            }
        }
    }
}
