//! CPU time: what a call may use of it, and how that is noticed without asking on every call.
//!
//! A budget is CPU time of the thread, so a busy machine costs no function its life. Reading that
//! clock is a system call, so a call only notes the wall's time and the time by the wall at which
//! its budget could be used up: the dispatcher watches that word and signals the worker when it
//! has passed. The handler then reads both clocks. From a sample that is older than the call it knows
//! what the thread used since, and of that at most the time by the wall between sample and start
//! was used before the call began; what is left was used by the call for certain. If that is the
//! budget, the call ends; if not, because the machine ran something else meanwhile, the sample is
//! now inside of the call, and the deadline moves by exactly what is missing.
//!
//! A call that outgrows its memory and runs again has one budget for all of its runs, and for what the
//! executor does between them.
//!
//! A timer on the thread's CPU time looks too, a hundred times in a second of it, should nobody
//! watch. It costs nothing while the thread sleeps.

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU64, Ordering};

use mfaas_ident::Budget;

use crate::ExecutorError;
use crate::clock::cpu_ns;
use crate::signals::TICK_SIGNAL;
use crate::state::{BudgetState, UNKNOWN};

/// How often the backup timer rings, in nanoseconds of CPU time. The kernel looks at such timers
/// with its own tick, mostly 1 to 10 ms.
const BACKUP_TICK_NS: i64 = 10_000_000;
/// A sample this old is taken anew between two calls, in nanoseconds: one system call in so long.
const SAMPLE_NS_MAX: u64 = 1_000_000;
/// A call that took this long by the wall is measured in CPU time when it ends, in nanoseconds.
const MEASURED_NS_MIN: u64 = 20_000;
/// A call that is over its budget at an instruction where it cannot be ended is looked at again so
/// soon, in nanoseconds.
const AGAIN_NS: u64 = 2_000;

/// What a call used, in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Used {
    pub(crate) wall_ns: u64,
    pub(crate) cpu_ns: u64,
}

/// What held before a call within the call began.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outer {
    /// When it did, in ticks.
    entered: u64,
    deadline: u64,
}

impl BudgetState {
    fn now(&self) -> u64 {
        self.clock.get().now()
    }

    /// Takes a sample. Not while a call runs.
    pub(crate) fn sample(&self) {
        self.sample_cpu_ns.store(cpu_ns(), Ordering::Relaxed);
        self.sample_ticks.store(self.now(), Ordering::Relaxed);
    }

    /// Notes that a call begins, and tells whoever watches.
    pub(crate) fn begin(&self, budget_ns: u64, watch: &AtomicU64) {
        let clock = self.clock.get();
        let mut now = self.now();
        if now.saturating_sub(self.sample_ticks.load(Ordering::Relaxed)) > clock.ticks(SAMPLE_NS_MAX) {
            self.sample();
            now = self.now();
        }
        let deadline = now.saturating_add(clock.ticks(budget_ns));
        self.started.store(now, Ordering::Relaxed);
        self.budget_ns.store(budget_ns, Ordering::Relaxed);
        self.used_ns.store(0, Ordering::Relaxed);
        self.deadline.store(deadline, Ordering::Relaxed);
        self.watch.store(std::ptr::from_ref(watch).cast_mut(), Ordering::Relaxed);
        watch.store(deadline, Ordering::Release);
    }

    /// Notes that the call ended, and says what it used since it began.
    pub(crate) fn end(&self, watch: &AtomicU64) -> Used {
        let started = self.started.load(Ordering::Relaxed);
        let now = self.now();
        watch.store(0, Ordering::Release);
        self.watch.store(std::ptr::null_mut(), Ordering::Relaxed);
        self.deadline.store(u64::MAX, Ordering::Relaxed);
        let wall_ns = self.clock.get().ns(now.saturating_sub(started));
        if wall_ns < MEASURED_NS_MIN {
            return Used { wall_ns, cpu_ns: wall_ns };
        }
        // Between sample and start the thread may have used the processor too, so this is at most
        // too much, and never more than the wall.
        let cpu_now = cpu_ns();
        let since = cpu_now.saturating_sub(self.sample_cpu_ns.load(Ordering::Relaxed));
        let used = self.used_ns.load(Ordering::Relaxed).saturating_add(since).min(wall_ns);
        self.sample_cpu_ns.store(cpu_now, Ordering::Relaxed);
        self.sample_ticks.store(now, Ordering::Relaxed);
        Used { wall_ns, cpu_ns: used }
    }

    /// Notes that a call within the call begins, which has so much of what is left, at most. For [`Self::leave`].
    pub(crate) fn enter(&self, budget: Budget, watch: &AtomicU64) -> Outer {
        let (clock, now) = (self.clock.get(), self.now());
        let outer = Outer { entered: now, deadline: self.deadline.load(Ordering::Relaxed) };
        let budget_ns = budget.as_micros().saturating_mul(1_000);
        self.inner.entered.store(now, Ordering::Relaxed);
        self.inner.begun_cpu_ns.store(UNKNOWN, Ordering::Relaxed);
        self.inner.budget_ns.store(budget_ns, Ordering::Relaxed);
        let deadline = outer.deadline.min(now.saturating_add(clock.ticks(budget_ns)));
        self.deadline.store(deadline, Ordering::Relaxed);
        watch.store(deadline, Ordering::Release);
        outer
    }

