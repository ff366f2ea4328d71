//! The supervisor: starts the programs, restarts what dies, stops everything in reverse order.
//!
//! It is the parent of all programs and, as a subreaper, of their orphans, so that after it has
//! stopped nothing of them can be left. It decides nothing about functions and holds no key.
//! Must never end because something cannot be written: its state and its logs are written as far as they can be.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::process::{Signal, WaitOptions};

use crate::ending::{describe, kill_orphans, signal_group, signal_one, wait_for_end};
use crate::error::SupervisorError;
use crate::files;
use crate::identity::{Identities, Role};
use crate::launch::Launch;
use crate::layout::Home;
use crate::liveness::{self, Liveness};
use crate::logs::{Copying, Form, Log, SharedLog};
use crate::processes;
use crate::saying::say;
use crate::state::{Phase, ProgramState, State, Step};

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
/// How often writing the state is tried where the disk does not take it.
const PUBLISH_AGAIN: Duration = Duration::from_secs(1);

/// One program under supervision.
#[derive(Debug)]
struct Program {
    launch: Launch,
    log: SharedLog,
    /// What its newest process writes.
    copying: Option<Copying>,
    pid: Option<i32>,
    started: Instant,
    backoff: Duration,
    restart_at: Option<Instant>,
    restarts: u32,
    /// The ready file has been read since the last start.
    ready: Option<serde_json::Value>,
    /// When it was last asked whether it lives, and how many times in a row it has not answered.
    asked: Instant,
    silences: u32,
}

/// Everything that runs on this machine.
#[derive(Debug)]
pub(crate) struct Supervisor<'a> {
    home: &'a Home,
    identities: &'a Identities,
    signals: Receiver<()>,
    programs: Vec<Program>,
    liveness: Liveness,
    state: State,
    /// When the state could not be written.
    unpublished: Option<Instant>,
    /// Steps are shown on stderr when a person started us in the foreground.
    loud: bool,
}

impl<'a> Supervisor<'a> {
    /// A supervisor of nothing yet. `signals` delivers one item for every request to stop.
    pub(crate) fn new(
        home: &'a Home,
        identities: &'a Identities,
        signals: Receiver<()>,
        loud: bool,
    ) -> Result<Self, SupervisorError> {
        let mut state = State::starting();
        state.one_uid = identities.is_one_uid();
        let (programs, liveness) = (Vec::new(), Liveness::start()?);
        Ok(Self { home, identities, signals, programs, liveness, state, unpublished: None, loud })
    }

    /// What is told to others; changes are published with the next step or event.
    pub(crate) fn state_mut(&mut self) -> &mut State {
        &mut self.state
    }

    /// Runs one step of the set-up: announced before, timed after, refused after Ctrl-C.
    pub(crate) fn step<T>(
        &mut self,
        name: impl Into<String>,
        work: impl FnOnce(&mut Self) -> Result<T, SupervisorError>,
    ) -> Result<T, SupervisorError> {
        if self.signals.try_recv().is_ok() {
            return Err(SupervisorError::Interrupted);
        }
        let name = name.into();
        self.state.steps.push(Step { name: name.clone(), seconds: None });
        self.publish();
        let begin = Instant::now();
        let result = work(self)?;
        let seconds = begin.elapsed().as_secs_f64();
        if let Some(step) = self.state.steps.last_mut() {
            step.seconds = Some(seconds);
        }
        if self.loud {
            say(&format!("  {name}  {seconds:.1} s"));
        }
        self.publish();
        Ok(result)
    }

