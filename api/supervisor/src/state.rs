//! `state.json` in the runtime directory: what a running supervisor tells `up --detach`, `down`,
//! `status` and `bench`. It holds no secret, so everybody may read it.
//!
//! The file alone proves nothing: a pid counts only together with the process's start time, and
//! "running" means that the lock is held.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

use crate::error::SupervisorError;
use crate::files::write_atomically;
use crate::layout::Home;
use crate::processes;

/// How far the supervisor is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Setting up and starting.
    Starting,
    /// Everything serves.
    Ready,
    /// Stopping in order.
    Stopping,
    /// Gave up; `failure` says why.
    Failed,
}

/// One announced step of `up`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// What was done, for a person.
    pub name: String,
    /// How long it took, in seconds; absent while it runs.
    pub seconds: Option<f64>,
}

/// One supervised program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramState {
    /// `postgres`, `signer`, `server`, `builder`, `node`.
    pub name: String,
    /// Its process.
    pub pid: i32,
    /// Clock ticks since boot at which the process started; makes the pid unmistakable.
    pub start_ticks: u64,
    /// The user it runs as.
    pub uid: u32,
    /// How often it has been restarted.
    pub restarts: u32,
    /// What it wrote when it was ready.
    pub ready: Option<serde_json::Value>,
}

/// Where the parts answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Addresses {
    /// `127.0.0.1:7700`: REST and console.
    pub http: Option<String>,
    /// `127.0.0.1:7701`: nodes.
    pub nodes: Option<String>,
    /// `127.0.0.1:7800`: invocations.
    pub ingress: Option<String>,
}

impl Addresses {
    /// Where the program of that name answers HTTP, if it does.
    pub fn of(&self, program: &str) -> Option<&str> {
        match program {
            "server" => self.http.as_deref(),
            "node" => self.ingress.as_deref(),
            _ => None,
        }
    }
}

/// Everything the supervisor says about itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// The supervisor's process.
    pub pid: i32,
    /// The version of mfaas that supervises.
    pub version: String,
    /// How far it is.
    pub phase: Phase,
    /// Whether all programs share one uid.
    pub one_uid: bool,
    /// What was done so far.
    pub steps: Vec<Step>,
    /// Why it gave up.
    pub failure: Option<String>,
    /// What runs.
    pub programs: Vec<ProgramState>,
    /// Where it answers.
    pub addresses: Addresses,
    /// The profile file with the first token.
    pub profile: Option<String>,
    /// The current toolchain.
    pub toolchain: Option<String>,
}

/// What the kernel says of a program's process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Process {
    /// It runs.
    Runs,
    /// A signal or a debugger stopped it.
    Stopped,
    /// It has ended, and its number may be another process's.
    Gone,
}

impl ProgramState {
    /// Asks the kernel.
    pub fn process(&self) -> Process {
        match processes::stat(self.pid).filter(|stat| !stat.ended && stat.start_ticks == self.start_ticks) {
            Some(stat) if stat.stopped => Process::Stopped,
            Some(_) => Process::Runs,
            None => Process::Gone,
        }
    }
}

impl State {
    /// The state of a supervisor that has just begun.
    pub(crate) fn starting() -> Self {
        Self {
            pid: rustix::process::getpid().as_raw_nonzero().get(),
            version: mfaas_ident::BuildVersion::this().to_string(),
            phase: Phase::Starting,
            one_uid: false,
            steps: Vec::new(),
            failure: None,
            programs: Vec::new(),
            addresses: Addresses::default(),
            profile: None,
            toolchain: None,
        }
    }

    /// Reads the state; `None` when there is none.
    pub fn load(home: &Home) -> Result<Option<Self>, SupervisorError> {
        let path = path(home);
        match std::fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map(Some)
                .map_err(|e| SupervisorError::Local(format!("{} is damaged: {e}", path.display()))),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(SupervisorError::io("cannot read", &path)(error)),
        }
    }

    /// Replaces the file.
    pub(crate) fn save(&self, home: &Home) -> Result<(), SupervisorError> {
        let bytes = serde_json::to_vec_pretty(self).map_err(|e| SupervisorError::Local(e.to_string()))?;
        write_atomically(&path(home), &bytes, 0o644)
    }

    /// The programs whose processes are alive and still the same ones.
    pub fn alive(&self) -> impl Iterator<Item = &ProgramState> {
        self.programs.iter().filter(|program| program.process() != Process::Gone)
    }
}

/// The file.
pub(crate) fn path(home: &Home) -> PathBuf {
    home.run().join("state.json")
}

/// The supervisor's lock: held as long as the value lives, released by the kernel whatever
/// happens to the process.
#[derive(Debug)]
pub(crate) struct Lock(#[expect(dead_code, reason = "holds the descriptor that holds the lock")] File);

impl Lock {
    /// Takes the lock; `None` when another supervisor has it.
    pub(crate) fn take(home: &Home) -> Result<Option<Self>, SupervisorError> {
        let path = Self::path(home);
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(SupervisorError::io("cannot open", &path))?;
        Self::try_lock(file, &path, FlockOperation::NonBlockingLockExclusive)
    }

    fn path(home: &Home) -> PathBuf {
        home.run().join("up.lock")
    }

    fn try_lock(file: File, path: &Path, operation: FlockOperation) -> Result<Option<Self>, SupervisorError> {
        match rustix::fs::flock(&file, operation) {
            Ok(()) => Ok(Some(Self(file))),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(SupervisorError::io("cannot lock", path)(error.into())),
        }
    }
}

/// Whether a supervisor of this home runs. Any reader may ask.
pub fn is_supervised(home: &Home) -> Result<bool, SupervisorError> {
    let path = Lock::path(home);
    match File::open(&path) {
        Ok(file) => Ok(Lock::try_lock(file, &path, FlockOperation::NonBlockingLockShared)?.is_none()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(SupervisorError::io("cannot open", &path)(error)),
    }
}

/// Waits while a supervisor of this home is starting; `false` when `limit` passed first.
pub fn wait_while_starting(home: &Home, limit: Duration) -> Result<bool, SupervisorError> {
    wait_until(limit, || {
        let starting = State::load(home)?.is_none_or(|state| state.phase == Phase::Starting);
        Ok(!starting || !is_supervised(home)?)
    })
}

/// Waits until `done` says so; `false` when `limit` passed first.
pub(crate) fn wait_until(
    limit: Duration,
    mut done: impl FnMut() -> Result<bool, SupervisorError>,
) -> Result<bool, SupervisorError> {
    const STEP: Duration = Duration::from_millis(20);
    let begin = Instant::now();
    loop {
        if done()? {
            return Ok(true);
        }
        if begin.elapsed() >= limit {
            return Ok(false);
        }
        std::thread::sleep(STEP);
    }
}
