//! Functions whose signature implies that one lifetime outlives another.
//!
//! `fn f<'s, 'l>(_: &'s &'l (), v: &'l T) -> &'s T` may return `v`: the first parameter proves
//! that it lives long enough. A call checks the proof. A function pointer to `f` forgets it
//! (rust-lang/rust#25860), so such a function may be called and not be used as a value. Three
//! things have to come together: a type that implies the relation, the longer-lived data from
//! somewhere else, and a place for it that names the shorter lifetime.

use std::collections::BTreeSet;
use std::ops::Range;

use mfaas_rules::facts::SoundnessShape;
use ra_ap_rustc_lexer::TokenKind;

use super::function::{Prepared, prepare};
use super::items::Function;
use super::run::Run;
use super::signature::{Mention, Region, Signature, Witness, Zone};
use super::values::Values;
use super::{Crate, Findings};

/// Looks at every function of the crate.
pub(super) fn functions(of: &Crate<'_, '_>, found: &mut Findings<'_, '_>) -> Result<(), String> {
    let values = Values::new(of);
    for function in &of.items.functions {
        let name = of.name(function.name);
        let prepared = prepare(of, function)
            .ok_or_else(|| format!("the signature of `{name}` is too long to be read"))?;
        if let Some(witness) = relabelling(&prepared, |_| true) {
            if values.has(of, function) {
                let detail = shown(&witness);
                found.add(SoundnessShape::WitnessAsValue, "fn", name, detail);
            }
        }
        if let Some(witness) = relabelling(&prepared, |witness| witness.in_projection) {
            let shape = match witness.zone {
                Zone::Head => SoundnessShape::ProjectionInHeader,
                Zone::Input | Zone::Output | Zone::Bounds => SoundnessShape::ProjectionWitness,
            };
            found.add(shape, "fn", name, shown(&witness));
        }
        if let Some(detail) = outlived_projection(of, function, &prepared) {
            found.add(SoundnessShape::OutlivedProjection, "fn", name, detail);
        }
        if static_closure(&prepared) {
            let detail = "the closure's type names a lifetime of the function".to_owned();
            found.add(SoundnessShape::StaticClosure, "fn", name, detail);
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
    if witness.shorter == Region::Static || witness.zone == Zone::Output {
        return true;
    }
    signature.mentions.iter().any(|mention| {
        mention.region == witness.shorter
            && mention.zone != Zone::Head
            && !witness.tokens.contains(&mention.at)
    })
}

/// A parameter `P` that outlives some lifetime, and a value of the type `P::X` from elsewhere:
/// rustc concludes that `P::X` outlives it too, which is false for closures
/// (rust-lang/rust#84366).
fn outlived_projection(
    of: &Crate<'_, '_>,
    function: &Function,
    prepared: &Prepared<'_, '_>,
) -> Option<String> {
    if !function.has_body {
        return None;
    }
    let signature = &prepared.signature;
    let explicit = prepared.bounds.of_parameters.iter().map(|(parameter, shorter)| {
        let shorter = if *shorter == "'static" { Region::Static } else { Region::Named(shorter) };
        (*parameter, shorter, 0..0)
    });
    let implied = signature.witnesses.iter().filter_map(|witness| match witness.longer {
        Region::Type(parameter) => Some((parameter, witness.shorter, witness.tokens.clone())),
        Region::Static | Region::Named(_) | Region::Elided(_) => None,
    });
    explicit
        .chain(implied)
        .find(|(parameter, shorter, tokens)| {
            prepared.bounds.admits_closure(of, parameter)
                && !is_bounded(prepared, parameter, *shorter)
                && keeps_projected(prepared, *shorter)
                && brings_projected(of, prepared, parameter, tokens)
        })
        .map(|(parameter, shorter, _)| format!("{parameter}: {}", shorter.shown()))
}

/// The bounds speak of the projection itself.
fn is_bounded(prepared: &Prepared<'_, '_>, parameter: &str, shorter: Region<'_>) -> bool {
    let mut bounds = prepared.bounds.of_projections.iter();
    bounds.any(|(of, by)| *of == parameter && (*by == "'static" || Region::Named(by) == shorter))
}

/// What is kept for `'static` may go anywhere; for another lifetime, into a trait object of the
/// output that names it.
fn keeps_projected(prepared: &Prepared<'_, '_>, shorter: Region<'_>) -> bool {
    let mut mentions = prepared.signature.mentions.iter();
    shorter == Region::Static
        || (erases(prepared)
            && mentions.any(|mention| mention.zone == Zone::Output && mention.region == shorter))
}

/// The output holds a type that does not show.
fn erases(prepared: &Prepared<'_, '_>) -> bool {
    let run = &prepared.run;
    prepared.zones.iter().any(|(zone, range)| {
        *zone == Zone::Output
            && range.clone().any(|at| run.is_keyword(at, "dyn") || run.is_keyword(at, "impl"))
    })
}

/// A parameter holds a value of a type `P::X`, beside what says how long `P` lives.
fn brings_projected(
    of: &Crate<'_, '_>,
    prepared: &Prepared<'_, '_>,
    parameter: &str,
    tokens: &Range<usize>,
) -> bool {
    prepared.signature.mentions.iter().any(|mention| {
        mention.region == Region::Type(parameter)
            && mention.zone == Zone::Input
            && !mention.in_function_type
            && !tokens.contains(&mention.at)
            && (is_projected(prepared, mention.at)
                || (erases(prepared) && in_projecting_type(of, prepared, mention.at)))
    })
}

/// `P::X` or `<P as …>::X` with `P` at `at`.
fn is_projected(prepared: &Prepared<'_, '_>, at: usize) -> bool {
    let run = &prepared.run;
    (run.is_double_colon(at + 1) && run.word(at + 3).is_some()) || prepared.signature.is_in_projection(at)
}

/// `at` stands among the arguments of an own type that projects one of them.
fn in_projecting_type(of: &Crate<'_, '_>, prepared: &Prepared<'_, '_>, at: usize) -> bool {
    let run = &prepared.run;
    (0..at).any(|name| {
        let projects = run.word(name).is_some_and(|word| of.types.projecting.contains(word));
        projects && run.is(name + 1, TokenKind::Lt) && (name + 1..run.behind_angles(name + 1)).contains(&at)
    })
}

/// `-> impl Fn(…'a…) + 'static`: the closure is taken for `'static`, though its type is not
/// (rust-lang/rust#112905).
fn static_closure(prepared: &Prepared<'_, '_>) -> bool {
    let run = &prepared.run;
    let outputs = prepared.zones.iter().filter(|(zone, _)| *zone == Zone::Output);
    outputs.flat_map(|(_, range)| range.clone()).any(|at| {
        if !run.is_keyword(at, "impl") {
            return false;
        }
        let end = run.type_end(at + 1, run.len(), true);
        let is_static = (at + 1..end).any(|at| {
            run.lifetime(at) == Some("'static")
                && (run.is(at - 1, TokenKind::Plus) || run.is_keyword(at - 1, "impl"))
        });
        let names: BTreeSet<Region<'_>> = prepared
            .signature
            .mentions_in(&(at..end))
            .iter()
            .filter(|mention| mention.in_function_type)
            .map(|mention| mention.region)
            .collect();
        is_static && names.iter().any(|region| matches!(region, Region::Named(_)))
    })
}