    /// Starts a program and keeps it running from now on.
    pub(crate) fn start(&mut self, launch: Launch) -> Result<(), SupervisorError> {
        let name = launch.role.name();
        let is_json = launch.env.iter().any(|(name, value)| *name == "MFAAS_LOG_JSON" && value == "1");
        let form = if is_json { Form::Json } else { Form::Text };
        let mut program = Program {
            log: Arc::new(Mutex::new(Log::at(self.home.log(name), form))),
            copying: None,
            launch,
            pid: None,
            started: Instant::now(),
            backoff: BACKOFF_MIN,
            restart_at: None,
            restarts: 0,
            ready: None,
            asked: Instant::now(),
            silences: 0,
        };
        program.spawn(self.home, self.identities)?;
        self.programs.push(program);
        self.publish();
        Ok(())
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
    pub(crate) fn wait_ready(&mut self, role: Role) -> Result<serde_json::Value, SupervisorError> {
        let begin = Instant::now();
        while begin.elapsed() < READY_LIMIT {
            if let Some(value) = read_ready(self.home, role) {
                if let Some(program) = self.programs.iter_mut().find(|program| program.launch.role == role) {
                    program.ready = Some(value.clone());
                }
                self.publish();
                return Ok(value);
            }
            if !self.is_alive(role) {
                return Err(self.ended_at_start(role));
            }
            self.pause(Duration::from_millis(10))?;
            self.restart_due();
        }
        Err(SupervisorError::Local(format!("{} is not ready after {} s", role.name(), READY_LIMIT.as_secs())))
    }

    /// Waits, but no longer than until somebody wants us to stop.
    pub(crate) fn pause(&mut self, time: Duration) -> Result<(), SupervisorError> {
        match self.signals.recv_timeout(time) {
            Err(RecvTimeoutError::Timeout) => Ok(()),
            Ok(()) | Err(RecvTimeoutError::Disconnected) => Err(SupervisorError::Interrupted),
        }
    }

    fn ended_at_start(&self, role: Role) -> SupervisorError {
        let log = self.home.log(role.name());
        let program = self.programs.iter().find(|program| program.launch.role == role);
        program.and_then(|program| program.copying.as_ref()).into_iter().for_each(Copying::finish);
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        let last: Vec<&str> = text.lines().rev().take(3).collect();
        let last: Vec<&str> = last.into_iter().rev().collect();
        SupervisorError::Local(format!(
            "{} ended at its start; {} says: {}",
            role.name(),
            log.display(),
            last.join(" | ")
        ))
    }

    /// Keeps everything running until somebody wants us to stop.
    pub(crate) fn watch(&mut self) -> Result<(), SupervisorError> {
        /// How soon a death is noticed. Waking up 20 times a second costs nothing measurable.
        const TICK: Duration = Duration::from_millis(50);
        self.state.phase = Phase::Ready;
        self.publish();
        loop {
            match self.pause(TICK) {
                Ok(()) => {}
                Err(SupervisorError::Interrupted) => return Ok(()),
                Err(other) => return Err(other),
            }
            self.tend();
        }
    }

    /// One look at everybody: reap, restart what is due, read what became ready, end what hangs.
    pub(crate) fn tend(&mut self) {
        let changed = self.reap() | self.restart_due() | self.note_ready();
        if changed || self.unpublished.is_some_and(|since| since.elapsed() >= PUBLISH_AGAIN) {
            self.publish();
        }
        self.hear_signs_of_life();
        self.ask_for_signs_of_life();
    }

    /// Ends a program that is there and does not answer; [`Self::reap`] then starts it again, and not at once if it hangs
    /// again and again.
    fn hear_signs_of_life(&mut self) {
        while let Some((pid, sign)) = self.liveness.next_answer() {
            let Some(program) = self.programs.iter_mut().find(|program| program.pid == Some(pid)) else {
                continue;
            };
            let Err(why) = sign else {
                program.silences = 0;
                continue;
            };
            program.silences += 1;
            if program.silences == liveness::SILENCES_MAX {
                say(&format!(
                    "{} (pid {pid}) hangs: {} was asked {} times in a row without an answer ({why}); killing it",
                    program.launch.role.name(),
                    liveness::ROUTE,
                    program.silences
                ));
                signal_one(pid, Signal::KILL);
            }
        }
    }

    fn ask_for_signs_of_life(&mut self) {
        let (liveness, addresses) = (&self.liveness, &self.state.addresses);
        for program in self.programs.iter_mut().filter(|program| program.ready.is_some()) {
            let address = addresses.of(program.launch.role.name());
            let (Some(pid), Some(address)) = (program.pid, address) else { continue };
            if program.asked.elapsed() >= liveness::PERIOD {
                program.asked = Instant::now();
                liveness.ask(pid, address);
            }
        }
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
        self.publish();
        let mut complaints = Vec::new();
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
            let _ = std::fs::remove_file(self.home.ready_file(program.launch.role));
        }
        complaints.extend(kill_orphans());
        self.programs.iter().filter_map(|program| program.copying.as_ref()).for_each(Copying::finish);
        complaints
    }

    /// Tells the others how things are. Where that cannot be written, [`Self::tend`] tries again until it is.
    pub(crate) fn publish(&mut self) {
        self.state.programs =
            self.programs.iter().filter_map(|program| program.state(self.identities)).collect();
        let before = match self.state.save(self.home) {
            Ok(()) => self.unpublished.take(),
            Err(error) => {
                let before = self.unpublished.replace(Instant::now());
                if before.is_none() {
                    say(&format!("{error}; what `mfaas status` shows is old until it can be written"));
                }
                return;
            }
        };
        if before.is_some() {
            say("the state is written again");
        }
    }
}

impl Program {
    fn spawn(&mut self, home: &Home, identities: &Identities) -> Result<(), SupervisorError> {
        let _ = std::fs::remove_file(home.ready_file(self.launch.role));
        self.ready = None;
        self.restart_at = None;
        let (pid, copying) = self.launch.spawn(home, identities, &self.log)?;
        (self.pid, self.copying) = (Some(pid), Some(copying));
        (self.started, self.asked, self.silences) = (Instant::now(), Instant::now(), 0);
        Ok(())
    }

    fn ended(&mut self, now: Instant) {
        self.pid = None;
        self.ready = None;
        let is_stable = now.duration_since(self.started) >= STABLE_AFTER;
        // It takes longer than that to find out that a program hangs.
        let hung = self.silences >= liveness::SILENCES_MAX;
        self.backoff = if is_stable && !hung {
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

fn read_ready(home: &Home, role: Role) -> Option<serde_json::Value> {
    serde_json::from_slice(&files::read(&home.ready_file(role), READY_BYTES_MAX).ok()?).ok()
}
