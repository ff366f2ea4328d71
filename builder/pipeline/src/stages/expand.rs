//! The macro-expanded source, judged before anything is compiled.
//!
//! A dependency's macro can put a tenant's tokens inside `unsafe` without the tenant writing the
//! word; after expansion every such place shows, with the hygiene marks that tell whose token is
//! whose.

use mfaas_audit::{expansion, soundness};
use mfaas_ident::Digest;
use mfaas_rules::{Finding, Layer, codes, judge_expansion, judge_soundness};

use super::build_directory::{BuildDirectory, CRATE_ROOT};
use super::context::BuildContext;
use super::dependencies::ResolvedSource;
use crate::diagnostics::{Messages, judge_compiler};
use crate::error::BuilderError;
use crate::journal::{Meter, Stop};
use crate::sandbox::Ran;

/// A source that may be compiled. Made by [`expand`] alone.
#[derive(Debug)]
pub(super) struct AdmittedSource {
    pub(super) resolved: ResolvedSource,
    pub(super) directory: BuildDirectory,
    /// The text that was judged.
    expansion: Digest,
}

/// Expands in the sandbox, then scans and judges the text.
pub(super) fn expand(
    resolved: ResolvedSource,
    context: &BuildContext,
    meter: &Meter,
) -> Result<AdmittedSource, Stop> {
    let directory = BuildDirectory::prepare(&resolved.source.tree, context)?;
    let arguments = arguments(&resolved, &directory);
    let ran = if resolved.has_procedural_macros {
        let ran = directory.rustc_unseen(context, &arguments, directory.out())?;
        meter.add(ran.cpu);
        ran
    } else {
        directory.rustc(context, arguments, true, meter)?
    };
    judge_compiler(&ran, &Messages::read(&ran.stderr))?;
    let tree = &resolved.source.tree;
    context.layers.refuse_if_any(&judge_expansion(&expansion::read(&ran.stdout, tree)))?;
    context.layers.refuse_if_any(&judge_soundness(&soundness::read(&ran.stdout, tree)))?;
    context.layers.refuse_if_any(&left_behind(&directory)?)?;
    Ok(AdmittedSource { resolved, directory, expansion: Digest::of(&ran.stdout) })
}

impl AdmittedSource {
    /// Compiles, and expands once more at the same moment where a procedural macro can be called: it sees no
    /// difference between the runs, and gives the same tokens as before or the source is refused.
    pub(super) fn compile(
        &self,
        compilation: Vec<String>,
        context: &BuildContext,
        meter: &Meter,
    ) -> Result<Ran, Stop> {
        if !self.resolved.has_procedural_macros {
            return Ok(self.directory.rustc(context, compilation, false, meter)?);
        }
        let expansion = arguments(&self.resolved, &self.directory);
        let out = self.directory.another_out(context)?;
        let (ran, again) = std::thread::scope(|scope| {
            let again = scope.spawn(|| self.directory.rustc_unseen(context, &expansion, &out));
            let ran = self.directory.rustc_unseen(context, &compilation, self.directory.out());
            (ran, again.join())
        });
        let (ran, again) = (ran?, again.map_err(|_| BuilderError::Panicked)??);
        meter.add(ran.cpu + again.cpu);
        let is_same = again.exit.success() && Digest::of(&again.stdout) == self.expansion;
        context.layers.refuse_if_any(&Vec::from_iter((!is_same).then(fickle)))?;
        Ok(ran)
    }
}

/// rustc's arguments for the expansion.
fn arguments(resolved: &ResolvedSource, directory: &BuildDirectory) -> Vec<String> {
    let mut arguments = directory.tenant_flags(&resolved.source.crate_name, &resolved.externs);
    arguments.push("-Zunpretty=expanded,hygiene".to_owned());
    arguments.push(CRATE_ROOT.to_owned());
    arguments
}

fn fickle() -> Finding {
    Finding::new(
        codes::MF0412,
        Layer::Expansion,
        "a macro has not given the same tokens in every run of the compiler",
    )
}

/// An expansion writes no file. A macro that does could tell a later run from this one.
fn left_behind(directory: &BuildDirectory) -> Result<Vec<Finding>, BuilderError> {
    let out = &directory.out().host;
    let mut entries = std::fs::read_dir(out).map_err(BuilderError::product(out))?;
    let finding = || {
        let text = "a macro has left a file behind, by which it could tell the next run of the compiler from this one";
        Finding::new(codes::MF0412, Layer::Expansion, text)
    };
    Ok(entries.next().map(|_| finding()).into_iter().collect())
}
