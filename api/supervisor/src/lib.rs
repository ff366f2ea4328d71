//! One machine's installation: everything on it set up, started, watched and stopped, and what `mfaas up`, `down`, `status`
//! and `doctor` know of it.
//!
//! Root only supervises here: every program runs as its own user (`identity`), with an environment of its own
//! (`programs`). What runs is decided by this code alone; nothing below the home that a program can write is ever executed
//! or believed. Must never decide anything about functions.

mod config;
mod ending;
mod error;
mod files;
pub mod health;
mod identity;
mod keeping;
mod launch;
mod layout;
mod liveness;
mod logs;
mod materials;
mod options;
mod ports;
mod postgres;
mod processes;
pub mod profile;
mod programs;
mod saying;
mod server;
mod setup;
mod state;
mod supervisor;

use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rustix::process::Signal;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

pub use config::options_that_differ;
pub use error::{SupervisorError, innermost};
pub use files::write_atomically;
pub use keeping::{RestoreOptions, run_as_owner, verify_backup};
pub use launch::Siblings;
pub use layout::Home;
pub use logs::open_supervisor_log;
pub use materials::{current_dependencies, current_toolchain, find_sysroot};
pub use options::{Materials, UpOptions};
pub use ports::Ports;
pub use postgres::{find_postgres, wal_archive_of};
pub use state::{Addresses, Phase, Process, ProgramState, State, is_supervised, wait_while_starting};

use config::UpConfig;
use ending::signal_one;
use identity::Identities;
use saying::say;
use state::{Lock, wait_until};
use supervisor::Supervisor;

/// How long `down` waits for the supervisor to stop everything in order.
const DOWN_LIMIT: Duration = Duration::from_secs(60);

/// What became of a request to supervise.
#[derive(Debug, PartialEq, Eq)]
pub enum Supervised {
    /// Another supervisor of this home runs.
    AlreadyRunning,
    /// It ran until somebody stopped it; these had to be killed.
    Stopped(Vec<String>),
}

/// Sets everything up, runs it and returns when it was told to stop.
pub fn supervise(
    home: &Home,
    ports: Ports,
    options: &UpOptions,
    loud: bool,
) -> Result<Supervised, SupervisorError> {
    let identities = Identities::establish()?;
    home.prepare(&identities)?;
    let Some(_lock) = Lock::take(home)? else { return Ok(Supervised::AlreadyRunning) };
    if !loud {
        saying::say_into_log(home);
    }
    // Orphans of our programs become our children, so that stopping leaves none.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(|e| SupervisorError::Local(format!("cannot become a subreaper: {e}")))?;
    // No program of ours gains rights by executing something.
    rustix::thread::set_no_new_privs(true)
        .map_err(|e| SupervisorError::Local(format!("cannot give up new rights: {e}")))?;
    stop_strays(home)?;
    keeping::demand_restored(home)?;
    let config = configure(home, ports, options)?;
    let mut supervisor = Supervisor::new(home, &identities, stop_requests()?, loud)?;
    let ran = setup::bring_up(&mut supervisor, home, &identities, &config, options).and_then(|()| {
        say(&format!("everything runs; home {}", home.root().display()));
        supervisor.watch()
    });
    let mut complaints = supervisor.stop();
    match ran {
        Ok(()) => {
            if let Err(error) = std::fs::remove_file(state::path(home)) {
                complaints.push(format!("cannot remove the state file: {error}"));
            }
            Ok(Supervised::Stopped(complaints))
        }
        Err(failure) => {
            let state = supervisor.state_mut();
            state.phase = Phase::Failed;
            state.failure = Some(failure.to_string());
            supervisor.publish();
            Err(failure)
        }
    }
}

