//! What the crate's own types and traits imply about their arguments, as well as names can tell.
//!
//! A name that might mean a type of another crate counts as one, and of those everything is
//! believed.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use ra_ap_rustc_lexer::TokenKind;

use super::items::{Impl, Items, declared};
use super::run::Run;
use crate::path::use_tree;

/// Types of std that demand `'static` of an argument.
const STATIC_TYPES: &[&str] = &["LocalKey"];
/// Traits of std that no closure implements, nor anything that holds one.
const PLAIN_TRAITS: &[&str] = &[
    "Add",
    "AddAssign",
    "Binary",
    "BitAnd",
    "BitOr",
    "BitXor",
    "BufRead",
    "Deref",
    "DerefMut",
    "Div",
    "Drop",
    "FromStr",
    "Index",
    "IndexMut",
    "LowerHex",
    "Mul",
    "Neg",
    "Not",
    "Octal",
    "Read",
    "Rem",
    "Shl",
    "Shr",
    "Sub",
    "TryFrom",
    "TryInto",
    "UpperHex",
    "Write",
    "Any",
    "AsMut",
    "AsRef",
    "Borrow",
    "BorrowMut",
    "Clone",
    "Copy",
    "Debug",
    "Default",
    "Display",
    "Eq",
    "Error",
    "From",
    "Hash",
    "Into",
    "Ord",
    "PartialEq",
    "PartialOrd",
    "Self",
    "Send",
    "Sized",
    "Sync",
    "ToOwned",
    "ToString",
    "Unpin",
];
/// Traits of std with the supertrait `'static`.
const STATIC_TRAITS: &[&str] = &["Any"];

