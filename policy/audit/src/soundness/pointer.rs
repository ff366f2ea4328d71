//! Types of functions, `fn(…)` and `Fn(…)`, of the same shape as the functions in `witness`.
//!
//! A closure has no signature of its own: it takes the one that it is expected to have, with what
//! that implies. And the type is what forgets the proof.

use std::collections::BTreeSet;
use std::ops::Range;

use mfaas_rules::facts::SoundnessShape;
use ra_ap_rustc_lexer::TokenKind;

use super::bounds::Bounds;
use super::findings::Findings;
use super::function::{Scope, generics};
use super::items::{bound_names, declared};
use super::krate::Crate;
use super::run::Run;
use super::signature::{Region, Signature, Zone, function_type_at};
use super::witness::{has_sink, has_source};
use crate::token::Token;

/// Looks at every type of a function, those in aliases as written and as used.
pub(super) fn function_types(of: &Crate<'_, '_>, found: &mut Findings<'_, '_>) -> Result<(), String> {
    let lists = of.items.functions.iter().flat_map(|function| generics(of, function)).map(|(list, _)| list);
    let impls = of.items.impls.iter().map(|found| found.generics.list.clone());
    let aliases = of.items.aliases.iter().map(|alias| alias.parameters.clone());
    let adts = of.items.adts.iter().map(|adt| adt.parameters.clone());
    let parameters: BTreeSet<&str> =
        lists.chain(impls).chain(aliases).chain(adts).flat_map(|list| declared(of.run, list)).collect();
    for at in 0..of.run.len() {
        let Some((inputs, output)) = function_type_at(of.run, at) else { continue };
        of.run.budget().check()?;
        let names_lifetime = inputs.clone().chain(output.clone()).any(|at| names_region(of.run, at));
        if !names_lifetime && !mentions_alias(of, &inputs, &output) {
            continue;
        }
        let detail = relabelling(of, inputs, output, &parameters)
            .ok_or_else(|| "the type of a function is too long to be read".to_owned())?;
        if let Some(detail) = detail {
            let (keyword, name) = enclosing(of, at);
            found.add(SoundnessShape::WitnessInFunctionType, keyword, name, detail);
        }
    }
    Ok(())
}

fn names_region(run: &Run<'_, '_>, at: usize) -> bool {
    run.is(at, TokenKind::And) || run.lifetime(at).is_some()
}

fn mentions_alias(of: &Crate<'_, '_>, inputs: &Range<usize>, output: &Range<usize>) -> bool {
    inputs.clone().chain(output.clone()).any(|at| of.aliases.knows(of.name(at)))
}

/// Outer `None`: too long. Inner: the relation that the type implies and uses.
#[expect(clippy::option_option, reason = "two different absences")]
fn relabelling<'a>(
    of: &Crate<'a, '_>,
    inputs: Range<usize>,
    output: Range<usize>,
    parameters: &BTreeSet<&'a str>,
) -> Option<Option<String>> {
    let mut tokens: Vec<Token<'a>> = Vec::new();
    let mut zones = Vec::new();
    let parts = of.run.split(inputs.clone()).into_iter().map(|range| (Zone::Input, range));
    let names_self = inputs.clone().chain(output.clone()).any(|at| of.run.is_keyword(at, "Self"));
    for (zone, range) in parts.chain(std::iter::once((Zone::Output, output))) {
        let written = of.aliases.write_out(of.run.tokens[range].to_vec(), &[], of.run)?;
        let from = tokens.len();
        tokens.extend(written);
        zones.push((zone, from..tokens.len()));
        tokens.push(Token {
            kind: TokenKind::Comma,
            text: ",",
            at: usize::MAX,
            context: None,
            is_dollar_crate: false,
        });
    }
    let run = Run::new(tokens, of.run.budget());
    let names = Scope { parameters: parameters.clone(), bound: bound_names(&run), of };
    let mut signature = Signature::read(&run, &zones, false, &names)?;
    signature.behind_self.extend(around(of, inputs.start).into_iter().filter(|_| names_self));
    let bounds = match enclosing_function(of, inputs.start) {
        Some(function) => Bounds::read(of, function, &generics(of, function))?,
        None => Bounds::default(),
    };
    let witness = signature.witnesses.iter().find(|witness| {
        !witness.is_mutable
            && !bounds.says(witness.longer, witness.shorter)
            && has_source(&run, &signature, witness)
            && has_sink(&signature, witness)
    });
    Some(witness.map(|witness| format!("{}: {}", witness.longer.shown(), witness.shorter.shown())))
}

/// Lifetimes and parameters of the `trait` or `impl` around `at`, which `Self` may stand for.
fn around<'a>(of: &Crate<'a, '_>, at: usize) -> Vec<Region<'a>> {
    let traits = of.items.traits.iter().map(|own| (&own.body, &own.generics.list));
    let impls = of.items.impls.iter().map(|own| (&own.body, &own.generics.list));
    traits
        .chain(impls)
        .filter(|(body, _)| body.contains(&at))
        .flat_map(|(_, list)| declared(of.run, list.clone()))
        .map(|name| if name.starts_with('\'') { Region::Named(name) } else { Region::Type(name) })
        .collect()
}

/// The last function whose head begins before `at`; its bounds speak of its own lifetimes alone.
fn enclosing_function<'c>(of: &'c Crate<'_, '_>, at: usize) -> Option<&'c super::items::Function> {
    let behind = of.items.functions.partition_point(|function| function.name < at);
    of.items.functions[..behind].last()
}

/// The item to name: the function or alias in which the type stands.
fn enclosing<'a>(of: &Crate<'a, '_>, at: usize) -> (&'static str, &'a str) {
    let alias = of.items.aliases.iter().find(|alias| alias.value.contains(&at));
    match (alias, enclosing_function(of, at)) {
        (Some(alias), _) => ("type", of.name(alias.name)),
        (None, Some(function)) => ("fn", of.name(function.name)),
        (None, None) => ("fn", "fn"),
    }
}
