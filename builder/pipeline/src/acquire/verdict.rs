//! The compiler's verdict: each crate compiled once more with `-F unsafe-code`, which nothing in it can
//! undo, and without the cap that cargo puts on the lints of dependencies.
//!
//! One cargo run makes what the compilations need, and the broker notes how each was asked; then the
//! compiler is asked again, crate by crate, each time in a sandbox of its own in which nothing else runs
//! and nothing of the first run can be changed. It sees what is compiled: code behind other features or
//! for other platforms is not, and neither are the bodies of macros that only others expand. Whatever
//! did not end in a compiled crate or in errors of that lint says nothing, and never `Clean`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use mfaas_audit::rustc_json::{self, Diagnostic, Level};
use mfaas_rules::Span;
use mfaas_rules::crate_facts::{CompilerHotspot, CompilerVerdict};
use mfaas_rules::limits::VERDICT;

use super::units::{self, Question};
use crate::deps::messages::{self, CargoOutput, Compiled};
use crate::deps::{PackageKey, Seed, Site, Unit};
use crate::error::BuilderError;
use crate::flags;
use crate::sandbox::{Ran, SandboxMinimum, View};
use crate::toolchain::{TARGET, Toolchain};

/// What the compiler says about every crate that `seed` compiles. A crate without an entry was not
/// compiled.
pub(crate) fn verdicts(
    seed: &Path,
    vendor: &Path,
    toolchain: &Toolchain,
    work: &Path,
    minimum: SandboxMinimum,
) -> Result<BTreeMap<PackageKey, CompilerVerdict>, BuilderError> {
    let seed = Seed::read(seed)?;
    let staging =
        tempfile::Builder::new().prefix("verdict-").tempdir_in(work).map_err(BuilderError::io(work))?;
    let site = Site::prepare(&seed, &[], vendor, toolchain, staging.path(), minimum)?;
    site.plan_without_facade(&seed)?;
    let (ran, made) = site.check()?;
    let output = messages::parse(&ran.stdout, TARGET)
        .map_err(|problem| BuilderError::Command { command: "cargo", problem })?;
    let run = VerdictRun { site, output: &output, notes: &made.units, work: staging.path() };
    let mut found: BTreeMap<PackageKey, CompilerVerdict> = BTreeMap::new();
    let is_foreign = |compiled: &&Compiled| seed.lock.checksum(&compiled.package).is_some();
    let libraries = output.compiled.iter().filter(|compiled| !compiled.is_build_script);
    for compiled in libraries.filter(is_foreign) {
        for verdict in run.ask_about(compiled)? {
            let whole = match found.remove(&compiled.package) {
                Some(other) => worse(other, verdict),
                None => verdict,
            };
            found.insert(compiled.package.clone(), whole);
        }
    }
    Ok(found)
}

/// What is needed to ask.
struct VerdictRun<'a> {
    site: Site,
    output: &'a CargoOutput,
    notes: &'a [Unit],
    work: &'a Path,
}

impl VerdictRun<'_> {
    /// Every compilation of one crate with one set of features. One that cargo tells of and that no
    /// note is about could be any: it failed.
    fn ask_about(&self, compiled: &Compiled) -> Result<Vec<CompilerVerdict>, BuilderError> {
        let mut verdicts = Vec::new();
        let mut refused = "nothing says how the compiler was asked".to_owned();
        for unit in self.notes.iter().filter(|unit| unit.package == compiled.package.0.as_str()) {
            let scratch = tempfile::Builder::new().prefix("scratch-").tempdir_in(self.work);
            let scratch = scratch.map_err(BuilderError::io(self.work))?;
            let view = self.site.scratch(scratch.path());
            match units::question(unit, compiled, self.output, &view.inside) {
                Ok(question) => verdicts.push(self.ask(&question, &compiled.package, &view)?),
                Err(reason) => refused = reason,
            }
        }
        if verdicts.is_empty() {
            verdicts.push(CompilerVerdict::Failed { reason: refused });
        }
        Ok(verdicts)
    }

    fn ask(
        &self,
        question: &Question,
        package: &PackageKey,
        scratch: &View,
    ) -> Result<CompilerVerdict, BuilderError> {
        let run = |more: &[String]| {
            let arguments = question.arguments.iter().chain(more).cloned().collect();
            let (environment, directory) = (question.environment.clone(), question.directory.clone());
            let ran = self.site.ask_compiler(arguments, environment, directory, scratch)?;
            Ok::<_, BuilderError>(Answer::of(&ran, &scratch.host))
        };
        let mut answer = run(&[])?;
        // Lints that the crate itself denies, and that cargo's cap silences for everybody else.
        let own = answer.other_lints();
        if answer.unsafe_errors().next().is_none() && !own.is_empty() {
            answer = run(&own.iter().map(|lint| format!("--force-warn={lint}")).collect::<Vec<_>>())?;
        }
        Ok(answer.verdict(package))
    }
}

