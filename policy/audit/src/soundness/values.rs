//! Which functions are used as values, not called.
//!
//! A function that is an argument stays what it is, and its callee's calls check what its types
//! imply, unless a parameter is a pointer to a function. So in a crate that names no such pointer, an
//! adapter's argument,
//! `items.map(Type::method)` is no use in this sense; `[a, b]` and `if c { a } else { b }`, which make
//! pointers by themselves, always are.

use std::collections::{BTreeMap, BTreeSet};

use ra_ap_rustc_lexer::TokenKind;

use super::items::{Function, Impl, Owner, declared};
use super::krate::Crate;
use super::run::Run;

/// Methods of std that call what they are given and keep no pointer to it. A place that holds one
/// can be filled by any other: `pointers.push(f)`, `Some(f)`.
const ADAPTERS: &[&str] = &[
    "all",
    "and_then",
    "any",
    "cmp_by",
    "filter",
    "filter_map",
    "find",
    "find_map",
    "flat_map",
    "fold",
    "for_each",
    "inspect",
    "is_none_or",
    "is_ok_and",
    "is_some_and",
    "map",
    "map_err",
    "map_or",
    "map_or_else",
    "map_while",
    "max_by",
    "max_by_key",
    "min_by",
    "min_by_key",
    "or_else",
    "partition",
    "position",
    "reduce",
    "retain",
    "rposition",
    "scan",
    "skip_while",
    "sort_by",
    "sort_by_cached_key",
    "sort_by_key",
    "sort_unstable_by",
    "sort_unstable_by_key",
    "take_while",
    "then",
    "try_fold",
    "try_for_each",
    "unwrap_or_else",
];

/// What stands before the name of a function.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Qualifier<'a> {
    /// Nothing: a function by itself.
    None,
    /// `Name::`, perhaps with arguments.
    Name(&'a str),
    /// Anything may be meant: a projection, an alias, a parameter.
    Any,
}

/// Names of functions that stand somewhere without a call, with what stands before them.
#[derive(Debug, Default)]
pub(super) struct Values<'a> {
    uses: BTreeMap<&'a str, BTreeSet<Qualifier<'a>>>,
}

impl<'a> Values<'a> {
    pub(super) fn new(of: &Crate<'a, '_>) -> Self {
        let run = of.run;
        let defined: BTreeSet<&str> =
            of.items.functions.iter().map(|function| of.name(function.name)).collect();
        let known = Known::new(of);
        let has_pointers =
            (0..run.len()).any(|at| run.is_keyword(at, "fn") && run.is(at + 1, TokenKind::OpenParen));
        let adapters = in_adapters(run, &defined);
        let mut values = Self::default();
        let mut at = 0;
        while at < run.len() {
            if run.is_keyword(at, "use") {
                at = values.take_use(run, at, &defined);
                continue;
            }
            if let Some(word) = run.word(at)
                && defined.contains(word)
                && is_value(run, at)
                && (has_pointers || !(adapters[at] && is_argument(run, at)))
            {
                values.uses.entry(word).or_default().extend(known.qualifiers(of, at));
            }
            at += 1;
        }
        values
    }

    /// An import under another name hides every use behind it.
    fn take_use(&mut self, run: &Run<'a, '_>, at: usize, defined: &BTreeSet<&'a str>) -> usize {
        let (leaves, behind) = crate::path::use_tree(&run.tokens, at);
        for leaf in leaves {
            if let (Some(name), Some(alias)) = (leaf.segments.last(), leaf.alias)
                && *name != alias
                && let Some(name) = defined.get(name)
            {
                self.uses.entry(name).or_default().extend([Qualifier::None, Qualifier::Any]);
            }
        }
        behind.max(at + 1)
    }

    /// Whether `function` may be meant by one of the uses of its name.
    pub(super) fn has(&self, of: &Crate<'a, '_>, function: &Function) -> bool {
        let Some(uses) = self.uses.get(of.name(function.name)) else { return false };
        let owner = match function.owner {
            // A function by itself, or in a module.
            None => return !uses.is_empty(),
            Some(owner) => owner,
        };
        let impls: Vec<&Impl> = match owner {
            // Every type that implements the trait has the method.
            Owner::Trait(index) => implementing(of, of.name(of.items.traits[index].name)),
            Owner::Impl(index) => vec![&of.items.impls[index]],
        };
        if impls.iter().any(|owner| is_for_anything(of, owner)) {
            return !uses.is_empty();
        }
        let heads = impls.iter().flat_map(|owner| owner.of_trait.clone().chain(owner.self_type.clone()));
        let mut names: BTreeSet<&str> = heads.filter_map(|at| of.run.word(at)).collect();
        if let Owner::Trait(index) = owner {
            names.insert(of.name(of.items.traits[index].name));
        }
        uses.iter().any(|qualifier| match qualifier {
            Qualifier::None => false,
            Qualifier::Name(name) => names.contains(name),
            Qualifier::Any => true,
        })
    }
}

/// The impls of the trait `name`.
fn implementing<'c>(of: &'c Crate<'_, '_>, name: &str) -> Vec<&'c Impl> {
    of.run.budget().pay(of.items.impls.len());
    let mut impls: Vec<&Impl> = of.items.impls.iter().collect();
    impls.retain(|owner| owner.of_trait.clone().any(|at| of.run.word(at) == Some(name)));
    impls
}

