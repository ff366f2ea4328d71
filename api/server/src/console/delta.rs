//! What there is to read for a decision: the whole version, or what changed since one that was decided about.
//!
//! A delta is the shorter way only from where somebody has been: a version that merely ships, or whose decision was
//! revoked, is shown as what it is and never suggested. What was not compared is never shown as unchanged.

use mfaas_catalog::{Baseline, ReviewDelta};
use mfaas_ident::Digest;
use mfaas_rules::crate_facts::{
    CompilerCount, CrateDelta, FactsDelta, FileDelta, LineDelta, Moves, Pair, Volumes,
};

use super::hotspots::kind_label;
use super::rows::{class_label, joined, line, time};
use crate::limits;

/// The version that a comparison begins at.
pub(super) struct Base {
    pub(super) version: String,
    pub(super) checksum: Digest,
    /// Why reading what changed since is not enough.
    pub(super) warning: Option<String>,
}

impl Base {
    /// None without a comparison.
    pub(super) fn of(delta: Option<&ReviewDelta>) -> Option<Self> {
        let found = delta?;
        let base = found.delta.as_ref().and(found.baseline.as_ref())?;
        Some(Self {
            version: base.version.to_string(),
            checksum: base.checksum,
            warning: warning(base, found.stands),
        })
    }
}

fn warning(base: &Baseline, stands: bool) -> Option<String> {
    if !stands {
        return Some(format!(
            "Version {} is allowed no more: what is the same in both is not decided.",
            base.version
        ));
    }
    let unseen = "is allowed and nobody of this site has looked at it: what is the same in both is not reviewed for \
                  hostile callers.";
    (!base.is_reviewed()).then(|| format!("Version {} {unseen}", base.version))
}

/// How much there is to read, in sentences.
pub(super) struct Reading {
    /// The way that takes the fewest lines, in a few words.
    pub(super) cheapest: String,
    /// All of it.
    pub(super) whole: String,
    /// What changed, from where and by whose word.
    pub(super) delta: Option<String>,
    pub(super) warning: Option<String>,
    /// Why there is no delta.
    pub(super) problem: Option<String>,
    /// What a comparison leaves out.
    pub(super) left_out: Option<String>,
}

pub(super) fn reading(found: Option<&ReviewDelta>) -> Reading {
    let base = Base::of(found);
    let warning = base.and_then(|base| base.warning);
    let volumes = found.and_then(|found| found.volumes);
    let delta = found.and_then(|found| found.delta.as_ref().zip(found.baseline.as_ref()));
    let problem = match found {
        None => Some("nobody has compared it with an allowed version".to_owned()),
        Some(found) => Some(line(&found.problem)).filter(|problem| !problem.is_empty()),
    };
    Reading {
        cheapest: cheapest(volumes, delta.map(|(delta, _)| delta), warning.is_none()),
        whole: volumes.map_or_else(|| "its lines were not counted".to_owned(), whole),
        delta: delta.map(|(delta, base)| from(delta, base)),
        left_out: delta.and_then(|(delta, _)| left_out(delta)),
        warning,
        problem,
    }
}

fn cheapest(volumes: Option<Volumes>, delta: Option<&CrateDelta>, is_reviewed: bool) -> String {
    let changed = |lines: LineDelta| lines.added + lines.removed;
    let usable = delta.filter(|_| is_reviewed);
    match (volumes, usable) {
        (Some(volumes), Some(delta)) if changed(delta.code) < volumes.code.lines => {
            let (few, all) = (grouped(changed(delta.code)), grouped(volumes.code.lines));
            format!("read what changed since {}: {few} lines instead of {all}", delta.from.version)
        }
        (None, Some(delta)) => format!("read what changed since {}", delta.from.version),
        (Some(volumes), _) => format!("full review, {} lines", grouped(volumes.code.lines)),
        (None, None) => "full review".to_owned(),
    }
}

fn whole(volumes: Volumes) -> String {
    let Volumes { code, other, unkept } = volumes;
    let rest = if unkept == 0 { String::new() } else { format!("; {} files are no text", grouped(unkept)) };
    format!(
        "{} lines in {} files, and {} lines in {} others (tests, documents, data){rest}",
        grouped(code.lines),
        grouped(code.files),
        grouped(other.lines),
        grouped(other.files)
    )
}

fn from(delta: &CrateDelta, base: &Baseline) -> String {
    let way = if base.version > delta.to.version { ", a higher version" } else { "" };
    let tenant = base.tenant.as_ref().map_or_else(String::new, |tenant| format!(" for {tenant}"));
    let LineDelta { files, added, removed } = delta.code;
    let other = delta.other;
    format!(
        "from {}{way}, allowed{tenant} by {} on {}: +{} −{} lines in {} files, and +{} −{} in {} others",
        base.version,
        line(&base.decided_by),
        time(base.decided_at),
        grouped(added),
        grouped(removed),
        grouped(files),
        grouped(other.added),
        grouped(other.removed),
        grouped(other.files)
    )
}

