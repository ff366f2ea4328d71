//! mfaas-bench-admission: admission beside the bare compiler. `mfaas bench admission` starts it for the stages, `mfaas bench
//! deploy` for whole deploys.
//!
//! Exit codes: 0 every aim is met · 1 an aim is missed or the run failed · 2 usage · others are those of the `mfaas` that a
//! deploy failed with.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser as _;
use mfaas_bench_node::admission::bare::Builder;
use mfaas_bench_node::admission::deploy::{self, Installation};
use mfaas_bench_node::admission::table::Table;
use mfaas_bench_node::admission::{Ended, Plan, beside_us, examples, stages};
use mfaas_ident::{escape_json, sanitise};

/// The longest text that is shown, in bytes.
const TEXT_BYTES_MAX: usize = 1 << 20;

/// Admission beside bare rustc with the same flags, in one run.
#[derive(Debug, clap::Parser)]
#[command(name = "mfaas-bench-admission")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Admission alone, stage by stage: no server, no node.
    Stages(Measuring),
    /// Whole deploys to a running installation: wall clock and CPU of all programs.
    Deploy {
        #[command(flatten)]
        measuring: Measuring,
        /// The process of the installation's supervisor.
        #[arg(long, value_name = "PID")]
        supervisor: u32,
    },
}

/// What both commands have.
#[derive(Debug, clap::Args)]
struct Measuring {
    /// The packages, of which the first is the small one; two of the examples when absent.
    #[arg(value_name = "PATH")]
    packages: Vec<PathBuf>,
    /// Measured rounds for each package; one more warms up.
    #[arg(long, value_name = "N")]
    rounds: u32,
    /// The toolchain to compile with.
    #[arg(long, value_name = "DIR")]
    toolchain: PathBuf,
    /// The compiled dependencies.
    #[arg(long, value_name = "DIR")]
    deps: PathBuf,
    /// Print JSON instead of text.
    #[arg(long)]
    json: bool,
    /// Say nothing on standard error but errors.
    #[arg(long)]
    quiet: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let json = arguments.command.measuring().json;
    let told = arguments.command.measure().and_then(|table| {
        show(&table, json)?;
        Ok(table.all_aims_met())
    });
    match told {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => fail(&error, json),
    }
}

impl Command {
    fn measuring(&self) -> &Measuring {
        match self {
            Self::Stages(measuring) | Self::Deploy { measuring, .. } => measuring,
        }
    }

    fn measure(&self) -> anyhow::Result<Table> {
        let measuring = self.measuring();
        let plan = measuring.plan()?;
        match self {
            Self::Stages(_) => stages::measure(&plan, &measuring.packages_or(["hello", "json-summary"])?),
            Self::Deploy { supervisor, .. } => {
                let mfaas = beside_us("mfaas")?;
                let installation = Installation { mfaas, supervisor: *supervisor, json: measuring.json };
                deploy::measure(&plan, &installation, &measuring.packages_or(["hello", "markdown"])?)
            }
        }
    }
}

impl Measuring {
    fn plan(&self) -> anyhow::Result<Plan> {
        let program = beside_us("mfaas-builder")?;
        let (toolchain, dependencies) = (self.toolchain.clone(), self.deps.clone());
        let builder = Builder { program, toolchain, dependencies };
        Ok(Plan { rounds: self.rounds, quiet: self.quiet, builder })
    }

    fn packages_or(&self, names: [&str; 2]) -> anyhow::Result<Vec<PathBuf>> {
        if self.packages.is_empty() { examples(names) } else { Ok(self.packages.clone()) }
    }
}

fn show(table: &Table, json: bool) -> std::io::Result<()> {
    let text = if json {
        escape_json(&table.document().to_string())
    } else {
        sanitise(&table.text(), TEXT_BYTES_MAX)
    };
    writeln!(std::io::stdout(), "{text}")
}

/// Says why nothing was measured, unless that was said already.
fn fail(error: &anyhow::Error, json: bool) -> ExitCode {
    let ended = error.downcast_ref::<Ended>();
    let code = ended.map_or(1, |ended| ended.code);
    if ended.is_none_or(|ended| ended.text.is_some()) {
        let text = sanitise(&format!("{error:#}"), TEXT_BYTES_MAX);
        if json {
            let document = serde_json::json!({ "detail": text, "exit": code });
            // Where nobody reads, the exit code still says what happened.
            let _ = writeln!(std::io::stdout(), "{}", escape_json(&document.to_string()));
        }
        let _ = writeln!(std::io::stderr(), "error: {text}");
    }
    ExitCode::from(code)
}
