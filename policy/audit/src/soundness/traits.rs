//! Which traits may be implemented by closures, or by what holds one, and which of their associated
//! types may then name what the implementing type does not.
//!
//! A closure's type outlives what it captures, whatever it takes and returns. A name that may mean
//! another crate's trait counts as one, and of those everything is believed.

use std::collections::{BTreeMap, BTreeSet};

use ra_ap_rustc_lexer::TokenKind;

use super::demand::{Demand, demands};
use super::items::{Impl, Items, Trait, declared};
use super::run::Run;
use crate::path::use_tree;

/// Traits of std and serde that no closure implements, nor anything of std's that hands on what one returns.
const PLAIN_TRAITS: &[&str] = &[
    "Add",
    "AddAssign",
    "Any",
    "AsMut",
    "AsRef",
    "Binary",
    "BitAnd",
    "BitOr",
    "BitXor",
    "Borrow",
    "BorrowMut",
    "BufRead",
    "Clone",
    "Copy",
    "Debug",
    "Default",
    "Deref",
    "DerefMut",
    "Deserialize",
    "DeserializeOwned",
    "Display",
    "Div",
    "Drop",
    "Eq",
    "Error",
    "From",
    "FromStr",
    "Hash",
    "Hasher",
    "Index",
    "IndexMut",
    "Into",
    "LowerHex",
    "Mul",
    "Neg",
    "Not",
    "Octal",
    "Ord",
    "PartialEq",
    "PartialOrd",
    "Read",
    "RefUnwindSafe",
    "Rem",
    "Seek",
    "Send",
    "Serialize",
    "Shl",
    "Shr",
    "Sized",
    "Sub",
    "Sync",
    "ToOwned",
    "ToString",
    "TryFrom",
    "TryInto",
    "Unpin",
    "UnwindSafe",
    "UpperHex",
    "Write",
];
/// Traits of std with associated types that may be what a closure returns. Those of `Fn` are always
/// named by its arrow; those of `AsyncFn` cannot be named, and so never bounded.
const CLOSURE_TRAITS: &[(&str, &[&str])] = &[
    ("AsyncFn", &["CallOnceFuture"]),
    ("AsyncFnMut", &["CallOnceFuture"]),
    ("AsyncFnOnce", &["CallOnceFuture"]),
    ("DoubleEndedIterator", &["Item"]),
    ("ExactSizeIterator", &["Item"]),
    ("Fn", &[]),
    ("FnMut", &[]),
    ("FnOnce", &[]),
    ("FusedIterator", &["Item"]),
    ("Future", &["Output"]),
    ("IntoFuture", &["IntoFuture", "Output"]),
    ("IntoIterator", &["IntoIter", "Item"]),
    ("Iterator", &["Item"]),
];

/// Walks over the whole text that one round of learning may cost.
const ROUND_STEPS: usize = 8;

/// Associated types that may outlive less than the type that they belong to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Open<'a> {
    pub(super) names: BTreeSet<&'a str>,
    /// There may be others: the trait is not known.
    pub(super) others: bool,
}

impl<'a> Open<'a> {
    fn add(&mut self, other: &Open<'a>) {
        self.names.extend(other.names.iter().copied());
        self.others |= other.others;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.names.is_empty() && !self.others
    }

    /// Without what `named` gives a type to.
    fn without(mut self, named: &[&str]) -> Self {
        self.names.retain(|name| !named.contains(name));
        self.others &= named.is_empty();
        self
    }
}

