//! `mfaas status`: how a function is served, or how this machine's programs are.

use std::path::PathBuf;

use mfaas_ident::FunctionName;
use mfaas_wire::{DeploymentView, Endpoint, FunctionView, Page};
use serde::Serialize;

use crate::commands::up::home_of;
use crate::failure::{Exit, Failure};
use crate::screen::table;
use crate::settings::Context;
use crate::supervise::layout::Home;
use crate::supervise::state::{Lock, State};

/// Show how a function is served; without a name, how the programs of this machine are.
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
    endpoints: Vec<Endpoint>,
    deployments: Vec<DeploymentView>,
}

/// How many of the newest deployments are shown.
const DEPLOYMENTS_SHOWN: usize = 5;

impl Status {
    /// Asks and shows.
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        match &self.name {
            Some(name) => of_function(context, name).await,
            None => self.of_machine(context),
        }
    }

    /// What the supervisor says, checked against what the kernel says.
    fn of_machine(&self, context: &Context) -> Result<Exit, Failure> {
        let home = home_of(self.home.as_deref())?;
        let state = State::load(&home)?;
        let Some(state) = state.filter(|_| Lock::is_held(&home).unwrap_or(false)) else {
            return Err(nothing_runs(&home)?);
        };
        let alive: Vec<i32> = state.alive().map(|program| program.pid).collect();
        context.screen.result(&state, || machine(&state, &alive))?;
        Ok(if alive.len() == state.programs.len() { Exit::Ok } else { Exit::Failed })
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

fn machine(state: &State, alive: &[i32]) -> String {
    let rows: Vec<Vec<String>> = state
        .programs
        .iter()
        .map(|program| {
            let listens = program.ready.as_ref().map_or(String::new(), brief);
            let restarts = program.restarts.to_string();
            let life = if alive.contains(&program.pid) { "runs" } else { "gone" };
            vec![
                program.name.clone(),
                program.pid.to_string(),
                user(program.uid),
                life.to_owned(),
                restarts,
                listens,
            ]
        })
        .collect();
    let privileges = if state.one_uid {
        "one uid: every program runs as the same user"
    } else {
        "each program has its own user"
    };
    let toolchain = state.toolchain.as_deref().map_or("-", |id| id.get(..12).unwrap_or(id));
    format!(
        "{}\nmfaas {} · {} · {privileges} · toolchain {toolchain}",
        table(&["program", "pid", "user", "state", "restarts", "says"], &rows),
        state.version,
        phase(state),
    )
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
    let status = FunctionStatus {
        function: client.get(&format!("/v1/functions/{name}")).await?,
        endpoints: endpoints.items,
        deployments: deployments.items.into_iter().take(DEPLOYMENTS_SHOWN).collect(),
    };
    context.screen.result(&status, || function(&status))?;
    Ok(Exit::Ok)
}

fn function(status: &FunctionStatus) -> String {
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
        format!("{}: live is version {}", status.function.name, version(status.function.live_version)),
        table(&["node", "state", "live", "loaded", "url"], &endpoints),
        table(&["deployment", "state", "version", "at", "code"], &deployments),
    ];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n\n")
}
