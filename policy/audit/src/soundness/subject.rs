//! What the bounds of one signature say of one parameter, or of an associated type of one.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::demand::{Demand, demands};
use super::krate::Crate;
use super::run::Run;
use super::traits::Traits;

/// Stands for a type that is given to an associated type.
const GIVEN: &str = "=";

/// A type parameter, `Self`, an associated type, or an `impl Trait` among the inputs.
#[derive(Debug, Default)]
pub(super) struct Subject<'a> {
    traits: BTreeSet<&'a str>,
    /// Lifetimes that it outlives.
    pub(super) shorter: BTreeSet<&'a str>,
    /// What its associated types are said to outlive, or that a type is given to them.
    settled: BTreeMap<&'a str, BTreeSet<&'a str>>,
    /// Associated types of it that are named.
    mentioned: BTreeSet<&'a str>,
    /// A bound lets something be done with what it projects to.
    is_used: bool,
}

impl<'a> Subject<'a> {
    /// `subject: range`. What the traits of another subject, such as `Vec<P>`, give to their
    /// associated types settles nothing of `P` itself.
    pub(super) fn take(
        &mut self,
        of: &Crate<'a, '_>,
        run: &Run<'a, '_>,
        range: Range<usize>,
        is_itself: bool,
    ) {
        for demand in demands(run, range) {
            let found = match demand {
                Demand::Lifetime(lifetime) => {
                    self.shorter.insert(lifetime);
                    continue;
                }
                Demand::Trait(found) => found,
            };
            if of.types.is_static_name(found.name) {
                self.shorter.insert("'static");
            }
            if of.traits.outlives_arguments(found.name) {
                self.shorter.extend(found.arguments.iter().filter_map(|range| run.lifetime(range.start)));
            }
            if is_itself {
                self.traits.insert(found.name);
                found.named.iter().for_each(|name| self.settle(name, GIVEN));
                for (name, bounds) in &found.bounded {
                    self.take_projected(of, run, name, bounds.clone());
                }
            } else {
                self.projects_by(of.traits, found.name, &found.named);
            }
        }
    }

    /// `subject: name`.
    pub(super) fn implements(&mut self, name: &'a str) {
        self.traits.insert(name);
    }

    /// The trait `name` projects something that is made of the subject.
    pub(super) fn projects_by(&mut self, traits: &Traits<'a>, name: &'a str, named: &[&'a str]) {
        let open = traits.open(name);
        let is_settled =
            open.names.iter().all(|name| named.contains(name)) && !(open.others && named.is_empty());
        if !is_settled && !traits.is_closed(name) {
            self.traits.insert(name);
        }
    }

    /// `Self::name: range`.
    pub(super) fn take_projected(
        &mut self,
        of: &Crate<'a, '_>,
        run: &Run<'a, '_>,
        name: &'a str,
        range: Range<usize>,
    ) {
        self.mentioned.insert(name);
        for demand in demands(run, range) {
            match demand {
                Demand::Lifetime(lifetime) => self.settle(name, lifetime),
                Demand::Trait(found) => {
                    if of.types.is_static_name(found.name) {
                        self.settle(name, "'static");
                    }
                    self.is_used = true;
                    self.projects_by(of.traits, found.name, &found.named);
                }
            }
        }
    }

    fn settle(&mut self, name: &'a str, by: &'a str) {
        self.settled.entry(name).or_default().insert(by);
    }

    pub(super) fn mention(&mut self, name: &'a str) {
        self.mentioned.insert(name);
    }

    /// The trait of which an associated type may be what a closure returns, while no bound that
    /// `suffices` says how long it lives. Of a trait that is not known that is believed for `'static`,
    /// or if something is done with it.
    pub(super) fn opened_by(
        &self,
        traits: &Traits<'a>,
        is_static: bool,
        suffices: impl Fn(&'a str) -> bool,
    ) -> Option<&'a str> {
        let is_settled = |name: &str| {
            self.settled.get(name).is_some_and(|by| by.iter().any(|by| *by == GIVEN || suffices(by)))
        };
        if self.traits.iter().any(|name| traits.is_closed(name)) {
            return None;
        }
        self.traits.iter().copied().find(|name| {
            let open = traits.open(name);
            let others = open.others
                && (is_static || self.is_used)
                && (!self.settled.keys().any(|name| is_settled(name))
                    || !self.mentioned.iter().all(|name| is_settled(name)));
            others || !open.names.iter().all(|name| is_settled(name))
        })
    }

    /// Something can be done with what it projects to.
    pub(super) fn is_used(&self, traits: &Traits<'a>) -> bool {
        self.is_used || self.traits.iter().any(|name| traits.is_bounded(name))
    }
}
