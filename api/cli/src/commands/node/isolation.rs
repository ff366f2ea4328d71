//! `mfaas node isolation`: the isolation controller of this machine is asked, and told; with `--site` the server is, which tells all
//! of them.

mod site;

use std::path::{Path, PathBuf};

use mfaas_isolation_client::{Change, ClientError, Limit, Mode, Request, Response, Role, Status, ask};
use mfaas_rules::{Code, codes};
use mfaas_wire::{IsolationSettings, Problem};

use crate::commands::up::home_of;
use crate::failure::{Exit, Failure};
use crate::screen::{mebibytes, table};
use crate::settings::Context;

pub(super) use site::in_short;

/// The word that takes a limit away.
const NONE: &str = "none";

/// Show or change how builds and long functions on this machine are kept from being felt by calls.
///
/// For example: `mfaas node isolation status`, or for all machines `mfaas node isolation status --site`
#[derive(Debug, clap::Args)]
pub(crate) struct Isolation {
    /// The socket of the isolation controller; that of this machine's home when absent.
    #[arg(long, value_name = "FILE", env = "MFAAS_ISOLATION_SOCKET", global = true)]
    socket: Option<PathBuf>,
    /// Ask the server instead, for all machines of the site: each puts what is set into force within ten seconds, once.
    #[arg(long, global = true)]
    site: bool,
    #[command(subcommand)]
    command: IsolationCommand,
}

#[derive(Debug, Clone, PartialEq, Eq, clap::Subcommand)]
enum IsolationCommand {
    /// Show cores, memory, who is primary and secondary, and which mechanisms this machine has.
    ///
    /// For example: `mfaas node isolation status`
    Status,
    /// Lift every limit at once, and keep them lifted: the kill switch.
    ///
    /// For example: `mfaas node isolation off`
    Off,
    /// Limit again.
    ///
    /// For example: `mfaas node isolation on`
    On,
    /// Change settings, from now on and after a restart; what is not named stays.
    ///
    /// For example: `mfaas node isolation set --mode blind --buffer-cores 2`
    Set {
        /// How the secondary is kept from CPU time: idle-class, real-time or blind.
        #[arg(long, value_name = "MODE")]
        mode: Option<Mode>,
        /// Cores that are kept idle in the mode blind.
        #[arg(long, value_name = "N")]
        buffer_cores: Option<u32>,
        /// Bytes of memory that the secondary may have, or none for all.
        #[arg(long, value_name = "BYTES", value_parser = memory)]
        memory: Option<Limit>,
    },
}

fn memory(text: &str) -> Result<Limit, &'static str> {
    match text {
        NONE => Ok(Limit::None),
        number => number.parse().map(Limit::At).map_err(|_| "expected a number of bytes, or none"),
    }
}

impl Isolation {
    /// Asks and shows.
    pub(super) async fn run(&self, context: &Context) -> Result<Exit, Failure> {
        if self.site {
            return site::run(change(&self.command)?, context, &context.client()?).await;
        }
        let socket = match &self.socket {
            Some(socket) => socket.clone(),
            None => home_of(None)?.isolation_socket(),
        };
        let (request, done) = match &self.command {
            IsolationCommand::Status => (Request::Status, ""),
            IsolationCommand::Off => (Request::Off, "every limit is lifted, until `mfaas node isolation on`"),
            IsolationCommand::On => (Request::On, "the secondary is limited again"),
            IsolationCommand::Set { mode, buffer_cores, memory } => {
                let change = Change {
                    mode: *mode,
                    buffer_cores: *buffer_cores,
                    memory_bytes: *memory,
                    ..Change::default()
                };
                if change == Change::default() {
                    return Err(no_setting());
                }
                (Request::Set(change), "changed")
            }
        };
        match tell(&socket, &request)? {
            Response::Status(status) => context.screen.result(&*status, || drawing(&status))?,
            _ => context.screen.result(&serde_json::json!({ "done": true }), || done.to_owned())?,
        }
        Ok(Exit::Ok)
    }
}

