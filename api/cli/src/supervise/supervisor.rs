//! The supervisor: starts the programs, restarts what dies, stops everything in reverse order.
//!
//! It is the parent of all programs and, as a subreaper, of their orphans, so that after it has
//! stopped nothing of them can be left. It decides nothing about functions and holds no key.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions};

use super::files;
use super::identity::{Identities, Role};
use super::launch::Launch;
use super::layout::Home;
use super::processes;
use super::state::{Phase, ProgramState, State, Step};
use crate::failure::Failure;

/// The pause before the first restart; doubles up to [`BACKOFF_MAX`].
const BACKOFF_MIN: Duration = Duration::from_millis(100);
/// The longest pause before a restart.
const BACKOFF_MAX: Duration = Duration::from_secs(10);
/// A program that ran this long starts again with the shortest pause.
const STABLE_AFTER: Duration = Duration::from_secs(30);
/// How long a program may take to stop before it is killed.
const STOP_LIMIT: Duration = Duration::from_secs(12);
/// The largest ready file that is read, in bytes.
const READY_BYTES_MAX: u64 = 64 << 10;
/// How long a program may take to write its ready file.
const READY_LIMIT: Duration = Duration::from_secs(60);

/// One program under supervision.
#[derive(Debug)]
struct Supervised {
    launch: Launch,
    pid: Option<i32>,
    started: Instant,
    backoff: Duration,
    restart_at: Option<Instant>,
    restarts: u32,
    /// The ready file has been read since the last start.
    ready: Option<serde_json::Value>,
}

/// Everything that runs on this machine.
#[derive(Debug)]
pub(crate) struct Supervisor<'a> {
    home: &'a Home,
    identities: &'a Identities,
    signals: Receiver<()>,
    programs: Vec<Supervised>,
    state: State,
    /// Steps are shown on stderr when a person started us in the foreground.
    loud: bool,
}

impl<'a> Supervisor<'a> {
    /// A supervisor of nothing yet. `signals` delivers one item for every request to stop.
    pub(crate) fn new(home: &'a Home, identities: &'a Identities, signals: Receiver<()>, loud: bool) -> Self {
        let mut state = State::starting();
        state.one_uid = identities.is_one_uid();
        Self { home, identities, signals, programs: Vec::new(), state, loud }
    }

    /// What is told to others; changes are published with the next step or event.
    pub(crate) fn state_mut(&mut self) -> &mut State {
        &mut self.state
    }

    /// Runs one step of the set-up: announced before, timed after, refused after Ctrl-C.
    pub(crate) fn step<T>(
        &mut self,
        name: impl Into<String>,
        work: impl FnOnce(&mut Self) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        if self.signals.try_recv().is_ok() {
            return Err(Failure::Interrupted);
        }
        let name = name.into();
        self.state.steps.push(Step { name: name.clone(), seconds: None });
        self.publish()?;
        let begin = Instant::now();
        let result = work(self)?;
        let seconds = begin.elapsed().as_secs_f64();
        if let Some(step) = self.state.steps.last_mut() {
            step.seconds = Some(seconds);
        }
        if self.loud {
            say(&format!("  {name}  {seconds:.1} s"));
        }
        self.publish()?;
        Ok(result)
    }

    /// Starts a program and keeps it running from now on.
    pub(crate) fn start(&mut self, launch: Launch) -> Result<(), Failure> {
        let mut program = Supervised {
            launch,
            pid: None,
            started: Instant::now(),
            backoff: BACKOFF_MIN,
            restart_at: None,
            restarts: 0,
            ready: None,
        };
        program.spawn(self.home, self.identities)?;
        self.programs.push(program);
        self.publish()
    }

    /// Replaces how a program is started from its next start on.
    pub(crate) fn relaunch_as(&mut self, role: Role, change: impl FnOnce(Launch) -> Launch) {
        if let Some(program) = self.programs.iter_mut().find(|program| program.launch.role == role) {
            program.launch = change(program.launch.clone());
        }
    }

    /// Whether the program's process is there.
    pub(crate) fn is_alive(&mut self, role: Role) -> bool {
        self.reap();
        self.programs.iter().any(|program| program.launch.role == role && program.pid.is_some())
    }

