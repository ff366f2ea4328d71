//! Waiting for what a node asks next.

use std::time::{Duration, Instant};

use tokio::io::BufReader;
use tokio::net::unix::OwnedReadHalf;
use tokio::sync::Notify;

/// How long it looks for the next message before it sleeps: about as long as waking takes.
pub(crate) const LOOK: Duration = Duration::from_micros(50);

/// Waits until there is something to read, or the node has left. For the time of a `look` after each message of the node, and after
/// each that it was `told`, it looks, and lets other tasks and other processes run between two looks.
pub(crate) async fn for_message(reader: &BufReader<OwnedReadHalf>, told: &Notify, look: Duration) {
    // What came with the message before: of this the socket says nothing any more, however long the thread was without its core.
    if !reader.buffer().is_empty() {
        return;
    }
    loop {
        let until = Instant::now() + look;
        while Instant::now() < until {
            if is_readable(reader).await {
                return;
            }
            std::thread::yield_now();
            tokio::task::yield_now().await;
        }
        tokio::select! {
            biased;
            _ = reader.get_ref().readable() => return,
            () = told.notified() => {}
        }
    }
}

/// Whether there is something to read by now.
async fn is_readable(reader: &BufReader<OwnedReadHalf>) -> bool {
    tokio::select! {
        biased;
        // Also where it cannot be read any more: whoever reads hears why.
        _ = reader.get_ref().readable() => true,
        () = std::future::ready(()) => false,
    }
}

#[cfg(test)]
mod tests;
