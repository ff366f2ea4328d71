//! The installation that packages are deployed to: the one that runs on this machine, or one that is started for us and stopped at
//! the end. Never one of another machine: every change goes live there.

use std::path::Path;
use std::process::Stdio;

use mfaas_supervisor::is_supervised;
use mfaas_wire::{FunctionView, Page};
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};

use crate::commands::up::home_of;
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
    // As `up` and `down` find it, which inherit the variable.
    let home = home_of(std::env::var_os("MFAAS_HOME").as_deref().map(Path::new))?;
    if is_supervised(&home)? {
        return Err(Failure::Usage(format!(
            "the installation of {} runs, and no token of yours opens it: name its profile (--profile-file)",
            home.root().display()
        )));
    }
    context.screen.note("no installation answers: starting one, which stops with this command");
    let site = Site { context: context.clone(), is_ours: true };
    let mut up =
        site.command(&["up", "--detach", "--http-port", "0", "--node-port", "0", "--ingress-port", "0"])?;
    let started = tokio::select! {
        result = ended(&mut up) => result,
        () = told_to_stop() => {
            // What it has started is there when it has ended.
            let _ = ended(&mut up).await;
            Err(Failure::Interrupted)
        }
    };
    match started.and_then(|()| Context::of(context.global.clone(), true)) {
        Ok(context) => Ok(Site { context, ..site }),
        Err(failure) => {
            site.leave().await?;
            Err(failure)
        }
    }
}

impl Site {
    /// Stops it, if it was started for us.
    pub(super) async fn leave(self) -> Result<(), Failure> {
        if !self.is_ours {
            return Ok(());
        }
        ended(&mut self.command(&["down"])?).await
    }

    /// A command of this program at work, for the home of `MFAAS_HOME` or the usual one. Ctrl-C is for us alone.
    fn command(&self, arguments: &[&str]) -> Result<Child, Failure> {
        let own = std::env::current_exe().map_err(|error| Failure::Local(error.to_string()))?;
        let mut command = Command::new(&own);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).process_group(0);
        if let Some(profile) = &self.context.global.profile_file {
            command.arg("--profile-file").arg(profile);
        }
        command.spawn().map_err(Failure::io("cannot start", &own))
    }
}

/// Waits for Ctrl-C, SIGTERM, or the end of the terminal.
pub(super) async fn told_to_stop() {
    let (Ok(mut terminated), Ok(mut hung_up)) =
        (signal(SignalKind::terminate()), signal(SignalKind::hangup()))
    else {
        let _ = tokio::signal::ctrl_c().await;
        return;
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminated.recv() => {}
        _ = hung_up.recv() => {}
    }
}

/// Waits for the end of a command; it has told why on standard error if it was not a good one.
async fn ended(command: &mut Child) -> Result<(), Failure> {
    let status = command.wait().await.map_err(|error| Failure::Local(error.to_string()))?;
    if status.success() { Ok(()) } else { Err(Failure::Told(Exit::of_status(status))) }
}
