//! What became of a deployment: collected from its events, told once at the end.

use std::time::Duration;

use mfaas_ident::{Bindings, VersionNumber};
use mfaas_wire::{
    DeploymentState, DeploymentView, Diagnostic, Endpoint, Event, EventKind, Level, NodeRefusal, NodeView,
    Page,
};
use serde::Serialize;

use super::data::{self, DataChange};
use super::{requests, waiting};
use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::settings::Context;

/// How often the endpoints are asked for while waiting for a node.
const ASK_EVERY: Duration = Duration::from_millis(20);

/// How often the requests are asked for while the acquirer looks at them.
const ASK_FOR_FACTS_EVERY: Duration = Duration::from_millis(500);

/// Refusals of a node that no waiting helps against: another tenant would have to leave first, or the operator give the node
/// more memory.
const FINAL_REFUSALS: [&str; 2] = ["MF0712", "MF0722"];

/// The code of a deployment that is in the queue again because of a fault of the site's.
pub(super) const WAITS_FOR_THE_SERVICE: &str = "MF0413";

/// The code of a deployment that another builder has to make, too, before it is signed.
pub(super) const WAITS_FOR_A_BUILDER: &str = "MF0609";

/// One finished stage with its times in milliseconds.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct StageTime {
    /// For example `compile`.
    pub(crate) stage: String,
    /// By the clock.
    pub(crate) wall_ms: Option<f64>,
    /// On processors, children included.
    pub(crate) cpu_ms: Option<f64>,
}

/// A deployment as far as it was followed.
#[derive(Debug, Clone)]
pub(crate) struct Outcome {
    /// As the server last told it.
    pub(crate) deployment: DeploymentView,
    /// The stages that finished.
    pub(crate) stages: Vec<StageTime>,
    /// What the events said about the source.
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// Where it is served, once a node said so.
    pub(crate) url: Option<String>,
    /// What every node says that has reported, if none will serve it.
    pub(crate) refused_by: Vec<RefusedBy>,
    /// Why no node serves it yet, as far as that is known.
    pub(crate) waits_for: Option<String>,
    /// What data it reaches that the version live before did not, or no longer.
    pub(crate) data_changes: Vec<DataChange>,
}

/// A node that will not serve the version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct RefusedBy {
    /// The node's name.
    pub(crate) node: String,
    /// Its reason.
    #[serde(flatten)]
    pub(crate) refusal: NodeRefusal,
}

impl Outcome {
    /// The beginning.
    pub(crate) fn accepted(deployment: DeploymentView) -> Self {
        let (stages, diagnostics, refused_by, data_changes) = Default::default();
        Self { deployment, stages, diagnostics, url: None, refused_by, waits_for: None, data_changes }
    }

    /// Takes an event in; true when it is the last.
    pub(crate) fn take(&mut self, event: Event) -> bool {
        for diagnostic in event.diagnostics {
            // A verdict repeats what its stage has already said; what was waited for is over at the end.
            let is_over = [WAITS_FOR_THE_SERVICE, WAITS_FOR_A_BUILDER].contains(&diagnostic.code.as_str());
            if !is_over && !self.diagnostics.contains(&diagnostic) {
                self.diagnostics.push(diagnostic);
            }
        }
        match event.kind {
            EventKind::Finished => self.stages.push(StageTime {
                stage: event.stage,
                wall_ms: event.wall_ms,
                cpu_ms: event.cpu_ms,
            }),
            EventKind::State => {
                if let Some(state) = event.state {
                    self.deployment.state = state;
                    return state.ends_stream();
                }
            }
            EventKind::Started | EventKind::Diagnostic => {}
        }
        false
    }

