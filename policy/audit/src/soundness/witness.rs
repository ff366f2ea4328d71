//! Functions whose signature implies that one lifetime outlives another.
//!
//! `fn f<'s, 'l>(_: &'s &'l (), v: &'l T) -> &'s T` may return `v`: the first parameter proves
//! that it lives long enough. A call checks the proof. A function pointer to `f` forgets it
//! (rust-lang/rust#25860), so such a function may be called and not be used as a value. Three
//! things have to come together: a type that implies the relation, the longer-lived data from
//! somewhere else, and a place for it that names the shorter lifetime.

use std::ops::Range;

use mfaas_rules::facts::SoundnessShape;
use ra_ap_rustc_lexer::TokenKind;

use super::findings::Findings;
use super::function::{Prepared, prepare};
use super::krate::Crate;
use super::opaque::static_opaque_type;
use super::outlived::outlived_associated_type;
use super::run::Run;
use super::signature::{Mention, Region, Signature, Witness, Zone};
use super::values::Values;

/// Looks at every function of the crate.
pub(super) fn functions(of: &Crate<'_, '_>, found: &mut Findings<'_, '_>) -> Result<(), String> {
    let values = Values::new(of);
    for function in &of.items.functions {
        of.run.budget().check()?;
        let name = of.name(function.name);
        let prepared = prepare(of, function)
            .ok_or_else(|| format!("the signature of `{name}` is too long to be read"))?;
        if let Some(witness) = relabelling(&prepared, |_| true)
            && values.has(of, function)
        {
            found.add(SoundnessShape::WitnessAsValue, "fn", name, shown(&witness));
        }
        if let Some(witness) = relabelling(&prepared, |witness| witness.in_projection) {
            let shape = match witness.zone {
                Zone::Head => SoundnessShape::ProjectionInHeader,
                Zone::Input | Zone::Output | Zone::Bounds => SoundnessShape::ProjectionWitness,
            };
            found.add(shape, "fn", name, shown(&witness));
        }
        if let Some(detail) = outlived_associated_type(of, function, &prepared) {
            found.add(SoundnessShape::OutlivedProjection, "fn", name, detail);
        }
        if let Some(detail) = static_opaque_type(of, &prepared) {
            found.add(SoundnessShape::StaticClosure, "fn", name, detail);
        }
    }
    constants(of, found)
}

/// Associated constants can hold closures with the bounds of what they belong to.
fn constants(of: &Crate<'_, '_>, found: &mut Findings<'_, '_>) -> Result<(), String> {
    for constant in &of.items.constants {
        of.run.budget().check()?;
        let name = of.name(constant.name);
        let prepared =
            prepare(of, constant).ok_or_else(|| format!("the type of `{name}` is too long to be read"))?;
        if let Some(detail) = outlived_associated_type(of, constant, &prepared) {
            found.add(SoundnessShape::OutlivedProjection, "const", name, detail);
        }
    }
    Ok(())
}

fn shown(witness: &Witness<'_>) -> String {
    format!("{}: {}", witness.longer.shown(), witness.shorter.shown())
}

/// A witness of an accepted kind, with data and a place for it, that no bound replaces.
fn relabelling<'a>(
    prepared: &Prepared<'a, '_>,
    accepts: impl Fn(&Witness<'a>) -> bool,
) -> Option<Witness<'a>> {
    let signature = &prepared.signature;
    let of_interest = signature.witnesses.iter().filter(|witness| !witness.is_mutable && accepts(witness));
    of_interest
        .filter(|witness| !prepared.bounds.says(witness.longer, witness.shorter))
        .find(|witness| has_source(&prepared.run, signature, witness) && has_sink(signature, witness))
        .cloned()
}

/// Data of the longer lifetime comes in through a type that does not imply the relation itself.
pub(super) fn has_source(run: &Run<'_, '_>, signature: &Signature<'_>, witness: &Witness<'_>) -> bool {
    let same: Vec<&Range<usize>> = signature
        .witnesses
        .iter()
        .filter(|other| other.shorter == witness.shorter && other.longer == witness.longer)
        .map(|other| &other.tokens)
        .collect();
    let steps = signature.witnesses.len() + signature.mentions.len() * same.len();
    // Whatever cannot be paid for is refused in the end.
    if !run.budget().pay(steps) || signature.behind_self.contains(&witness.longer) {
        return true;
    }
    signature.mentions.iter().any(|mention| {
        mention.region == witness.longer
            && brings_data(run, mention)
            && !same.iter().any(|tokens| tokens.contains(&mention.at))
    })
}

fn brings_data(run: &Run<'_, '_>, mention: &Mention<'_>) -> bool {
    match mention.zone {
        Zone::Input => true,
        // `for<'a> &'a T: Trait` speaks of a reference, not of a source of `T`.
        Zone::Bounds => {
            !(matches!(mention.region, Region::Type(_))
                && mention.at > 0
                && (run.is(mention.at - 1, TokenKind::And)
                    || run.is_keyword(mention.at - 1, "mut")
                    || run.lifetime(mention.at - 1).is_some()))
        }
        // The arguments of a function that is returned.
        Zone::Output => mention.in_function_type,
        Zone::Head => false,
    }
}

/// Somewhere the shorter lifetime is promised: in the output, in a parameter to write to, or
/// nowhere at all for `'static`, since a thread-local will do.
pub(super) fn has_sink(signature: &Signature<'_>, witness: &Witness<'_>) -> bool {
    if witness.shorter == Region::Static
        || witness.zone == Zone::Output
        || signature.behind_self.contains(&witness.shorter)
    {
        return true;
    }
    signature.mentions.iter().any(|mention| {
        mention.region == witness.shorter
            && mention.zone != Zone::Head
            && !witness.tokens.contains(&mention.at)
    })
}
