//! The bare compiler calls behind an artifact, for whoever measures or repeats a build by hand.
//!
//! Nothing is run here, and nothing of this is used by a deploy; but the arguments come from the
//! same functions, so they cannot drift apart.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::bench::Bench;
use super::{ResolvedSource, Workshop, compile, link};
use crate::error::BuilderError;

/// One call.
#[derive(Debug, serde::Serialize)]
pub(crate) struct BareCommand {
    program: String,
    args: Vec<String>,
    env: BTreeMap<String, String>,
    directory: PathBuf,
}

/// The calls in their order, and where the last one leaves the shared object.
#[derive(Debug, serde::Serialize)]
pub(crate) struct BareCommands {
    commands: Vec<BareCommand>,
    artifact: PathBuf,
}

/// Writes source and entry below the workshop's directory, where they stay, and answers the calls
/// with the paths of this machine. The workshop's cage is one that is never entered.
pub(crate) fn commands(resolved: &ResolvedSource, workshop: &Workshop) -> Result<BareCommands, BuilderError> {
    let mut bench = Bench::prepare(&resolved.source.tree, workshop)?;
    bench.keep();
    let call = |args| BareCommand {
        program: bench.compiler(),
        args,
        env: bench.environment().into_iter().collect(),
        directory: PathBuf::from(bench.source_root()),
    };
    let commands = vec![
        call(compile::arguments(resolved, &bench)),
        call(link::arguments(resolved, &bench, &workshop.deps)?),
    ];
    Ok(BareCommands { commands, artifact: bench.product_on_host(link::PRODUCT) })
}
