//! Waiting for what a node asks next.

use std::time::{Duration, Instant};

use tokio::io::BufReader;
use tokio::net::unix::OwnedReadHalf;
use tokio::sync::Notify;

/// How long it looks for the next message before it sleeps: about as long as waking takes.
const LOOK: Duration = Duration::from_micros(50);

/// Waits until there is something to read, or the node has left. For a while after each message of the node, and after each that it
/// was `told`, it looks, and lets other tasks and other processes run between two looks.
pub(crate) async fn for_message(reader: &BufReader<OwnedReadHalf>, told: &Notify) {
    loop {
        let until = Instant::now() + LOOK;
        while Instant::now() < until {
            if !reader.buffer().is_empty() || is_readable(reader).await {
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
