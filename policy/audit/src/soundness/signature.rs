//! One signature: which lifetimes and type parameters it names where, and which of its types imply
//! that one outlives another.
//!
//! rustc believes such a type in the body of a function, and checks it where the function is
//! called; the holes are the ways around the call.

use std::collections::BTreeSet;
use std::ops::Range;

use ra_ap_rustc_lexer::TokenKind;

use super::run::Run;

/// A lifetime, or a type parameter that stands for all lifetimes in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Region<'a> {
    Static,
    Named(&'a str),
    /// An elided lifetime, by the token that elides it.
    Elided(usize),
    Type(&'a str),
}

impl Region<'_> {
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Static => "'static".to_owned(),
            Self::Named(name) | Self::Type(name) => (*name).to_owned(),
            Self::Elided(_) => "'_".to_owned(),
        }
    }
}

/// Where in a signature something stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Zone {
    Input,
    Output,
    /// The head of the `impl` around a method.
    Head,
    /// Generics and `where` clauses.
    Bounds,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Mention<'a> {
    pub(super) region: Region<'a>,
    pub(super) at: usize,
    pub(super) zone: Zone,
    /// Inside the parentheses of a function type within the signature.
    pub(super) in_function_type: bool,
}

/// What a type that implies an outlives relation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Reference,
    /// `&mut`: what it refers to is invariant, so a pointer to the function cannot take another
    /// lifetime there than the function's data has.
    Mutable,
    /// A type with generic arguments.
    Path,
    /// Something in `<X as Y>::Z` that may be in what it stands for.
    Resolved,
}

/// A type whose well-formedness implies `longer: shorter`.
#[derive(Debug, Clone)]
pub(super) struct Witness<'a> {
    pub(super) shorter: Region<'a>,
    pub(super) longer: Region<'a>,
    pub(super) tokens: Range<usize>,
    pub(super) zone: Zone,
    pub(super) is_mutable: bool,
    /// It stands within a projection, `<X as Y>::Z`.
    pub(super) in_projection: bool,
}

/// What is known of one name of a type or trait: which of its arguments outlive which.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Relation<'a> {
    pub(super) parameters: Vec<&'a str>,
    /// `(shorter, longer)`.
    pub(super) pairs: BTreeSet<(&'a str, &'a str)>,
}

/// What a reader has to know about names.
pub(super) trait Names {
    /// A type parameter in scope.
    fn is_type_parameter(&self, name: &str) -> bool;
    /// Lifetimes that belong to a binder inside the signature.
    fn is_bound_inside(&self, lifetime: &str) -> bool;
    /// What `name<…>` implies about its arguments; `None` if that is not known.
    fn relation(&self, run: &Run<'_, '_>, at: usize) -> Option<&[Relation<'_>]>;
    /// Whether `name<…>` may imply that its arguments are `'static`.
    fn demands_static(&self, run: &Run<'_, '_>, at: usize) -> bool;
}

/// A signature as one run of tokens with zones.
#[derive(Debug)]
pub(super) struct Signature<'a> {
    pub(super) mentions: Vec<Mention<'a>>,
    pub(super) witnesses: Vec<Witness<'a>>,
    /// What a mention of `Self`, or of an associated type of it, stands for beside itself: whatever
    /// the `trait` or `impl` around the function declares.
    pub(super) behind_self: BTreeSet<Region<'a>>,
    projections: Vec<Range<usize>>,
}

/// Witnesses of one signature; generated code stays far below.
const WITNESSES_MAX: usize = 4_096;

impl<'a> Signature<'a> {
    /// Reads `run`, whose zones lie side by side. `None` if it is too large.
    pub(super) fn read(
        run: &Run<'a, '_>,
        zones: &[(Zone, Range<usize>)],
        has_self_reference: bool,
        names: &impl Names,
    ) -> Option<Self> {
        let inside = function_types(run);
        let mut mentions = Vec::new();
        for (zone, range) in zones {
            for at in range.clone() {
                if let Some(region) = region_at(run, at, &inside, names) {
                    mentions.push(Mention { region, at, zone: *zone, in_function_type: inside[at] });
                }
            }
        }
        resolve_elided_output(&mut mentions, has_self_reference);
        let mut signature =
            Self { mentions, witnesses: Vec::new(), behind_self: BTreeSet::new(), projections: Vec::new() };
        for (zone, range) in zones.iter().filter(|(zone, _)| *zone != Zone::Bounds) {
            for at in range.clone() {
                signature.witnesses_at(run, at, range.end, *zone, names);
                if signature.witnesses.len() > WITNESSES_MAX {
                    return None;
                }
            }
        }
        Some(signature)
    }

