//! What two reports say differently.

use std::collections::{BTreeMap, BTreeSet};

use mfaas_ident::CrateName;
use mfaas_rules::crate_facts::{
    ApiClass, ClassDelta, CompilerCount, CompilerVerdict, CrateReport, FactsDelta, GeigerReport,
    HotspotDelta, HotspotKind, Moves, Need, NeedChange, NeedVersion, Pair, Role,
};

/// Compares two reports, the older one first.
pub fn facts(old: &CrateReport, new: &CrateReport) -> FactsDelta {
    let (came, went, changed) = needs(old, new);
    let names = |of: fn(&CrateReport) -> Vec<String>| moves(&of(old), &of(new));
    FactsDelta {
        touches: counts(&touched(old), &touched(new), |class, places| ClassDelta { class, places }),
        hotspots: counts(&hotspots(old), &hotspots(new), |kind, count| HotspotDelta { kind, count }),
        geiger: both(old, new, geiger),
        compiler: both(old, new, compiler),
        shapes: both(old, new, |report| report.shapes.shapes.len() as u64),
        proc_macro: both(old, new, |report| report.kind.proc_macro),
        build_script: both(old, new, |report| report.kind.build_script),
        links: both(old, new, |report| report.kind.links.clone()),
        edition: both(old, new, |report| report.kind.edition.clone()),
        licence: both(old, new, |report| report.licence.expression.clone().or(report.licence.file.clone())),
        features: moves(&old.features, &new.features),
        macros: names(|report| report.source.exported_macros.iter().map(|item| item.name.clone()).collect()),
        binaries: names(|report| report.archive.binaries.iter().map(|file| file.path.clone()).collect()),
        native_sources: moves(&old.archive.native_sources, &new.archive.native_sources),
        needs_came: came,
        needs_went: went,
        needs_changed: changed,
    }
}

fn both<T>(old: &CrateReport, new: &CrateReport, of: impl Fn(&CrateReport) -> T) -> Pair<T> {
    Pair { from: of(old), to: of(new) }
}

fn moves(old: &[String], new: &[String]) -> Moves {
    let (old, new): (BTreeSet<_>, BTreeSet<_>) = (old.iter().collect(), new.iter().collect());
    let alone =
        |a: &BTreeSet<&String>, b: &BTreeSet<&String>| a.difference(b).map(|&name| name.clone()).collect();
    Moves { came: alone(&new, &old), went: alone(&old, &new) }
}

/// What differs of two counts; what only one of them names is zero in the other.
fn counts<K: Ord + Copy, D>(
    old: &BTreeMap<K, u64>,
    new: &BTreeMap<K, u64>,
    delta: impl Fn(K, Pair<u64>) -> D,
) -> Vec<D> {
    let keys: BTreeSet<K> = old.keys().chain(new.keys()).copied().collect();
    let number = |of: &BTreeMap<K, u64>, key: K| of.get(&key).copied().unwrap_or(0);
    let pairs = keys.into_iter().map(|key| (key, Pair { from: number(old, key), to: number(new, key) }));
    pairs.filter(|(_, pair)| pair.differs()).map(|(key, pair)| delta(key, pair)).collect()
}

fn touched(report: &CrateReport) -> BTreeMap<ApiClass, u64> {
    report.touches.classes.iter().map(|touch| (touch.class, touch.count as u64)).collect()
}

fn hotspots(report: &CrateReport) -> BTreeMap<HotspotKind, u64> {
    let mut found = BTreeMap::new();
    for file in report.source.files.iter().filter(|file| file.role != Role::Aside) {
        for (kind, count) in &file.tokens.counts {
            *found.entry(*kind).or_insert(0) += *count as u64;
        }
    }
    found
}

/// Nothing as soon as one file could not be read.
fn geiger(report: &CrateReport) -> Option<u64> {
    report.source.files.iter().filter(|file| file.role != Role::Aside).try_fold(
        0_u64,
        |sum, file| match &file.geiger {
            GeigerReport::Counted { counts, .. } => Some(sum.saturating_add(counts.unsafe_total())),
            GeigerReport::Unknown { .. } => None,
        },
    )
}

fn compiler(report: &CrateReport) -> CompilerCount {
    match &report.compiler {
        CompilerVerdict::Clean => CompilerCount::Errors(0),
        CompilerVerdict::Unsafe { errors, .. } => CompilerCount::Errors(*errors),
        CompilerVerdict::Failed { .. } | CompilerVerdict::NotRun { .. } => CompilerCount::Unknown,
    }
}

/// Dependencies that came, that went, and that changed. One name with several versions is paired in order, so
/// that what is left over came or went.
fn needs(old: &CrateReport, new: &CrateReport) -> (Vec<NeedVersion>, Vec<NeedVersion>, Vec<NeedChange>) {
    let (mut came, mut went, mut changed) = (Vec::new(), Vec::new(), Vec::new());
    let (mut left, mut right) = (by_name(old, new), by_name(new, old));
    let names: BTreeSet<CrateName> = left.keys().chain(right.keys()).cloned().collect();
    for name in names {
        let mut old = left.remove(&name).unwrap_or_default().into_iter();
        let mut new = right.remove(&name).unwrap_or_default().into_iter();
        loop {
            match (old.next(), new.next()) {
                (None, None) => break,
                (Some(need), None) => went.push(version(need)),
                (None, Some(need)) => came.push(version(need)),
                (Some(from), Some(to)) => changed.push(NeedChange {
                    name: name.clone(),
                    version: Pair { from: from.version.clone(), to: to.version.clone() },
                    checksum: Pair { from: from.checksum, to: to.checksum },
                }),
            }
        }
    }
    (came, went, changed)
}

/// The dependencies of one report that are not exactly those of the other.
fn by_name<'a>(report: &'a CrateReport, other: &CrateReport) -> BTreeMap<CrateName, Vec<&'a Need>> {
    let mut found: BTreeMap<CrateName, Vec<&Need>> = BTreeMap::new();
    for need in report.needs.iter().filter(|need| !other.needs.contains(need)) {
        found.entry(need.name.clone()).or_default().push(need);
    }
    for needs in found.values_mut() {
        needs.sort();
    }
    found
}

fn version(need: &Need) -> NeedVersion {
    NeedVersion { name: need.name.clone(), version: need.version.clone() }
}
