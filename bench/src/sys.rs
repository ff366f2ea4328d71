//! The few things of the machine that the sides need and that no safe library offers: shared
//! memory, libraries opened at run time, a periodic signal. Cores and clocks are here, too.

pub mod cpu;
#[allow(unsafe_code, reason = "opens and calls libraries; INV-BENCH-2 and 3")]
pub mod library;
pub mod memory;
#[allow(unsafe_code, reason = "maps shared memory; INV-BENCH-1")]
pub mod shared;
#[allow(unsafe_code, reason = "one instruction: the time stamp counter, INV-BENCH-6")]
mod stamp;
#[allow(unsafe_code, reason = "installs a handler and a timer; INV-BENCH-2 and 4")]
pub mod timer;

use std::time::{Duration, Instant};

use anyhow::Context as _;
use rustix::process::{Pid, Signal};
use rustix::thread::CpuSet;

pub use stamp::stamp;

/// How long cycles are counted to learn their length.
const CALIBRATION: Duration = Duration::from_millis(50);

/// The two cores of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cores {
    /// Where calls are made.
    pub caller: usize,
    /// Where functions run.
    pub worker: usize,
}

impl Cores {
    /// The first and the last core that this process may use; nothing when there is only one.
    pub fn choose() -> anyhow::Result<Option<Self>> {
        let cores = allowed_cores()?;
        Ok(match *cores {
            [caller, .., worker] => Some(Self { caller, worker }),
            _ => None,
        })
    }

    /// The one and the other.
    pub fn both(self) -> [usize; 2] {
        [self.caller, self.worker]
    }
}

/// The cores that this thread may use, in their order.
pub fn allowed_cores() -> anyhow::Result<Vec<usize>> {
    let allowed = rustix::thread::sched_getaffinity(None).context("ask for the allowed cores")?;
    Ok((0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).collect())
}

/// Keeps this thread, and what it starts from now on, on one core.
pub fn pin(core: usize) -> anyhow::Result<()> {
    pin_to(&[core])
}

/// Keeps this thread, and what it starts from now on, on some cores.
pub fn pin_to(cores: &[usize]) -> anyhow::Result<()> {
    keep_on(None, cores).with_context(|| format!("stay on cores {cores:?}"))
}

/// Keeps a process of one thread, and what it starts from now on, on some cores.
pub fn keep_on(process: Option<Pid>, cores: &[usize]) -> rustix::io::Result<()> {
    let mut set = CpuSet::new();
    cores.iter().for_each(|core| set.set(*core));
    rustix::thread::sched_setaffinity(process, &set)
}

/// Ends this process when the thread that started it ends.
pub fn die_with_parent() -> anyhow::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).context("set the death signal")?;
    let parent = rustix::process::getppid().map_or(0, Pid::as_raw_pid);
    anyhow::ensure!(parent > 1, "the process that started this one is gone");
    Ok(())
}

/// The time stamp counter as time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tsc {
    cycles_per_ns: f64,
}

impl Tsc {
    /// Counts cycles for a while.
    pub fn calibrate() -> Self {
        let (begin, first) = (Instant::now(), stamp());
        while begin.elapsed() < CALIBRATION {
            std::hint::spin_loop();
        }
        let cycles = stamp().wrapping_sub(first);
        Self { cycles_per_ns: cycles as f64 / begin.elapsed().as_nanos() as f64 }
    }

    /// Cycles as microseconds.
    pub fn micros(self, cycles: u64) -> f64 {
        cycles as f64 / self.cycles_per_ns / 1e3
    }

    /// Microseconds as cycles.
    pub fn cycles(self, micros: f64) -> u64 {
        (micros * 1e3 * self.cycles_per_ns) as u64
    }

    /// Cycles of one microsecond.
    pub fn per_micro(self) -> f64 {
        self.cycles_per_ns * 1e3
    }
}

/// CPU time of this thread, in seconds.
pub fn thread_cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
