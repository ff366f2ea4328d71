//! The same source under the compiler's next trait solver, which has to agree.
//!
//! Some known holes of the present solver let safe code break memory safety; the next one closes
//! several of them. It is unstable, so it is never the one that makes an artifact: it can only
//! refuse.

use mfaas_delivery::Diagnostic;
use mfaas_rules::{Finding, Layer, codes};
use mfaas_sandbox::Exit;

use super::build_directory::{BuildDirectory, CRATE_ROOT};
use super::context::BuildContext;
use super::dependencies::ResolvedSource;
use crate::diagnostics::{Messages, judge_compiler};
use crate::journal::{Meter, Stop};

/// Type-checks in the sandbox; for a source that has compiled.
pub(super) fn second_opinion(
    resolved: &ResolvedSource,
    directory: &BuildDirectory,
    context: &BuildContext,
    meter: &Meter,
) -> Result<(), Stop> {
    if !context.layers.has(Layer::Soundness) {
        return Ok(());
    }
    let mut arguments = directory.tenant_flags(&resolved.source.crate_name, &resolved.externs);
    arguments.push("-Znext-solver=globally".to_owned());
    arguments.push(format!("--emit=metadata={}", directory.product("second.rmeta")));
    arguments.push(CRATE_ROOT.to_owned());
    let ran = directory.rustc(context, arguments, true, meter)?;
    let messages = Messages::read(&ran.stderr);
    let mut diagnostics = messages.error_diagnostics();
    if ran.exit == Exit::Code(0) || diagnostics.is_empty() {
        return judge_compiler(&ran, &messages);
    }
    let finding = Finding::new(
        codes::MF0401,
        Layer::Soundness,
        "the compiler's next trait solver rejects what the present one accepts",
    )
    .hint("Spell the types out, or do without the trait objects and projections that the next message points at.");
    diagnostics.insert(0, Diagnostic::from(&finding));
    Err(Stop::Refused(diagnostics))
}