/// Puts a backup into a home whose site does not run, and leaves it stopped. Returns what was restored.
pub fn restore(home: &Home, ports: Ports, options: &RestoreOptions) -> Result<String, SupervisorError> {
    keeping::demand_keys(home)?;
    // It is read a second time by what restores it; from here on the home changes.
    verify_backup(options)?;
    let identities = Identities::establish()?;
    home.prepare(&identities)?;
    let Some(_lock) = Lock::take(home)? else {
        return Err(SupervisorError::Local("the site runs: stop it with `mfaas down`".to_owned()));
    };
    stop_strays(home)?;
    let mut config = UpConfig::load_or_new(home, ports)?;
    config.apply_stores(&options.database_url, &options.blobs_url);
    config.save(home)?;
    if config.external_database.is_none() {
        keeping::mark_restoring(home)?;
    }
    let mut supervisor = Supervisor::new(home, &identities, stop_requests()?, true)?;
    let restored = setup::database_server(&mut supervisor, home, &identities, &config).and_then(|()| {
        supervisor.step("database roles", |_| setup::database_roles(home, &config))?;
        supervisor.step("restore", |_| keeping::put_back(home, &config, options))
    });
    let complaints = supervisor.stop();
    let _ = std::fs::remove_file(state::path(home));
    let restored = restored?;
    keeping::unmark_restoring(home)?;
    match complaints.is_empty() {
        true => Ok(restored),
        false => Err(SupervisorError::Local(format!("restored, but {}", complaints.join("; ")))),
    }
}

fn configure(home: &Home, ports: Ports, options: &UpOptions) -> Result<UpConfig, SupervisorError> {
    let mut config = UpConfig::load_or_new(home, ports)?;
    config.apply(options);
    config.save(home)?;
    Ok(config)
}

/// One item for each SIGTERM, SIGINT or SIGHUP.
fn stop_requests() -> Result<Receiver<()>, SupervisorError> {
    let mut signals = signal_hook::iterator::Signals::new([SIGTERM, SIGINT, SIGHUP])
        .map_err(|e| SupervisorError::Local(format!("cannot listen for signals: {e}")))?;
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for _ in signals.forever() {
            if sender.send(()).is_err() {
                return;
            }
        }
    });
    Ok(receiver)
}

/// Ends programs that a killed supervisor left behind: they hold ports, sockets and the data
/// directory. Their parent is gone, so nobody else will.
fn stop_strays(home: &Home) -> Result<(), SupervisorError> {
    let Some(state) = State::load(home)? else { return Ok(()) };
    let strays: Vec<_> = state.alive().cloned().collect();
    for stray in strays.iter().rev() {
        say(&format!("stopping {} (pid {}) of an earlier run", stray.name, stray.pid));
        signal_one(stray.pid, if stray.name == "postgres" { Signal::INT } else { Signal::TERM });
        let gone = || Ok(stray.process() == Process::Gone);
        if !wait_until(Duration::from_secs(12), gone)? {
            signal_one(stray.pid, Signal::KILL);
            wait_until(Duration::from_secs(5), gone)?;
        }
    }
    for role in identity::Role::ALL {
        let _ = std::fs::remove_file(home.ready_file(role));
    }
    Ok(())
}

/// Stops everything of this home and returns what is left of it; an empty list is success.
pub fn stop_everything(home: &Home) -> Result<Vec<String>, SupervisorError> {
    if let Some(state) = State::load(home)? {
        if is_supervised(home)? {
            let supervisor = processes::start_ticks(state.pid);
            // It lets go of the home a moment before it ends.
            let has_ended = || supervisor.is_none() || processes::start_ticks(state.pid) != supervisor;
            signal_one(state.pid, Signal::TERM);
            if !wait_until(DOWN_LIMIT, || is_supervised(home).map(|held| !held && has_ended()))? {
                return Ok(vec![format!("the supervisor (pid {}) does not stop", state.pid)]);
            }
        } else {
            stop_strays(home)?;
            let _ = std::fs::remove_file(state::path(home));
        }
        return Ok(left_of(home, &state));
    }
    Ok(processes::leftovers(&[home.root(), home.run()]))
}

/// Processes, sockets, mounts, listening ports and ready files that should be gone.
fn left_of(home: &Home, state: &State) -> Vec<String> {
    let mut left = processes::leftovers(&[home.root(), home.run()]);
    let addresses = [&state.addresses.http, &state.addresses.nodes, &state.addresses.ingress];
    for address in addresses.into_iter().flatten() {
        if std::net::TcpStream::connect(address.as_str()).is_ok() {
            left.push(format!("something still listens on {address}"));
        }
    }
    for role in identity::Role::ALL {
        let file = home.ready_file(role);
        if file.exists() {
            left.push(format!("file {}", file.display()));
        }
    }
    left
}

#[cfg(test)]
mod tests;
