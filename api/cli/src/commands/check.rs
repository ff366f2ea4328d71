//! `mfaas check`: what the server would say, without uploading anything.
//!
//! The work is the builder's (`mfaas-builder check`, a program beside this one); here its findings
//! are shown and its outcome becomes an exit code, by the same rule as a deployment's. It must never
//! call a check passed that did not run to its end.

use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};

use mfaas_rules::AllowlistSnapshot;
use mfaas_supervisor::{Siblings, current_dependencies, current_toolchain};
use mfaas_wire::{AllowlistView, DeploymentState, Diagnostic};
use serde::{Deserialize, Serialize};

use crate::commands::deploy::exit_of;
use crate::commands::up::home_of;
use crate::failure::{Exit, Failure};
use crate::settings::Context;

/// Look for everything that a deploy would refuse, without deploying.
///
/// Works without a server, with the toolchain and the dependencies of `mfaas up` on this machine.
///
/// For example: `mfaas check hello`
#[derive(Debug, clap::Args)]
pub(crate) struct Check {
    /// The directory with Cargo.toml, or an archive of one.
    #[arg(value_name = "PATH", default_value = ".")]
    path: PathBuf,
    /// The home whose toolchain and dependencies are used; the usual ones when absent.
    #[arg(long, value_name = "DIR", env = "MFAAS_HOME")]
    home: Option<PathBuf>,
    /// Ask the site for its decisions about dependencies, and judge by them instead of by what ships.
    #[arg(long)]
    site: bool,
}

/// What the builder prints.
#[derive(Debug, Serialize, Deserialize)]
struct Report {
    /// What a deploy would be refused for, or warned about.
    diagnostics: Vec<Diagnostic>,
    /// Every stage of a deploy that can run without a registry.
    stages: Vec<Stage>,
    /// `passed`, `refused`, `compile_error`, `waiting` or `incomplete`.
    outcome: String,
    /// The stages that did not run, as sentences.
    #[serde(default)]
    skipped: Vec<String>,
    /// The toolchain and the dependency cache that it was compiled with.
    #[serde(default)]
    toolchain: Option<String>,
    #[serde(default)]
    dependencies: Option<String>,
    /// Digest and size of the image, when everything passed.
    #[serde(default)]
    artifact: Option<serde_json::Value>,
}

/// One stage of the check.
#[derive(Debug, Serialize, Deserialize)]
struct Stage {
    stage: String,
    /// `passed`, `stopped` or `not_run`.
    outcome: String,
    /// Why it was not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// By the clock, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    wall_ms: Option<f64>,
    /// On processors, children included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cpu_ms: Option<f64>,
}

impl Check {
    /// A damaged profile is nobody's trouble who asks no site.
    pub(crate) fn needs_profile(&self) -> bool {
        self.site
    }

    /// Runs the builder and shows what it found.
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let builder = Siblings::beside_us()?.path("mfaas-builder");
        let mut command = Command::new(&builder);
        command.arg("check").arg(&self.path).arg("--json").stdin(Stdio::null()).stderr(Stdio::inherit());
        let decisions = if self.site { Some(decisions(context).await?) } else { None };
        if let Some(file) = &decisions {
            command.arg("--decisions").arg(file.path());
        }
        if self.home.is_some() {
            let home = home_of(self.home.as_deref())?;
            command
                .env("MFAAS_TOOLCHAIN_DIR", current_toolchain(&home)?)
                .env("MFAAS_DEPS_DIR", current_dependencies(&home)?);
        }
        let output = command.output().map_err(Failure::io("cannot start", &builder))?;
        // Nothing on standard output: the builder has said on standard error why.
        if output.stdout.is_empty() {
            return Err(Failure::Told(Exit::Failed));
        }
        let report = read(&output.stdout, output.status)?;
        if !context.screen.is_json() {
            report.diagnostics.iter().for_each(|diagnostic| context.screen.diagnostic(diagnostic));
            for stage in report.stages.iter().filter(|stage| stage.outcome == "not_run") {
                let reason = stage.reason.as_deref().unwrap_or("no reason given");
                context.screen.note(&format!("{} was not checked: {reason}", stage.stage));
            }
        }
        context
            .screen
            .result(&report, || format!("{}: {}", self.path.display(), report.outcome.replace('_', " ")))?;
        Ok(exit(&report, output.status))
    }
}

/// The site's decisions, in a file for the builder.
async fn decisions(context: &Context) -> Result<tempfile::NamedTempFile, Failure> {
    let view: AllowlistView = context.client()?.get("/v1/allowlist").await?;
    let snapshot = AllowlistSnapshot { policy_version: view.policy_version, crates: view.crates };
    let local = |error: std::io::Error| Failure::Local(format!("cannot keep the site's decisions: {error}"));
    let file = tempfile::NamedTempFile::new().map_err(local)?;
    serde_json::to_writer(file.as_file(), &snapshot).map_err(|error| local(error.into()))?;
    Ok(file)
}

/// A word that we do not know is not a pass, and neither is a builder that ends otherwise than it
/// says.
fn exit(report: &Report, status: ExitStatus) -> Exit {
    match report.outcome.as_str() {
        "passed" if status.success() => Exit::Ok,
        "refused" | "compile_error" => exit_of(DeploymentState::Refused, &report.diagnostics),
        "waiting" => exit_of(DeploymentState::Waiting, &report.diagnostics),
        _ => Exit::Failed,
    }
}

fn read(stdout: &[u8], status: ExitStatus) -> Result<Report, Failure> {
    serde_json::from_slice(stdout).map_err(|e| Failure::Protocol {
        what: format!("mfaas-builder check ({status})"),
        cause: e.to_string(),
    })
}

#[cfg(test)]
mod tests;
