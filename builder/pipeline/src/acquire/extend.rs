//! `deps extend`: a seed with more crates in it, for the site that makes its caches by hand.

use std::path::PathBuf;
use std::process::ExitCode;

use mfaas_rules::CrateRequest;

use super::context::in_work;
use super::manifest::parse_request;
use super::resolve::{Resolution, Workspace, resolve};
use super::seed::extend_seed;
use crate::error::BuilderError;

/// What `deps extend` is given.
#[derive(Debug, clap::Args)]
pub(crate) struct ExtendArguments {
    /// The seed workspace.
    #[arg(long, value_name = "DIR")]
    seed: PathBuf,
    /// A crate, as NAME@VERSION or NAME@REQUIREMENT; repeatable. Each is resolved beside those before.
    #[arg(long = "add", value_name = "NAME@VERSION", required = true)]
    add: Vec<String>,
    /// Features of all of them, separated by commas.
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    features: Vec<String>,
    /// Without their default features.
    #[arg(long)]
    no_default_features: bool,
    /// Where the new seed goes, which must not exist.
    #[arg(long, value_name = "DIR")]
    into: PathBuf,
    /// Where downloads and the sources for `deps build` are kept; these lie in `sources` below it.
    #[arg(long, value_name = "DIR")]
    work: PathBuf,
}

/// Prints the way to each crate that the site did not have, and writes seed and sources.
#[allow(clippy::print_stdout, reason = "the answer of a command")]
pub(crate) fn extend(arguments: &ExtendArguments) -> Result<ExitCode, BuilderError> {
    let base = Workspace::of_seed(&arguments.seed)?;
    in_work(Some(&arguments.work), |context| {
        let mut approved: Vec<CrateRequest> = Vec::new();
        let mut lock = None;
        for text in &arguments.add {
            let request = parse_request(text, arguments.features.clone(), !arguments.no_default_features)?;
            let found = resolve(&context.cargo, &base, &approved, &request)?;
            print!("{}", draw(&found));
            approved.push(request.exactly(&found.chosen.1));
            lock = Some(found.lock);
        }
        let lock = lock.unwrap_or_default();
        let seed = extend_seed(&arguments.seed, &approved, &lock, &[], &arguments.into)?;
        let next = Workspace::of_seed(&seed)?;
        context.fetch(&next, next.manifest(), &lock)
    })?;
    Ok(ExitCode::SUCCESS)
}

/// A line for each crate that somebody has to decide about.
fn draw(found: &Resolution) -> String {
    let mut out = String::new();
    for member in found.members.iter().filter(|member| member.is_undecided()) {
        let path = found.paths.get(&member.key()).into_iter().flatten();
        let path: Vec<String> = path.map(|(name, version)| format!("{name} {version}")).collect();
        let features = match member.more_features.is_empty() {
            true => String::new(),
            false => format!(" (with {})", member.more_features.join(", ")),
        };
        out.push_str(&format!("{}{features}\n", path.join(" -> ")));
    }
    out
}
