//! A trial: the crates of a request compiled as they would be offered, before anybody votes.
//!
//! Who decides about a crate has to know what it must be granted, and that it compiles here at all. So the
//! closure is type-checked against the facade of std, in the sandbox. What the compiler refuses in the facade's
//! name is granted to the crate that reached for it, and asked again, until it compiles or nothing is left to
//! grant. What comes of it are needs, not grants: only people grant, and only what they are asked about here.

use std::collections::{BTreeMap, BTreeSet};

use mfaas_audit::rustc_json::Diagnostic;
use mfaas_ident::CrateName;
use mfaas_rules::crate_facts::TrialBuild;
use mfaas_rules::profiles::std_items::Capability;

use super::context::AcquireContext;
use super::failure::{REASON_BYTES_MAX, first_error};
use super::resolve::{Resolved, ResolvedCrate, Workspace};
use super::seed::{Grant, grant, write_seed};
use crate::deps::{self, PackageKey, messages};
use crate::diagnostics::facade_reason;
use crate::error::BuilderError;
use crate::toolchain::TARGET;

/// Attempts. Each but the last grants something more to some crate; a closure is rarely deeper than a few crates
/// that reach for something, and one that is gets the answer that nobody knows.
const ROUNDS_MAX: usize = 8;
/// The reason that stands beside a grant of a trial, which is gone with it.
const GRANT_REASON: &str = "a trial";

/// What each crate is granted.
pub(crate) type Granted = BTreeMap<CrateName, BTreeSet<Capability>>;

/// Tries every crate of a resolution that was fetched. `granted` is what those that are offered already have.
pub(crate) fn trial(
    context: &AcquireContext,
    resolved: &Resolved,
    closure: &[ResolvedCrate],
    granted: Granted,
) -> Result<BTreeMap<PackageKey, TrialBuild>, BuilderError> {
    let site: Granted =
        granted.into_iter().filter(|(name, _)| closure.iter().any(|member| member.name == *name)).collect();
    let mut granted = site.clone();
    for _ in 0..ROUNDS_MAX {
        let outcome = attempt(context, resolved, &granted)?;
        let more = wanted(&outcome.errors, &granted);
        if outcome.succeeded || more.is_empty() {
            return Ok(closure
                .iter()
                .map(|member| (member.key(), outcome.about(member, &beyond(&granted, &site))))
                .collect());
        }
        for (name, capabilities) in more {
            merge(granted.entry(name).or_default(), capabilities);
        }
    }
    let reason = format!("after {ROUNDS_MAX} attempts something more was missing each time");
    Ok(closure.iter().map(|member| (member.key(), TrialBuild::NotRun { reason: reason.clone() })).collect())
}

/// What was granted in a trial to crates that the site does not give exactly that.
fn beyond(granted: &Granted, site: &Granted) -> Granted {
    let differs = |(name, set): &(&CrateName, &BTreeSet<Capability>)| site.get(*name) != Some(*set);
    granted.iter().filter(differs).map(|(name, set)| (name.clone(), set.clone())).collect()
}

/// What came of one attempt.
struct TrialOutcome {
    succeeded: bool,
    compiled: BTreeSet<PackageKey>,
    errors: Vec<(PackageKey, Diagnostic)>,
    /// The end of what cargo printed: a build script's failure is told there alone.
    tail: String,
}

fn attempt(
    context: &AcquireContext,
    resolved: &Resolved,
    granted: &Granted,
) -> Result<TrialOutcome, BuilderError> {
    let scratch = context.scratch()?;
    let seed = scratch.path().join("seed");
    write_seed(&Workspace::empty(), &resolved.manifest, &resolved.lock_text, &seed)?;
    grant(&seed, &rows(granted))?;
    let ran =
        deps::try_out(&seed, &context.sources(), &context.toolchain, scratch.path(), context.minimum())?;
    let output = messages::parse(&ran.stdout, TARGET)
        .map_err(|problem| BuilderError::Command { command: "cargo", problem })?;
    let succeeded = ran.exit.success();
    Ok(TrialOutcome {
        succeeded,
        compiled: output
            .compiled
            .into_iter()
            // What was compiled for the build machine, without a facade, says nothing where the rest stopped.
            .filter(|unit| !unit.is_build_script && (succeeded || unit.for_target))
            .map(|unit| unit.package)
            .collect(),
        errors: output.errors,
        tail: first_error(&String::from_utf8_lossy(&ran.stderr)),
    })
}

fn rows(granted: &Granted) -> Vec<Grant> {
    let row = |(name, capabilities): (&CrateName, &BTreeSet<Capability>)| Grant {
        name: name.clone(),
        capabilities: capabilities.iter().copied().collect(),
        reason: GRANT_REASON.to_owned(),
    };
    granted.iter().filter(|(_, capabilities)| !capabilities.is_empty()).map(row).collect()
}

/// What the crates that did not compile reach for and were not granted. A crate whose errors tell of nothing that
/// can be granted one by one may need the library as it is.
fn wanted(errors: &[(PackageKey, Diagnostic)], granted: &Granted) -> Granted {
    let mut found = Granted::new();
    for (name, errors) in by_name(errors) {
        let has = granted.get(name).cloned().unwrap_or_default();
        if has.contains(&Capability::Real) {
            continue;
        }
        let reasons: Vec<_> = errors.iter().filter_map(|error| facade_reason(error)).collect();
        let mut more: BTreeSet<Capability> = reasons.iter().filter_map(|reason| reason.lifted_by()).collect();
        more.retain(|capability| !has.contains(capability));
        if more.is_empty() || reasons.iter().any(|reason| reason.lifted_by().is_none()) {
            more = BTreeSet::from([Capability::Real]);
        }
        found.insert(name.clone(), more);
    }
    found
}

fn by_name(errors: &[(PackageKey, Diagnostic)]) -> BTreeMap<&CrateName, Vec<&Diagnostic>> {
    let mut found: BTreeMap<&CrateName, Vec<&Diagnostic>> = BTreeMap::new();
    for ((name, _), error) in errors {
        found.entry(name).or_default().push(error);
    }
    found
}

/// The library as it is stands for itself: a grant of it and more is refused.
fn merge(has: &mut BTreeSet<Capability>, more: BTreeSet<Capability>) {
    has.extend(more);
    if has.contains(&Capability::Real) {
        *has = BTreeSet::from([Capability::Real]);
    }
}

impl TrialOutcome {
    /// `needs` is what each crate was granted beyond what the site gives it.
    fn about(&self, member: &ResolvedCrate, needs: &Granted) -> TrialBuild {
        let key = member.key();
        if let Some((_, error)) = self.errors.iter().find(|(package, _)| *package == key) {
            let text = if error.rendered.is_empty() { &error.message } else { &error.rendered };
            return TrialBuild::Fails { reason: mfaas_ident::sanitise(text, REASON_BYTES_MAX) };
        }
        if self.compiled.contains(&key) {
            return TrialBuild::Compiles { needs: needs.get(&member.name).cloned().unwrap_or_default() };
        }
        let reason = match self.errors.first() {
            Some(((name, version), _)) => {
                format!("{name} {version}, which comes before it, does not compile")
            }
            None if self.succeeded => "nothing of this target compiles it".to_owned(),
            None => self.tail.clone(),
        };
        TrialBuild::NotRun { reason }
    }
}

#[cfg(test)]
mod tests;
