//! The local API: programs of this machine that call functions through a ring instead of HTTP.
//!
//! It is a Unix socket that only this node's user opens, off unless configured. A client names functions, gets a ring
//! ([`mfaas_ring::local_api`]), and one thread turns what all clients submit into calls of the dispatcher. A name is resolved for each
//! call, so it follows its alias; answers go back in the order of submission.
//!
//! Whoever opens the socket is a caller of its own, `local`: it calls what is public, and what the operator grants it by name
//! ([`Host`]). Nothing else is there for it.
//!
//! A client is as hostile as a worker: its frames are decoded before a function sees them, its ring is given up at the first
//! breach, and what it may hold is bounded ([`socket::CLIENTS_MAX`], [`client::SLOTS`]). The thread must never wait for one client.

mod client;
mod inbox;
mod refusal;
mod socket;

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use mfaas_ring::{RingError, SPIN_ROUNDS, wait_any};
use tokio::sync::watch;

pub(crate) use client::Host;
pub(crate) use socket::LocalSocket;

use client::Client;
use inbox::{Event, Inbox};

/// How often it is looked whether clients still live.
const LOOK: Duration = Duration::from_millis(200);
/// How long the thread sleeps without any client.
const IDLE: Duration = Duration::from_secs(5);
/// Calls on their way get this long when the node stops: longer than the dispatcher gives accepted calls.
const DRAIN_WAIT_MAX: Duration = Duration::from_millis(6_500);

/// Serves until `stop` turns true, then lets what is on its way finish.
pub(crate) async fn serve(
    socket: LocalSocket,
    host: Host,
    stop: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    let inbox = Arc::new(Inbox::new());
    let event_loop = EventLoop { inbox: Arc::clone(&inbox), host };
    let thread = std::thread::Builder::new()
        .name("local-api".to_owned())
        .spawn(move || event_loop.run())
        .context("starting the thread of the local API")?;
    let mut ended = tokio::task::spawn_blocking(move || thread.join());
    tokio::select! {
        () = socket.receive(&inbox, stop) => inbox.post(Event::Stop),
        _ = &mut ended => anyhow::bail!("the thread of the local API ended by itself"),
    }
    anyhow::ensure!(matches!(ended.await, Ok(Ok(()))), "the thread of the local API did not end well");
    Ok(())
}

/// The thread's own.
struct EventLoop {
    inbox: Arc<Inbox>,
    host: Host,
}

impl EventLoop {
    fn run(self) {
        self.serve();
        self.inbox.close();
    }

    fn serve(&self) {
        let (mut clients, mut events): (Vec<Client>, _) = (Vec::new(), Vec::new());
        let mut looked = Instant::now();
        let mut stop_by = None;
        loop {
            self.inbox.take(&mut events);
            for event in events.drain(..) {
                match event {
                    Event::Enters(client) => clients.push(*client),
                    Event::Stop => stop_by = Some(Instant::now() + DRAIN_WAIT_MAX),
                }
            }
            clients.iter_mut().for_each(|client| self.serve_client(client));
            if looked.elapsed() >= LOOK {
                clients.iter_mut().for_each(Client::look);
                metrics::gauge!("mfaas_local_api_clients").set(clients.len() as f64);
                looked = Instant::now();
            }
            clients.retain(|client| !client.has_left());
            let busy = clients.iter().any(Client::is_waiting);
            if stop_by.is_some_and(|end| !busy || Instant::now() >= end) {
                return;
            }
            if let Err(error) = self.rest(&clients, busy) {
                // Without a wait the thread still looks, only more seldom.
                tracing::error!(%error, "the local API cannot wait");
                std::thread::sleep(LOOK);
            }
        }
    }

    fn serve_client(&self, client: &mut Client) {
        if let Err(error) = client.run(&self.host) {
            tracing::warn!(client = client.number(), %error, "a client of the local API is disconnected");
            metrics::counter!("mfaas_local_api_violations_total").increment(1);
        }
    }

    /// Waits until there is something to do: looks for a while if an answer is expected, then sleeps.
    fn rest(&self, clients: &[Client], busy: bool) -> Result<(), RingError> {
        let ready = || self.inbox.has_some() || clients.iter().any(Client::wants_something);
        for _ in 0..if busy { SPIN_ROUNDS } else { 1 } {
            if ready() {
                return Ok(());
            }
            std::hint::spin_loop();
        }
        let mut bells = vec![self.inbox.word.bell()];
        bells.extend(clients.iter().map(Client::bell));
        wait_any(&bells, if clients.is_empty() { IDLE } else { LOOK }, ready)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