fn no_setting() -> Failure {
    Failure::Usage("name a setting: --mode, --buffer-cores or --memory".to_owned())
}

/// What a command changes for the site; `None` for the one that only asks.
fn change(command: &IsolationCommand) -> Result<Option<IsolationSettings>, Failure> {
    let none = IsolationSettings::default();
    let change = match command {
        IsolationCommand::Status => return Ok(None),
        IsolationCommand::Off => IsolationSettings { off: Some(true), ..none },
        IsolationCommand::On => IsolationSettings { off: Some(false), ..none },
        IsolationCommand::Set { mode, buffer_cores, memory } => {
            let memory_bytes = memory.map(|limit| match limit {
                Limit::None => 0,
                Limit::At(bytes) => bytes,
            });
            let change =
                IsolationSettings { mode: *mode, buffer_cores: *buffer_cores, memory_bytes, ..none.clone() };
            if change == none {
                return Err(no_setting());
            }
            change
        }
    };
    Ok(Some(change))
}

/// The controller's answer; what it refuses has its code.
pub(crate) fn tell(socket: &Path, request: &Request) -> Result<Response, Failure> {
    let problem = |code: Code, text: &str| Failure::Problem(Box::new(Problem::new(code, text)));
    ask(socket, request).map_err(|error| match error {
        ClientError::Refused(refused) => {
            problem(Code::parse(&refused.code).unwrap_or(codes::MF1104), &refused.reason)
        }
        ClientError::Away { .. } | ClientError::Answer { .. } => problem(codes::MF1105, &error.to_string()),
    })
}

fn drawing(status: &Status) -> String {
    let cores = &status.cores;
    let secondary = if cores.secondary.is_empty() { "none: it stands still" } else { &cores.secondary };
    let number = |bytes: Option<u64>| bytes.map_or("-".to_owned(), mebibytes);
    let mut facts = vec![
        row(
            "limits",
            if status.off { "lifted: `mfaas node isolation on` brings them back" } else { "in force" },
        ),
        row("mode", status.mode.as_str()),
        row(
            "settings of the site",
            &status.revision.map_or("-".to_owned(), |revision| format!("revision {revision}")),
        ),
        row("cores", &cores.all),
        row("of the secondary", secondary),
    ];
    if let Some(idle) = cores.idle {
        facts.push(row("idle at the last look", &format!("{idle}, {} are kept idle", cores.buffer)));
    }
    facts.extend([
        row(
            "memory of the secondary",
            &format!("{} of {}", number(status.memory_bytes), number(status.memory_bytes_max)),
        ),
        row("memory left", &mebibytes(status.available_bytes)),
        row("ended for want of memory", &status.killed.to_string()),
    ]);
    let role = |role| match role {
        Role::Primary => "primary",
        Role::Secondary => "secondary",
    };
    let members: Vec<_> = status
        .members
        .iter()
        .map(|member| {
            vec![
                member.pid.to_string(),
                mfaas_ident::sanitise_line(&member.name, 64),
                role(member.role).to_owned(),
            ]
        })
        .collect();
    let mechanisms: Vec<_> = status
        .mechanisms
        .iter()
        .map(|mechanism| {
            let by = mechanism.by.as_deref().unwrap_or("-");
            row3(&mechanism.name, by, mechanism.missing.as_deref().unwrap_or(""))
        })
        .collect();
    let mut parts = vec![table(&["", ""], &facts)];
    if !members.is_empty() {
        parts.push(table(&["process", "program", "is"], &members));
    }
    parts.push(table(&["mechanism", "by", "missing"], &mechanisms));
    parts.join("\n\n")
}

fn row(name: &str, value: &str) -> Vec<String> {
    vec![name.to_owned(), value.to_owned()]
}

fn row3(name: &str, by: &str, missing: &str) -> Vec<String> {
    [name, by, missing].map(|text| mfaas_ident::sanitise_line(text, 300)).to_vec()
}

#[cfg(test)]
mod tests;
