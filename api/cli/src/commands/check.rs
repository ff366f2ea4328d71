//! `mfaas check`: what the server would say, without uploading anything.
//!
//! The work is the builder's (`mfaas-builder check`, a program beside this one); here its findings
//! are drawn and its exit code passed on.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use mfaas_wire::Diagnostic;
use serde::{Deserialize, Serialize};

use crate::failure::{Exit, Failure};
use crate::settings::Context;
use crate::supervise::launch::Siblings;

/// Look for everything that a deploy would refuse, without deploying.
#[derive(Debug, clap::Args)]
pub(crate) struct Check {
    /// The directory with Cargo.toml.
    #[arg(value_name = "PATH", default_value = ".")]
    path: PathBuf,
}

/// What the builder prints.
#[derive(Debug, Serialize, Deserialize)]
struct Report {
    /// What a deploy would be refused for, or warned about.
    diagnostics: Vec<Diagnostic>,
    /// Stages that could not run here, for example without a toolchain.
    #[serde(default)]
    skipped: Vec<String>,
}

impl Check {
    /// Runs the builder and shows what it found.
    pub(crate) fn run(self, context: &Context) -> Result<Exit, Failure> {
        let builder = Siblings::beside_us()?.path("mfaas-builder");
        let output = Command::new(&builder)
            .arg("check")
            .arg(&self.path)
            .arg("--json")
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output()
            .map_err(Failure::io("cannot start", &builder))?;
        let report = read(&output.stdout, output.status)?;
        if !context.screen.is_json() {
            report.diagnostics.iter().for_each(|diagnostic| context.screen.diagnostic(diagnostic));
            report
                .skipped
                .iter()
                .for_each(|stage| context.screen.note(&format!("not checked here: {stage}")));
        }
        context.screen.result(&report, || match report.diagnostics.len() {
            0 => format!("{}: nothing found", self.path.display()),
            1 => "1 finding".to_owned(),
            count => format!("{count} findings"),
        })?;
        Ok(exit(&report, output.status.code()))
    }
}

/// The builder's exit code where it is one of ours; the first finding's otherwise.
fn exit(report: &Report, code: Option<i32>) -> Exit {
    let error = report.diagnostics.iter().find(|diagnostic| diagnostic.level == mfaas_wire::Level::Error);
    match (code, error) {
        (Some(0), None) => Exit::Ok,
        (_, Some(error)) => Exit::of_code(&error.code),
        (_, None) => Exit::Failed,
    }
}

fn read(stdout: &[u8], status: std::process::ExitStatus) -> Result<Report, Failure> {
    serde_json::from_slice(stdout).map_err(|e| Failure::Protocol {
        what: format!("mfaas-builder check ({status})"),
        cause: e.to_string(),
    })
}
