//! `deps facts`: what stands in the sources of the crates that ship, which no acquirer is asked about.
//!
//! Every row is made of the bytes that its checksum names. Nothing is told of a source that was not read.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use mfaas_catalog::{KnownFacts, ShippedCrate, ShippedFacts};
use mfaas_rules::crate_facts::{CompilerVerdict, FACTS_REVISION, KindFacts, summarise};

use super::context::{AcquireContext, NOT_COMPILED, in_work, report};
use super::download::take;
use super::resolve::Workspace;
use crate::deps::{OwnSources, write_own};
use crate::error::BuilderError;
use crate::facts;

/// What `deps facts` is given.
#[derive(Debug, clap::Args)]
pub(crate) struct ShippedArguments {
    /// The seed workspace.
    #[arg(long, value_name = "DIR")]
    seed: PathBuf,
    /// Where to keep what is downloaded, for the next time.
    #[arg(long, value_name = "DIR")]
    work: Option<PathBuf>,
}

/// Prints the facts about every crate of a seed, and about our own, as JSON.
pub(crate) fn shipped(arguments: &ShippedArguments) -> Result<ExitCode, BuilderError> {
    let base = Workspace::of_seed(&arguments.seed)?;
    let path = arguments.seed.join("Cargo.lock");
    let lock = std::fs::read_to_string(&path).map_err(BuilderError::io(&path))?;
    let found = in_work(arguments.work.as_deref(), |context| gather(context, &base, &lock))?;
    facts::print_text(&found, true, String::new)?;
    Ok(ExitCode::SUCCESS)
}

fn gather(context: &AcquireContext, base: &Workspace, lock: &str) -> Result<ShippedFacts, BuilderError> {
    context.fetch(base, base.manifest(), lock)?;
    let mut verdicts = context.verdicts(base, base.manifest(), lock)?;
    let mut crates = BTreeMap::from([own(context)?]);
    for key in base.lock().keys() {
        let Some(checksum) = base.lock().checksum(key) else { continue };
        let download = take(&context.cargo, key, Some(checksum))?;
        let not_run = || CompilerVerdict::NotRun { reason: NOT_COMPILED.to_owned() };
        let verdict = verdicts.remove(key).unwrap_or_else(not_run);
        let facts = KnownFacts::from(report(&download, context.sandbox(), verdict)?);
        let (name, version) = key.clone();
        crates.insert(checksum.to_owned(), ShippedCrate { name, version, facts });
    }
    Ok(ShippedFacts { revision: FACTS_REVISION, crates })
}

/// The SDK with ABI and shim: one digest names all three.
fn own(context: &AcquireContext) -> Result<(String, ShippedCrate), BuilderError> {
    let scratch = context.scratch()?;
    let OwnSources { name, version, digest, directories } = write_own(scratch.path())?;
    let (mut files, mut unread) = (Vec::new(), Vec::new());
    for directory in &directories {
        let found = facts::gather(directory, context.sandbox())?;
        files.extend(found.files);
        unread.extend(found.unread);
    }
    let summary = summarise(&files, &unread, false, false);
    let reason = "the lint was not asked about the crates of the platform itself".to_owned();
    let facts = KnownFacts {
        unsafe_code: summary.unsafe_code,
        geiger: summary.geiger,
        compiler: CompilerVerdict::NotRun { reason },
        kind: KindFacts { proc_macro: false, build_script: false, links: None, edition: None },
    };
    Ok((digest.to_string(), ShippedCrate { name, version, facts }))
}

#[cfg(test)]
mod tests;
