//! `mfaas deploy`: from a directory to a served version, with every stage and every complaint on
//! the way.

mod data;
mod follow;
mod outcome;
mod requests;
mod traced;
mod waiting;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use mfaas_ident::{FunctionName, TraceParent};
use mfaas_unpack::{SourceTree, UnpackError};
use mfaas_wire::{DeploymentAccepted, DeploymentState, Diagnostic};

pub(crate) use data::reach;
pub(crate) use follow::follow;
pub(crate) use outcome::{Outcome, exit_of};

use traced::Traced;

use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::settings::Context;

/// How long is waited, unless the user says otherwise, in seconds: until it is known what a crate comes down to, and in all.
const FACTS_WAIT_S: u64 = 30;
const TIMEOUT_S: u64 = 300;

/// Upload a package, wait for the verdict and for the first node that serves it.
///
/// For example: `mfaas deploy hello`
#[derive(Debug, clap::Args)]
pub(crate) struct Deploy {
    /// The directory with Cargo.toml.
    #[arg(value_name = "PATH", default_value = ".")]
    path: PathBuf,
    /// The function's name; the package's when absent.
    #[arg(long, value_name = "NAME", env = "MFAAS_FUNCTION")]
    name: Option<FunctionName>,
    /// Return as soon as the upload is accepted.
    #[arg(long)]
    no_wait: bool,
    /// Return at the verdict, without waiting for a node.
    #[arg(long, conflicts_with = "no_wait")]
    no_serve_wait: bool,
    /// Wait until a node reports the version (this is the default).
    #[arg(long, conflicts_with_all = ["no_wait", "no_serve_wait"])]
    serve_wait: bool,
    /// When a crate is not allowed, wait at most this many seconds until it is known what it comes down to.
    #[arg(long, value_name = "SECONDS", default_value_t = FACTS_WAIT_S)]
    facts_wait: u64,
    /// Give up waiting after this many seconds (exit code 8); the deployment goes on.
    #[arg(long, value_name = "SECONDS", default_value_t = TIMEOUT_S)]
    timeout: u64,
}

/// How far to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitFor {
    /// Until the server has the upload.
    Upload,
    /// Until it is admitted, refused, waits or failed.
    Verdict,
    /// Until a node serves it.
    Served,
}

impl Deploy {
    /// Packs, uploads, follows, reports.
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let traced = Traced::begin()?;
        let result = self.deploy(context, &traced.place, Instant::now()).await;
        traced.end();
        result
    }

    /// The deployment of a directory as if nothing was said but its path.
    pub(crate) fn of(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            name: None,
            no_wait: false,
            no_serve_wait: false,
            serve_wait: true,
            facts_wait: FACTS_WAIT_S,
            timeout: TIMEOUT_S,
        }
    }

    /// The same below a place in a trace; `since` is when what it tells began.
    pub(crate) async fn deploy(
        self,
        context: &Context,
        place: &TraceParent,
        since: Instant,
    ) -> Result<Exit, Failure> {
        let client = context.client()?;
        let wait_for = match (self.no_wait, self.no_serve_wait) {
            (true, _) => WaitFor::Upload,
            (false, true) => WaitFor::Verdict,
            (false, false) => WaitFor::Served,
        };
        let archive = match pack(&self.path) {
            Ok(archive) => archive,
            Err(Packing::Refused(diagnostic)) => return refused_here(context, &diagnostic),
            Err(Packing::Broken(failure)) => return Err(failure),
        };
        let name = match self.name {
            Some(name) => name,
            None => name_of_package(&self.path)?,
        };
        let patience = Duration::from_secs(self.timeout);
        let deadline = tokio::time::Instant::now() + patience;
        let followed = deploy(context, &client, &name, (archive, place), wait_for);
        // Asked before the upload: nobody can say afterwards what was live until then.
        let bound_before = match wait_for {
            WaitFor::Upload => None,
            WaitFor::Verdict | WaitFor::Served => Some(data::of_live(&client, &name).await?),
        };
        let Ok(outcome) = tokio::time::timeout_at(deadline, followed).await else {
            return Err(Failure::Pending(format!("{name} is still pending after {} s", self.timeout)));
        };
        let mut outcome = outcome?;
        if let Some(before) = &bound_before {
            outcome.learn_data_changes(&client, before).await?;
            outcome.data_changes.iter().for_each(|change| context.screen.note(&change.line()));
        }
        if wait_for == WaitFor::Served {
            let served = wait_for_node(context, &client, &mut outcome);
            match tokio::time::timeout_at(deadline, served).await {
                Ok(ended) => ended?,
                Err(_) => return Err(Failure::Pending(outcome.still_unserved(patience))),
            }
        }
        outcome.learn_requests(&client, Duration::from_secs(self.facts_wait)).await?;
        outcome.report(context, since.elapsed())
    }
}

