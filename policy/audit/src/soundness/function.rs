//! The signature of one function, put together: `self` and `Self` replaced by what they stand for,
//! aliases written out, the head of the `impl` and the bounds beside it.

use std::collections::BTreeSet;
use std::ops::Range;

use ra_ap_rustc_lexer::TokenKind;

use super::bounds::Bounds;
use super::items::{Function, Owner, bound_names, declared};
use super::krate::{Crate, with_self};
use super::run::Run;
use super::signature::{Names, Region, Relation, Signature, Zone};
use crate::token::Token;

/// A signature with everything that decides about it.
#[derive(Debug)]
pub(super) struct Prepared<'a, 'b> {
    pub(super) run: Run<'a, 'b>,
    pub(super) zones: Vec<(Zone, Range<usize>)>,
    pub(super) signature: Signature<'a>,
    pub(super) bounds: Bounds<'a>,
}

/// The names of one signature's scope.
pub(super) struct Scope<'c, 'a> {
    pub(super) parameters: BTreeSet<&'a str>,
    pub(super) bound: BTreeSet<&'a str>,
    pub(super) of: &'c Crate<'a, 'c>,
}

impl Names for Scope<'_, '_> {
    fn is_type_parameter(&self, name: &str) -> bool {
        self.parameters.contains(name)
    }

    fn is_bound_inside(&self, lifetime: &str) -> bool {
        self.bound.contains(lifetime)
    }

    fn relation(&self, run: &Run<'_, '_>, at: usize) -> Option<&[Relation<'_>]> {
        self.of.relations.of(run, at, self.of.types)
    }

    fn demands_static(&self, run: &Run<'_, '_>, at: usize) -> bool {
        self.of.types.demands_static(run, at)
    }
}

