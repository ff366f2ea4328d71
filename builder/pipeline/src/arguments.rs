//! What was typed, and which part of the program it means.

use mfaas_startup::Variables;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::config::{self, AcquireConfig, ServeConfig};
use crate::error::BuilderError;
use crate::{acquire, acquirer, check, deps, facts, serve, toolchain};

/// The longest error that is shown, in bytes.
const ERROR_BYTES_MAX: usize = 16 << 10;

/// Builds functions from source: the build machine's program.
#[derive(Debug, clap::Parser)]
#[command(name = "mfaas-builder", version = mfaas_ident::BuildVersion::this().as_str())]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Take builds from the registry until SIGTERM.
    Serve,
    /// Meet requests for dependencies until SIGTERM: resolve, download, read, and build what was approved.
    Acquire,
    /// Run the stages of a deploy on a project directory or an archive, without a registry.
    Check {
        /// A directory with Cargo.toml, or a .tar.gz of one.
        path: PathBuf,
        /// Print the report as JSON.
        #[arg(long)]
        json: bool,
        /// Write the artifact to this file if one comes of it.
        #[arg(long, value_name = "FILE")]
        keep: Option<PathBuf>,
        /// Lower a limit of the compiler, as `cpu_seconds_max=5`; repeatable. None can be raised.
        #[arg(long = "limit", value_name = "NAME=VALUE")]
        limits: Vec<String>,
        /// Judge by these decisions about dependencies (JSON, as `GET /v1/allowlist` answers) instead of those
        /// that ship.
        #[arg(long, value_name = "FILE")]
        decisions: Option<PathBuf>,
    },
    /// Print the bare compiler calls behind a trusted package's artifact, for measurements. Runs
    /// nothing.
    Commands {
        /// A directory with Cargo.toml.
        path: PathBuf,
        /// Where source, entry and products are to be; kept.
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
        /// JSON is the only form; the flag is there for symmetry with `check`.
        #[arg(long)]
        json: bool,
    },
    /// Show what stands in a dependency's directory: unsafe code, exported macros, what runs. For
    /// reviewers; no verdict.
    Facts {
        #[command(flatten)]
        subject: acquire::Subject,
        /// Print the facts as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Compile and read a list of crates, and print three counts of unsafe code beside each other.
    Table(acquire::TableArguments),
    /// The child of `facts`, which runs in the sandbox.
    #[command(name = facts::GEIGER_COMMAND, hide = true)]
    Geiger {
        /// Where the numbered files lie.
        directory: PathBuf,
        /// The first file.
        first: usize,
        /// Behind the last file.
        behind: usize,
    },
    /// The pinned compiler.
    #[command(subcommand)]
    Toolchain(ToolchainCommand),
    /// The dependency cache.
    #[command(subcommand)]
    Deps(DepsCommand),
}

#[derive(Debug, clap::Subcommand)]
enum ToolchainCommand {
    /// Copy an installed Rust 1.95.0 into a directory named by its digest; prints the digest.
    Import {
        /// The sysroot, as `rustc --print sysroot` prints it.
        #[arg(long, value_name = "SYSROOT")]
        from: PathBuf,
        /// The directory of toolchains.
        #[arg(long, value_name = "DIR")]
        into: PathBuf,
    },
}

#[derive(Debug, clap::Subcommand)]
enum DepsCommand {
    /// Download the sources that the seed's Cargo.lock names, with their checksums verified.
    Vendor {
        /// The seed workspace.
        #[arg(long, value_name = "DIR")]
        seed: PathBuf,
        /// Where the sources go.
        #[arg(long, value_name = "DIR")]
        into: PathBuf,
    },
    /// Resolve crates beside a seed, keeping every version that it has, and write the seed and the
    /// sources of the next cache; prints what comes along with each.
    Extend(acquire::ExtendArguments),
    /// Download, compile and read the crates of a seed, and print what stands in their sources as the table that ships
    /// beside it.
    Facts(acquire::ShippedArguments),
    /// Compile the vendored crates once for a toolchain, in the sandbox; prints the cache's key.
    Build {
        /// The seed workspace.
        #[arg(long, value_name = "DIR")]
        seed: PathBuf,
        /// The vendored sources.
        #[arg(long, value_name = "DIR")]
        vendor: PathBuf,
        /// The imported toolchain, `…/toolchains/<id>`.
        #[arg(long, value_name = "DIR")]
        toolchain: PathBuf,
        /// The directory of caches.
        #[arg(long, value_name = "DIR")]
        into: PathBuf,
    },
}

impl Arguments {
    /// Runs the command; an internal failure is said once on stderr and ends with 1.
    pub(crate) fn run(self) -> ExitCode {
        match self.command.run() {
            Ok(code) => code,
            Err(error) => {
                complain(&error);
                ExitCode::FAILURE
            }
        }
    }
}

/// What `serve` and `acquire` do first.
fn start_service() -> Result<Variables, BuilderError> {
    mfaas_startup::install_tls_provider()?;
    mfaas_startup::start_log()?;
    let variables = Variables::of_process();
    if let Some(socket) = config::isolation_socket(&variables)? {
        // Before the first thread, and before anything looks for its own control groups. Without it every call beside a build would
        // be felt: whoever supervises this program starts it again.
        mfaas_isolation_client::join_secondary(&socket)?;
        tracing::info!(socket = %socket.display(), "this program gives way to calls");
    }
    Ok(variables)
}

impl Command {
    fn run(self) -> Result<ExitCode, BuilderError> {
        match self {
            Self::Serve => {
                let variables = start_service()?;
                serve::serve(&ServeConfig::read(&variables)?)?;
            }
            Self::Acquire => {
                let variables = start_service()?;
                acquirer::serve(&AcquireConfig::read(&variables)?)?;
            }
            Self::Check { path, json, keep, limits, decisions } => {
                return check::check(&path, json, keep.as_deref(), &limits, decisions.as_deref());
            }
            Self::Commands { path, out, json: _ } => return check::commands(&path, &out),
            Self::Facts { subject, json } => return acquire::facts(&subject, json),
            Self::Table(arguments) => return acquire::table(&arguments),
            Self::Geiger { directory, first, behind } => return facts::child(&directory, first, behind),
            Self::Toolchain(ToolchainCommand::Import { from, into }) => {
                print_line(toolchain::import(&from, &into)?);
            }
            Self::Deps(DepsCommand::Vendor { seed, into }) => deps::vendor(&seed, &into)?,
            Self::Deps(DepsCommand::Extend(arguments)) => return acquire::extend(&arguments),
            Self::Deps(DepsCommand::Facts(arguments)) => return acquire::shipped(&arguments),
            Self::Deps(DepsCommand::Build { seed, vendor, toolchain, into }) => {
                let toolchain = toolchain::Toolchain::open(&toolchain)?;
                print_line(deps::build(
                    &seed,
                    &vendor,
                    &toolchain,
                    &into,
                    config::sandbox_minimum(&Variables::of_process())?,
                )?);
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

#[allow(clippy::print_stdout, reason = "the answer of a command")]
fn print_line(line: impl std::fmt::Display) {
    println!("{line}");
}

#[allow(clippy::print_stderr, reason = "the one place where a failed command says why")]
fn complain(error: &BuilderError) {
    eprintln!("error: {}", mfaas_ident::sanitise(&error.to_string(), ERROR_BYTES_MAX));
}
