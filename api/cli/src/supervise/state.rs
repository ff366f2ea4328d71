//! `state.json` in the runtime directory: what a running supervisor tells `up --detach`, `down`,
//! `status` and `bench`. It holds no secret, so everybody may read it.
//!
//! The file alone proves nothing: a pid counts only together with the process's start time, and
//! "running" means that the lock is held.

use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

use super::config::write_atomically;
use super::layout::Home;
use super::processes;
use crate::failure::Failure;

/// How far the supervisor is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Phase {
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
pub(crate) struct Step {
    /// What was done, for a person.
    pub(crate) name: String,
    /// How long it took, in seconds; absent while it runs.
    pub(crate) seconds: Option<f64>,
}

/// One supervised program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProgramState {
    /// `postgres`, `signer`, `server`, `builder`, `node`.
    pub(crate) name: String,
    /// Its process.
    pub(crate) pid: i32,
    /// Clock ticks since boot at which the process started; makes the pid unmistakable.
    pub(crate) start_ticks: u64,
    /// The user it runs as.
    pub(crate) uid: u32,
    /// How often it has been restarted.
    pub(crate) restarts: u32,
    /// What it wrote when it was ready.
    pub(crate) ready: Option<serde_json::Value>,
}

/// Where the parts answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Addresses {
    /// `127.0.0.1:7700`: REST and console.
    pub(crate) http: Option<String>,
    /// `127.0.0.1:7701`: nodes.
    pub(crate) nodes: Option<String>,
    /// `127.0.0.1:7800`: invocations.
    pub(crate) ingress: Option<String>,
}

impl Addresses {
    /// Where the program of that name answers HTTP, if it does.
    pub(crate) fn of(&self, program: &str) -> Option<&str> {
        match program {
            "server" => self.http.as_deref(),
            "node" => self.ingress.as_deref(),
            _ => None,
        }
    }
}

/// Everything the supervisor says about itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct State {
    /// The supervisor's process.
    pub(crate) pid: i32,
    /// The version of mfaas that supervises.
    pub(crate) version: String,
    /// How far it is.
    pub(crate) phase: Phase,
    /// Whether all programs share one uid.
    pub(crate) one_uid: bool,
    /// What was done so far.
    pub(crate) steps: Vec<Step>,
    /// Why it gave up.
    pub(crate) failure: Option<String>,
    /// What runs.
    pub(crate) programs: Vec<ProgramState>,
    /// Where it answers.
    pub(crate) addresses: Addresses,
    /// The profile file with the first token.
    pub(crate) profile: Option<String>,
    /// The current toolchain.
    pub(crate) toolchain: Option<String>,
}

impl State {
    /// The state of a supervisor that has just begun.
    pub(crate) fn starting() -> Self {
        Self {
            pid: rustix::process::getpid().as_raw_nonzero().get(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
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
    pub(crate) fn load(home: &Home) -> Result<Option<Self>, Failure> {
        let path = path(home);
        match std::fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map(Some)
                .map_err(|e| Failure::Local(format!("{} is damaged: {e}", path.display()))),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Failure::io("cannot read", &path)(error)),
        }
    }

    /// Replaces the file.
    pub(crate) fn save(&self, home: &Home) -> Result<(), Failure> {
        let bytes = serde_json::to_vec_pretty(self).map_err(|e| Failure::Local(e.to_string()))?;
        write_atomically(&path(home), &bytes, 0o644)
    }

    /// The programs whose processes are alive and still the same ones.
    pub(crate) fn alive(&self) -> impl Iterator<Item = &ProgramState> {
        self.programs
            .iter()
            .filter(|program| processes::start_ticks(program.pid) == Some(program.start_ticks))
    }
}

/// The file.
pub(crate) fn path(home: &Home) -> std::path::PathBuf {
    home.run().join("state.json")
}

/// The supervisor's lock: held as long as the value lives, released by the kernel whatever
/// happens to the process.
#[derive(Debug)]
pub(crate) struct Lock(#[expect(dead_code, reason = "holds the descriptor that holds the lock")] File);

impl Lock {
    /// Takes the lock; `None` when another supervisor has it.
    pub(crate) fn take(home: &Home) -> Result<Option<Self>, Failure> {
        let path = home.run().join("up.lock");
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(Failure::io("cannot open", &path))?;
        Self::try_lock(file, &path, FlockOperation::NonBlockingLockExclusive)
    }

    /// Whether a supervisor runs. Any reader may ask.
    pub(crate) fn is_held(home: &Home) -> Result<bool, Failure> {
        let path = home.run().join("up.lock");
        match File::open(&path) {
            Ok(file) => Ok(Self::try_lock(file, &path, FlockOperation::NonBlockingLockShared)?.is_none()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(Failure::io("cannot open", &path)(error)),
        }
    }

    fn try_lock(file: File, path: &Path, operation: FlockOperation) -> Result<Option<Self>, Failure> {
        match rustix::fs::flock(&file, operation) {
            Ok(()) => Ok(Some(Self(file))),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(Failure::io("cannot lock", path)(error.into())),
        }
    }
}

/// Waits until `done` says so; `false` when `limit` passed first.
pub(crate) fn wait_until(
    limit: Duration,
    mut done: impl FnMut() -> Result<bool, Failure>,
) -> Result<bool, Failure> {
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
