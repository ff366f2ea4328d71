//! Preemption as the paper does it: a periodic timer whose signal interrupts the function. And a
//! signal sent from another core.

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::ensure;

use super::stamp;

static ENTERED: AtomicU64 = AtomicU64::new(0);

/// The time stamp after which the timer ends itself.
static LIMIT: AtomicU64 = AtomicU64::new(0);

/// Where a tick costs more than its quantum the next one is always due, and the interrupted code
/// never runs: then only the handler is left to end it.
extern "C" fn tick(_signal: libc::c_int) {
    if stamp() > LIMIT.load(Ordering::Relaxed) {
        // There is nobody to tell in a handler; the next tick tries again.
        let _ = set_raw(0);
    }
}

extern "C" fn noticed(_signal: libc::c_int) {
    ENTERED.store(stamp(), Ordering::Release);
}

/// A timer that sends SIGALRM to the process every so often while it exists. One at a time. The
/// handler of before, which may be the executor's, comes back with its end.
#[derive(Debug)]
pub struct Ticking {
    before: libc::sigaction,
}

impl Ticking {
    /// Starts the timer, which ends by itself after `cycles` of the time stamp counter.
    pub fn every(micros: u32, cycles: u64) -> anyhow::Result<Self> {
        LIMIT.store(stamp().saturating_add(cycles), Ordering::Relaxed);
        let ticking = Self { before: install(libc::SIGALRM, tick)? };
        let done = set_raw(micros);
        ensure!(done == 0, "setitimer: {}", std::io::Error::last_os_error());
        Ok(ticking)
    }
}

impl Drop for Ticking {
    fn drop(&mut self) {
        // Switching a timer off that exists cannot fail, nor can what the kernel gave us before.
        let _ = set_raw(0);
        // SAFETY: INV-BENCH-2 and 4. What the kernel said was there before.
        let _ = unsafe { libc::sigaction(libc::SIGALRM, &raw const self.before, std::ptr::null_mut()) };
    }
}

/// The stamp of the last [`NOTICED`] that [`watch`]ing noticed, 0 before the first.
pub fn noticed_at() -> u64 {
    ENTERED.swap(0, Ordering::AcqRel)
}

/// Stamps every [`NOTICED`] from now on.
pub fn watch() -> anyhow::Result<()> {
    install(NOTICED, noticed).map(drop)
}

/// This thread, for [`poke`].
pub fn this_thread() -> i32 {
    // SAFETY: INV-BENCH-2. Takes nothing and cannot fail.
    unsafe { libc::gettid() }
}

/// The signal that [`watch`] notices.
pub const NOTICED: i32 = libc::SIGUSR1;

/// Sends a signal to a thread of this process.
pub fn poke(thread: i32, signal: i32) -> anyhow::Result<()> {
    // SAFETY: INV-BENCH-2. Takes nothing and cannot fail.
    let process = unsafe { libc::getpid() };
    // SAFETY: INV-BENCH-2. Takes numbers alone.
    let sent = unsafe { libc::syscall(libc::SYS_tgkill, process, thread, signal) };
    ensure!(sent == 0, "tgkill: {}", std::io::Error::last_os_error());
    Ok(())
}

/// Installs a handler; gives the action of before.
fn install(signal: libc::c_int, handler: extern "C" fn(libc::c_int)) -> anyhow::Result<libc::sigaction> {
    // SAFETY: INV-BENCH-2. Plain data, for which zeros are a value.
    let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    action.sa_sigaction = handler as *const () as usize;
    action.sa_flags = libc::SA_RESTART;
    let mut before = action;
    // SAFETY: INV-BENCH-2 and 4. Two live locals.
    let done = unsafe { libc::sigaction(signal, &raw const action, &raw mut before) };
    ensure!(done == 0, "sigaction: {}", std::io::Error::last_os_error());
    Ok(before)
}

/// 0 when the timer is set.
fn set_raw(micros: u32) -> libc::c_int {
    let every = libc::timeval { tv_sec: 0, tv_usec: libc::suseconds_t::from(micros) };
    let setting = libc::itimerval { it_interval: every, it_value: every };
    // SAFETY: INV-BENCH-2. A live local; the old setting is not wanted.
    unsafe { libc::setitimer(libc::ITIMER_REAL, &raw const setting, std::ptr::null_mut()) }
}
