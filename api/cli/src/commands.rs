//! The commands: one file each, with its help, what was typed turned into what is meant, and its
//! tests beside it.

mod allow;
mod audit;
mod backup;
mod bench;
mod check;
mod completions;
mod crates;
mod delete;
mod deploy;
mod dev;
mod doctor;
mod down;
mod explain;
mod graph;
mod invoke;
mod list;
mod login;
mod logs;
mod new;
mod node;
mod resource;
mod restore;
mod review;
mod rollback;
mod schedule;
mod status;
mod token;
mod trigger;
mod up;
mod usage;
mod verify;
mod versions;

use clap::CommandFactory as _;

use crate::failure::{Exit, Failure};
use crate::settings::{Context, Global};

/// Functions from Rust source, native and apart from each other.
#[derive(Debug, clap::Parser)]
#[command(name = "mfaas", version = mfaas_ident::BuildVersion::this().as_str(), max_term_width = 100, arg_required_else_help = true)]
#[command(
    after_help = "Exit codes: 0 done · 1 failed · 2 usage · 3 refused by policy · 4 sign in · 5 compile error\n\
    6 waiting for review · 7 function failed or over budget · 8 pending at --timeout · 9 verification failed · 130 interrupted"
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

impl Arguments {
    /// The options of every command, and the command.
    pub(crate) fn parts(self) -> (Global, Command) {
        (self.global, self.command)
    }
}

/// What can be asked for.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    New(new::New),
    Check(check::Check),
    Deploy(deploy::Deploy),
    Dev(dev::Dev),
    Invoke(invoke::Invoke),
    Logs(logs::Logs),
    List(list::List),
    Status(status::Status),
    Versions(versions::Versions),
    Graph(graph::Graph),
    Rollback(rollback::Rollback),
    Delete(delete::Delete),
    #[command(name = "crate")]
    Crates(crates::Crates),
    Review(review::Review),
    #[command(hide = true)]
    Allow(allow::Allow),
    Audit(audit::Audit),
    Node(node::Node),
    #[command(hide = true)]
    Unban(node::Unban),
    Resource(resource::Resource),
    Schedule(schedule::Schedule),
    Trigger(trigger::Trigger),
    Usage(usage::Usage),
    Token(token::Token),
    Login(login::Login),
    Verify(verify::Verify),
    Explain(explain::Explain),
    Doctor(doctor::Doctor),
    // Boxed: it has many more options than any other.
    Up(Box<up::Up>),
    Down(down::Down),
    Backup(backup::Backup),
    Restore(restore::Restore),
    Bench(bench::Bench),
    Completions(completions::Completions),
}

impl Command {
    /// Whether the profile is read: a damaged one must not stand in the way of repairing it.
    pub(crate) fn needs_profile(&self) -> bool {
        match self {
            Self::Audit(command) => command.needs_profile(),
            Self::Check(command) => command.needs_profile(),
            Self::New(_)
            | Self::Explain(_)
            | Self::Up(_)
            | Self::Down(_)
            | Self::Backup(_)
            | Self::Restore(_)
            | Self::Bench(_)
            | Self::Completions(_) => false,
            Self::Deploy(_)
            | Self::Dev(_)
            | Self::Invoke(_)
            | Self::Logs(_)
            | Self::List(_)
            | Self::Status(_)
            | Self::Versions(_)
            | Self::Graph(_)
            | Self::Rollback(_)
            | Self::Delete(_)
            | Self::Crates(_)
            | Self::Review(_)
            | Self::Allow(_)
            | Self::Node(_)
            | Self::Unban(_)
            | Self::Resource(_)
            | Self::Schedule(_)
            | Self::Trigger(_)
            | Self::Usage(_)
            | Self::Token(_)
            | Self::Login(_)
            | Self::Verify(_)
            | Self::Doctor(_) => true,
        }
    }

    /// Does it.
    pub(crate) fn run(self, context: &Context) -> Result<Exit, Failure> {
        match self {
            Self::New(command) => command.run(context),
            Self::Check(command) => block_on(command.run(context)),
            Self::Deploy(command) => block_on(command.run(context)),
            // It has to leave things behind in order: Ctrl-C is its own to take.
            Self::Dev(command) => runtime()?.block_on(command.run(context)),
            Self::Invoke(command) => block_on(command.run(context)),
            Self::Logs(command) => block_on(command.run(context)),
            Self::List(command) => block_on(command.run(context)),
            Self::Status(command) => block_on(command.run(context)),
            Self::Versions(command) => block_on(command.run(context)),
            Self::Graph(command) => block_on(command.run(context)),
            Self::Rollback(command) => block_on(command.run(context)),
            Self::Delete(command) => block_on(command.run(context)),
            Self::Crates(command) => block_on(command.run(context)),
            Self::Review(command) => block_on(command.run(context)),
            Self::Allow(command) => block_on(command.run(context)),
            Self::Audit(command) => block_on(command.run(context)),
            Self::Node(command) => block_on(command.run(context)),
            Self::Unban(command) => block_on(command.run_by_former_name(context)),
            Self::Resource(command) => block_on(command.run(context)),
            Self::Schedule(command) => block_on(command.run(context)),
            Self::Trigger(command) => block_on(command.run(context)),
            Self::Usage(command) => block_on(command.run(context)),
            Self::Token(command) => block_on(command.run(context)),
            Self::Login(command) => block_on(command.run(context)),
            Self::Verify(command) => block_on(command.run(context)),
            Self::Explain(command) => command.run(context),
            Self::Doctor(command) => block_on(command.run(context)),
            Self::Up(command) => command.run(context),
            Self::Down(command) => command.run(context),
            Self::Backup(command) => command.run(context),
            Self::Restore(command) => command.run(context),
            Self::Bench(command) => command.run(context),
            Self::Completions(command) => command.run(context, &mut Arguments::command()),
        }
    }
}

/// Runs a command that talks over the network; Ctrl-C ends it.
fn block_on(command: impl Future<Output = Result<Exit, Failure>>) -> Result<Exit, Failure> {
    runtime()?.block_on(async {
        tokio::select! {
            result = command => result,
            _ = tokio::signal::ctrl_c() => Err(Failure::Interrupted),
        }
    })
}

fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Failure::Local(format!("cannot start the runtime: {e}")))
}

#[cfg(test)]
mod tests;
