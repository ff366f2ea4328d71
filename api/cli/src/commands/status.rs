//! `mfaas status`: how a function is served, or how this machine's programs are.

use std::path::PathBuf;

use futures::future::join_all;
use mfaas_ident::{Bindings, FunctionName};
use mfaas_supervisor::health::{self, Trouble};
use mfaas_supervisor::{Home, Process, ProgramState, State, is_supervised};
use mfaas_wire::{DeploymentView, Endpoint, FunctionView, Page, VersionView, bindings_text};
use serde::Serialize;

use crate::commands::up::home_of;
use crate::failure::{Exit, Failure};
use crate::screen::table;
use crate::settings::Context;

/// Show how a function is served; without a name, how the programs of this machine are.
///
/// For example: `mfaas status hello`
#[derive(Debug, clap::Args)]
pub(crate) struct Status {
    /// The function.
    #[arg(value_name = "NAME")]
    name: Option<FunctionName>,
    /// The home that was given to `mfaas up`.
    #[arg(long, value_name = "DIR", env = "MFAAS_HOME", conflicts_with = "name")]
    home: Option<PathBuf>,
}

/// Everything about one function at one moment.
#[derive(Debug, Serialize)]
struct FunctionStatus {
    function: FunctionView,
    /// What data the live version may reach.
    #[serde(skip_serializing_if = "Bindings::is_empty")]
    bindings: Bindings,
    endpoints: Vec<Endpoint>,
    deployments: Vec<DeploymentView>,
}

/// The programs of this machine at one moment.
#[derive(Debug, Serialize)]
struct MachineStatus<'a> {
    #[serde(flatten)]
    state: &'a State,
    /// In the order of `programs`.
    conditions: Vec<Condition>,
}

/// How a program is: by its own word where it answers questions, by the kernel's where it does not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "is", content = "why")]
enum Condition {
    /// It says that it can work.
    Ready,
    /// It works, without what is listed.
    Degraded(Vec<Trouble>),
    /// It says why it cannot, or does not answer.
    NotReady(String),
    /// Its process runs; nobody can ask it.
    Runs,
    /// A signal or a debugger stopped its process.
    Stopped,
    /// Its process has ended.
    Gone,
}

impl Condition {
    /// Of a program that answers, without what is listed.
    fn of(troubles: Vec<Trouble>) -> Self {
        if troubles.is_empty() { Self::Ready } else { Self::Degraded(troubles) }
    }

    /// Whether nothing is to be done.
    fn is_well(&self) -> bool {
        matches!(self, Self::Ready | Self::Runs)
    }

    /// In a table; the reason is told below it.
    fn word(&self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Degraded(_) => "degraded",
            Self::NotReady(_) => "not ready",
            Self::Runs => "runs",
            Self::Stopped => "stopped",
            Self::Gone => "gone",
        }
    }
}

/// How many of the newest deployments are shown.
const DEPLOYMENTS_SHOWN: usize = 5;

impl Status {
    /// Asks and shows.
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        match &self.name {
            Some(name) => of_function(context, name).await,
            None => self.of_machine(context).await,
        }
    }

    /// What the supervisor says, the kernel, and each program that can be asked.
    async fn of_machine(&self, context: &Context) -> Result<Exit, Failure> {
        let home = home_of(self.home.as_deref())?;
        let state = State::load(&home)?;
        let Some(state) = state.filter(|_| is_supervised(&home).unwrap_or(false)) else {
            return Err(nothing_runs(&home)?);
        };
        let http = health::client()?;
        let asked = state.programs.iter().map(|program| condition(&http, &state, program));
        let mut conditions = join_all(asked).await;
        let names: Vec<&str> = state.programs.iter().map(|program| program.name.as_str()).collect();
        move_to_builder(&names, &mut conditions);
        let status = MachineStatus { state: &state, conditions };
        context.screen.result(&status, || machine(&status))?;
        Ok(if status.conditions.iter().all(Condition::is_well) { Exit::Ok } else { Exit::Failed })
    }
}

/// Nothing, or programs whose supervisor was killed.
fn nothing_runs(home: &Home) -> Result<Failure, Failure> {
    let left = State::load(home)?.map_or(0, |state| state.alive().count());
    let root = home.root().display();
    Ok(Failure::Local(match left {
        0 => format!("nothing runs in {root}; `mfaas up --detach` starts it"),
        _ => format!(
            "the supervisor of {root} is gone, {left} programs still run; `mfaas up --detach` takes over"
        ),
    }))
}

async fn condition(http: &reqwest::Client, state: &State, program: &ProgramState) -> Condition {
    match program.process() {
        Process::Gone => return Condition::Gone,
        Process::Stopped => return Condition::Stopped,
        Process::Runs => {}
    }
    match state.addresses.of(&program.name) {
        Some(address) => health::ask(http, &format!("http://{address}"))
            .await
            .map_or_else(Condition::NotReady, Condition::of),
        None => Condition::Runs,
    }
}

/// Nobody can ask a builder: the server knows how builders are, and what it says of them is shown with the one that runs here.
fn move_to_builder(names: &[&str], conditions: &mut [Condition]) {
    let Some(builder) = names.iter().position(|name| *name == "builder") else { return };
    if conditions.get(builder) != Some(&Condition::Runs) {
        return;
    }
    for condition in &mut *conditions {
        let Condition::Degraded(troubles) = condition else { continue };
        let (of_builders, rest): (Vec<_>, Vec<_>) =
            std::mem::take(troubles).into_iter().partition(|trouble| trouble.part == "builders");
        *condition = Condition::of(rest);
        if !of_builders.is_empty() {
            conditions[builder] = Condition::Degraded(of_builders);
            return;
        }
    }
}

