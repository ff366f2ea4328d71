//! `mfaas check`: what the server would say, without uploading anything.
//!
//! The work is the builder's (`mfaas-builder check`, a program beside this one); here its findings
//! are drawn and its exit code passed on.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use mfaas_wire::Diagnostic;
use serde::{Deserialize, Serialize};

use crate::commands::up::home_of;
use crate::failure::{Exit, Failure};
use crate::settings::Context;
use crate::supervise::launch::Siblings;
use crate::supervise::materials::current_in;

/// Look for everything that a deploy would refuse, without deploying.
#[derive(Debug, clap::Args)]
pub(crate) struct Check {
    /// The directory with Cargo.toml.
    #[arg(value_name = "PATH", default_value = ".")]
    path: PathBuf,
    /// The home whose toolchain and dependencies are used; the usual ones when absent.
    #[arg(long, value_name = "DIR", env = "MFAAS_HOME")]
    home: Option<PathBuf>,
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
}

impl Check {
    /// Runs the builder and shows what it found.
    pub(crate) fn run(self, context: &Context) -> Result<Exit, Failure> {
        let builder = Siblings::beside_us()?.path("mfaas-builder");
        let mut command = Command::new(&builder);
        command.arg("check").arg(&self.path).arg("--json").stdin(Stdio::null()).stderr(Stdio::inherit());
        if self.home.is_some() {
            let home = home_of(self.home.as_deref())?;
            command
                .env("MFAAS_TOOLCHAIN_DIR", current_in(&home.join("toolchains"))?)
                .env("MFAAS_DEPS_DIR", current_in(&home.join("deps"))?);
        }
        let output = command.output().map_err(Failure::io("cannot start", &builder))?;
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
        Ok(exit(&report.outcome))
    }
}

/// A word that we do not know is not a pass.
fn exit(outcome: &str) -> Exit {
    match outcome {
        "passed" => Exit::Ok,
        "refused" => Exit::Refused,
        "compile_error" => Exit::CompileError,
        "waiting" => Exit::Waiting,
        _ => Exit::Failed,
    }
}

fn read(stdout: &[u8], status: std::process::ExitStatus) -> Result<Report, Failure> {
    serde_json::from_slice(stdout).map_err(|e| Failure::Protocol {
        what: format!("mfaas-builder check ({status})"),
        cause: e.to_string(),
    })
}