/// Traits by name.
#[derive(Debug, Default)]
pub(super) struct Traits<'a> {
    own: BTreeMap<&'a str, Open<'a>>,
    /// Own traits that nothing implements which could hold a closure: each impl is for a type without
    /// parameters, or with such as implement one of these traits.
    closed: BTreeSet<&'a str>,
    /// Own traits with a bound on an associated type.
    bounded: BTreeSet<&'a str>,
    /// Own traits whose objects outlive a lifetime among the arguments: `trait Tr<'a>: 'a`.
    outliving: BTreeSet<&'a str>,
    /// Own traits with a supertrait of another crate that may demand `'static`.
    doubtful: BTreeSet<&'a str>,
    /// Traits, other crates' too, that an impl of this crate hands on for.
    handed_on: BTreeSet<&'a str>,
    /// Other names that imports give.
    renamed: BTreeMap<&'a str, BTreeSet<&'a str>>,
    /// Names that an import or path takes from another crate.
    foreign: BTreeSet<&'a str>,
}

impl<'a> Traits<'a> {
    pub(super) fn new(run: &Run<'a, '_>, items: &Items, foreign: BTreeSet<&'a str>) -> Self {
        let mut traits = Self { foreign, ..Self::default() };
        for at in (0..run.len()).filter(|at| run.is_keyword(*at, "use")) {
            for leaf in use_tree(&run.tokens, at).0 {
                if let (Some(alias), Some(name)) = (leaf.alias, leaf.segments.last()) {
                    traits.renamed.entry(alias).or_default().insert(name);
                }
            }
        }
        traits.own.extend(items.traits.iter().filter_map(|own| Some((run.word(own.name)?, Open::default()))));
        traits.close(run, items);
        let aliases = aliases(run, items);
        loop {
            let before = (traits.own.clone(), traits.size());
            // What is learnt of one reaches those before it and those behind it.
            items.traits.iter().chain(items.traits.iter().rev()).for_each(|own| traits.learn(run, own));
            items.impls.iter().for_each(|owner| traits.learn_impl(run, items, &aliases, owner));
            if before == (traits.own.clone(), traits.size()) || !run.budget().pay(run.len() * ROUND_STEPS) {
                return traits;
            }
        }
    }

    fn size(&self) -> usize {
        self.handed_on.len() + self.outliving.len() + self.doubtful.len()
    }

    fn close(&mut self, run: &Run<'a, '_>, items: &Items) {
        let is_certain = |name: &&str| !self.foreign.contains(name) && !self.renamed.contains_key(name);
        let aliases = aliases(run, items);
        let mut closed: BTreeSet<&'a str> = self.own.keys().copied().filter(is_certain).collect();
        loop {
            let before = closed.len();
            for owner in &items.impls {
                let is_bounded = |parameter: &str| {
                    predicates(run, owner)
                        .into_iter()
                        .filter(|(subject, _)| *subject == parameter)
                        .flat_map(|(_, range)| demands(run, range))
                        .any(|demand| matches!(demand, Demand::Trait(of) if closed.contains(of.name)))
                };
                let parameters = declared(run, owner.generics.list.clone());
                let header = owner.self_type.clone().chain(owner.of_trait.clone());
                let is_closed = header
                    .filter_map(|at| run.word(at))
                    .all(|word| (!parameters.contains(&word) || is_bounded(word)) && !aliases.contains(word));
                if !is_closed {
                    let names: Vec<&str> = owner.of_trait.clone().filter_map(|at| run.word(at)).collect();
                    closed.retain(|name| !names.contains(name) && !self.stands_for(&names, name));
                }
            }
            if before == closed.len() || !run.budget().pay(run.len() * ROUND_STEPS) {
                break;
            }
        }
        self.closed = closed;
    }

    /// An import gives the name of `name` to one of `names`.
    fn stands_for(&self, names: &[&str], name: &str) -> bool {
        names.iter().any(|alias| self.renamed.get(alias).is_some_and(|of| of.contains(name)))
    }

    /// Nothing that implements the trait `name` can hold a closure.
    pub(super) fn is_closed(&self, name: &str) -> bool {
        self.closed.contains(name)
    }