fn machine(MachineStatus { state, conditions }: &MachineStatus<'_>) -> String {
    let rows: Vec<Vec<String>> = state
        .programs
        .iter()
        .zip(conditions)
        .map(|(program, condition)| {
            let listens = program.ready.as_ref().map_or(String::new(), brief);
            let restarts = program.restarts.to_string();
            vec![
                program.name.clone(),
                program.pid.to_string(),
                user(program.uid),
                condition.word().to_owned(),
                restarts,
                listens,
            ]
        })
        .collect();
    let reasons: String = state
        .programs
        .iter()
        .zip(conditions)
        .filter_map(|(program, condition)| match condition {
            Condition::NotReady(why) => Some(format!("{} is not ready: {why}\n", program.name)),
            Condition::Degraded(troubles) => {
                Some(troubles.iter().map(|t| format!("{} runs, degraded: {t}\n", program.name)).collect())
            }
            Condition::Stopped => {
                Some(format!("{} was stopped: `kill -CONT {}` lets it go on\n", program.name, program.pid))
            }
            Condition::Gone => Some(format!("{} has ended and is being started again\n", program.name)),
            Condition::Ready | Condition::Runs => None,
        })
        .collect();
    let privileges = if state.one_uid {
        "one uid: every program runs as the same user"
    } else {
        "each program has its own user"
    };
    let toolchain = state.toolchain.as_deref().map_or("-", |id| id.get(..12).unwrap_or(id));
    format!(
        "{}\n{reasons}mfaas {} · {} · {privileges} · toolchain {toolchain}",
        table(&["program", "pid", "user", "state", "restarts", "says"], &rows),
        state.version,
        overall(state, conditions),
    )
}

fn overall(state: &State, conditions: &[Condition]) -> String {
    let works = |condition: &Condition| condition.is_well() || matches!(condition, Condition::Degraded(_));
    if conditions.iter().all(Condition::is_well) {
        phase(state)
    } else if conditions.iter().all(works) {
        "degraded".to_owned()
    } else {
        "not ready".to_owned()
    }
}

fn phase(state: &State) -> String {
    serde_json::to_value(state.phase)
        .ok()
        .and_then(|value| value.as_str().map(str::to_owned))
        .unwrap_or_default()
}

/// What a ready file says, without the pid that is in its own column.
fn brief(ready: &serde_json::Value) -> String {
    let fields =
        ready.as_object().into_iter().flatten().filter(|(key, _)| *key != "pid" && *key != "worker_pids");
    let texts: Vec<String> = fields
        .map(|(key, value)| {
            format!("{key} {}", value.as_str().map_or_else(|| value.to_string(), str::to_owned))
        })
        .collect();
    texts.join(", ")
}

/// The user's name, or the number where the system has none.
fn user(uid: u32) -> String {
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let wanted = uid.to_string();
    passwd
        .lines()
        .find(|line| line.split(':').nth(2) == Some(wanted.as_str()))
        .and_then(|line| line.split(':').next())
        .map_or(wanted.clone(), str::to_owned)
}

async fn of_function(context: &Context, name: &FunctionName) -> Result<Exit, Failure> {
    let client = context.client()?;
    let endpoints: Page<Endpoint> = client.get(&format!("/v1/functions/{name}/endpoints")).await?;
    let deployments: Page<DeploymentView> = client.get(&format!("/v1/functions/{name}/deployments")).await?;
    let function: FunctionView = client.get(&format!("/v1/functions/{name}")).await?;
    let bindings = match function.live_version {
        Some(live) => {
            let version: VersionView = client.get(&format!("/v1/functions/{name}/versions/{live}")).await?;
            version.bindings
        }
        None => Bindings::new(),
    };
    let status = FunctionStatus {
        function,
        bindings,
        endpoints: endpoints.items,
        deployments: deployments.items.into_iter().take(DEPLOYMENTS_SHOWN).collect(),
    };
    context.screen.result(&status, || function_text(&status))?;
    Ok(Exit::Ok)
}

fn function_text(status: &FunctionStatus) -> String {
    let version =
        |version: Option<mfaas_ident::VersionNumber>| version.map_or("-".to_owned(), |v| v.to_string());
    let endpoints: Vec<Vec<String>> = status
        .endpoints
        .iter()
        .map(|endpoint| {
            let loaded: Vec<String> = endpoint.loaded_versions.iter().map(ToString::to_string).collect();
            let ready = if endpoint.ready { "ready" } else { "not ready" };
            let url = endpoint.url.clone().unwrap_or_else(|| "-".to_owned());
            vec![
                endpoint.node.to_string(),
                ready.to_owned(),
                version(endpoint.live_version),
                loaded.join(","),
                url,
            ]
        })
        .collect();
    let deployments: Vec<Vec<String>> = status
        .deployments
        .iter()
        .map(|deployment| {
            let code =
                deployment.diagnostics.first().map_or(String::new(), |diagnostic| diagnostic.code.clone());
            let at = deployment.created_at.format("%Y-%m-%d %H:%M:%S").to_string();
            vec![
                deployment.id.to_string(),
                deployment.state.to_string(),
                version(deployment.version),
                at,
                code,
            ]
        })
        .collect();
    let parts = [
        format!(
            "{}: live is version {}{}",
            status.function.name,
            version(status.function.live_version),
            if status.bindings.is_empty() {
                String::new()
            } else {
                format!("\nbinds {}", bindings_text(&status.bindings))
            }
        ),
        table(&["node", "state", "live", "loaded", "url"], &endpoints),
        table(&["deployment", "state", "version", "at", "code"], &deployments),
    ];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n\n")
}

#[cfg(test)]
mod tests;
