//! Classes of the kernel's scheduler.

use std::io;

use rustix::process::Pid;

use crate::sys;

/// A class of the kernel's scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchedulingClass {
    /// As everything: `SCHED_OTHER`.
    Other,
    /// Where nothing else wants to run: `SCHED_IDLE`.
    Idle,
    /// Before everything that is not in it, by turns among each other: `SCHED_RR` of the lowest priority.
    RealTime,
}

impl SchedulingClass {
    /// By the kernel's number, which `/proc/PID/stat` has.
    pub fn of(policy: u64) -> Option<Self> {
        [Self::Other, Self::Idle, Self::RealTime].into_iter().find(|class| class.policy() == policy)
    }

    /// The kernel's number.
    pub fn policy(self) -> u64 {
        self.parameters().0.unsigned_abs().into()
    }

    /// Puts a thread, and what it starts later, into the class.
    pub fn set(self, thread: Pid) -> io::Result<()> {
        let (policy, priority) = self.parameters();
        Ok(sys::set_scheduler(thread, policy, priority)?)
    }

    fn parameters(self) -> (libc::c_int, libc::c_int) {
        match self {
            Self::Other => (libc::SCHED_OTHER, 0),
            Self::Idle => (libc::SCHED_IDLE, 0),
            Self::RealTime => (libc::SCHED_RR, 1),
        }
    }
}
