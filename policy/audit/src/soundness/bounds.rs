//! What generics and `where` clauses say by themselves about who outlives whom.

use std::collections::BTreeSet;
use std::ops::Range;

use ra_ap_rustc_lexer::TokenKind;

use super::Crate;
use super::items::{Function, Owner};
use super::run::Run;
use super::signature::Region;

/// Written bounds of one signature.
#[derive(Debug, Default)]
pub(super) struct Bounds<'a> {
    /// `longer: shorter`, lifetimes and whole type parameters.
    written: BTreeSet<(&'a str, &'a str)>,
    /// `P::X: lifetime`.
    pub(super) of_projections: BTreeSet<(&'a str, &'a str)>,
    /// A type parameter that some predicate makes outlive a lifetime, `Vec<P>: 'a` included.
    pub(super) of_parameters: BTreeSet<(&'a str, &'a str)>,
    /// Words in the bounds of a type parameter.
    words: BTreeSet<(&'a str, &'a str)>,
    /// What stands behind the colons.
    demands: Vec<Range<usize>>,
}

impl<'a> Bounds<'a> {
    pub(super) fn read(
        of: &Crate<'a, '_>,
        function: &Function,
        lists: &[(Range<usize>, Range<usize>)],
    ) -> Self {
        let mut bounds = Self::default();
        for (list, clauses) in lists {
            for predicate in of.run.split(list.clone()).into_iter().chain(of.run.split(clauses.clone())) {
                bounds.predicate(of, predicate);
            }
        }
        if let Some(Owner::Trait(index)) = function.owner {
            let supertraits = of.items.traits[index].supertraits.clone();
            bounds.words.insert(("Self", of.name(of.items.traits[index].name)));
            bounds.add(of, &["Self"], None, supertraits);
        }
        bounds
    }

    /// Tokens behind the colons, which may name a lifetime that something is put into.
    pub(super) fn demands(&self) -> Vec<Range<usize>> {
        self.demands.clone()
    }

    fn predicate(&mut self, of: &Crate<'a, '_>, predicate: Range<usize>) {
        let run = of.run;
        let Some(colon) = run.colon(predicate.clone()) else { return };
        let mut from = predicate.start;
        if run.is_binder(from) {
            from = run.behind_angles(from + 1);
        }
        if run.is_keyword(from, "const") {
            return;
        }
        let subject = from..colon;
        let end = run.scan_flat(colon + 1, predicate.end, |at| run.is(at, TokenKind::Eq));
        let names: Vec<&'a str> =
            subject.clone().filter_map(|at| run.lifetime(at).or_else(|| run.word(at))).collect();
        let projection = projection_of(run, &subject);
        self.add(of, &names, projection, colon + 1..end);
        self.demands.push(colon + 1..end);
    }

    /// `subject: demands`.
    fn add(
        &mut self,
        of: &Crate<'a, '_>,
        subject: &[&'a str],
        projection: Option<&'a str>,
        demands: Range<usize>,
    ) {
        let run = of.run;
        for word in trait_names(run, demands.clone()) {
            self.words.extend(subject.iter().map(|name| (*name, word)));
        }
        let is_direct = |at: &usize| {
            (*at == demands.start || run.is(*at - 1, TokenKind::Plus))
                && (*at + 1 >= demands.end || run.is(*at + 1, TokenKind::Plus))
        };
        let mut shorter: Vec<&'a str> =
            demands.clone().filter(is_direct).filter_map(|at| run.lifetime(at)).collect();
        if demands.clone().any(|at| of.types.is_static_trait(run, at)) {
            shorter.push("'static");
        }
        for shorter in shorter {
            match (projection, subject) {
                (Some(parameter), _) => {
                    self.of_projections.insert((parameter, shorter));
                }
                (None, [name]) => {
                    self.written.insert((name, shorter));
                    self.of_parameters.insert((name, shorter));
                }
                (None, names) => self.of_parameters.extend(names.iter().map(|name| (*name, shorter))),
            }
        }
    }

    /// Whether something that implements the bounds of `parameter` may be or hold a closure.
    pub(super) fn admits_closure(&self, of: &Crate<'a, '_>, parameter: &str) -> bool {
        self.words.iter().any(|(name, word)| *name == parameter && of.types.may_be_closures(word))
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

/// The last segments of the traits in `A + path::B<…> + …`.
fn trait_names<'a>(run: &Run<'a, '_>, demands: Range<usize>) -> Vec<&'a str> {
    let mut names = Vec::new();
    let mut at = demands.start;
    while at < demands.end {
        if run.is(at, TokenKind::Lt) {
            at = run.behind_angles(at).max(at + 1);
        } else if run.is(at, TokenKind::OpenParen) && at != demands.start {
            at = run.behind_group(at);
        } else {
            names.extend(run.word(at).filter(|_| !run.is_double_colon(at + 1)));
            at += 1;
        }
    }
    names
}

fn name(region: Region<'_>) -> Option<&str> {
    match region {
        Region::Static => Some("'static"),
        Region::Named(name) | Region::Type(name) => Some(name),
        Region::Elided(_) => None,
    }
}

/// `P` of `P::X` or of `<P as Trait>::X`, if that is all that `range` holds.
pub(super) fn projection_of<'a>(run: &Run<'a, '_>, range: &Range<usize>) -> Option<&'a str> {
    let at = range.start;
    if run.is(at, TokenKind::Lt) {
        return run.word(at + 1).filter(|_| run.behind_angles(at) < range.end);
    }
    let is_path = run.is_double_colon(at + 1) && run.word(at + 3).is_some();
    is_path.then(|| run.word(at)).flatten()
}