    /// What the declaration says: supertraits, and bounds of associated types.
    fn learn(&mut self, run: &Run<'a, '_>, own: &Trait) {
        let Some(name) = run.word(own.name) else { return };
        let mut open = Open::default();
        let about_self = run
            .split(own.generics.clauses.clone())
            .into_iter()
            .filter_map(|clause| Some((clause.clone(), run.colon(clause)?)))
            .filter(|(clause, colon)| (clause.start..*colon).any(|at| run.is_keyword(at, "Self")))
            .map(|(clause, colon)| colon + 1..clause.end);
        for range in std::iter::once(own.supertraits.clone()).chain(about_self) {
            for demand in demands(run, range) {
                match demand {
                    Demand::Lifetime(lifetime) if lifetime != "'static" => {
                        self.outliving.insert(name);
                    }
                    Demand::Lifetime(_) => {}
                    Demand::Trait(of) => {
                        open.add(&self.open(of.name).without(&of.named));
                        if self.outlives_arguments(of.name) {
                            self.outliving.insert(name);
                        }
                        if self.may_demand_static(of.name) {
                            self.doubtful.insert(name);
                        }
                    }
                }
            }
        }
        for (_, bounds) in associated(run, own) {
            for demand in demands(run, bounds) {
                let Demand::Trait(of) = demand else { continue };
                self.bounded.insert(name);
                // What is not known is believed of the type itself, and not of what it projects to.
                open.names.extend(self.open(of.name).without(&of.named).names);
            }
        }
        if let Some(known) = self.own.get_mut(name) {
            known.add(&open);
        }
    }

    /// A closure's type does not name what it returns. An impl hands that on if an associated type
    /// of it names a parameter that its own type does not, or one that may be what a closure
    /// returns.
    fn learn_impl(&mut self, run: &Run<'a, '_>, items: &Items, aliases: &BTreeSet<&'a str>, owner: &Impl) {
        if !self.hands_on(run, aliases, owner) {
            return;
        }
        for word in owner.of_trait.clone().filter_map(|at| run.word(at)) {
            self.handed_on.insert(word);
            for own in items.traits.iter().filter(|own| run.word(own.name) == Some(word)) {
                let names: Vec<&'a str> = associated(run, own).into_iter().map(|(name, _)| name).collect();
                self.own.entry(word).or_default().names.extend(names);
            }
        }
    }

    fn hands_on(&self, run: &Run<'a, '_>, aliases: &BTreeSet<&'a str>, owner: &Impl) -> bool {
        let parameters = declared(run, owner.generics.list.clone());
        let header = owner.of_trait.clone().chain(owner.self_type.clone());
        let named: BTreeSet<&str> = header.filter_map(|at| run.word(at)).collect();
        let mut bounds = owner.generics.list.clone().chain(owner.generics.clauses.clone());
        let admits = bounds.any(|at| {
            run.word(at).is_some_and(|word| {
                !parameters.contains(&word) && (is_sugar(word) || !self.open(word).is_empty())
            })
        });
        owner.types.iter().any(|(_, value)| {
            // What an alias stands for may be a projection.
            let has_alias = value.clone().filter_map(|at| run.word(at)).any(|word| aliases.contains(word));
            value.clone().any(|at| {
                let Some(word) = run.word(at).filter(|word| parameters.contains(word)) else { return false };
                let is_projected = has_alias || run.is_double_colon(at + 1) || run.is_keyword(at + 1, "as");
                !named.contains(word) || (is_projected && admits)
            })
        })
    }

