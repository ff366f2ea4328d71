//! The bare compiler calls behind an artifact, for whoever measures or repeats a build by hand.
//!
//! Nothing is run here, and nothing of this is used by a deploy; but the arguments come from the
//! same functions, so they cannot drift apart.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::build_directory::BuildDirectory;
use super::context::BuildContext;
use super::dependencies::ResolvedSource;
use super::{compile, link};
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

/// Writes source and entry below the context's scratch directory, where they stay, and answers the calls
/// with the paths of this machine. The context's sandbox is one that is never entered.
pub(crate) fn commands(
    resolved: &ResolvedSource,
    context: &BuildContext,
) -> Result<BareCommands, BuilderError> {
    let mut directory = BuildDirectory::prepare(&resolved.source.tree, context)?;
    directory.keep();
    let call = |args| BareCommand {
        program: directory.compiler(),
        args,
        env: directory.environment().into_iter().collect(),
        directory: PathBuf::from(directory.source_root()),
    };
    let commands = vec![
        call(compile::arguments(resolved, &directory)),
        call(link::arguments(resolved, &directory, &context.deps)?),
    ];
    Ok(BareCommands { commands, artifact: directory.product_on_host(link::PRODUCT) })
}
