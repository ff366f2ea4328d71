//! Running one program in a sandbox, from a process that does nothing else.
//!
//! At level full three processes take part: the *outside* one, which entered the namespaces and
//! waits; the *first* one of the pid namespace, which builds the root; and the *sandboxed* one. When
//! the first one ends, the kernel kills whatever is left in the namespace. It ends when the sandboxed
//! one does, when the outside one dies, and when the control descriptor says so. At level
//! landlock there is no first process: the outside one kills the sandboxed one's process group.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::process::{DumpableBehavior, Pid, PidfdFlags, Signal};

use crate::error::{ConfineError, Step};
use crate::filter::{Unlisted, install};
use crate::level::Level;
use crate::profile::{Layer, Profile};
use crate::sys::{Reaped, Side};
use crate::{layers, mounts, sys};

/// How a sandboxed program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// The strength of the sandbox it ran in.
    pub level: Level,
    /// As from `wait(2)`; `None` if it was killed through the control descriptor.
    pub wait_status: Option<i32>,
    /// User and system time of everything that ran in the sandbox and was waited for.
    pub cpu: Duration,
    /// The largest resident set of one process in the sandbox.
    pub max_rss_bytes: u64,
}

/// Runs one program in a sandbox of this level, or not at all. A level that cannot be reached is never another one: a
/// process that has failed half way is in namespaces in which it can start nothing more.
///
/// The calling process must have one thread, is moved into the sandbox's namespaces, and should exit
/// afterwards. `control` readable or closed at the other end means: kill everything. `execute` is
/// called in the sandboxed process; it replaces the program and returns only the error of doing so.
/// Standard input of the sandboxed program is `/dev/null`, output and errors are the caller's; no
/// other descriptor is passed on.
pub fn supervise(
    profile: &Profile,
    level: Level,
    control: BorrowedFd<'_>,
    execute: &dyn Fn(Level) -> std::io::Error,
) -> Result<Ended, ConfineError> {
    // A signal typed at a terminal is for the builder, which ends the sandbox in its own way.
    let _ = rustix::process::setsid();
    let ended = match level {
        Level::Full if !profile.has(Layer::Namespaces) => {
            Err(ConfineError::Profile("namespaces are switched off".to_owned()))
        }
        Level::Full => enter_namespaces().and_then(|()| run(profile, level, control, execute)),
        Level::Landlock if !profile.in_place() => Err(ConfineError::Profile(
            "without namespaces nothing can be mounted at another place".to_owned(),
        )),
        Level::Landlock => expect_single_thread().and_then(|()| run(profile, level, control, execute)),
    };
    ended.map_err(|error| match error {
        ConfineError::Step { step: Step::Execute, .. } => error,
        error => ConfineError::NotReached { level, source: Box::new(error) },
    })
}

/// User, mount, pid, network, IPC, UTS and cgroup namespaces, all at once or none.
const NAMESPACES: libc::c_int = libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP;

/// The user inside; nobody in particular, and not root.
const INSIDE_ID: u32 = 1000;

fn enter_namespaces() -> Result<(), ConfineError> {
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    if user.is_root() {
        rustix::thread::set_thread_groups(&[]).map_err(ConfineError::at(Step::IdMap))?;
    }
    sys::unshare(NAMESPACES).map_err(ConfineError::at(Step::Namespaces))?;
    let write = |file: &str, text: String| {
        std::fs::write(file, text).map_err(|source| ConfineError::Step { step: Step::IdMap, source })
    };
    write("/proc/self/setgroups", "deny".to_owned())?;
    write("/proc/self/uid_map", format!("{INSIDE_ID} {} 1", user.as_raw()))?;
    write("/proc/self/gid_map", format!("{INSIDE_ID} {} 1", group.as_raw()))
}

/// Where there is no user namespace, the kernel does not refuse a process with several threads.
fn expect_single_thread() -> Result<(), ConfineError> {
    let error = |source| ConfineError::Step { step: Step::Threads, source };
    match std::fs::read_dir("/proc/self/task").map_err(error)?.count() {
        1 => Ok(()),
        threads => Err(error(std::io::Error::other(format!("{threads} threads")))),
    }
}

