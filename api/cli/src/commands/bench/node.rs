//! `mfaas bench node`: the node runtime beside the sides that it is compared to.
//!
//! The work is a program of its own (`bench/`), which is built apart from what ships, since it
//! brings wasmtime; what it prints goes to standard output as it is.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::failure::{Exit, Failure};
use crate::settings::Context;

/// The program, beside our own.
const PROGRAM: &str = "mfaas-bench-node";
/// How it comes to be there.
const BUILD: &str = "(cd bench && cargo build --release)";

#[derive(Debug, Default, clap::Args)]
pub(super) struct BenchNode {
    /// Measured rounds of every row, at least 9; one more warms up.
    #[arg(long, value_name = "N")]
    rounds: Option<u32>,
    /// Rows to measure, separated by commas; all when absent (docs/bench-node.md lists them).
    #[arg(long, value_name = "ROWS")]
    rows: Option<String>,
    /// Write every figure of every round here.
    #[arg(long, value_name = "FILE")]
    json_file: Option<PathBuf>,
    /// Draw latency by mode here.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Two short rounds with few functions: shows that everything works, and no more.
    #[arg(long)]
    quick: bool,
    /// A function of a running node, for the row `http`.
    #[arg(long, value_name = "URL", requires = "node_pid")]
    node_url: Option<String>,
    /// The process of that node.
    #[arg(long, value_name = "PID", requires = "node_url")]
    node_pid: Option<u32>,
}

impl BenchNode {
    /// Runs the program; exit code 1 when an aim is missed or something was not measured.
    pub(super) fn run(&self, context: &Context) -> Result<Exit, Failure> {
        let own = std::env::current_exe()
            .map_err(|e| Failure::Local(format!("cannot find our own executable: {e}")))?;
        let program = beside(&own)?;
        let status = self
            .command(&program, context.screen.is_json())
            .status()
            .map_err(Failure::io("cannot start", &program))?;
        match status.code() {
            Some(0) => Ok(Exit::Ok),
            Some(2) => Err(Failure::Told(Exit::Usage)),
            // It has said itself what is missing or missed.
            Some(_) | None => Err(Failure::Told(Exit::Failed)),
        }
    }

    fn command(&self, program: &Path, json: bool) -> Command {
        let mut command = Command::new(program);
        command.stdin(Stdio::null());
        let numbers = [("--rounds", self.rounds), ("--node-pid", self.node_pid)];
        for (name, value) in numbers {
            if let Some(value) = value {
                command.arg(name).arg(value.to_string());
            }
        }
        for (name, value) in [("--rows", &self.rows), ("--node-url", &self.node_url)] {
            if let Some(value) = value {
                command.arg(name).arg(value);
            }
        }
        // `-` is standard output, in the place of the text.
        let json = self.json_file.clone().or_else(|| json.then(|| PathBuf::from("-")));
        for (name, value) in [("--json", &json), ("--svg", &self.svg)] {
            if let Some(value) = value {
                command.arg(name).arg(value);
            }
        }
        if self.quick {
            command.arg("--quick");
        }
        command
    }
}

/// The program in the directory of `own`; where it is not, the failure says how to build it.
fn beside(own: &Path) -> Result<PathBuf, Failure> {
    let program = own.with_file_name(PROGRAM);
    if program.is_file() {
        return Ok(program);
    }
    Err(Failure::Local(format!("{PROGRAM} is not beside {}; in the source tree: {BUILD}", own.display())))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use super::*;

    fn words(bench: &BenchNode, json: bool) -> Vec<String> {
        let command = bench.command(Path::new("/programs/mfaas-bench-node"), json);
        command.get_args().map(|word| word.to_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn the_program_is_asked_for_what_was_typed_and_nothing_else() {
        assert!(words(&BenchNode::default(), false).is_empty());
        assert_eq!(words(&BenchNode::default(), true), ["--json", "-"]);
        let full = BenchNode {
            rounds: Some(11),
            rows: Some("warm,cold".to_owned()),
            json_file: Some("j".into()),
            svg: Some("s".into()),
            quick: true,
            node_url: Some("u".to_owned()),
            node_pid: Some(7),
        };
        let typed = "--rounds 11 --node-pid 7 --rows warm,cold --node-url u --json j --svg s --quick";
        assert_eq!(words(&full, true).join(" "), typed);
    }

    #[test]
    fn a_program_that_is_not_there_is_said_how_to_build() {
        let directory = tempfile::tempdir().unwrap();
        let own = directory.path().join("mfaas");
        let Err(Failure::Local(why)) = beside(&own) else { panic!("nothing is there") };
        assert!(why.contains("mfaas-bench-node is not beside") && why.contains(BUILD), "{why}");
        std::fs::write(directory.path().join(PROGRAM), "").unwrap();
        assert_eq!(beside(&own).unwrap(), directory.path().join(PROGRAM));
    }
}
