//! What generics and `where` clauses say by themselves about who outlives whom.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use ra_ap_rustc_lexer::TokenKind;

use super::demand::{Demand, demands};
use super::items::{Function, Owner, declared};
use super::krate::{Crate, with_self};
use super::run::Run;
use super::signature::Region;
use super::subject::Subject;
use crate::token::Token;

/// Written bounds of one signature.
#[derive(Debug, Default)]
pub(super) struct Bounds<'a> {
    /// `longer: shorter`, lifetimes and whole type parameters.
    written: BTreeSet<(&'a str, &'a str)>,
    /// Type parameters, and associated types by their names alone.
    pub(super) subjects: BTreeMap<&'a str, Subject<'a>>,
    /// `impl Trait` among the inputs, with the tokens of the whole input.
    pub(super) anonymous: Vec<(Range<usize>, Subject<'a>)>,
    /// The parameters that an associated type belongs to.
    roots: BTreeSet<(&'a str, &'a str)>,
    parameters: BTreeSet<&'a str>,
    /// What stands behind the colons.
    demands: Vec<Vec<Token<'a>>>,
}

impl<'a> Bounds<'a> {
    /// `None` if they are too long to be read.
    pub(super) fn read(
        of: &Crate<'a, '_>,
        function: &Function,
        lists: &[(Range<usize>, Range<usize>)],
    ) -> Option<Self> {
        let mut bounds = Self::default();
        bounds.parameters.extend(lists.iter().flat_map(|(list, _)| declared(of.run, list.clone())));
        bounds.parameters.insert("Self");
        let own = declared(of.run, function.generics.list.clone());
        for (list, clauses) in lists {
            for predicate in of.run.split(list.clone()).into_iter().chain(of.run.split(clauses.clone())) {
                let tokens = with_self(of, function, of.run.tokens[predicate].to_vec());
                let tokens = of.aliases.write_out(tokens, &own, of.run)?;
                bounds.predicate(of, &Run::new(tokens, of.run.budget()));
            }
        }
        if let Some(Owner::Trait(index)) = function.owner {
            let own = &of.items.traits[index];
            let of_self = bounds.subjects.entry("Self").or_default();
            of_self.implements(of.name(own.name));
            of_self.take(of, of.run, own.supertraits.clone(), true);
            bounds.write(of, of.run, "Self", own.supertraits.clone());
        }
        Some(bounds)
    }

