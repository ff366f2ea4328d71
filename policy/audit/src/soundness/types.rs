//! What the crate's own types and traits imply about their arguments, as well as names can tell.
//!
//! A name that might mean a type of another crate counts as one, and of those everything is
//! believed.

use std::collections::{BTreeMap, BTreeSet};

use ra_ap_rustc_lexer::TokenKind;

use super::items::Items;
use super::run::Run;
use crate::path::use_tree;

/// Types of std that demand `'static` of an argument.
const STATIC_TYPES: &[&str] = &["LocalKey"];
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
    /// Other names that imports give.
    renamed: BTreeMap<&'a str, BTreeSet<&'a str>>,
    /// Own types that hold nothing but what their generics name.
    plain: BTreeSet<&'a str>,
    /// Own traits whose supertraits take arguments.
    pub(super) with_supertraits: BTreeSet<&'a str>,
}

impl<'a> Types<'a> {
    pub(super) fn new(run: &Run<'a, '_>, items: &Items) -> Self {
        let mut types = Self { static_traits: STATIC_TRAITS.iter().copied().collect(), ..Self::default() };
        types.static_types.extend(STATIC_TYPES);
        types.imports(run, items);
        for own in &items.traits {
            let has_arguments = own.supertraits.clone().any(|at| run.is(at, TokenKind::Lt));
            let about_self = own.generics.clauses.clone().any(|at| run.is_keyword(at, "Self"));
            if has_arguments || about_self {
                types.with_supertraits.extend(run.word(own.name));
            }
        }
        types.close_static(run, items);
        types.close_plain(run, items);
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
                if let (Some(alias), Some(name)) = (leaf.alias, leaf.segments.last()) {
                    self.renamed.entry(alias).or_default().insert(name);
                }
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
            for (alias, names) in &self.renamed {
                if names.iter().any(|name| self.static_types.contains(name)) {
                    self.static_types.insert(alias);
                }
                if names.iter().any(|name| self.static_traits.contains(name)) {
                    self.static_traits.insert(alias);
                }
            }
            if before == self.static_types.len() + self.static_traits.len() || !run.budget().pay(run.len()) {
                return;
            }
        }
    }

    /// A type is plain if no field is a trait object, a pointer to a function, or of a type with a
    /// lifetime that is none of these.
    fn close_plain(&mut self, run: &Run<'a, '_>, items: &Items) {
        self.plain = items.adts.iter().filter_map(|adt| run.word(adt.name)).collect();
        let aliases: BTreeSet<&str> = items.aliases.iter().filter_map(|alias| run.word(alias.name)).collect();
        loop {
            let before = self.plain.len();
            for adt in &items.adts {
                let hides = adt.definition.clone().any(|at| {
                    let takes_lifetime = run.is(at + 1, TokenKind::Lt) && run.lifetime(at + 2).is_some();
                    let word = run.word(at).unwrap_or_default();
                    ["dyn", "fn", "impl"].iter().any(|keyword| run.is_keyword(at, keyword))
                        || aliases.contains(word)
                        || takes_lifetime && !self.plain.contains(word)
                });
                if let Some(name) = run.word(adt.name).filter(|_| hides) {
                    self.plain.remove(name);
                }
            }
            if before == self.plain.len() || !run.budget().pay(run.len()) {
                break;
            }
        }
        self.plain = std::mem::take(&mut self.plain)
            .into_iter()
            .filter(|name| !self.may_be_foreign(name) && !self.renamed.contains_key(name))
            .collect();
    }

    /// A type of the crate that holds nothing but what its generics name.
    pub(super) fn is_plain(&self, name: &str) -> bool {
        self.plain.contains(name)
    }

    /// Whether the trait `name` demands `'static` of what implements it.
    pub(super) fn is_static_name(&self, name: &str) -> bool {
        self.static_traits.contains(name)
    }

    /// `: 'static`, `+ 'static`, or a trait that means it.
    fn demands_static_at(&self, run: &Run<'_, '_>, at: usize) -> bool {
        let is_bound = at > 0 && (run.is(at - 1, TokenKind::Colon) || run.is(at - 1, TokenKind::Plus));
        let is_static = run.lifetime(at) == Some("'static");
        (is_static && is_bound) || self.is_static_trait(run, at)
    }

    /// Names that an import or a path takes from another crate. What stands behind a type or a
    /// parameter is an associated type.
    pub(super) fn foreign(&self, run: &Run<'a, '_>) -> BTreeSet<&'a str> {
        let is_foreign = |at: usize| {
            let mut head = at;
            while head >= 3 && run.is_double_colon(head - 2) && run.word(head - 3).is_some() {
                head -= 3;
            }
            let is_type = run
                .word(head)
                .is_some_and(|word| word.starts_with(char::is_uppercase) && !self.imported.contains(word));
            run.is_double_colon(at - 2) && !is_type && !self.is_local_path(run, at)
        };
        let by_path = (3..run.len()).filter(|at| is_foreign(*at));
        self.imported.iter().copied().chain(by_path.filter_map(|at| run.word(at))).collect()
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