/// The impl is for a parameter or an alias, so that any name may mean its type.
fn is_for_anything(of: &Crate<'_, '_>, owner: &Impl) -> bool {
    let parameters = declared(of.run, owner.generics.list.clone());
    let mut names = owner.self_type.clone().filter_map(|at| of.run.word(at)).peekable();
    names.peek().is_some()
        && (names.clone().all(|name| parameters.contains(&name)) || names.any(|name| of.aliases.knows(name)))
}

/// Names behind which anything may be.
struct Known<'a> {
    /// Parameters, and what an import renames.
    ambiguous: BTreeSet<&'a str>,
}

impl<'a> Known<'a> {
    fn new(of: &Crate<'a, '_>) -> Self {
        let run = of.run;
        let mut ambiguous = BTreeSet::new();
        for at in (0..run.len()).filter(|at| run.is_keyword(*at, "use")) {
            ambiguous.extend(crate::path::use_tree(&run.tokens, at).0.iter().filter_map(|leaf| leaf.alias));
        }
        let functions = of.items.functions.iter().map(|function| function.generics.list.clone());
        let impls = of.items.impls.iter().map(|owner| owner.generics.list.clone());
        let traits = of.items.traits.iter().map(|own| own.generics.list.clone());
        ambiguous.extend(functions.chain(impls).chain(traits).flat_map(|list| declared(run, list)));
        Self { ambiguous }
    }

    /// What stands before the name at `at`; `Self` is what it means there.
    fn qualifiers(&self, of: &Crate<'a, '_>, at: usize) -> Vec<Qualifier<'a>> {
        let run = of.run;
        if at < 2 || !run.is_double_colon(at - 2) {
            return vec![Qualifier::None];
        }
        let Some(word) = at.checked_sub(3).and_then(|before| run.word(before)) else {
            return vec![Qualifier::Any];
        };
        if word == "Self" {
            return self_names(of, at);
        }
        let is_any = self.ambiguous.contains(word) || of.aliases.knows(word);
        vec![if is_any { Qualifier::Any } else { Qualifier::Name(word) }]
    }
}

/// The names in the header around `at`.
fn self_names<'a>(of: &Crate<'a, '_>, at: usize) -> Vec<Qualifier<'a>> {
    let named = |words: &mut dyn Iterator<Item = usize>| -> Vec<Qualifier<'a>> {
        words.filter_map(|at| of.run.word(at)).map(Qualifier::Name).collect()
    };
    if !of.run.budget().pay(of.items.impls.len() + of.items.traits.len()) {
        return vec![Qualifier::Any];
    }
    let inner_impl = of.items.impls.iter().rfind(|owner| owner.body.contains(&at));
    let inner_trait = of.items.traits.iter().rfind(|own| own.body.contains(&at));
    match (inner_impl, inner_trait) {
        (Some(owner), None) => named(&mut owner.self_type.clone()),
        (None, Some(own)) => named(&mut own.supertraits.clone().chain(std::iter::once(own.name))),
        (Some(_), Some(_)) | (None, None) => vec![Qualifier::Any],
    }
}

/// For each token, whether the innermost bracket around it holds the arguments of an adapter.
fn in_adapters(run: &Run<'_, '_>, defined: &BTreeSet<&str>) -> Vec<bool> {
    let mut open: Vec<bool> = Vec::new();
    let mut inside = Vec::with_capacity(run.len());
    for (at, token) in run.tokens.iter().enumerate() {
        if token.closes() {
            open.pop();
        }
        inside.push(open.last().copied().unwrap_or_default());
        if token.opens() {
            let name = at.checked_sub(1).and_then(|at| run.word(at)).unwrap_or_default();
            let is_method = at >= 2 && run.is(at - 2, TokenKind::Dot);
            let is_adapter = ADAPTERS.contains(&name) && !defined.contains(name);
            open.push(token.is(TokenKind::OpenParen) && is_method && is_adapter);
        }
    }
    inside
}

/// A path that ends at `at` is all that stands between two commas or parentheses.
fn is_argument(run: &Run<'_, '_>, at: usize) -> bool {
    let mut head = at;
    while head >= 3 && run.is_double_colon(head - 2) && run.word(head - 3).is_some() {
        head -= 3;
    }
    let begins = head > 0 && (run.is(head - 1, TokenKind::OpenParen) || run.is(head - 1, TokenKind::Comma));
    begins && (run.is(at + 1, TokenKind::CloseParen) || run.is(at + 1, TokenKind::Comma))
}

/// The name at `at` is an expression by itself: not called, declared, assigned or selected from.
fn is_value(run: &Run<'_, '_>, at: usize) -> bool {
    let before = |kind| at > 0 && run.is(at - 1, kind);
    let declares =
        ["fn", "mod", "struct", "enum", "union", "trait", "type", "let", "mut", "ref", "const", "static"];
    if declares.iter().any(|keyword| at > 0 && run.is_keyword(at - 1, keyword)) {
        return false;
    }
    // A field or a method's call; `..name` is a range.
    if before(TokenKind::Dot) && !(at >= 2 && run.is(at - 2, TokenKind::Dot)) {
        return false;
    }
    let mut next = at + 1;
    if run.is_double_colon(next) {
        if !run.is(next + 2, TokenKind::Lt) {
            return false;
        }
        next = run.behind_angles(next + 2);
        if run.is_double_colon(next) {
            return false;
        }
    }
    let is_assigned = run.is(next, TokenKind::Eq) && !run.is(next + 1, TokenKind::Eq);
    !(run.is(next, TokenKind::OpenParen)
        || run.is(next, TokenKind::Colon)
        || run.is(next, TokenKind::Bang)
        || is_assigned)
}