    /// Adds what the type that begins at `at` implies.
    fn witnesses_at(&mut self, run: &Run<'a, '_>, at: usize, limit: usize, zone: Zone, names: &impl Names) {
        if run.is(at, TokenKind::And) {
            let end = run.type_end(at + 1, limit, false);
            if let Some(shorter) = self.mention_at(at).or_else(|| self.mention_at(at + 1)) {
                let is_mutable = run.is_keyword(at + 1, "mut")
                    || (run.lifetime(at + 1).is_some() && run.is_keyword(at + 2, "mut"));
                let form = if is_mutable { Form::Mutable } else { Form::Reference };
                self.relate(&[shorter], at..end, zone, form);
            }
        } else if run.is_keyword(at, "dyn") {
            // A trait may demand that its objects outlive an argument: `trait Tr<'a>: 'a`.
            let end = run.type_end(at + 1, limit, true);
            let arguments = self.lifetimes_in(&(at + 1..end));
            for longer in self.direct_positions(run, at + 1..end, TokenKind::Plus) {
                self.relate_to(&arguments, &(longer..longer + 1), &(at..end), zone, Form::Path);
            }
        } else if run.is(at, TokenKind::Lt) {
            self.witnesses_of_angles(run, at, zone, names);
        }
    }

    fn witnesses_of_angles(&mut self, run: &Run<'a, '_>, at: usize, zone: Zone, names: &impl Names) {
        let behind = run.behind_angles(at);
        let inner = at + 1..behind.saturating_sub(1).max(at + 1);
        let turbofish = at >= 2 && run.is_double_colon(at - 2);
        let name = if turbofish { at.checked_sub(3) } else { at.checked_sub(1) };
        let is_binder = name.is_some_and(|name| run.is_keyword(name, "for"));
        let Some(name) = name.filter(|name| run.word(*name).is_some_and(|word| !is_type_keyword(word)))
        else {
            // `<X as Trait<…>>::Name`: everything in it may be related.
            if !is_binder {
                let all = self.lifetimes_in(&inner);
                self.relate(&all, at..behind, zone, Form::Resolved);
                if run.is_double_colon(behind) {
                    self.projections.push(at..behind);
                }
            }
            return;
        };
        if is_binder {
            return;
        }
        let relation = names.relation(run, name);
        if relation.is_none() && names.demands_static(run, name) {
            self.relate(&[Region::Static], name..behind, zone, Form::Path);
        }
        match relation {
            Some(relations) => {
                for relation in relations {
                    self.relate_arguments(run, relation, name..behind, inner.clone(), zone);
                }
            }
            None => {
                let direct = self.direct_lifetimes(run, inner, TokenKind::Comma);
                self.relate(&direct, name..behind, zone, Form::Path);
            }
        }
    }

    /// What a type of the crate says about its arguments, in the order of its parameters.
    fn relate_arguments(
        &mut self,
        run: &Run<'a, '_>,
        relation: &Relation<'_>,
        tokens: Range<usize>,
        inner: Range<usize>,
        zone: Zone,
    ) {
        let (lifetimes, types): (Vec<_>, Vec<_>) =
            run.split(inner).into_iter().partition(|range| run.lifetime(range.start).is_some());
        let argument = |name: &str| {
            let is_lifetime = name.starts_with('\'');
            let mut same = relation.parameters.iter().filter(|other| other.starts_with('\'') == is_lifetime);
            let index = same.position(|other| *other == name)?;
            if is_lifetime { lifetimes.get(index) } else { types.get(index) }
        };
        for (shorter, longer) in &relation.pairs {
            let shorter = match *shorter {
                "'static" => Some(Region::Static),
                shorter => argument(shorter).and_then(|range| self.mention_at(range.start)),
            };
            let (Some(shorter), Some(longer)) = (shorter, argument(longer)) else { continue };
            self.relate_to(&[shorter], longer, &tokens, zone, Form::Path);
        }
    }

    /// Everything named in `tokens` outlives each of `shorter`.
    fn relate(&mut self, shorter: &[Region<'a>], tokens: Range<usize>, zone: Zone, form: Form) {
        self.relate_to(shorter, &tokens, &tokens, zone, form);
    }

    /// Everything named in `named`, a part of `tokens`, outlives each of `shorter`.
    fn relate_to(
        &mut self,
        shorter: &[Region<'a>],
        named: &Range<usize>,
        tokens: &Range<usize>,
        zone: Zone,
        form: Form,
    ) {
        let longer: BTreeSet<Region<'a>> = self.regions_in(named).collect();
        for shorter in shorter {
            for longer in longer.iter().filter(|longer| *longer != shorter) {
                if *longer == Region::Static || self.witnesses.len() > WITNESSES_MAX {
                    continue;
                }
                let (shorter, longer) = (*shorter, *longer);
                let in_projection = form != Form::Resolved
                    && self
                        .projections
                        .iter()
                        .any(|range| range.start < tokens.start && tokens.end <= range.end);
                let tokens = tokens.clone();
                let is_mutable = form == Form::Mutable;
                self.witnesses.push(Witness { shorter, longer, tokens, zone, is_mutable, in_projection });
            }
        }
    }

    /// Lifetimes that stand by themselves between `separator`s.
    fn direct_lifetimes(
        &self,
        run: &Run<'a, '_>,
        range: Range<usize>,
        separator: TokenKind,
    ) -> Vec<Region<'a>> {
        self.direct_positions(run, range, separator)
            .into_iter()
            .filter_map(|at| self.mention_at(at))
            .collect()
    }

    fn direct_positions(&self, run: &Run<'a, '_>, range: Range<usize>, separator: TokenKind) -> Vec<usize> {
        range
            .clone()
            .filter(|at| run.lifetime(*at).is_some())
            .filter(|at| *at == range.start || run.is(*at - 1, separator) || run.is_keyword(*at - 1, "dyn"))
            .filter(|at| *at + 1 >= range.end || run.is(*at + 1, separator))
            .collect()
    }

    fn lifetimes_in(&self, range: &Range<usize>) -> Vec<Region<'a>> {
        let regions: BTreeSet<Region<'a>> = self.regions_in(range).collect();
        regions.into_iter().filter(|region| !matches!(region, Region::Type(_))).collect()
    }

