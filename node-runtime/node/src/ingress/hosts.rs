//! The threads that speak HTTP: each serves its connections alone, so nothing on the way of a request is
//! shared with another thread but the dispatcher.
//!
//! A runtime of one thread costs a request less than one whose threads take work from each other, and connections are
//! many and their requests short. A connection stays where it began.

use anyhow::Context as _;
use tokio::runtime::{Builder, Handle};
use tokio::sync::watch;

/// Threads with a runtime each. They end when this is dropped; what runs on them ends unfinished.
#[derive(Debug, Default)]
pub(crate) struct Hosts {
    handles: Vec<Handle>,
    /// Never sent to: its end is the news.
    _open: watch::Sender<()>,
    next: usize,
}

impl Hosts {
    /// Starts so many threads.
    pub(crate) fn start(threads: usize) -> anyhow::Result<Self> {
        let open = watch::Sender::new(());
        let mut handles = Vec::with_capacity(threads);
        for number in 0..threads {
            let runtime = Builder::new_current_thread()
                .enable_io()
                .enable_time()
                .build()
                .context("starting a runtime for connections")?;
            handles.push(runtime.handle().clone());
            let mut end = open.subscribe();
            std::thread::Builder::new()
                .name(format!("ingress-{number}"))
                .spawn(move || runtime.block_on(async move { while end.changed().await.is_ok() {} }))
                .context("starting a thread for connections")?;
        }
        Ok(Self { handles, _open: open, next: 0 })
    }

    /// Where the next connection goes, each in turn; the caller's own runtime if there are none.
    pub(super) fn next(&mut self) -> Handle {
        self.next = self.next.wrapping_add(1);
        match self.handles.len() {
            0 => Handle::current(),
            threads => self.handles[self.next % threads].clone(),
        }
    }
}