fn left_out(delta: &CrateDelta) -> Option<String> {
    let whole = delta.files.iter().filter(|file| !file.whole.is_empty()).count();
    let unkept = delta.from.unkept.max(delta.to.unkept);
    let mut parts = Vec::new();
    if whole > 0 {
        parts.push(format!("{whole} files could not be compared and count as gone and come again"));
    }
    if unkept > 0 {
        parts.push(format!("{} files are no text and were not compared", grouped(unkept)));
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// A number with its thousands apart.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// One thing that differs.
pub(super) struct ChangeRow {
    pub(super) what: String,
    pub(super) before: String,
    pub(super) now: String,
    pub(super) tone: &'static str,
}

/// What the version can do that the one before could not, and the other way round.
pub(super) fn capabilities(facts: &FactsDelta) -> Vec<ChangeRow> {
    let mut rows = Vec::new();
    let yes_no = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
    for (what, pair) in [("build script", facts.build_script), ("procedural macro", facts.proc_macro)] {
        push(&mut rows, what, pair, yes_no, if pair.to { "bad" } else { "good" });
    }
    push(&mut rows, "stands for a native library", facts.links.clone(), text, "bad");
    push(
        &mut rows,
        "unsafe code, says the compiler",
        facts.compiler,
        errors,
        tone_of_compiler(facts.compiler),
    );
    push(&mut rows, "unsafe items, says geiger", facts.geiger, items, tone_of_items(facts.geiger));
    for hotspot in &facts.hotspots {
        push(&mut rows, kind_label(hotspot.kind), hotspot.count, grouped, tone(hotspot.count));
    }
    for touch in &facts.touches {
        push(
            &mut rows,
            &format!("reaches for: {}", class_label(touch.class)),
            touch.places,
            grouped,
            tone(touch.places),
        );
    }
    push(&mut rows, "shapes of soundness holes", facts.shapes, grouped, tone(facts.shapes));
    moves(&mut rows, "features that it was looked at with", &facts.features);
    moves(&mut rows, "macros for other crates", &facts.macros);
    moves(&mut rows, "files that are no text", &facts.binaries);
    moves(&mut rows, "sources for other compilers", &facts.native_sources);
    push(&mut rows, "edition", facts.edition.clone(), text, "off");
    push(&mut rows, "licence", facts.licence.clone(), text, "wait");
    rows
}

/// Direct dependencies that differ.
pub(super) fn dependencies(facts: &FactsDelta) -> Vec<ChangeRow> {
    let none = || "–".to_owned();
    let row = |what: &str, before, now, tone| ChangeRow { what: line(what), before, now, tone };
    let came =
        facts.needs_came.iter().map(|need| row(need.name.as_str(), none(), need.version.to_string(), "bad"));
    let went =
        facts.needs_went.iter().map(|need| row(need.name.as_str(), need.version.to_string(), none(), "good"));
    let changed = facts.needs_changed.iter().map(|need| {
        let (from, to) = (&need.version.from, &need.version.to);
        let now = if from == to { format!("{to}, with other bytes") } else { to.to_string() };
        row(need.name.as_str(), from.to_string(), now, if from == to { "bad" } else { "wait" })
    });
    came.chain(changed).chain(went).collect()
}

fn push<T: PartialEq>(
    rows: &mut Vec<ChangeRow>,
    what: &str,
    pair: Pair<T>,
    word: impl Fn(T) -> String,
    tone: &'static str,
) {
    if pair.differs() {
        rows.push(ChangeRow { what: what.to_owned(), before: word(pair.from), now: word(pair.to), tone });
    }
}

fn moves(rows: &mut Vec<ChangeRow>, what: &str, moves: &Moves) {
    let names = |names: &[String]| {
        let more = names.len().saturating_sub(limits::CONSOLE_PLACES_MAX);
        let shown = joined(names.iter().take(limits::CONSOLE_PLACES_MAX));
        if more == 0 { shown } else { format!("{shown} and {more} more") }
    };
    if !moves.is_empty() {
        let tone = if moves.came.is_empty() { "good" } else { "bad" };
        rows.push(ChangeRow {
            what: what.to_owned(),
            before: names(&moves.went),
            now: names(&moves.came),
            tone,
        });
    }
}

fn tone(pair: Pair<u64>) -> &'static str {
    if pair.to > pair.from { "bad" } else { "good" }
}

fn tone_of_items(pair: Pair<Option<u64>>) -> &'static str {
    match (pair.from, pair.to) {
        (_, None) => "bad",
        (None, Some(_)) => "wait",
        (Some(from), Some(to)) => tone(Pair { from, to }),
    }
}

fn tone_of_compiler(pair: Pair<CompilerCount>) -> &'static str {
    let number = |count| match count {
        CompilerCount::Unknown => None,
        CompilerCount::Errors(errors) => Some(u64::from(errors)),
    };
    tone_of_items(Pair { from: number(pair.from), to: number(pair.to) })
}

fn errors(count: CompilerCount) -> String {
    match count {
        CompilerCount::Unknown => "unknown".to_owned(),
        CompilerCount::Errors(0) => "none".to_owned(),
        CompilerCount::Errors(errors) => format!("{errors} errors"),
    }
}

fn items(count: Option<u64>) -> String {
    count.map_or_else(|| "unknown".to_owned(), grouped)
}

fn text(text: Option<String>) -> String {
    text.map_or_else(|| "–".to_owned(), |text| line(&text))
}

/// A file's changes in a cell of a table.
pub(super) fn file_change(file: &FileDelta) -> String {
    let whole = if file.whole.is_empty() { String::new() } else { format!(", {}", line(&file.whole)) };
    format!("{} +{} −{}{whole}", file.change.as_str(), grouped(file.added), grouped(file.removed))
}

#[cfg(test)]
mod tests;