    /// Waits until a node has loaded the version, or none will. `tell` is given what it waits for, when that lasts.
    pub(crate) async fn wait_until_served(
        &mut self,
        client: &Client,
        mut tell: impl FnMut(&str),
    ) -> Result<(), Failure> {
        let version = self.deployment.version.ok_or_else(|| Failure::Protocol {
            what: "the deployment".to_owned(),
            cause: "it is admitted without a version".to_owned(),
        })?;
        let path = format!("/v1/functions/{}/endpoints", self.deployment.function);
        let mut ask_why = tokio::time::Instant::now() + waiting::SAID_AFTER;
        loop {
            let endpoints: Page<Endpoint> = client.get(&path).await?;
            if let Some(url) = endpoints.items.iter().find_map(|endpoint| serves(endpoint, version)) {
                self.url = Some(url);
                return Ok(());
            }
            if let Some(refused_by) = refused_by_all(&endpoints.items, version) {
                self.refused_by = refused_by;
                return Ok(());
            }
            if tokio::time::Instant::now() >= ask_why {
                // Whoever may not see the nodes waits without knowing why.
                let nodes: Option<Page<NodeView>> = client.get("/v1/nodes").await.ok();
                let why = nodes.and_then(|nodes| waiting::why(&nodes.items, &endpoints.items, version));
                if let Some(why) = why.as_deref().filter(|why| self.waits_for.as_deref() != Some(why)) {
                    tell(why);
                }
                self.waits_for = why;
                ask_why = tokio::time::Instant::now() + waiting::SAID_AFTER;
            }
            tokio::time::sleep(ASK_EVERY).await;
        }
    }

    /// Compares what the admitted version reaches with what the one reached that was live before.
    pub(crate) async fn learn_data_changes(
        &mut self,
        client: &Client,
        before: &Bindings,
    ) -> Result<(), Failure> {
        let DeploymentView { state, function, version, .. } = &self.deployment;
        if let (DeploymentState::Admitted, Some(version)) = (state, version)
            && let Some(after) = data::of_version(client, function, *version).await?
        {
            self.data_changes = data::changes(before, &after);
        }
        Ok(())
    }

    /// Waits, but not for long, until the acquirer has found out what the crates that it waits for come down to.
    pub(crate) async fn learn_requests(
        &mut self,
        client: &Client,
        patience: Duration,
    ) -> Result<(), Failure> {
        if self.deployment.state != DeploymentState::Waiting {
            return Ok(());
        }
        let path = format!("/v1/deployments/{}", self.deployment.id);
        let end = tokio::time::Instant::now() + patience;
        while self.deployment.requests.iter().any(requests::is_being_looked_at)
            && tokio::time::Instant::now() < end
        {
            tokio::time::sleep(ASK_FOR_FACTS_EVERY).await;
            let deployment: DeploymentView = client.get(&path).await?;
            // Somebody was quick: whatever comes now, this deploy has ended with waiting.
            if deployment.state != DeploymentState::Waiting {
                return Ok(());
            }
            self.deployment = deployment;
        }
        Ok(())
    }

    /// Tells the person or the script how it ended.
    pub(crate) fn report(&self, context: &Context, took: Duration) -> Result<Exit, Failure> {
        let screen = &context.screen;
        let diagnostics = self.diagnostics();
        if !screen.is_json() {
            diagnostics.iter().for_each(|diagnostic| screen.diagnostic(diagnostic));
        }
        screen.result(&self.document(diagnostics, took), || self.sentence(took))?;
        for RefusedBy { node, refusal } in &self.refused_by {
            screen.note(&format!("{} on {node}: {}", refusal.code, refusal.message));
            screen.note(&refusal.hint);
        }
        if self.deployment.state == DeploymentState::Waiting {
            requests::lines(&self.deployment).iter().for_each(|line| screen.note(line));
        }
        Ok(self.exit(diagnostics))
    }

    /// Admitted is not served: a version that no node takes is a deployment that failed.
    fn exit(&self, diagnostics: &[Diagnostic]) -> Exit {
        match exit_of(self.deployment.state, diagnostics) {
            Exit::Ok if !self.refused_by.is_empty() => Exit::Failed,
            other => other,
        }
    }

