//! What the crate's own types and traits imply about their arguments, as well as names can tell.
//!
//! A name that might mean a type of another crate counts as one, and of those everything is
//! believed.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use ra_ap_rustc_lexer::TokenKind;

use super::items::{Items, declared};
use super::run::Run;
use crate::path::use_tree;

/// Types of std that demand `'static` of an argument.
const STATIC_TYPES: &[&str] = &["LocalKey"];
/// Traits of std with the supertrait `'static`.
const STATIC_TRAITS: &[&str] = &["Any"];

/// Knowledge by name.
#[derive(Debug, Default)]
pub(super) struct Types<'a> {
    /// Own types: whether their arguments may be related.
    own: BTreeMap<&'a str, bool>,
    /// Names that an import may give to a type of another crate.
    imported: BTreeSet<&'a str>,
    /// Another crate's module is imported as a whole, so that any name may be foreign.
    has_foreign_glob: bool,
    static_types: BTreeSet<&'a str>,
    static_traits: BTreeSet<&'a str>,
    /// Own types that hold a projection of an argument.
    pub(super) projecting: BTreeSet<&'a str>,
    /// Own traits whose supertraits take arguments.
    pub(super) with_supertraits: BTreeSet<&'a str>,
}

impl<'a> Types<'a> {
    pub(super) fn new(run: &Run<'a, '_>, items: &Items) -> Self {
        let mut types = Self { static_traits: STATIC_TRAITS.iter().copied().collect(), ..Self::default() };
        types.static_types.extend(STATIC_TYPES);
        types.imports(run, items);
        for adt in &items.adts {
            let Some(name) = run.word(adt.name) else { continue };
            let parameters = declared(run, adt.parameters.clone());
            let relates = parameters.len() > 1 && may_relate(run, adt.definition.clone());
            *types.own.entry(name).or_default() |= relates;
            if holds_projection(run, adt.definition.clone(), &parameters) {
                types.projecting.insert(name);
            }
        }
        for own in &items.traits {
            let has_arguments = own.supertraits.clone().any(|at| run.is(at, TokenKind::Lt));
            let about_self = own.generics.clauses.clone().any(|at| run.is_keyword(at, "Self"));
            if has_arguments || about_self {
                types.with_supertraits.extend(run.word(own.name));
            }
        }
        types.close_static(run, items);
        types
    }

    fn imports(&mut self, run: &Run<'a, '_>, items: &Items) {
        let mut local: BTreeSet<&str> = ["crate", "self", "super", "Self"].into();
        local.extend(items.adts.iter().filter_map(|adt| run.word(adt.name)));
        local
            .extend((0..run.len()).filter(|at| run.is_keyword(*at, "mod")).filter_map(|at| run.word(at + 1)));
        for at in (0..run.len()).filter(|at| run.is_keyword(*at, "use")) {
            for leaf in use_tree(&run.tokens, at).0 {
                let Some(head) = leaf.segments.first() else { continue };
                let is_glob = leaf.segments.last() == Some(&"*");
                let is_prelude = leaf.segments.get(1) == Some(&"prelude");
                if local.contains(head) && leaf.alias.is_none() {
                    continue;
                }
                self.has_foreign_glob |= is_glob && !is_prelude;
                self.imported.extend(leaf.alias.or(leaf.segments.last().copied()));
            }
        }
    }

    /// Types and traits that lead to `'static` through others of the crate.
    fn close_static(&mut self, run: &Run<'a, '_>, items: &Items) {
        loop {
            let before = self.static_types.len() + self.static_traits.len();
            for adt in &items.adts {
                if adt.definition.clone().any(|at| self.is_static(run, at)) {
                    self.static_types.extend(run.word(adt.name));
                }
            }
            for own in &items.traits {
                let demands = own.supertraits.clone().chain(own.generics.clauses.clone());
                if demands.into_iter().any(|at| self.is_static(run, at)) {
                    self.static_traits.extend(run.word(own.name));
                }
            }
            if before == self.static_types.len() + self.static_traits.len() || !run.budget().pay(run.len()) {
                return;
            }
        }
    }

    fn is_static(&self, run: &Run<'_, '_>, at: usize) -> bool {
        let is_lifetime = run.lifetime(at) == Some("'static");
        // `&'static str` demands nothing of an argument.
        let is_of_str = is_lifetime
            && at > 0
            && run.is(at - 1, TokenKind::And)
            && matches!(run.word(at + 1), Some("str" | "u8" | "dyn"));
        (is_lifetime && !is_of_str)
            || run
                .word(at)
                .is_some_and(|word| self.static_types.contains(word) || self.static_traits.contains(word))
    }

    pub(super) fn is_static_trait(&self, run: &Run<'_, '_>, at: usize) -> bool {
        run.word(at).is_some_and(|word| self.static_traits.contains(word))
    }

    /// See `Names::relates`; `at` is the last segment of the path.
    pub(super) fn relates(&self, run: &Run<'_, '_>, at: usize) -> bool {
        let Some(name) = run.word(at) else { return true };
        let has_path = at >= 2 && run.is_double_colon(at - 2);
        match self.own.get(name) {
            Some(relates) => *relates || has_path || self.has_foreign_glob || self.imported.contains(name),
            None => true,
        }
    }

    pub(super) fn demands_static(&self, run: &Run<'_, '_>, at: usize) -> bool {
        run.word(at).is_some_and(|word| self.static_types.contains(word))
    }
}

/// The definition holds a reference, a type with a lifetime, a bound of a lifetime, or a
/// projection: something that may relate its parameters.
fn may_relate(run: &Run<'_, '_>, definition: Range<usize>) -> bool {
    let parameters = if run.is(definition.start, TokenKind::Lt) {
        run.behind_angles(definition.start)
    } else {
        definition.start
    };
    let declares_bound = (definition.start..parameters).any(|at| {
        let bound = run.is(at, TokenKind::Colon) && !run.is_double_colon(at);
        bound
            && (at..parameters)
                .take_while(|at| !run.is(*at, TokenKind::Comma))
                .any(|at| run.lifetime(at).is_some())
    });
    declares_bound || (parameters..definition.end).any(|at| relating_token(run, at, definition.end))
}

fn relating_token(run: &Run<'_, '_>, at: usize, limit: usize) -> bool {
    if run.is(at, TokenKind::And) {
        // A reference to something that can hold a lifetime: a parameter or a generic type. Names
        // in lower case are primitive types.
        let end = run.type_end(at + 1, limit, false);
        return (at + 2..end).any(|at| {
            run.lifetime(at).is_some()
                || run.is(at, TokenKind::Lt)
                || run.word(at).is_some_and(|word| word.starts_with(|c: char| c.is_uppercase()))
        }) || run.word(at + 1).is_some_and(|word| word.starts_with(|c: char| c.is_uppercase()));
    }
    let in_generics = run.lifetime(at).is_some() && at > 0 && !run.is(at - 1, TokenKind::And);
    let is_projection = run.is(at, TokenKind::Lt)
        && at > 0
        && run.word(at - 1).is_none()
        && !(at >= 2 && run.is_double_colon(at - 2));
    in_generics || is_projection
}

fn holds_projection(run: &Run<'_, '_>, definition: Range<usize>, parameters: &[&str]) -> bool {
    definition.clone().any(|at| {
        let is_parameter = run.word(at).is_some_and(|word| parameters.contains(&word));
        let in_brackets = at > 0 && run.is(at - 1, TokenKind::Lt) && run.is_keyword(at + 1, "as");
        is_parameter && (run.is_double_colon(at + 1) || in_brackets)
    })
}