    /// Tokens behind the colons, which may name a lifetime that something is put into.
    pub(super) fn demands(&self) -> impl Iterator<Item = &Vec<Token<'a>>> {
        self.demands.iter()
    }

    fn predicate(&mut self, of: &Crate<'a, '_>, run: &Run<'a, '_>) {
        let mut from = 0;
        while run.is(from, TokenKind::Pound) {
            from = run.behind_group(from + 1);
        }
        let Some(colon) = run.colon(from..run.len()) else { return };
        if run.is_binder(from) {
            from = run.behind_angles(from + 1);
        }
        if run.is_keyword(from, "const") {
            return;
        }
        let subject = from.min(colon)..colon;
        let end = run.scan_flat(colon + 1, run.len(), |at| run.is(at, TokenKind::Eq));
        let behind = colon + 1..end;
        self.demands.push(run.tokens[behind.clone()].to_vec());
        self.projections(of, run, 0..run.len());
        self.arguments(of, run, behind.clone());
        let names: Vec<&'a str> = subject.clone().filter_map(|at| run.word(at)).collect();
        let lifetimes: Vec<&'a str> = subject.clone().filter_map(|at| run.lifetime(at)).collect();
        if let ([], [lifetime]) = (&names[..], &lifetimes[..]) {
            self.write(of, run, lifetime, behind);
        } else if let (Some((_, chain)), [.., last]) = (projection_of(run, &subject), &names[..]) {
            for name in chain.iter().filter(|name| *name != last) {
                self.roots.insert((last, name));
                let root = self.subjects.entry(name).or_default();
                root.take_projected(of, run, last, behind.clone());
            }
            self.subjects.entry(last).or_default().take(of, run, behind, true);
        } else if let ([name], []) = (&names[..], &lifetimes[..]) {
            self.write(of, run, name, behind.clone());
            self.subjects.entry(name).or_default().take(of, run, behind, true);
        } else {
            for name in names.iter().filter(|name| self.parameters.contains(**name)) {
                self.subjects.entry(name).or_default().take(of, run, behind.clone(), false);
            }
        }
    }

    /// `longer: range`.
    fn write(&mut self, of: &Crate<'a, '_>, run: &Run<'a, '_>, longer: &'a str, range: Range<usize>) {
        for demand in demands(run, range) {
            match demand {
                Demand::Lifetime(shorter) => {
                    self.written.insert((longer, shorter));
                }
                Demand::Trait(found) if of.types.is_static_name(found.name) => {
                    self.written.insert((longer, "'static"));
                }
                Demand::Trait(_) => {}
            }
        }
    }

    /// `Trait<P>` behind a colon may project something that is made of `P`.
    fn arguments(&mut self, of: &Crate<'a, '_>, run: &Run<'a, '_>, range: Range<usize>) {
        for demand in demands(run, range) {
            let Demand::Trait(found) = demand else { continue };
            let words = found.arguments.iter().cloned().flatten().filter_map(|at| run.word(at));
            for name in words.filter(|name| self.parameters.contains(name)) {
                self.subjects.entry(name).or_default().projects_by(of.traits, found.name, &found.named);
            }
        }
    }

    /// `<P as Trait<Q>>::X` and `P::X` within `range`.
    pub(super) fn projections(&mut self, of: &Crate<'a, '_>, run: &Run<'a, '_>, range: Range<usize>) {
        for at in range {
            if run.is(at, TokenKind::Lt) {
                let behind = run.behind_angles(at);
                let Some((by, chain)) = projection_of(run, &(at..behind + 3)) else { continue };
                let name = run.word(behind + 2);
                for word in chain.into_iter().filter(|word| Some(*word) != name) {
                    let subject = self.subjects.entry(word).or_default();
                    by.iter().for_each(|by| subject.projects_by(of.traits, by, &[]));
                    name.into_iter().for_each(|name| subject.mention(name));
                }
            } else if let Some(word) = run.word(at).filter(|word| self.parameters.contains(word))
                && run.is_double_colon(at + 1)
                && let Some(name) = run.word(at + 3)
            {
                self.roots.insert((name, word));
                self.subjects.entry(word).or_default().mention(name);
            }
        }
    }

    /// `impl Trait` among the inputs, each in one of `zones`.
    pub(super) fn inputs(&mut self, of: &Crate<'a, '_>, run: &Run<'a, '_>, zones: &[Range<usize>]) {
        for zone in zones {
            self.projections(of, run, zone.clone());
            for at in zone.clone().filter(|at| run.is_keyword(*at, "impl")) {
                let mut subject = Subject::default();
                subject.take(of, run, at + 1..run.type_end(at + 1, zone.end, true), true);
                self.anonymous.push((zone.clone(), subject));
            }
        }
    }

    /// What is said of `parameter` is said of `name`: the same, or an associated type of it.
    pub(super) fn is_rooted(&self, name: &'a str, parameter: &'a str) -> bool {
        name == parameter || self.roots.contains(&(name, parameter))
    }

    /// Whether the bounds say that `longer` outlives `shorter`.
    pub(super) fn says(&self, longer: Region<'a>, shorter: Region<'a>) -> bool {
        let (Some(longer), Some(shorter)) = (name(longer), name(shorter)) else { return false };
        let mut reached = BTreeSet::from([longer]);
        let mut pending = vec![longer];
        while let Some(name) = pending.pop() {
            if name == shorter || name == "'static" {
                return true;
            }
            for (_, next) in self.written.range((name, "")..).take_while(|(from, _)| *from == name) {
                if reached.insert(next) {
                    pending.push(next);
                }
            }
        }
        false
    }
}

fn name(region: Region<'_>) -> Option<&str> {
    match region {
        Region::Static => Some("'static"),
        Region::Named(name) | Region::Type(name) => Some(name),
        Region::Elided(_) => None,
    }
}

/// The trait of a projection that is all that `range` holds, and the words of its path: `P::X`, and
/// `<P as Trait<Q>>::X` without the trait's own.
fn projection_of<'a>(run: &Run<'a, '_>, range: &Range<usize>) -> Option<(Option<&'a str>, Vec<&'a str>)> {
    let mut at = range.start;
    let mut chain = Vec::new();
    let mut by = None;
    if run.is(at, TokenKind::Lt) {
        let behind = run.behind_angles(at);
        let is_as = |at: usize| run.is_keyword(at, "as");
        let split = run.scan_flat(at + 1, behind.saturating_sub(1), is_as);
        chain.extend((at + 1..split).filter_map(|at| run.word(at)));
        if is_as(split)
            && let Some(Demand::Trait(found)) = demands(run, split + 1..behind.saturating_sub(1)).pop()
        {
            chain.extend(found.arguments.into_iter().flatten().filter_map(|at| run.word(at)));
            by = Some(found.name);
        }
        at = behind;
        if !run.is_double_colon(at) {
            return None;
        }
    } else {
        chain.push(run.word(at)?);
        at += 1;
    }
    let mut segments = 0;
    while run.is_double_colon(at) && at < range.end {
        chain.push(run.word(at + 2)?);
        at += 3;
        segments += 1;
        if run.is(at, TokenKind::Lt) {
            at = run.behind_angles(at);
        }
    }
    (segments > 0 && at >= range.end.min(run.len())).then_some((by, chain))
}