fn run(
    profile: &Profile,
    level: Level,
    control: BorrowedFd<'_>,
    execute: &dyn Fn(Level) -> std::io::Error,
) -> Result<Ended, ConfineError> {
    let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
        .map_err(ConfineError::at(Step::Supervision))?;
    let mut report = Report(File::from(writer));
    match sys::fork().map_err(ConfineError::at(Step::Fork))? {
        Side::Child => {
            drop(reader);
            let error = match level {
                Level::Full => be_first(profile, &mut report, execute),
                Level::Landlock => enter_sandbox(profile, level, &report, execute),
            };
            report.failed(&error);
            sys::exit_now(FAILED_EXIT)
        }
        Side::Parent(child) => {
            drop(report);
            watch(level, child, control, reader)
        }
    }
}

/// Exit code of a process that could not do its part; the report says why.
const FAILED_EXIT: i32 = 125;

/// Waits for the end, or makes it.
fn watch(level: Level, child: Pid, control: BorrowedFd<'_>, reader: OwnedFd) -> Result<Ended, ConfineError> {
    let error = ConfineError::at;
    let pidfd = rustix::process::pidfd_open(child, PidfdFlags::empty()).map_err(error(Step::Supervision))?;
    let mut killed = false;
    loop {
        let mut ends = vec![PollFd::new(&pidfd, PollFlags::IN)];
        if !killed {
            ends.push(PollFd::from_borrowed_fd(control, PollFlags::IN));
        }
        match rustix::event::poll(&mut ends, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(error(Step::Supervision)(errno)),
        }
        if !ends[0].revents().is_empty() {
            break;
        }
        if !killed && !ends[1].revents().is_empty() {
            killed = true;
            kill(level, child, &pidfd);
        }
    }
    let first = sys::reap(Some(child)).map_err(error(Step::Supervision))?;
    let (cpu, max_rss_bytes) = match level {
        Level::Full => (first.cpu, first.max_rss_bytes),
        Level::Landlock => end_group(child, first),
    };
    let wait_status = match level {
        Level::Full => read_report(reader)?,
        Level::Landlock => read_report(reader)?.or(Some(first.status)),
    };
    let wait_status = wait_status.filter(|_| !killed);
    Ok(Ended { level, wait_status, cpu, max_rss_bytes })
}

/// ESRCH means that it is over already.
fn kill(level: Level, child: Pid, pidfd: &OwnedFd) {
    let _ = rustix::process::pidfd_send_signal(pidfd, Signal::KILL);
    if level == Level::Landlock {
        let _ = rustix::process::kill_process_group(child, Signal::KILL);
    }
}

/// Kills and reaps what a program at level landlock left behind. It could not leave its process
/// group, since no row allows that; the outside process inherits its orphans.
fn end_group(child: Pid, first: Reaped) -> (Duration, u64) {
    let _ = rustix::process::kill_process_group(child, Signal::KILL);
    let (mut cpu, mut max_rss_bytes) = (first.cpu, first.max_rss_bytes);
    while let Ok(orphan) = sys::reap(None) {
        cpu += orphan.cpu;
        max_rss_bytes = max_rss_bytes.max(orphan.max_rss_bytes);
    }
    (cpu, max_rss_bytes)
}

/// The first process of the pid namespace. Returns only if it cannot do its part.
fn be_first(
    profile: &Profile,
    report: &mut Report,
    execute: &dyn Fn(Level) -> std::io::Error,
) -> ConfineError {
    let built = die_with_parent(report).and_then(|()| {
        // A courtesy to what asks for the name. The namespace is private whether or not a container's seccomp profile
        // lets it be named.
        let _ = rustix::system::sethostname(b"sandbox");
        if profile.has(Layer::Limits) {
            layers::limit_process_ids(profile.limits.processes);
        }
        mounts::enter_root(profile)
    });
    if let Err(error) = built {
        return error;
    }
    match sys::fork() {
        Err(errno) => ConfineError::at(Step::Fork)(errno),
        Ok(Side::Child) => enter_sandbox(profile, Level::Full, report, execute),
        Ok(Side::Parent(sandboxed)) => {
            if let Err(error) = give_up_power() {
                return error;
            }
            report.ended(wait_for(sandboxed));
            sys::exit_now(0)
        }
    }
}

/// The first process keeps no power over the sandbox, and its memory is closed to the sandboxed one.
fn give_up_power() -> Result<(), ConfineError> {
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(ConfineError::at(Step::Supervision))?;
    layers::give_up_capabilities()
}