/// Puts `function` together; `None` if it is too large to be read.
pub(super) fn prepare<'a, 'b>(of: &'b Crate<'a, 'b>, function: &Function) -> Option<Prepared<'a, 'b>> {
    let run = of.run;
    let lists = generics(of, function);
    let parameters: BTreeSet<&'a str> =
        lists.iter().flat_map(|(list, _)| declared(run, list.clone())).collect();
    let own: Vec<&str> = declared(run, function.generics.list.clone());
    let mut parts: Vec<(Zone, Vec<Token<'a>>)> = Vec::new();
    for input in run.split(function.inputs.clone()) {
        parts.push((Zone::Input, input_type(of, function, input)));
    }
    parts.push((Zone::Output, run.tokens[function.output.clone()].to_vec()));
    if let Some(Owner::Impl(index)) = function.owner {
        let head = &of.items.impls[index];
        parts.push((Zone::Head, run.tokens[head.of_trait.clone()].to_vec()));
        parts.push((Zone::Head, run.tokens[head.self_type.clone()].to_vec()));
    }
    let mut bounds = Bounds::read(of, function, &lists)?;
    parts.extend(bounds.demands().map(|tokens| (Zone::Bounds, tokens.clone())));
    let is_self_reference = self_reference(run, function);
    let behind_self = behind_self(of, function, &parts);

    let (tokens, zones) = join(of, function, parts, &own)?;
    let run = Run::new(tokens, run.budget());
    let is_trait = matches!(function.owner, Some(Owner::Trait(_)));
    let mut names = Scope { parameters, bound: bound_names(&run), of };
    if is_trait {
        names.parameters.insert("Self");
    }
    let mut signature = Signature::read(&run, &zones, is_self_reference, &names)?;
    signature.behind_self = behind_self;
    let ranges = |zone: Zone| zones.iter().filter(move |(of, _)| *of == zone).map(|(_, range)| range.clone());
    bounds.inputs(of, &run, &ranges(Zone::Input).collect::<Vec<_>>());
    ranges(Zone::Output).for_each(|range| bounds.projections(of, &run, range));
    Some(Prepared { run, zones, signature, bounds })
}

/// What the `trait` around the function declares, if `Self` stands in its types; that of an `impl`, if
/// an associated type of `Self` does that the impl does not define.
fn behind_self<'a>(
    of: &Crate<'a, '_>,
    function: &Function,
    parts: &[(Zone, Vec<Token<'a>>)],
) -> BTreeSet<Region<'a>> {
    let (generics, types) = match function.owner {
        Some(Owner::Trait(index)) => (&of.items.traits[index].generics, None),
        Some(Owner::Impl(index)) => (&of.items.impls[index].generics, Some(&of.items.impls[index].types)),
        None => return BTreeSet::new(),
    };
    let own = parts.iter().filter(|(zone, _)| matches!(zone, Zone::Input | Zone::Output));
    let is_named =
        own.flat_map(|(_, tokens)| (0..tokens.len()).map(move |at| (tokens, at))).any(|(tokens, at)| {
            let name =
                crate::path::double_colon(tokens, at + 1).then(|| tokens.get(at + 3)?.word()).flatten();
            let is_known = |name: &str| {
                types.is_some_and(|types| types.iter().any(|(at, _)| of.run.word(*at) == Some(name)))
            };
            tokens[at].is_keyword("Self")
                && if types.is_some() { name.is_some_and(|name| !is_known(name)) } else { true }
        });
    let regions = declared(of.run, generics.list.clone())
        .into_iter()
        .map(|name| if name.starts_with('\'') { Region::Named(name) } else { Region::Type(name) });
    regions.filter(|_| is_named).collect()
}

/// The lists of generics and `where` clauses in scope, the function's own last.
pub(super) fn generics(of: &Crate<'_, '_>, function: &Function) -> Vec<(Range<usize>, Range<usize>)> {
    let outer = match function.owner {
        Some(Owner::Impl(index)) => Some(&of.items.impls[index].generics),
        Some(Owner::Trait(index)) => Some(&of.items.traits[index].generics),
        None => None,
    };
    outer
        .into_iter()
        .chain(std::iter::once(&function.generics))
        .map(|generics| (generics.list.clone(), generics.clauses.clone()))
        .collect()
}

/// The type of a parameter; `self` by itself is `Self`, `&'a mut self` a reference to it.
fn input_type<'a>(of: &Crate<'a, '_>, function: &Function, input: Range<usize>) -> Vec<Token<'a>> {
    let run = of.run;
    let mut at = input.start;
    while run.is(at, TokenKind::Pound) && at < input.end {
        at = run.behind_group(at + 1).min(input.end);
    }
    let self_at = (at..input.end).find(|at| run.is_keyword(*at, "self"));
    let colon = run.colon(at..input.end);
    match (self_at, colon) {
        (_, Some(colon)) => run.tokens[colon + 1..input.end].to_vec(),
        (Some(self_at), None) if function.owner.is_some() => {
            let mut tokens = run.tokens[at..self_at].to_vec();
            tokens.push(Token { text: "Self", ..run.tokens[self_at] });
            tokens
        }
        // Parameters without names, as in the traits of old editions.
        _ => run.tokens[at..input.end].to_vec(),
    }
}

/// The first parameter is a reference to `self`.
fn self_reference(run: &Run<'_, '_>, function: &Function) -> bool {
    let first = run.split(function.inputs.clone()).into_iter().next();
    first.is_some_and(|first| {
        let names_self = first.clone().any(|at| run.is_keyword(at, "self"));
        names_self && first.clone().any(|at| run.is(at, TokenKind::And))
    })
}

/// One run of all parts, each behind a comma, with `Self` and the aliases written out.
#[expect(clippy::type_complexity, reason = "the two halves of one run")]
fn join<'a>(
    of: &Crate<'a, '_>,
    function: &Function,
    parts: Vec<(Zone, Vec<Token<'a>>)>,
    own: &[&str],
) -> Option<(Vec<Token<'a>>, Vec<(Zone, Range<usize>)>)> {
    let mut tokens = Vec::new();
    let mut zones = Vec::new();
    for (zone, part) in parts {
        let written = of.aliases.write_out(with_self(of, function, part), own, of.run)?;
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
    Some((tokens, zones))
}
