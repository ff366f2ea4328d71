//! Traits that a blanket impl implements for every type, trait objects included, while their own
//! objects are in use: the object and the impl may then disagree about an associated type
//! (rust-lang/rust#57893).

use std::collections::BTreeSet;
use std::ops::Range;

use mfaas_rules::facts::SoundnessShape;
use ra_ap_rustc_lexer::TokenKind;

use super::findings::Findings;
use super::items::{Impl, declared};
use super::krate::Crate;
use super::run::Run;

/// Looks at every impl for a bare, unsized parameter.
pub(super) fn blanket_impls(of: &Crate<'_, '_>, found: &mut Findings<'_, '_>) {
    let objects = objects(of);
    for owner in of.items.impls.iter().filter(|owner| !owner.types.is_empty()) {
        let Some(name) = trait_name(of.run, &owner.of_trait) else { continue };
        let names = of.traits.names_of(name);
        if is_unsized_parameter(of, owner) && names.iter().any(|name| objects.contains(name)) {
            let detail = format!("dyn {name} has an associated type of its own");
            found.add(SoundnessShape::BlanketOverObject, "trait", name, detail);
        }
    }
}

/// Traits of which there is a `dyn`, with their supertraits.
fn objects<'a>(of: &Crate<'a, '_>) -> BTreeSet<&'a str> {
    let run = of.run;
    let mut objects: BTreeSet<&str> = BTreeSet::new();
    for at in (0..run.len()).filter(|at| run.is_keyword(*at, "dyn")) {
        let end = run.type_end(at + 1, run.len(), true);
        objects.extend((at + 1..end).filter_map(|at| run.word(at)).flat_map(|name| of.traits.names_of(name)));
    }
    loop {
        let before = objects.len();
        let known: Vec<_> =
            of.items.traits.iter().filter(|own| objects.contains(of.name(own.name))).collect();
        for own in known {
            let demands = own.supertraits.clone().chain(own.generics.clauses.clone());
            objects.extend(demands.filter_map(|at| run.word(at)).flat_map(|name| of.traits.names_of(name)));
        }
        if before == objects.len() || !run.budget().pay(run.len()) {
            return objects;
        }
    }
}

/// The last segment of the trait's path.
fn trait_name<'a>(run: &Run<'a, '_>, of_trait: &Range<usize>) -> Option<&'a str> {
    let end = run.scan_flat(of_trait.start, of_trait.end, |at| run.is(at, TokenKind::Lt));
    (of_trait.start..end).rev().find_map(|at| run.word(at))
}

/// `impl<T: ?Sized> … for T`, the bound in either place, `T` perhaps in parentheses or behind an alias.
fn is_unsized_parameter(of: &Crate<'_, '_>, owner: &Impl) -> bool {
    let run = of.run;
    let parameters = declared(run, owner.generics.list.clone());
    let is_bare = owner.self_type.clone().all(|at| {
        let is_name = run.word(at).is_some_and(|word| parameters.contains(&word));
        is_name || run.is(at, TokenKind::OpenParen) || run.is(at, TokenKind::CloseParen)
    });
    let has_alias = owner.self_type.clone().any(|at| of.aliases.knows(of.name(at)));
    let named: BTreeSet<&str> = owner.self_type.clone().filter_map(|at| run.word(at)).collect();
    let predicates =
        run.split(owner.generics.list.clone()).into_iter().chain(run.split(owner.generics.clauses.clone()));
    (is_bare || has_alias)
        && predicates.into_iter().any(|predicate| {
            let is_named = predicate.clone().any(|at| named.contains(of.name(at)));
            is_named && predicate.clone().any(|at| run.is(at, TokenKind::Question))
        })
}
