//! Bounds for all lifetimes, `for<'a, 'b> Trait<…>`, on types that imply a relation between them.
//!
//! The relation holds for the bound itself and is forgotten in its supertraits
//! (rust-lang/rust#84591).

use std::collections::BTreeSet;
use std::ops::Range;

use mfaas_rules::facts::SoundnessShape;
use ra_ap_rustc_lexer::TokenKind;

use super::findings::Findings;
use super::function::{Scope, generics};
use super::items::declared;
use super::krate::Crate;
use super::run::Run;
use super::signature::{Region, Signature, Witness, Zone};

/// Looks at every `for<…>` that is no loop, closure or function type.
pub(super) fn bounds(of: &Crate<'_, '_>, found: &mut Findings<'_, '_>) -> Result<(), String> {
    let parameters: BTreeSet<&str> = of
        .items
        .functions
        .iter()
        .flat_map(|function| generics(of, function))
        .map(|(list, _)| list)
        .chain(of.items.impls.iter().map(|found| found.generics.list.clone()))
        .chain(of.items.traits.iter().map(|found| found.generics.list.clone()))
        .flat_map(|list| declared(of.run, list))
        .chain(std::iter::once("Self"))
        .collect();
    for at in (0..of.run.len()).filter(|at| of.run.is_binder(*at)) {
        of.run.budget().check()?;
        let behind = of.run.behind_angles(at + 1);
        if ["fn", "unsafe", "extern"].iter().any(|keyword| of.run.is_keyword(behind, keyword)) {
            continue;
        }
        let binder: BTreeSet<&str> =
            declared(of.run, at + 2..behind.saturating_sub(1).max(at + 2)).into_iter().collect();
        let end = of.run.type_end(behind, of.run.len(), true);
        let detail = bound(of, behind..end, &binder, &parameters)
            .ok_or_else(|| "a bound for all lifetimes is too long to be read".to_owned())?;
        if let Some((name, detail)) = detail {
            found.add(SoundnessShape::HigherRankedWitness, "trait", name, detail);
        }
    }
    Ok(())
}

/// Outer `None`: too long. Inner: the trait and the relation that it may forget.
#[expect(clippy::option_option, reason = "two different absences")]
fn bound<'a>(
    of: &Crate<'a, '_>,
    range: Range<usize>,
    binder: &BTreeSet<&'a str>,
    parameters: &BTreeSet<&'a str>,
) -> Option<Option<(&'a str, String)>> {
    let tokens = of.aliases.write_out(of.run.tokens[range].to_vec(), &[], of.run)?;
    let run = Run::new(tokens, of.run.budget());
    let with_supertraits =
        (0..run.len()).filter_map(|at| run.word(at)).find(|word| of.types.with_supertraits.contains(word));
    let names = Scope { parameters: parameters.clone(), bound: BTreeSet::new(), of };
    let zones = arguments(&run).into_iter().map(|range| (Zone::Input, range)).collect::<Vec<_>>();
    let signature = Signature::read(&run, &zones, false, &names)?;
    let in_binder = |region: Region<'_>| matches!(region, Region::Named(name) if binder.contains(name));
    let forgets = |witness: &&Witness<'a>| {
        let both = in_binder(witness.shorter) && in_binder(witness.longer);
        let either = in_binder(witness.shorter) || in_binder(witness.longer);
        both || (either && with_supertraits.is_some())
    };
    let name = with_supertraits.or_else(|| (0..run.len()).filter_map(|at| run.word(at)).next());
    Some(signature.witnesses.iter().find(forgets).map(|witness| {
        let detail = format!("{}: {}", witness.longer.shown(), witness.shorter.shown());
        (name.unwrap_or_default(), detail)
    }))
}

/// The types in a bound: what stands before its colon, and the arguments of its traits. The
/// argument lists of the traits themselves are left out, since a trait relates nothing.
fn arguments(run: &Run<'_, '_>) -> Vec<Range<usize>> {
    let mut parts = Vec::new();
    let subject = run.colon(0..run.len());
    if let Some(colon) = subject {
        parts.push(0..colon);
    }
    let mut at = subject.map_or(0, |colon| colon + 1);
    while at < run.len() {
        if run.is(at, TokenKind::OpenParen) {
            at = run.behind_group(at);
        } else if run.is(at, TokenKind::Lt) {
            let behind = run.behind_angles(at);
            parts.extend(run.split(at + 1..behind.saturating_sub(1).max(at + 1)));
            at = behind;
        } else {
            at += 1;
        }
    }
    parts
}