    /// It has ended, and the call has its budget again. What it took by the wall, in nanoseconds.
    pub(crate) fn leave(&self, outer: Outer, watch: &AtomicU64) -> u64 {
        self.inner.budget_ns.store(UNKNOWN, Ordering::Relaxed);
        self.deadline.store(outer.deadline, Ordering::Relaxed);
        watch.store(outer.deadline, Ordering::Release);
        self.clock.get().ns(self.now().saturating_sub(outer.entered))
    }

    /// What a call within the call may still use, in nanoseconds; all of it where there is none. By the first look at it only as much
    /// counts as cannot have been used before it began; from then on all of it.
    fn left_of_inner(&self, used_ns: u64, cpu_now_ns: u64) -> u64 {
        let budget_ns = self.inner.budget_ns.load(Ordering::Relaxed);
        if budget_ns == UNKNOWN {
            return UNKNOWN;
        }
        let inner_ns = match self.inner.begun_cpu_ns.load(Ordering::Relaxed) {
            UNKNOWN => {
                let entered = self.inner.entered.load(Ordering::Relaxed);
                let before = entered.saturating_sub(self.started.load(Ordering::Relaxed));
                used_ns.saturating_sub(self.clock.get().ns(before))
            }
            begun_ns => cpu_now_ns.saturating_sub(begun_ns),
        };
        self.inner.begun_cpu_ns.store(cpu_now_ns.saturating_sub(inner_ns), Ordering::Relaxed);
        budget_ns.saturating_sub(inner_ns)
    }

    /// In the handler, and between two runs of a call: whether the call has used up its budget for
    /// certain. If not, the deadline moves. `endable`: whether the call could be ended where it stands.
    pub(crate) fn is_used_up(&self, endable: bool) -> bool {
        let now = self.now();
        if now < self.deadline.load(Ordering::Relaxed) {
            return false;
        }
        let (used_ns, cpu_now_ns) = self.used_for_certain();
        let budget_ns = self.budget_ns.load(Ordering::Relaxed);
        let left_ns = budget_ns.saturating_sub(used_ns).min(self.left_of_inner(used_ns, cpu_now_ns));
        if left_ns == 0 && endable {
            return true;
        }
        self.used_ns.store(used_ns, Ordering::Relaxed);
        self.sample_cpu_ns.store(cpu_now_ns, Ordering::Relaxed);
        self.sample_ticks.store(now, Ordering::Relaxed);
        let missing_ns = left_ns.max(AGAIN_NS);
        let deadline = now.saturating_add(self.clock.get().ticks(missing_ns));
        self.deadline.store(deadline, Ordering::Relaxed);
        // SAFETY: INV-EXECUTOR-10. Not null only while the call runs, which borrows the word.
        if let Some(watch) = unsafe { self.watch.load(Ordering::Relaxed).as_ref() } {
            watch.store(deadline, Ordering::Release);
        }
        false
    }

    /// CPU time that the call has used at least, and the thread's CPU time now, in nanoseconds.
    fn used_for_certain(&self) -> (u64, u64) {
        let cpu_now = cpu_ns();
        let since_sample = cpu_now.saturating_sub(self.sample_cpu_ns.load(Ordering::Relaxed));
        let before_call =
            self.started.load(Ordering::Relaxed).saturating_sub(self.sample_ticks.load(Ordering::Relaxed));
        let in_call = since_sample.saturating_sub(self.clock.get().ns(before_call));
        (self.used_ns.load(Ordering::Relaxed).saturating_add(in_call), cpu_now)
    }
}

/// Makes and starts the backup timer of this thread. Must happen before lock-down.
pub(crate) fn start_backup() -> Result<libc::timer_t, ExecutorError> {
    // SAFETY: INV-EXECUTOR-7. Plain data, for which zeros are a value.
    let mut event: libc::sigevent = unsafe { MaybeUninit::zeroed().assume_init() };
    event.sigev_notify = libc::SIGEV_THREAD_ID;
    event.sigev_signo = TICK_SIGNAL;
    // SAFETY: INV-EXECUTOR-7. Takes nothing and cannot fail.
    event.sigev_notify_thread_id = unsafe { libc::gettid() };
    let mut timer: libc::timer_t = std::ptr::null_mut();
    // SAFETY: INV-EXECUTOR-7. Both pointers are to live locals.
    let made = unsafe { libc::timer_create(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut event, &raw mut timer) };
    if made != 0 {
        return Err(ExecutorError::last("create the timer"));
    }
    let tick = libc::timespec { tv_sec: 0, tv_nsec: BACKUP_TICK_NS };
    let setting = libc::itimerspec { it_interval: tick, it_value: tick };
    // SAFETY: INV-EXECUTOR-7. The timer just made, and a live local.
    if unsafe { libc::timer_settime(timer, 0, &raw const setting, std::ptr::null_mut()) } != 0 {
        let error = ExecutorError::last("start the timer");
        stop_backup(timer);
        return Err(error);
    }
    Ok(timer)
}

/// Deletes a timer that this thread made.
pub(crate) fn stop_backup(timer: libc::timer_t) {
    // SAFETY: INV-EXECUTOR-7. From `start_backup`, and deleted once. It fails only for timers that do not exist.
    let _ = unsafe { libc::timer_delete(timer) };
}
