//! The threads that speak HTTP: each serves its connections alone, so nothing on the way of a request is
//! shared with another thread but the dispatcher.
//!
//! A runtime of one thread costs a request less than one whose threads take work from each other, and connections are
//! many and their requests short. A connection stays where it began.

use std::sync::Arc;

use anyhow::Context as _;
use tokio::runtime::{Builder, Handle};
use tokio::sync::watch;

use super::fairness::Lanes;

/// Threads with a runtime each. They end when this is dropped; what runs on them ends unfinished.
#[derive(Debug)]
pub(crate) struct Hosts {
    threads: Vec<(Handle, Arc<Lanes>)>,
    /// Never sent to: its end is the news.
    _open: watch::Sender<()>,
    next: usize,
}

impl Hosts {
    /// Starts so many threads; one at least.
    pub(crate) fn start(threads: usize) -> anyhow::Result<Self> {
        let open = watch::Sender::new(());
        let mut started = Vec::with_capacity(threads);
        for number in 0..threads.max(1) {
            let runtime = Builder::new_current_thread()
                .enable_io()
                .enable_time()
                .build()
                .context("starting a runtime for connections")?;
            let lanes = Arc::<Lanes>::default();
            started.push((runtime.handle().clone(), Arc::clone(&lanes)));
            let mut end = open.subscribe();
            std::thread::Builder::new()
                .name(format!("ingress-{number}"))
                .spawn(move || {
                    runtime.block_on(async move {
                        tokio::select! {
                            () = lanes.take_turns() => {}
                            // Never told anything but that its sender is gone.
                            _ = end.changed() => {}
                        }
                    });
                })
                .context("starting a thread for connections")?;
        }
        Ok(Self { threads: started, _open: open, next: 0 })
    }

    /// The caller's own runtime, which has one thread: where the clock is stopped.
    #[cfg(test)]
    pub(super) fn here() -> Self {
        let lanes = Arc::<Lanes>::default();
        let of_task = Arc::clone(&lanes);
        tokio::spawn(async move { of_task.take_turns().await });
        Self { threads: vec![(Handle::current(), lanes)], _open: watch::Sender::new(()), next: 0 }
    }

    /// Where the next connection goes, each in turn.
    pub(super) fn next(&mut self) -> (&Handle, &Arc<Lanes>) {
        self.next = (self.next + 1) % self.threads.len();
        let (handle, lanes) = &self.threads[self.next];
        (handle, lanes)
    }
}
