//! Which arguments of the crate's own types and traits outlive which, by their definitions.
//!
//! rustc infers `'l: 's` from a field `&'s &'l T`, and believes it of `Own<'s, 'l>`. What cannot be
//! known, because the type may be another crate's, relates everything to its lifetimes.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::alias::Aliases;
use super::items::{Items, declared};
use super::run::Run;
use super::signature::{Names, Region, Relation, Signature, Zone};
use super::types::Types;

/// Rounds after which every type counts as unknown: types of types of types are rarer.
const ROUNDS_MAX: usize = 8;

/// Knowledge by name, one relation for each definition; a name that is missing is unknown.
#[derive(Debug, Default)]
pub(super) struct Relations<'a> {
    known: BTreeMap<&'a str, Vec<Relation<'a>>>,
}

impl<'a> Relations<'a> {
    pub(super) fn new(
        run: &Run<'a, '_>,
        items: &Items,
        aliases: &Aliases<'a>,
        types: &Types<'a>,
    ) -> Option<Self> {
        let definitions = Definition::all(run, items, aliases)?;
        let mut relations = Self::default();
        // The place of each definition's relation under its name.
        let mut places = Vec::with_capacity(definitions.len());
        for definition in &definitions {
            let known = relations.known.entry(definition.name).or_default();
            places.push(known.len());
            known.push(definition.written(run, types));
        }
        for round in 0.. {
            if !relations.round(&definitions, &places, types)? {
                break;
            }
            if round >= ROUNDS_MAX {
                relations.known.clear();
                break;
            }
        }
        Some(relations)
    }

    /// One round; whether anything was learnt.
    fn round(
        &mut self,
        definitions: &[Definition<'a, '_>],
        places: &[usize],
        types: &Types<'a>,
    ) -> Option<bool> {
        let mut changed = false;
        for (definition, place) in definitions.iter().zip(places) {
            if !self.known.contains_key(definition.name) || definition.fields.len() == 0 {
                continue;
            }
            definition.fields.budget().pay(definition.fields.len());
            let names = Fields { definition, relations: self, types };
            let zones = [(Zone::Input, 0..definition.fields.len())];
            let signature = Signature::read(&definition.fields, &zones, false, &names)?;
            let pairs: Vec<(&'a str, &'a str)> = signature
                .witnesses
                .iter()
                .filter_map(|witness| Some((name_of(witness.shorter)?, name_of(witness.longer)?)))
                .collect();
            let known = self.known.get_mut(definition.name)?.get_mut(*place)?;
            let before = known.pairs.len();
            known.pairs.extend(pairs);
            changed |= known.pairs.len() > before;
        }
        Some(changed)
    }

    /// What is known of the name at `at`, the last segment of a path; `None` if it may be foreign.
    pub(super) fn of(&self, run: &Run<'_, '_>, at: usize, types: &Types<'_>) -> Option<&[Relation<'a>]> {
        let is_path = at >= 2 && run.is_double_colon(at - 2);
        // An associated type may have the name of a type.
        let is_associated = at >= 3 && run.is_keyword(at - 3, "Self");
        let has_path = is_path && (is_associated || !types.is_local_path(run, at));
        let name = run.word(at)?;
        if has_path || types.may_be_foreign(name) { None } else { self.known.get(name).map(Vec::as_slice) }
    }
}

fn name_of(region: Region<'_>) -> Option<&str> {
    match region {
        Region::Named(name) | Region::Type(name) => Some(name),
        Region::Static | Region::Elided(_) => None,
    }
}

/// A type or trait, its fields written out.
struct Definition<'a, 'b> {
    name: &'a str,
    parameters: Vec<&'a str>,
    /// Generics and `where` clauses in the crate's run.
    written: Vec<Range<usize>>,
    fields: Run<'a, 'b>,
}

impl<'a, 'b> Definition<'a, 'b> {
    fn all(run: &Run<'a, 'b>, items: &Items, aliases: &Aliases<'a>) -> Option<Vec<Self>> {
        let mut all = Vec::new();
        for adt in &items.adts {
            let parameters = declared(run, adt.parameters.clone());
            // Without two parameters no field can relate them.
            let body = if parameters.len() > 1 { adt.definition.clone() } else { 0..0 };
            let from = adt.parameters.end.clamp(body.start, body.end.max(body.start));
            let fields =
                aliases.write_out_long(run.tokens[from..body.end.max(from)].to_vec(), &parameters, run)?;
            let written = vec![adt.parameters.clone(), adt.clauses.clone()];
            let fields = Run::new(fields, run.budget());
            all.push(Self { name: run.word(adt.name)?, parameters, written, fields });
        }
        for own in &items.traits {
            let parameters = declared(run, own.generics.list.clone());
            let written = vec![own.generics.list.clone(), own.generics.clauses.clone()];
            let fields = Run::new(Vec::new(), run.budget());
            all.push(Self { name: run.word(own.name)?, parameters, written, fields });
        }
        Some(all)
    }

    /// What the bounds say.
    fn written(&self, run: &Run<'a, '_>, types: &Types<'a>) -> Relation<'a> {
        let mut pairs = BTreeSet::new();
        for predicate in self.written.iter().flat_map(|range| run.split(range.clone())) {
            let Some(colon) = run.colon(predicate.clone()) else { continue };
            let subjects: Vec<&str> = (predicate.start..colon)
                .filter_map(|at| run.lifetime(at).or_else(|| run.word(at)))
                .filter(|name| self.parameters.contains(name))
                .collect();
            let demands = colon + 1..predicate.end;
            let is_static = demands.clone().any(|at| types.is_static_trait(run, at));
            let shorter = demands.filter_map(|at| run.lifetime(at));
            for shorter in shorter.chain(is_static.then_some("'static")) {
                pairs.extend(subjects.iter().map(|longer| (shorter, *longer)));
            }
        }
        Relation { parameters: self.parameters.clone(), pairs }
    }
}

/// The scope of a definition's fields.
struct Fields<'d, 'a, 'b> {
    definition: &'d Definition<'a, 'b>,
    relations: &'d Relations<'a>,
    types: &'d Types<'a>,
}

impl Names for Fields<'_, '_, '_> {
    fn is_type_parameter(&self, name: &str) -> bool {
        self.definition.parameters.contains(&name)
    }

    fn is_bound_inside(&self, lifetime: &str) -> bool {
        !self.definition.parameters.contains(&lifetime)
    }

    fn relation(&self, run: &Run<'_, '_>, at: usize) -> Option<&[Relation<'_>]> {
        self.relations.of(run, at, self.types)
    }

    fn demands_static(&self, run: &Run<'_, '_>, at: usize) -> bool {
        self.types.demands_static(run, at)
    }
}
