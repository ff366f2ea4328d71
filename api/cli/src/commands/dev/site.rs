//! The installation that packages are deployed to: the one that runs on this machine, or one that is started for us and stopped at
//! the end. Never one of another machine: every change goes live there.

use std::process::Stdio;

use mfaas_wire::{FunctionView, Page};
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};

use crate::failure::{Exit, Failure};
use crate::settings::Context;

/// Where we deploy to.
pub(super) struct Site {
    /// With the server and the token of it.
    pub(super) context: Context,
    /// Whether it is ours to stop.
    is_ours: bool,
}

/// Asks the server of the settings, and starts an installation where none answers and none was named.
pub(super) async fn find_or_start(context: &Context) -> Result<Site, Failure> {
    let found = match context.client() {
        Ok(client) if !client.is_of_this_machine() => {
            return Err(Failure::Usage(format!(
                "{} is another machine: `mfaas dev` puts every change live at once, which it does on this one alone",
                client.server()
            )));
        }
        Ok(client) => client.get::<Page<FunctionView>>("/v1/functions?limit=1").await.map(|_| ()),
        Err(failure) => Err(failure),
    };
    match found {
        Ok(()) => return Ok(Site { context: Context::of(context.global.clone(), true)?, is_ours: false }),
        // Of an installation that was named, that it does not answer is the answer.
        Err(failure) if context.global.server.is_some() || context.global.token.is_some() => {
            return Err(failure);
        }
        Err(Failure::Unreachable { .. } | Failure::SignIn(_)) => {}
        Err(failure) => return Err(failure),
    }
    context.screen.note("no installation answers: starting one, which stops with this command");
    let started = tokio::select! {
        result = mfaas(&["up", "--detach", "--http-port", "0", "--node-port", "0", "--ingress-port", "0"]) => result,
        _ = told_to_stop() => Err(Failure::Interrupted),
    };
    let context = started.and_then(|()| Context::of(context.global.clone(), true));
    match context {
        Ok(context) => Ok(Site { context, is_ours: true }),
        Err(failure) => {
            mfaas(&["down"]).await?;
            Err(failure)
        }
    }
}

impl Site {
    /// Stops it, if it was started for us.
    pub(super) async fn leave(self) -> Result<(), Failure> {
        if self.is_ours { mfaas(&["down"]).await } else { Ok(()) }
    }
}

/// Waits for Ctrl-C or SIGTERM.
pub(super) async fn told_to_stop() {
    match signal(SignalKind::terminate()) {
        Ok(mut terminated) => tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            _ = terminated.recv() => {}
        },
        Err(_) => _ = tokio::signal::ctrl_c().await,
    }
}

/// Runs a command of this program, for the home of `MFAAS_HOME` or the usual one.
async fn mfaas(arguments: &[&str]) -> Result<(), Failure> {
    let own = std::env::current_exe().map_err(|error| Failure::Local(error.to_string()))?;
    let status = Command::new(&own)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .await
        .map_err(Failure::io("cannot start", &own))?;
    // It has told why on standard error.
    if status.success() { Ok(()) } else { Err(Failure::Told(Exit::of_status(status))) }
}