/// Reaps orphans too, as the first process of a namespace has to.
fn wait_for(sandboxed: Pid) -> Option<i32> {
    loop {
        match sys::reap(None) {
            Ok(reaped) if reaped.pid == sandboxed.as_raw_nonzero().get() => return Some(reaped.status),
            Ok(_) => {}
            Err(_) => return None,
        }
    }
}

/// Asks the kernel for SIGKILL when the parent dies, then makes sure that it had not died before.
fn die_with_parent(report: &Report) -> Result<(), ConfineError> {
    let error = ConfineError::at;
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).map_err(error(Step::Supervision))?;
    let mut ends = [PollFd::new(&report.0, PollFlags::empty())];
    let now = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
    rustix::event::poll(&mut ends, Some(&now)).map_err(error(Step::Supervision))?;
    if ends[0].revents().contains(PollFlags::ERR) {
        return Err(error(Step::Supervision)(Errno::PIPE));
    }
    Ok(())
}

/// The process that becomes the program. Returns only if it cannot.
fn enter_sandbox(
    profile: &Profile,
    level: Level,
    report: &Report,
    execute: &dyn Fn(Level) -> std::io::Error,
) -> ConfineError {
    match put_on_layers(profile, level, report) {
        Ok(()) => ConfineError::Step { step: Step::Execute, source: execute(level) },
        Err(error) => error,
    }
}

/// Order matters: landlock opens paths, seccomp comes last and leaves only what an execution needs.
fn put_on_layers(profile: &Profile, level: Level, report: &Report) -> Result<(), ConfineError> {
    if level == Level::Landlock {
        rustix::process::setpgid(None, None).map_err(ConfineError::at(Step::Supervision))?;
    }
    die_with_parent(report)?;
    if profile.has(Layer::Descriptors) {
        let null = mounts::open_null()?;
        rustix::stdio::dup2_stdin(null).map_err(ConfineError::at(Step::StandardInput))?;
        sys::close_on_exec_from(3).map_err(ConfineError::at(Step::StandardInput))?;
    }
    if profile.has(Layer::Limits) {
        layers::set_limits(&profile.limits, level)?;
    }
    if profile.has(Layer::Privileges) {
        if level == Level::Full {
            layers::drop_capabilities()?;
        }
        rustix::thread::set_no_new_privs(true).map_err(ConfineError::at(Step::Capabilities))?;
    }
    if profile.has(Layer::Landlock) {
        layers::restrict_files(profile, level)?;
    }
    if profile.has(Layer::Seccomp) {
        install(&profile.rows, Unlisted::DoesNotExist)?;
    }
    Ok(())
}

/// The pipe on which the sandbox's own processes say how it went: one byte of kind, one of step, four
/// of number. It is closed when the program is executed.
struct Report(File);

const REPORT_BYTES: usize = 6;
const ENDED: u8 = 1;
const FAILED: u8 = 2;

impl Report {
    fn ended(&mut self, wait_status: Option<i32>) {
        if let Some(status) = wait_status {
            self.send(ENDED, 0, status);
        }
    }

    fn failed(&mut self, error: &ConfineError) {
        match error {
            ConfineError::Step { step, source } => {
                self.send(FAILED, *step as u8, source.raw_os_error().unwrap_or(0));
            }
            ConfineError::Profile(_) | ConfineError::NotReached { .. } => {
                self.send(FAILED, Step::Seccomp as u8, libc::EINVAL);
            }
        }
    }

    /// A reader that is gone has killed this sandbox already.
    fn send(&mut self, kind: u8, step: u8, number: i32) {
        let [a, b, c, d] = number.to_le_bytes();
        let _ = self.0.write_all(&[kind, step, a, b, c, d]);
    }
}

/// `None`: the sandbox's processes were killed before they could say anything.
fn read_report(reader: OwnedFd) -> Result<Option<i32>, ConfineError> {
    let mut bytes = [0; REPORT_BYTES];
    if File::from(reader).read_exact(&mut bytes).is_err() {
        return Ok(None);
    }
    let [kind, step, number @ ..] = bytes;
    let number = i32::from_le_bytes(number);
    match kind {
        ENDED => Ok(Some(number)),
        _ => {
            let step = Step::ALL.into_iter().find(|known| *known as u8 == step).unwrap_or(Step::Supervision);
            Err(ConfineError::Step { step, source: std::io::Error::from_raw_os_error(number) })
        }
    }
}