    /// Waits for the ready file of a program that was just started and returns what it says.
    pub(crate) fn wait_ready(&mut self, role: Role) -> Result<serde_json::Value, Failure> {
        let begin = Instant::now();
        while begin.elapsed() < READY_LIMIT {
            if let Some(value) = read_ready(self.home, role) {
                if let Some(program) = self.programs.iter_mut().find(|program| program.launch.role == role) {
                    program.ready = Some(value.clone());
                }
                self.publish()?;
                return Ok(value);
            }
            if !self.is_alive(role) {
                return Err(self.ended_at_start(role));
            }
            self.pause(Duration::from_millis(10))?;
            self.restart_due();
        }
        Err(Failure::Local(format!("{} is not ready after {} s", role.name(), READY_LIMIT.as_secs())))
    }

    /// Waits, but no longer than until somebody wants us to stop.
    pub(crate) fn pause(&mut self, time: Duration) -> Result<(), Failure> {
        match self.signals.recv_timeout(time) {
            Err(RecvTimeoutError::Timeout) => Ok(()),
            Ok(()) | Err(RecvTimeoutError::Disconnected) => Err(Failure::Interrupted),
        }
    }

    fn ended_at_start(&self, role: Role) -> Failure {
        let log = self.home.join(format!("logs/{}.log", role.name()));
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        let last: Vec<&str> = text.lines().rev().take(3).collect();
        let last: Vec<&str> = last.into_iter().rev().collect();
        Failure::Local(format!(
            "{} ended at its start; {} says: {}",
            role.name(),
            log.display(),
            last.join(" | ")
        ))
    }

    /// Keeps everything running until somebody wants us to stop.
    pub(crate) fn watch(&mut self) -> Result<(), Failure> {
        /// How soon a death is noticed. Waking up 20 times a second costs nothing measurable.
        const TICK: Duration = Duration::from_millis(50);
        self.state.phase = Phase::Ready;
        self.publish()?;
        loop {
            match self.pause(TICK) {
                Ok(()) => {}
                Err(Failure::Interrupted) => return Ok(()),
                Err(other) => return Err(other),
            }
            self.tend()?;
        }
    }

    /// One look at everybody: reap, restart what is due, read what became ready.
    pub(crate) fn tend(&mut self) -> Result<(), Failure> {
        let changed = self.reap() | self.restart_due() | self.note_ready();
        if changed { self.publish() } else { Ok(()) }
    }

    /// Collects every child that ended, ours and adopted ones. True when one of ours did.
    fn reap(&mut self) -> bool {
        let mut changed = false;
        while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
            let pid = pid.as_raw_nonzero().get();
            let Some(program) = self.programs.iter_mut().find(|program| program.pid == Some(pid)) else {
                continue;
            };
            changed = true;
            program.ended(Instant::now());
            // What the dead one left in its process group would hold its ports and its database.
            signal_group(pid, Signal::KILL);
            say(&format!(
                "{} (pid {pid}) ended with {}; starting it again in {} ms",
                program.launch.role.name(),
                describe(status),
                program.backoff.as_millis()
            ));
        }
        changed
    }

    fn restart_due(&mut self) -> bool {
        let now = Instant::now();
        let mut changed = false;
        for program in &mut self.programs {
            if program.restart_at.is_none_or(|at| at > now) {
                continue;
            }
            changed = true;
            program.restarts += 1;
            if let Err(error) = program.spawn(self.home, self.identities) {
                say(&format!("cannot start {} again: {error}", program.launch.role.name()));
                program.ended(now);
            }
        }
        changed
    }

    fn note_ready(&mut self) -> bool {
        let mut changed = false;
        for program in
            self.programs.iter_mut().filter(|program| program.pid.is_some() && program.ready.is_none())
        {
            program.ready = read_ready(self.home, program.launch.role);
            changed |= program.ready.is_some();
        }
        changed
    }

    /// Stops everything, last started first, and reports what had to be killed.
    pub(crate) fn stop(&mut self) -> Vec<String> {
        self.state.phase = Phase::Stopping;
        let mut complaints: Vec<String> =
            self.publish().err().map(|error| error.to_string()).into_iter().collect();
        for program in self.programs.iter_mut().rev() {
            program.restart_at = None;
            let Some(pid) = program.pid.take() else { continue };
            // PostgreSQL's fast shutdown is SIGINT; SIGTERM would wait for every connection.
            let signal = if program.launch.role == Role::Postgres { Signal::INT } else { Signal::TERM };
            signal_one(pid, signal);
            if !wait_for_end(pid, STOP_LIMIT) {
                complaints
                    .push(format!("{} (pid {pid}) did not stop and was killed", program.launch.role.name()));
                signal_one(pid, Signal::KILL);
                wait_for_end(pid, STOP_LIMIT);
            }
            signal_group(pid, Signal::KILL);
            let _ = std::fs::remove_file(ready_file(self.home, program.launch.role));
        }
        complaints.extend(kill_orphans());
        complaints
    }

    /// Tells the others how things are.
    pub(crate) fn publish(&mut self) -> Result<(), Failure> {
        self.state.programs =
            self.programs.iter().filter_map(|program| program.state(self.identities)).collect();
        self.state.save(self.home)
    }
}

