//! `mfaas dev`: packages that are deployed again whenever a file of theirs changes, by the road of every deployment, on the real
//! programs of this machine. Nothing is simulated: what it refuses, a site refuses.

mod packages;
mod relay;
mod resources;
mod site;
mod watch;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::client::Client;
use crate::commands::deploy::Deploy;
use crate::commands::logs;
use crate::failure::{Exit, Failure};
use crate::settings::Context;

use packages::Package;
use relay::Relay;
use watch::Watch;

/// Packages at once: as many as one call token may name functions.
const PACKAGES_MAX: usize = mfaas_ident::CallScope::NAMES_MAX;

/// How often the functions' log lines are asked for.
const LOGS_EVERY: Duration = Duration::from_millis(500);

/// Work on functions: deploy packages again whenever a file of theirs changes, and show calls, times, log lines and refusals.
///
/// Uses the installation that runs on this machine, or starts one and stops it at the end. Makes and grants what the packages bind.
///
/// For example: `mfaas dev search rank`
#[derive(Debug, clap::Args)]
pub(crate) struct Dev {
    /// The directories with Cargo.toml, 32 at most.
    #[arg(value_name = "PATH", default_value = ".")]
    paths: Vec<PathBuf>,
    /// Port on 127.0.0.1 at which the functions can be called without a token, and calls are shown; 0 takes any.
    #[arg(long, value_name = "PORT", default_value_t = 7900)]
    port: u16,
    /// Where the files lie whose bytes the assets of these names are; `assets` beside each package if absent.
    #[arg(long, value_name = "DIR")]
    assets: Option<PathBuf>,
}

impl Dev {
    /// Works until Ctrl-C.
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        if self.paths.len() > PACKAGES_MAX {
            return Err(Failure::Usage(format!(
                "{} packages, the limit is {PACKAGES_MAX}",
                self.paths.len()
            )));
        }
        let assets = self.assets.as_deref();
        let packages =
            self.paths.iter().map(|path| Package::at(path, assets)).collect::<Result<Vec<_>, _>>()?;
        packages::demand_one_of_each(&packages)?;
        let (relay, watch) = (Relay::bind(self.port).await?, Watch::of(&packages)?);
        let site = site::find_or_start(context).await?;
        let ended = tokio::select! {
            result = work(&site.context, packages, watch, relay) => result,
            _ = site::told_to_stop() => Ok(Exit::Ok),
        };
        site.leave().await?;
        ended
    }
}

async fn work(
    context: &Context,
    mut packages: Vec<Package>,
    mut watch: Watch,
    relay: Relay,
) -> Result<Exit, Failure> {
    let client = context.client()?;
    let names: Vec<_> = packages.iter().map(|package| package.name.clone()).collect();
    for name in &names {
        context.screen.note(&format!("{name} is called at {}", relay.url(context, name)));
    }
    let logs = show_logs(context, &client, &names);
    let deployments = async {
        let mut since = Instant::now();
        loop {
            for index in packages::in_order(&packages) {
                deploy(context, &client, &mut packages[index], since).await;
            }
            since = watch.change().await?;
        }
    };
    tokio::select! {
        result = relay.serve(context, names.clone()) => result,
        result = logs => result,
        result = deployments => result,
    }
}

/// Deploys a package if it is another one than before. What goes wrong is told and ends nothing: the next change may mend it.
async fn deploy(context: &Context, client: &Client, package: &mut Package, since: Instant) {
    let Some(bindings) = package.changed_bindings(&context.screen) else { return };
    let deployed = async {
        resources::provide(context, client, (&package.assets, &bindings)).await?;
        Deploy::of(&package.path).deploy(context, &mfaas_trace::new_trace(), since).await
    };
    match deployed.await {
        Ok(Exit::Ok) => package.is_served = true,
        Ok(_) if package.is_served => context
            .screen
            .note(&format!("the version of {} that was served before goes on answering", package.name)),
        Ok(_) => {}
        Err(failure) => {
            context.screen.failure(&failure);
            // The same files may pass the next time: it was not they that failed.
            package.forget_upload();
        }
    }
}

/// Shows what the functions write, from now on.
async fn show_logs(
    context: &Context,
    client: &Client,
    names: &[mfaas_ident::FunctionName],
) -> Result<Exit, Failure> {
    let mut places = Vec::new();
    for name in names {
        places.push((name, logs::end(client, name).await?));
    }
    let mut is_away = false;
    loop {
        let shown = async {
            for (name, after) in &mut places {
                *after = logs::show_after(context, client, name, *after).await?;
            }
            Ok::<(), Failure>(())
        };
        match shown.await {
            Ok(()) => is_away = false,
            // The server may be back soon; it is told once that it is away.
            Err(failure) if !std::mem::replace(&mut is_away, true) => context.screen.failure(&failure),
            Err(_) => {}
        }
        tokio::time::sleep(LOGS_EVERY).await;
    }
}
