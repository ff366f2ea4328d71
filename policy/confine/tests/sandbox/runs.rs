//! Running an attacker inside and outside, and saying how it went.

use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus, Output};

use mfaas_confine::{AblationToken, Access, Limits, Mount, Profile};
pub(crate) use mfaas_confine::{Layer, Level};
use mfaas_rules::profiles::seccomp::{COMPILER, WORKER};

use crate::attacks::{ABSENT, COULD, REFUSED, i386_getpid, x32_getpid};

/// First arguments that give this executable its part.
pub(crate) const SANDBOX: &str = "enter-sandbox";
pub(crate) const ATTACK: &str = "attack";
pub(crate) const LOCKED: &str = "be-locked";

/// How an attack went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Run {
    /// It did what it wanted.
    Could,
    /// The kernel knows the call and refused it.
    Refused,
    /// The call does not exist.
    Absent,
    /// SIGSYS.
    Killed,
    /// Another signal.
    Crashed,
}

impl From<ExitStatus> for Run {
    fn from(status: ExitStatus) -> Self {
        match (status.code().map(u8::try_from), status.signal()) {
            (Some(Ok(COULD)), _) => Run::Could,
            (Some(Ok(REFUSED)), _) => Run::Refused,
            (Some(Ok(ABSENT)), _) => Run::Absent,
            (None, Some(libc::SIGSYS)) => Run::Killed,
            (None, Some(_)) => Run::Crashed,
            other => panic!("an attacker ended with {other:?}"),
        }
    }
}

fn this() -> PathBuf {
    std::env::current_exe().unwrap()
}

/// A copy of a descriptor is left open, for an attacker to find.
pub(crate) fn outside(attack: &str) -> Run {
    let left_open = rustix::io::dup(std::io::stdout().as_fd()).unwrap();
    rustix::io::fcntl_setfd(&left_open, rustix::io::FdFlags::empty()).unwrap();
    Command::new(this()).args([ATTACK, attack]).status().unwrap().into()
}

pub(crate) fn inside(attack: &str, level: Level, without: Option<Layer>) -> Run {
    let left_open = rustix::io::dup(std::io::stdout().as_fd()).unwrap();
    rustix::io::fcntl_setfd(&left_open, rustix::io::FdFlags::empty()).unwrap();
    let output = sandbox(attack, level, without, "1");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let status = printed.lines().find_map(|line| line.strip_prefix("status ")?.parse().ok());
    ExitStatus::from_raw(status.unwrap_or_else(|| panic!("{attack}: {output:?}"))).into()
}

pub(crate) fn sandbox_with_two_threads(level: Level) -> String {
    String::from_utf8(sandbox("nothing", level, None, "2").stdout).unwrap()
}

fn sandbox(attack: &str, level: Level, without: Option<Layer>, threads: &str) -> Output {
    let without = match without {
        None => "all",
        Some(Layer::Seccomp) => "seccomp",
        Some(other) => panic!("{other:?} is taken off in the tests of the sandbox"),
    };
    let level = level.to_string();
    Command::new(this()).args([SANDBOX, attack, &level, without, threads]).output().unwrap()
}

/// `enter-sandbox ATTACK LEVEL LAYERS THREADS`: builds the sandbox and prints how it ended.
pub(crate) fn enter_sandbox(arguments: &[String]) -> ExitCode {
    let [attack, level, layers, threads] = arguments else { panic!("{arguments:?}") };
    if threads == "2" {
        std::thread::spawn(|| std::thread::sleep(std::time::Duration::from_secs(60)));
    }
    let token = AblationToken::for_tests();
    let mut profile = profile();
    let minimum = if level == "full" { Level::Full } else { Level::Landlock };
    if minimum == Level::Landlock {
        profile = profile.without(&token, Layer::Namespaces);
    }
    if layers == "seccomp" {
        profile = profile.without(&token, Layer::Seccomp);
    }
    let (control, _held) = rustix::pipe::pipe().unwrap();
    let program = this();
    let ended = mfaas_confine::supervise(&profile, minimum, control.as_fd(), &|_| {
        Command::new(&program).args([ATTACK, attack]).env_clear().exec()
    });
    match ended {
        Ok(ended) => {
            assert_eq!(ended.level, minimum);
            println!("status {}", ended.wait_status.unwrap());
        }
        Err(error) => println!("error {error}"),
    }
    ExitCode::SUCCESS
}

/// This executable and its libraries, where they stand on the host.
fn profile() -> Profile {
    let listing = Command::new("ldd").arg(this()).output().unwrap();
    let listing = String::from_utf8(listing.stdout).unwrap();
    let paths = listing.lines().filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')));
    let mut mounts: Vec<Mount> = paths.map(|path| in_place(Path::new(path))).collect();
    mounts.push(in_place(&this()));
    let limits = Limits {
        cpu_seconds: 10,
        data_bytes: 256 << 20,
        address_space_bytes: 4 << 30,
        file_bytes: 1 << 20,
        descriptors: 64,
        processes: 16,
        stack_bytes: 8 << 20,
        scratch_bytes: 1 << 20,
    };
    Profile::new(mounts, limits, COMPILER.to_vec()).unwrap()
}

fn in_place(path: &Path) -> Mount {
    Mount { source: path.to_owned(), target: path.to_owned(), access: Access::Execute }
}

/// Exit code of a locked process that did what it wanted.
pub(crate) const LOCKED_DONE: i32 = 40;
/// Exit code given by its handler of SIGSYS.
pub(crate) const LOCKED_SIGNAL: i32 = 41;

pub(crate) fn locked(attempt: &str) -> i32 {
    let status = Command::new(this()).args([LOCKED, attempt]).status().unwrap();
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap())
}

extern "C" fn on_sigsys(_signal: libc::c_int) {
    // SAFETY: async-signal-safe, and does not return.
    unsafe { libc::_exit(LOCKED_SIGNAL) }
}

/// `be-locked ATTEMPT`: as a worker does it, with a handler that ends the attempt.
pub(crate) fn be_locked(attempt: &str) -> ExitCode {
    let handler: extern "C" fn(libc::c_int) = on_sigsys;
    // SAFETY: the handler only ends the process.
    unsafe { libc::signal(libc::SIGSYS, handler as libc::sighandler_t) };
    mfaas_confine::lock_down(WORKER).unwrap();
    match attempt {
        "clock" => drop(std::time::Instant::now()),
        "open" => drop(std::fs::File::open("/dev/null")),
        "getpid" => drop(std::process::id()),
        "x32" => x32_getpid(),
        "i386" => drop(i386_getpid()),
        unknown => panic!("no attempt {unknown}"),
    }
    // SAFETY: ends the process; what `exit` would do first is not allowed any more.
    unsafe { libc::_exit(LOCKED_DONE) }
}
