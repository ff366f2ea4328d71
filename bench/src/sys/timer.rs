//! Preemption as the paper does it: a periodic timer whose signal interrupts the function. And a
//! signal sent from another core.

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::ensure;

use crate::function::stamp;

static TICKS: AtomicU64 = AtomicU64::new(0);
static ENTERED: AtomicU64 = AtomicU64::new(0);

extern "C" fn tick(_signal: libc::c_int) {
    TICKS.fetch_add(1, Ordering::Relaxed);
}

extern "C" fn noticed(_signal: libc::c_int) {
    ENTERED.store(stamp(), Ordering::Release);
}

/// A timer that sends SIGALRM to the process every so often while it exists. One at a time.
#[derive(Debug)]
pub struct Ticking(());

impl Ticking {
    /// Starts the timer.
    pub fn every(micros: u32) -> anyhow::Result<Self> {
        install(libc::SIGALRM, tick)?;
        set(micros)?;
        Ok(Self(()))
    }

    /// Ticks that were handled since the program's start.
    pub fn ticks() -> u64 {
        TICKS.load(Ordering::Relaxed)
    }
}

impl Drop for Ticking {
    fn drop(&mut self) {
        // Switching a timer off that exists cannot fail.
        let _ = set(0);
    }
}

/// The stamp of the last SIGUSR1 that [`watch`]ing noticed, 0 before the first.
pub fn noticed_at() -> u64 {
    ENTERED.swap(0, Ordering::AcqRel)
}

/// Stamps every SIGUSR1 from now on.
pub fn watch() -> anyhow::Result<()> {
    install(libc::SIGUSR1, noticed)
}

/// This thread, for [`poke`].
pub fn this_thread() -> i32 {
    // SAFETY: INV-BENCH-2. Takes nothing and cannot fail.
    unsafe { libc::gettid() }
}

/// Sends SIGUSR1 to a thread of this process.
pub fn poke(thread: i32) -> anyhow::Result<()> {
    // SAFETY: INV-BENCH-2. Takes nothing and cannot fail.
    let process = unsafe { libc::getpid() };
    // SAFETY: INV-BENCH-2. Takes numbers alone.
    let sent = unsafe { libc::syscall(libc::SYS_tgkill, process, thread, libc::SIGUSR1) };
    ensure!(sent == 0, "tgkill: {}", std::io::Error::last_os_error());
    Ok(())
}

fn install(signal: libc::c_int, handler: extern "C" fn(libc::c_int)) -> anyhow::Result<()> {
    // SAFETY: INV-BENCH-2. Plain data, for which zeros are a value.
    let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    action.sa_sigaction = handler as *const () as usize;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: INV-BENCH-2 and 4. A live local; the old action is not wanted.
    let done = unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
    ensure!(done == 0, "sigaction: {}", std::io::Error::last_os_error());
    Ok(())
}

fn set(micros: u32) -> anyhow::Result<()> {
    let every = libc::timeval { tv_sec: 0, tv_usec: libc::suseconds_t::from(micros) };
    let setting = libc::itimerval { it_interval: every, it_value: every };
    // SAFETY: INV-BENCH-2. A live local; the old setting is not wanted.
    let done = unsafe { libc::setitimer(libc::ITIMER_REAL, &raw const setting, std::ptr::null_mut()) };
    ensure!(done == 0, "setitimer: {}", std::io::Error::last_os_error());
    Ok(())
}