    /// The associated types of `name`, whatever it may mean, that a closure may stand behind.
    pub(super) fn open(&self, name: &str) -> Open<'a> {
        let mut open = self.open_of(name);
        for original in self.renamed.get(name).into_iter().flatten() {
            open.add(&self.open_of(original));
        }
        open
    }

    fn open_of(&self, name: &str) -> Open<'a> {
        let mut open = self.own.get(name).cloned().unwrap_or_default();
        let known = CLOSURE_TRAITS.iter().find(|(of, _)| *of == name);
        if let Some((_, names)) = known {
            open.names.extend(names.iter().copied());
        } else if !self.own.contains_key(name) || self.foreign.contains(name) {
            let is_plain = PLAIN_TRAITS.contains(&name) && !self.handed_on.contains(name);
            let is_name = name.starts_with(|c: char| c.is_uppercase()) && name != "Self";
            open.others |= is_name && !is_plain && !self.renamed.contains_key(name);
        }
        open
    }

    /// Something can be done with what `name` projects to, without a bound that says so.
    pub(super) fn is_bounded(&self, name: &str) -> bool {
        let own = |name: &str| self.bounded.contains(name) || self.handed_on.contains(name);
        own(name) || self.renamed.get(name).into_iter().flatten().any(|name| own(name))
    }

    /// What implements `name` outlives the lifetimes among the arguments.
    pub(super) fn outlives_arguments(&self, name: &str) -> bool {
        let mut originals = self.renamed.get(name).into_iter().flatten();
        self.outliving.contains(name) || originals.any(|name| self.outliving.contains(name))
    }

    /// Every name of what `name` may mean.
    pub(super) fn names_of<'n>(&self, name: &'n str) -> BTreeSet<&'n str>
    where
        'a: 'n,
    {
        let originals = self.renamed.get(name).into_iter().flatten().copied();
        originals.chain(std::iter::once(name)).collect()
    }

    /// Neither a trait of this crate nor one of std's that is known to demand nothing.
    pub(super) fn may_demand_static(&self, name: &str) -> bool {
        let is_known = PLAIN_TRAITS.contains(&name) || CLOSURE_TRAITS.iter().any(|(of, _)| *of == name);
        let is_own = self.own.contains_key(name);
        let is_renamed = self.renamed.contains_key(name);
        self.doubtful.contains(name)
            || (!is_known && is_own && self.foreign.contains(name))
            || (!is_known && !is_own && !is_renamed)
            || self.renamed.get(name).into_iter().flatten().any(|name| self.doubtful.contains(name))
    }

    /// A trait of this crate whose supertraits are not all known.
    pub(super) fn is_doubtful(&self, name: &str) -> bool {
        self.doubtful.contains(name)
    }
}

/// The names of aliases, behind which anything may be.
fn aliases<'a>(run: &Run<'a, '_>, items: &Items) -> BTreeSet<&'a str> {
    items.aliases.iter().filter_map(|alias| run.word(alias.name)).collect()
}

/// The predicates of an impl about one word by itself.
fn predicates<'a>(run: &Run<'a, '_>, owner: &Impl) -> Vec<(&'a str, std::ops::Range<usize>)> {
    let lists = [owner.generics.list.clone(), owner.generics.clauses.clone()];
    let all = lists.into_iter().flat_map(|list| run.split(list));
    all.filter_map(|predicate| {
        let colon = run.colon(predicate.clone())?;
        let subject = run.word(colon.checked_sub(1)?)?;
        (colon == predicate.start + 1).then_some((subject, colon + 1..predicate.end))
    })
    .collect()
}

fn is_sugar(word: &str) -> bool {
    matches!(word, "Fn" | "FnMut" | "FnOnce")
}

/// The associated types that `own` declares, with their bounds.
fn associated<'a>(run: &Run<'a, '_>, own: &Trait) -> Vec<(&'a str, std::ops::Range<usize>)> {
    let mut found = Vec::new();
    for at in own.body.clone().filter(|at| run.is_keyword(*at, "type")) {
        let Some(name) = run.word(at + 1) else { continue };
        let mut from = at + 2;
        if run.is(from, TokenKind::Lt) {
            from = run.behind_angles(from);
        }
        let ends = |at: usize| {
            run.is(at, TokenKind::Semi) || run.is(at, TokenKind::Eq) || run.is_keyword(at, "where")
        };
        let end = run.scan_flat(from, own.body.end, ends);
        let bounds = if run.is(from, TokenKind::Colon) { from + 1..end } else { from..from };
        found.push((name, bounds));
    }
    found
}