impl Supervised {
    fn spawn(&mut self, home: &Home, identities: &Identities) -> Result<(), Failure> {
        let _ = std::fs::remove_file(ready_file(home, self.launch.role));
        self.ready = None;
        self.restart_at = None;
        self.pid = Some(self.launch.spawn(home, identities)?);
        self.started = Instant::now();
        Ok(())
    }

    fn ended(&mut self, now: Instant) {
        self.pid = None;
        self.ready = None;
        self.backoff = if now.duration_since(self.started) >= STABLE_AFTER {
            BACKOFF_MIN
        } else if self.restarts == 0 {
            self.backoff
        } else {
            (self.backoff * 2).min(BACKOFF_MAX)
        };
        self.restart_at = Some(now + self.backoff);
    }

    fn state(&self, identities: &Identities) -> Option<ProgramState> {
        let pid = self.pid?;
        let uid = identities.of(self.launch.role).map_or_else(rustix::process::geteuid, |(uid, _)| uid);
        Some(ProgramState {
            name: self.launch.role.name().to_owned(),
            pid,
            start_ticks: processes::start_ticks(pid)?,
            uid: uid.as_raw(),
            restarts: self.restarts,
            ready: self.ready.clone(),
        })
    }
}

/// Where a program writes that it is ready.
pub(crate) fn ready_file(home: &Home, role: Role) -> std::path::PathBuf {
    home.run().join(role.name()).join("ready.json")
}

fn read_ready(home: &Home, role: Role) -> Option<serde_json::Value> {
    serde_json::from_slice(&files::read(&ready_file(home, role), READY_BYTES_MAX).ok()?).ok()
}

/// Ends what is still below us: orphans of programs that were killed. Each is named.
fn kill_orphans() -> Vec<String> {
    /// Orphans can have children of their own, adopted by us only when their parent is dead.
    const ROUNDS_MAX: usize = 50;
    let mut complaints = Vec::new();
    for _ in 0..ROUNDS_MAX {
        while let Ok(Some(_)) = rustix::process::wait(WaitOptions::NOHANG) {}
        let left = processes::descendants(own_pid());
        if left.is_empty() {
            break;
        }
        for pid in left {
            let complaint = format!("orphan {pid} ({}) was killed", processes::name(pid));
            if !complaints.contains(&complaint) {
                complaints.push(complaint);
            }
            signal_one(pid, Signal::KILL);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    complaints
}

fn own_pid() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

/// Waits until the child is reaped; other children that end meanwhile are reaped along the way.
fn wait_for_end(pid: i32, limit: Duration) -> bool {
    let begin = Instant::now();
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some((ended, _))) if ended.as_raw_nonzero().get() == pid => return true,
            Ok(Some(_)) => continue,
            Ok(None) if processes::stat(pid).is_none() => return true,
            Ok(None) => {}
            Err(_) => return true,
        }
        if begin.elapsed() >= limit {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Sends a signal; a process that is gone already is what we wanted.
pub(crate) fn signal_one(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = rustix::process::kill_process(pid, signal);
    }
}

fn signal_group(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = rustix::process::kill_process_group(pid, signal);
    }
}

fn describe(status: rustix::process::WaitStatus) -> String {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "an unknown status".to_owned(),
    }
}

/// One line for whoever watches: the terminal in the foreground, the log when detached.
pub(crate) fn say(line: &str) {
    use std::io::Write as _;
    let _ = writeln!(anstream::stderr(), "{line}");
}
