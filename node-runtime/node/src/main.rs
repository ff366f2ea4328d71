//! `mfaas-node`: serves functions. It receives signed serving sets, verifies everything itself,
//! loads what passed into worker processes, and answers invocations over HTTP.
//!
//! Must never load what is unsigned, revoked, of another toolchain or interface, or named by a
//! serving set that is expired or older than one it ever saw; must never run a function in this
//! process; must never lose or repeat the answer of an accepted call.

mod agent;
mod config;
mod cores;
mod directives;
mod function_tree;
mod grant;
mod image;
mod ingress;
mod isolation;
mod join;
mod limiter;
mod local_api;
mod logs;
mod meters;
mod node;
mod primary;
mod recent;
mod refused;
mod renewal;
mod serving;
mod state;
mod upstream;
mod usage;

use std::path::PathBuf;

use anyhow::Context as _;
use clap::{Parser, Subcommand};
use mfaas_startup::Variables;
use tokio::runtime::Runtime;

use config::{Config, Membership};
use cores::Cores;

/// Serves functions on this machine.
#[derive(Debug, Parser)]
#[command(name = "mfaas-node", version = mfaas_ident::BuildVersion::this().as_str())]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Follow the server and answer invocations (the default).
    Serve,
    /// Trade a join token for this node's certificate.
    Join {
        /// The file with the token that `mfaas node join-token` printed; `-` is standard input.
        #[arg(long, value_name = "FILE")]
        token_file: PathBuf,
    },
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    mfaas_startup::start_log_here()?;
    mfaas_startup::install_tls_provider()?;
    let variables = Variables::of_process();
    match arguments.command.unwrap_or(Command::Serve) {
        Command::Serve => {
            let config = Config::read(&variables)?;
            // Before the first thread, which inherits them.
            let cores = Cores::set_apart(&config.workers.cores).context("MFAAS_WORKER_CORES")?;
            mfaas_startup::start_sending()?;
            runtime()?.block_on(node::serve(config, cores))
        }
        Command::Join { token_file } => {
            runtime()?.block_on(join::join(&Membership::read(&variables)?, &token_file))
        }
    }
}

fn runtime() -> anyhow::Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .thread_name("agent")
        .enable_all()
        .build()
        .context("starting the asynchronous runtime")
}