    fn document(&self, diagnostics: &[Diagnostic], took: Duration) -> serde_json::Value {
        let deployment = &self.deployment;
        serde_json::json!({
            "id": deployment.id,
            "function": deployment.function,
            "state": deployment.state,
            "version": deployment.version,
            "url": self.url,
            "review_url": deployment.review_url,
            "requests": deployment.requests,
            "diagnostics": diagnostics,
            "refused_by": self.refused_by,
            "data_changes": self.data_changes,
            "stages": self.stages,
            "took_ms": took.as_secs_f64() * 1e3,
            "exit": self.exit(diagnostics) as i32,
        })
    }

    /// What is said when nobody waits any longer for a node.
    pub(crate) fn still_unserved(&self, waited: Duration) -> String {
        let version = self.deployment.version.map_or("?".to_owned(), |version| version.to_string());
        let (name, waited) = (&self.deployment.function, waited.as_secs());
        let why = self.waits_for.as_deref().unwrap_or("`mfaas node list` shows how the nodes are");
        format!("{name} version {version} is admitted, and no node serves it after {waited} s: {why}")
    }

    /// The server's list, which survives a broken stream; the events' otherwise.
    fn diagnostics(&self) -> &[Diagnostic] {
        if self.deployment.diagnostics.is_empty() { &self.diagnostics } else { &self.deployment.diagnostics }
    }

    fn sentence(&self, took: Duration) -> String {
        let (name, id) = (&self.deployment.function, &self.deployment.id);
        let seconds = took.as_secs_f64();
        match self.deployment.state {
            DeploymentState::Admitted => {
                let version = self.deployment.version.map_or("?".to_owned(), |version| version.to_string());
                match &self.url {
                    Some(url) => format!("{name} version {version} is served after {seconds:.2} s\n{url}"),
                    None if !self.refused_by.is_empty() => {
                        format!("{name} version {version} is admitted, and no node serves it")
                    }
                    None => format!("{name} version {version} is admitted after {seconds:.2} s"),
                }
            }
            DeploymentState::Refused => format!("{name} is refused"),
            DeploymentState::Waiting => format!("{name} waits for a review"),
            DeploymentState::Failed => format!("{name} failed on the server's side (deployment {id})"),
            DeploymentState::Received | DeploymentState::Building | DeploymentState::Built => {
                format!("{name} is accepted as deployment {id}")
            }
        }
    }
}

/// The address at which an endpoint serves the version, if it does.
fn serves(endpoint: &Endpoint, version: VersionNumber) -> Option<String> {
    let loaded = endpoint.loaded_versions.contains(&version) || endpoint.live_version == Some(version);
    if loaded { endpoint.url.clone() } else { None }
}

/// What every node that has reported says, if each of them refuses the version for good.
pub(super) fn refused_by_all(endpoints: &[Endpoint], version: VersionNumber) -> Option<Vec<RefusedBy>> {
    let reported = endpoints.iter().filter(|endpoint| endpoint.reported_at.is_some());
    let refusal = |endpoint: &Endpoint| {
        let mut rows = endpoint.refused_versions.iter();
        let last = |row: &&NodeRefusal| row.version == version && FINAL_REFUSALS.contains(&row.code.as_str());
        let refusal = rows.find(last)?.clone();
        Some(RefusedBy { node: endpoint.node.to_string(), refusal })
    };
    let refused: Vec<RefusedBy> = reported.map(refusal).collect::<Option<_>>()?;
    (!refused.is_empty()).then_some(refused)
}

/// The exit code of a deployment in `state`; the first error decides which kind of refusal it is.
pub(crate) fn exit_of(state: DeploymentState, diagnostics: &[Diagnostic]) -> Exit {
    match state {
        DeploymentState::Received
        | DeploymentState::Building
        | DeploymentState::Built
        | DeploymentState::Admitted => Exit::Ok,
        DeploymentState::Waiting => Exit::Waiting,
        DeploymentState::Failed => Exit::Failed,
        DeploymentState::Refused => {
            let first = diagnostics.iter().find(|diagnostic| diagnostic.level == Level::Error);
            match first.map(|diagnostic| Exit::of_code(&diagnostic.code)) {
                Some(Exit::CompileError) => Exit::CompileError,
                Some(_) | None => Exit::Refused,
            }
        }
    }
}
