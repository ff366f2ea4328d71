//! `mfaas-isolation`: keeps builds and long functions from being felt by calls, on the mechanisms that this machine's kernel has.
//!
//! Programs ask it over a Unix socket to be *secondary*, or *primary*. It limits the secondary alone. Whatever happens to it, nothing
//! stays stopped: a watchdog lifts what it leaves, and a file, a signal and a command are kill switches.

mod bpf;
mod config;
mod controller;
mod egress;
mod groups;
mod machine;
mod members;
mod meters;
mod occupancy;
mod processes;
mod secondary;
mod socket;
mod store;
mod watchdog;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc;

use anyhow::Context as _;
use clap::Parser as _;
use mfaas_confine::SchedulingClass;
use mfaas_ident::BuildVersion;
use mfaas_startup::{Variables, write_ready_file};
use serde_json::{Map, Value};

use crate::config::{Config, GroupConfig};
use crate::controller::{Controller, Signals};
use crate::secondary::Secondary;
use crate::store::Store;
use crate::watchdog::Watchdog;

/// Keeps builds and long functions from being felt by calls; settings are read from the environment.
#[derive(Debug, clap::Parser)]
#[command(name = "mfaas-isolation", version = BuildVersion::this().as_str())]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Clone, Copy, clap::Subcommand)]
enum Command {
    /// Listens and limits; what it does without a command.
    Serve,
    /// Lifts every limit that a controller has left, and ends.
    Lift,
    /// Waits for the end of the controller that started it, and lets the secondary go on.
    #[command(name = watchdog::COMMAND, hide = true)]
    Watchdog,
}

#[expect(clippy::print_stderr, reason = "the one place where this program speaks to a terminal")]
fn main() -> ExitCode {
    match run(Arguments::parse().command.unwrap_or(Command::Serve)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("mfaas-isolation: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> anyhow::Result<()> {
    mfaas_startup::install_tls_provider()?;
    mfaas_startup::start_log()?;
    let cores = machine::cores().context("asking for the cores of this machine")?;
    let variables = Variables::of_process();
    match command {
        Command::Serve => serve(&Config::read(&variables, &cores)?, cores),
        Command::Lift => {
            let store = Store::open(variables.required("MFAAS_STATE_DIR")?.as_ref())?;
            let secondary = Secondary::recall(GroupConfig::read(&variables)?.naming(), store.members()?);
            Ok(secondary.lift(&cores).and(egress::remove(&store))?)
        }
        Command::Watchdog => watchdog::watch(&variables, &cores),
    }
}

fn serve(config: &Config, cores: mfaas_isolation::CoreSet) -> anyhow::Result<()> {
    // Its watchdog and what it starts inherit it: they must run when the machine has no core to spare.
    if let Err(error) = processes::set_class(std::process::id(), SchedulingClass::RealTime) {
        tracing::warn!(%error, "the controller is not in the real-time class, and may be late on a busy machine");
    }
    let signals = signals().context("listening for signals")?;
    let shown = show_metrics(config)?;
    let watchdog = Watchdog::start().context("starting the watchdog")?;
    let controller = Controller::start(config.clone(), cores, watchdog)?;
    let (asked, requests) = mpsc::channel();
    socket::listen(&config.socket, asked)
        .with_context(|| format!("MFAAS_ISOLATION_SOCKET: listening at {}", config.socket.display()))?;
    if let Some(file) = &config.ready_file {
        write_ready_file(file, shown).context("MFAAS_READY_FILE")?;
    }
    tracing::info!(socket = %config.socket.display(), %cores, "the isolation controller is up");
    controller.run(&requests, &signals)
}

fn signals() -> anyhow::Result<Signals> {
    let signals = Signals { stop: mfaas_startup::shutdown_flag()?, ..Signals::default() };
    signal_hook::flag::register(signal_hook::consts::SIGUSR1, Arc::clone(&signals.off))?;
    signal_hook::flag::register(signal_hook::consts::SIGUSR2, Arc::clone(&signals.on))?;
    Ok(signals)
}

/// Shows metrics if they are asked for; what the ready file says of it.
fn show_metrics(config: &Config) -> anyhow::Result<Map<String, Value>> {
    let names = (env!("CARGO_PKG_NAME"), BuildVersion::this().as_str());
    let shown = mfaas_process_metrics::show_at(config.metrics_listen, names, meters::describe)?;
    Ok(shown.map(|address| ("metrics".to_owned(), address.to_string().into())).into_iter().collect())
}