/// Uploads, and follows the deployment to its verdict unless the upload is all that was asked for.
pub(crate) async fn deploy(
    context: &Context,
    client: &Client,
    name: &FunctionName,
    (archive, place): (Vec<u8>, &TraceParent),
    wait_for: WaitFor,
) -> Result<Outcome, Failure> {
    let spinner = context.screen.spinner("uploading");
    let path = format!("/v1/functions/{name}/deployments");
    let accepted: DeploymentAccepted = client.upload(&path, archive, place).await?;
    context.screen.detail(&format!("deployment {}, trace {}", accepted.deployment.id, place.trace_id()));
    let mut outcome = Outcome::accepted(accepted.deployment);
    if wait_for == WaitFor::Upload {
        return Ok(outcome);
    }
    follow(context, client, &accepted.events_url, &spinner, &mut outcome).await?;
    outcome.deployment = client.get(&format!("/v1/deployments/{}", outcome.deployment.id)).await?;
    Ok(outcome)
}

/// Waits for a node, if there is something to serve.
pub(crate) async fn wait_for_node(
    context: &Context,
    client: &Client,
    outcome: &mut Outcome,
) -> Result<(), Failure> {
    if outcome.deployment.state != DeploymentState::Admitted {
        return Ok(());
    }
    let spinner = context.screen.spinner("waiting for a node");
    let tell = |why: &str| spinner.above(&context.screen, &format!("waiting for a node: {why}"));
    outcome.wait_until_served(client, tell).await
}

/// Why a directory could not become an upload.
pub(crate) enum Packing {
    /// The server would refuse it for this; there is no need to ask.
    Refused(Box<Diagnostic>),
    /// Our own trouble.
    Broken(Failure),
}

/// The archive of a directory, the same bytes for the same content.
pub(crate) fn pack(path: &Path) -> Result<Vec<u8>, Packing> {
    let broken = |error: UnpackError| match error.finding() {
        Some(finding) => Packing::Refused(Box::new(Diagnostic::from(&finding))),
        None => Packing::Broken(Failure::Local(format!("cannot pack {}: {error}", path.display()))),
    };
    if !path.is_dir() {
        return Err(Packing::Broken(Failure::Usage(format!("{} is not a directory", path.display()))));
    }
    SourceTree::from_dir(path)
        .and_then(|tree| tree.pack())
        .map(mfaas_unpack::Upload::into_bytes)
        .map_err(broken)
}

fn refused_here(context: &Context, diagnostic: &Diagnostic) -> Result<Exit, Failure> {
    if !context.screen.is_json() {
        context.screen.diagnostic(diagnostic);
    }
    context
        .screen
        .result(&serde_json::json!({ "state": "refused", "diagnostics": [diagnostic] }), String::new)?;
    context.screen.note("refused before the upload");
    Ok(Exit::of_code(&diagnostic.code))
}

/// The last place a name can come from: the package's own.
pub(crate) fn name_of_package(path: &Path) -> Result<FunctionName, Failure> {
    let manifest = path.join("Cargo.toml");
    let text = std::fs::read_to_string(&manifest).map_err(Failure::io("cannot read", &manifest))?;
    let document: toml::Table = text.parse().map_err(|e: toml::de::Error| {
        Failure::Usage(format!("{}: {}; give --name", manifest.display(), e.message()))
    })?;
    let name = document
        .get("package")
        .and_then(|package| package.get("name")?.as_str())
        .ok_or_else(|| Failure::Usage(format!("{} has no package name; give --name", manifest.display())))?;
    FunctionName::parse(name).map_err(|e| Failure::Usage(format!("{e}; give --name")))
}

#[cfg(test)]
mod tests;