/// What one compiler said.
struct Answer {
    compiled: bool,
    ending: String,
    errors: Vec<Diagnostic>,
}

impl Answer {
    fn of(ran: &Ran, scratch: &Path) -> Self {
        let text = String::from_utf8_lossy(&ran.stderr);
        let is_error = |found: &Diagnostic| {
            matches!(found.level, Level::Error | Level::InternalError)
                && !found.message.starts_with("aborting due to")
        };
        let mut files = std::fs::read_dir(scratch).into_iter().flatten().flatten();
        // A macro can end the compiler as if it had done its work.
        let has_product = files.any(|file| file.path().extension().is_some_and(|found| found == "rmeta"));
        Self {
            compiled: ran.exit.success() && has_product,
            ending: format!("{:?}", ran.exit),
            errors: text.lines().filter_map(rustc_json::read).filter(is_error).collect(),
        }
    }

    /// Errors of the one lint, and those about attributes that would have switched it off.
    fn unsafe_errors(&self) -> impl Iterator<Item = &Diagnostic> {
        self.errors.iter().filter(|error| match error.code.as_deref() {
            Some("unsafe_code") => true,
            Some("E0453") => error.message.contains("unsafe_code"),
            _ => false,
        })
    }

    /// Other lints that ended it. Codes of the compiler's errors begin with `E` and a digit; no lint
    /// has an upper-case letter.
    fn other_lints(&self) -> BTreeSet<String> {
        let codes = self.errors.iter().filter_map(|error| error.code.clone());
        codes.filter(|code| code != "unsafe_code" && !code.contains(char::is_uppercase)).collect()
    }

    fn verdict(&self, package: &PackageKey) -> CompilerVerdict {
        let errors = self.unsafe_errors().count();
        if errors > 0 {
            let hotspots = self.unsafe_errors().take(VERDICT.hotspots_max);
            return CompilerVerdict::Unsafe {
                errors: u32::try_from(errors).unwrap_or(u32::MAX),
                hotspots: hotspots.map(|error| hotspot(error, package)).collect(),
            };
        }
        if self.compiled && self.errors.is_empty() {
            return CompilerVerdict::Clean;
        }
        let first = self.errors.first().map_or(self.ending.as_str(), |error| error.message.as_str());
        let first = mfaas_ident::sanitise_line(first, VERDICT.message_bytes_max);
        CompilerVerdict::Failed {
            reason: format!("it does not compile with the lint, for another reason: {first}"),
        }
    }
}

fn hotspot(error: &Diagnostic, package: &PackageKey) -> CompilerHotspot {
    let root = format!("{}/{}-{}/", flags::CRATES_PREFIX, package.0, package.1);
    let nowhere = || Span { file: String::new(), line: 0, column: 0, end_column: 0, text: String::new() };
    let mut span = error.span.clone().unwrap_or_else(nowhere);
    if let Some(below) = span.file.strip_prefix(&root) {
        span.file = below.to_owned();
    }
    CompilerHotspot { span, message: mfaas_ident::sanitise_line(&error.message, VERDICT.message_bytes_max) }
}

/// Of two compilations of one crate the answer that says less good of it.
fn worse(one: CompilerVerdict, other: CompilerVerdict) -> CompilerVerdict {
    let rank = |verdict: &CompilerVerdict| match verdict {
        CompilerVerdict::Clean => (0, 0),
        CompilerVerdict::NotRun { .. } => (1, 0),
        CompilerVerdict::Failed { .. } => (2, 0),
        CompilerVerdict::Unsafe { errors, .. } => (3, *errors),
    };
    if rank(&other) > rank(&one) { other } else { one }
}

#[cfg(test)]
mod tests;
