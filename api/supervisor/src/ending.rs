//! Ending processes, and waiting until they are gone.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions};

use crate::processes;

/// Ends what is still below us: orphans of programs that were killed. Each is named.
pub(crate) fn kill_orphans() -> Vec<String> {
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
pub(crate) fn wait_for_end(pid: i32, limit: Duration) -> bool {
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

/// The same to a whole process group.
pub(crate) fn signal_group(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = rustix::process::kill_process_group(pid, signal);
    }
}

/// How a process ended, for a person.
pub(crate) fn describe(status: rustix::process::WaitStatus) -> String {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "an unknown status".to_owned(),
    }
}
