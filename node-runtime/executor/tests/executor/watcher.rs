//! What a dispatcher does for a worker: it looks at the time by which a call's budget can be used
//! up, and signals the thread when that has passed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use mfaas_executor::{Clock, TICK_SIGNAL};

pub(crate) const CLOCK: Clock = Clock::MONOTONIC;
/// The thread is not signalled again for the same deadline before this has passed, in nanoseconds.
const AGAIN_NS: u64 = 50_000;

/// Watches the thread that started it.
pub(crate) struct Watcher {
    word: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watcher {
    pub(crate) fn start() -> Self {
        let (word, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        // SAFETY: takes nothing and cannot fail.
        let thread = unsafe { libc::gettid() };
        let process = std::process::id();
        let (watched, ends) = (Arc::clone(&word), Arc::clone(&over));
        let watch = move || {
            while !ends.load(Ordering::Relaxed) {
                let (deadline, now) = (watched.load(Ordering::Acquire), CLOCK.now());
                if deadline != 0 && deadline <= now {
                    // SAFETY: takes numbers; the thread lives, since it joins this one.
                    unsafe { libc::syscall(libc::SYS_tgkill, process, thread, TICK_SIGNAL) };
                    while watched.load(Ordering::Acquire) == deadline && CLOCK.now() < now + AGAIN_NS {
                        std::hint::spin_loop();
                    }
                }
                std::hint::spin_loop();
            }
        };
        Self { word, over, thread: Some(std::thread::spawn(watch)) }
    }

    pub(crate) fn word(&self) -> &AtomicU64 {
        &self.word
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic of the watcher shows as calls that do not end.
            let _ = thread.join();
        }
    }
}