    /// Mentions are in the order of tokens.
    pub(super) fn mentions_in(&self, range: &Range<usize>) -> &[Mention<'a>] {
        let from = self.mentions.partition_point(|mention| mention.at < range.start);
        let to = self.mentions.partition_point(|mention| mention.at < range.end);
        &self.mentions[from..to.max(from)]
    }

    fn regions_in(&self, range: &Range<usize>) -> impl Iterator<Item = Region<'a>> {
        self.mentions_in(range).iter().map(|mention| mention.region)
    }

    fn mention_at(&self, at: usize) -> Option<Region<'a>> {
        self.regions_in(&(at..at + 1)).next()
    }
}

/// What is elided in an output is the lifetime of `&self`, or the only one among the inputs.
fn resolve_elided_output(mentions: &mut [Mention<'_>], has_self_reference: bool) {
    let inputs = mentions.iter().filter(|mention| mention.zone == Zone::Input && !mention.in_function_type);
    let mut lifetimes: Vec<Region<'_>> =
        inputs.map(|mention| mention.region).filter(|region| !matches!(region, Region::Type(_))).collect();
    if has_self_reference {
        lifetimes.truncate(1);
    }
    lifetimes.dedup();
    let [elided] = lifetimes[..] else { return };
    for mention in mentions.iter_mut().filter(|mention| mention.zone == Zone::Output) {
        if matches!(mention.region, Region::Elided(_)) {
            mention.region = elided;
        }
    }
}

/// `&'a`, `&`, `'a`, `'_` or a type parameter at `at`.
fn region_at<'a>(run: &Run<'a, '_>, at: usize, inside: &[bool], names: &impl Names) -> Option<Region<'a>> {
    if let Some(lifetime) = run.lifetime(at) {
        return match lifetime {
            "'static" => Some(Region::Static),
            "'_" => (!inside[at]).then_some(Region::Elided(at)),
            name => (!names.is_bound_inside(name)).then_some(Region::Named(name)),
        };
    }
    if run.is(at, TokenKind::And) {
        return (run.lifetime(at + 1).is_none() && !inside[at]).then_some(Region::Elided(at));
    }
    let word = run.word(at)?;
    // A segment behind `::` is no parameter, and neither is the name of a parameter or binding.
    let is_segment = at >= 2 && run.is_double_colon(at - 2);
    let is_binding = run.is(at + 1, TokenKind::Eq);
    (!is_segment && !is_binding && names.is_type_parameter(word)).then_some(Region::Type(word))
}

/// For each token, whether it stands in the parentheses or behind the arrow of a function type.
fn function_types(run: &Run<'_, '_>) -> Vec<bool> {
    let mut inside = vec![false; run.len()];
    for at in 0..run.len() {
        if let Some((inputs, output)) = function_type_at(run, at) {
            inside[inputs].fill(true);
            inside[output].fill(true);
        }
    }
    inside
}

/// The inputs and output of the function type whose `(` is at `at`: `fn(…) -> …`, `Fn(…) -> …`.
pub(super) fn function_type_at(run: &Run<'_, '_>, at: usize) -> Option<(Range<usize>, Range<usize>)> {
    if !run.is(at, TokenKind::OpenParen) || at == 0 {
        return None;
    }
    let behind = run.behind_group(at);
    let has_arrow = run.is(behind, TokenKind::Minus) && run.is_arrow_head(behind + 1);
    let head = run.word(at - 1)?;
    let is_definition = at >= 2 && run.is_keyword(at - 2, "fn");
    let is_sugar = matches!(head, "Fn" | "FnMut" | "FnOnce" | "AsyncFn" | "AsyncFnMut" | "AsyncFnOnce");
    if is_definition || !(head == "fn" || is_sugar || (has_arrow && !is_type_keyword(head))) {
        return None;
    }
    let inputs = at + 1..behind.saturating_sub(1).max(at + 1);
    let output =
        if has_arrow { behind + 2..run.type_end(behind + 2, run.len(), false) } else { behind..behind };
    Some((inputs, output))
}

/// Keywords that may stand before a type or a group, and are no path.
fn is_type_keyword(word: &str) -> bool {
    matches!(
        word,
        "as" | "dyn" | "impl" | "mut" | "const" | "for" | "where" | "in" | "if" | "match" | "return" | "move"
    )
}