/// Knowledge by name.
#[derive(Debug, Default)]
pub(super) struct Types<'a> {
    /// Modules of the crate, and the words for itself.
    modules: BTreeSet<&'a str>,
    /// Names that an import may give to a type of another crate.
    imported: BTreeSet<&'a str>,
    /// Another crate's module is imported as a whole, so that any name may be foreign.
    has_foreign_glob: bool,
    static_types: BTreeSet<&'a str>,
    static_traits: BTreeSet<&'a str>,
    /// Own types that hold a projection of an argument.
    pub(super) projecting: BTreeSet<&'a str>,
    /// Own traits, and whether an associated type of one may name what its type does not.
    traits: BTreeMap<&'a str, bool>,
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
        types.closures(run, items);
        types.close_static(run, items);
        types
    }

    fn imports(&mut self, run: &Run<'a, '_>, items: &Items) {
        self.modules.extend(["crate", "self", "super", "Self"]);
        self.modules
            .extend((0..run.len()).filter(|at| run.is_keyword(*at, "mod")).filter_map(|at| run.word(at + 1)));
        let mut local = self.modules.clone();
        local.extend(items.adts.iter().filter_map(|adt| run.word(adt.name)));
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

    /// A closure's type does not name what it returns. An impl hands that on if an associated type
    /// of it names a parameter that its own type does not, or what such a trait projects to.
    fn closures(&mut self, run: &Run<'a, '_>, items: &Items) {
        self.traits.extend(items.traits.iter().filter_map(|own| Some((run.word(own.name)?, false))));
        loop {
            let before = self.traits.values().filter(|hands_on| **hands_on).count();
            for owner in &items.impls {
                if !self.hands_on(run, owner) {
                    continue;
                }
                for at in owner.of_trait.clone() {
                    if let Some(own) = run.word(at).and_then(|word| self.traits.get_mut(word)) {
                        *own = true;
                    }
                }
            }
            let after = self.traits.values().filter(|hands_on| **hands_on).count();
            if before == after || !run.budget().pay(run.len()) {
                return;
            }
        }
    }

    fn hands_on(&self, run: &Run<'a, '_>, owner: &Impl) -> bool {
        let parameters = declared(run, owner.generics.list.clone());
        let named: BTreeSet<&str> = owner.self_type.clone().filter_map(|at| run.word(at)).collect();
        let mut bounds = owner.generics.list.clone().chain(owner.generics.clauses.clone());
        let admits = bounds.any(|at| {
            run.word(at).is_some_and(|word| !parameters.contains(&word) && self.may_be_closures(word))
        });
        owner.types.iter().flat_map(|(_, value)| value.clone()).any(|at| {
            let Some(word) = run.word(at).filter(|word| parameters.contains(word)) else { return false };
            let is_projected = run.is_double_colon(at + 1) || run.is_keyword(at + 1, "as");
            !named.contains(word) || (is_projected && admits)
        })
    }

    /// Whether closures, or types that hold one, may implement the trait `name`.
    pub(super) fn may_be_closures(&self, name: &str) -> bool {
        let is_foreign = !PLAIN_TRAITS.contains(&name) && name.starts_with(|c: char| c.is_uppercase());
        self.traits.get(name).copied().unwrap_or(is_foreign)
    }

    /// Types and traits that demand `'static`, through others of the crate too. A type cannot demand
    /// it without saying so in its generics, whatever its fields are.
    fn close_static(&mut self, run: &Run<'a, '_>, items: &Items) {
        loop {
            let before = self.static_types.len() + self.static_traits.len();
            for adt in &items.adts {
                let demands = [adt.parameters.clone(), adt.clauses.clone()];
                if demands.into_iter().flatten().any(|at| self.demands_static_at(run, at)) {
                    self.static_types.extend(run.word(adt.name));
                }
            }
            for own in &items.traits {
                let supertraits = own.supertraits.clone();
                let is_first = |at: usize| at == supertraits.start && run.lifetime(at) == Some("'static");
                let demands = supertraits.clone().chain(own.generics.clauses.clone());
                if demands.into_iter().any(|at| is_first(at) || self.demands_static_at(run, at)) {
                    self.static_traits.extend(run.word(own.name));
                }
            }
            if before == self.static_types.len() + self.static_traits.len() || !run.budget().pay(run.len()) {
                return;
            }
        }
    }

    /// `: 'static`, `+ 'static`, or a trait that means it.
    fn demands_static_at(&self, run: &Run<'_, '_>, at: usize) -> bool {
        let is_bound = at > 0 && (run.is(at - 1, TokenKind::Colon) || run.is(at - 1, TokenKind::Plus));
        let is_static = run.lifetime(at) == Some("'static");
        (is_static && is_bound) || self.is_static_trait(run, at)
    }

    /// Names that an import may give to something of another crate.
    pub(super) fn imported(&self) -> impl Iterator<Item = &'a str> {
        self.imported.iter().copied()
    }

    pub(super) fn is_static_trait(&self, run: &Run<'_, '_>, at: usize) -> bool {
        run.word(at).is_some_and(|word| self.static_traits.contains(word))
    }

    /// Whether `name` may mean something of another crate.
    pub(super) fn may_be_foreign(&self, name: &str) -> bool {
        self.has_foreign_glob || self.imported.contains(name)
    }

    /// The path before the name at `at` begins in the crate.
    pub(super) fn is_local_path(&self, run: &Run<'_, '_>, at: usize) -> bool {
        let mut head = at;
        while head >= 3 && run.is_double_colon(head - 2) && run.word(head - 3).is_some() {
            head -= 3;
        }
        run.word(head).is_some_and(|word| self.modules.contains(word))
    }

    pub(super) fn demands_static(&self, run: &Run<'_, '_>, at: usize) -> bool {
        run.word(at).is_some_and(|word| self.static_types.contains(word))
    }
}

fn holds_projection(run: &Run<'_, '_>, definition: Range<usize>, parameters: &[&str]) -> bool {
    definition.clone().any(|at| {
        let is_parameter = run.word(at).is_some_and(|word| parameters.contains(&word));
        let in_brackets = at > 0 && run.is(at - 1, TokenKind::Lt) && run.is_keyword(at + 1, "as");
        is_parameter && (run.is_double_colon(at + 1) || in_brackets)
    })
}
