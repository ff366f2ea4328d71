//! Courtesy: a command that has used much CPU time lets others go first, and is the first to go
//! when the machine runs out of memory.
//!
//! Both only order what happens on a full machine; no limit depends on them, and a kernel that
//! refuses one of them changes nothing else. Priorities are lowered from outside, by the process
//! that waits for the sandbox: what runs in it has no system call to raise them again.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use mfaas_rules::limits::{GIVE_WAY_CPU_SECONDS, GIVE_WAY_NICE};
use rustix::process::Pid;

/// How often a command's CPU time is looked at, and a late thread is made to follow.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The kernel's unit in `/proc/PID/stat`; fixed for programs on x86-64 (proc(5), USER_HZ).
const TICKS_PER_SECOND: u64 = 100;

/// One sandbox, as the kernel's scheduler sees it: the session that its helper has opened.
#[derive(Debug)]
pub(crate) struct Courtesy {
    session: u32,
    last_look: Instant,
    given_way: bool,
    used: Duration,
}

impl Courtesy {
    /// For the sandbox of a helper that has just been started.
    pub(crate) fn new(helper: u32) -> Self {
        Self { session: helper, last_look: Instant::now(), given_way: false, used: Duration::ZERO }
    }

    /// To be called often; does something once a second. A command that is younger than the CPU
    /// time in question is not looked at.
    pub(crate) fn keep(&mut self, age: Duration) {
        let threshold = Duration::from_secs(GIVE_WAY_CPU_SECONDS);
        if age < threshold || self.last_look.elapsed() < LOOK_EVERY {
            return;
        }
        self.last_look = Instant::now();
        let members = self.look();
        if self.given_way || self.used >= threshold {
            self.give_way(&members);
        }
    }

    /// A sandbox that is to end may do so at full speed.
    pub(crate) fn end(&mut self) {
        self.look();
        if self.given_way {
            self.set_group(0);
        }
    }

    /// CPU time that was seen at the last look. Of a sandbox that is killed nobody else tells it: the
    /// process that would have added it up dies with the rest.
    pub(crate) fn used(&self) -> Duration {
        self.used
    }

    fn look(&mut self) -> Vec<Member> {
        let members = members(self.session);
        let ticks: u64 = members.iter().map(|member| member.ticks).sum();
        self.used = self.used.max(Duration::from_millis(ticks.saturating_mul(1_000 / TICKS_PER_SECOND)));
        members
    }

    /// Every second anew: a thread that was being made while the others were told is told then.
    fn give_way(&mut self, members: &[Member]) {
        if !self.given_way {
            self.set_group(GIVE_WAY_NICE);
            self.given_way = true;
        }
        let groups: BTreeSet<i32> = members.iter().map(|member| member.process_group).collect();
        for group in groups.into_iter().filter_map(Pid::from_raw) {
            // ESRCH: it has ended meanwhile.
            let _ = rustix::process::setpriority_pgrp(Some(group), GIVE_WAY_NICE);
        }
    }

    /// Where the kernel shares cores out by session (sched(7), "autogroup"), a thread's own nice
    /// value counts only among those of its session; this one is the session's. The file is missing
    /// where it does not, which is no loss.
    fn set_group(&self, nice: i32) {
        let _ = std::fs::write(format!("/proc/{}/autogroup", self.session), nice.to_string());
    }
}

/// Makes the calling process, and what it starts, the first that the kernel ends when the machine
/// has no memory left. Raising this is allowed to everybody, lowering it again is not.
pub(crate) fn be_first_out_of_memory() {
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
}

/// A process of the sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Member {
    process_group: i32,
    /// User and system time, its own and that of children it has waited for.
    ticks: u64,
}

/// The processes of a session. Those that end meanwhile are left out; their time is their parent's.
fn members(session: u32) -> Vec<Member> {
    let Ok(processes) = std::fs::read_dir("/proc") else { return Vec::new() };
    let names = processes.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let numbers = names.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
    let stats = numbers.filter_map(|number| std::fs::read_to_string(format!("/proc/{number}/stat")).ok());
    stats.filter_map(|stat| member(&stat, session)).collect()
}

/// One line of `/proc/PID/stat` (proc(5)), if it is about the session asked for. The second field is the
/// program's name in brackets, which may contain anything.
fn member(stat: &str, session: u32) -> Option<Member> {
    let (_, fields) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
    if number(3)? != u64::from(session) {
        return None;
    }
    let ticks = number(11)? + number(12)? + number(13)? + number(14)?;
    Some(Member { process_group: fields.get(2)?.parse().ok()?, ticks })
}

#[cfg(test)]
mod tests;
