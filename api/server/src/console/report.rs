//! A report of facts and a judgement as rows of the review page.
//!
//! Everything in them was written by whoever wrote the crate or by whoever audited it, and passed the
//! sanitiser when it was gathered; it passes it again here.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use mfaas_catalog::CrateFile;
use mfaas_rules::crate_facts::{
    AuditKind, CompilerVerdict, CrateDelta, CrateReport, FileFacts, GeigerReport, Role, UnsafeCode,
};
use mfaas_rules::profiles::crate_rules::Trust;
use mfaas_rules::review::HotspotState;
use mfaas_rules::{AuditHint, CrateJudgement, Effect, Place, Reason, RiskClass, Suggestion};

use super::delta::file_change;
use super::hotspots::{HotspotRow, diff_url, file_url};
use super::rows::{class_label, joined, line, lines};
use crate::limits;

/// One class of risk with everything that was found of it.
pub(super) struct RiskRow {
    pub(super) word: &'static str,
    pub(super) label: &'static str,
    pub(super) hint: &'static str,
    pub(super) tone: &'static str,
    /// Where its chip leads: to its first hotspot, or to its reasons.
    pub(super) url: String,
    pub(super) reasons: Vec<ReasonRow>,
}

/// One sentence and where to look.
pub(super) struct ReasonRow {
    pub(super) text: String,
    pub(super) places: Vec<PlaceRow>,
    pub(super) more: usize,
}

/// A place: a hotspot of this page, or a line of a file.
pub(super) struct PlaceRow {
    pub(super) label: String,
    pub(super) url: String,
}

/// The suggestion in words, and its colour.
pub(super) fn suggestion(judgement: &CrateJudgement) -> (String, &'static str) {
    match judgement.suggestion {
        Suggestion::AdmitAutomatically => ("nothing was found that needs a person".to_owned(), "good"),
        Suggestion::Review { people } => match people.count() {
            1 => ("one person decides".to_owned(), "wait"),
            count => (format!("{count} people decide"), "wait"),
        },
        Suggestion::Refuse => ("must not be allowed".to_owned(), "bad"),
    }
}

/// The reasons by class, the most severe first, at most [`limits::CONSOLE_REASONS_MAX`]; and how many more.
pub(super) fn risks(
    review: i64,
    judgement: &CrateJudgement,
    hotspots: &[HotspotRow],
) -> (Vec<RiskRow>, usize) {
    let mut rows: Vec<RiskRow> = Vec::new();
    let shown = judgement.reasons.iter().take(limits::CONSOLE_REASONS_MAX);
    for reason in shown {
        let row = reason_row(review, reason, hotspots);
        match rows.iter_mut().find(|known| known.word == reason.risk.word()) {
            Some(known) => known.reasons.push(row),
            None => rows.push(risk(reason.risk, row)),
        }
    }
    (rows, judgement.reasons.len().saturating_sub(limits::CONSOLE_REASONS_MAX))
}

fn risk(class: RiskClass, first: ReasonRow) -> RiskRow {
    let hotspot = first.places.iter().find(|place| place.url.starts_with('#'));
    RiskRow {
        word: class.word(),
        label: class.label(),
        hint: class.hint(),
        tone: match class.effect() {
            Effect::Note => "off",
            Effect::Review => "wait",
            Effect::Refuse => "bad",
        },
        url: hotspot.map_or_else(|| format!("#risk-{}", class.word()), |place| place.url.clone()),
        reasons: vec![first],
    }
}

fn reason_row(review: i64, reason: &Reason, hotspots: &[HotspotRow]) -> ReasonRow {
    let shown = reason.hotspots.iter().take(limits::CONSOLE_PLACES_MAX);
    ReasonRow {
        text: line(&reason.text),
        places: shown.map(|place| place_row(review, place, hotspots)).collect(),
        more: reason.hotspots.len().saturating_sub(limits::CONSOLE_PLACES_MAX),
    }
}

fn place_row(review: i64, place: &Place, hotspots: &[HotspotRow]) -> PlaceRow {
    let (file, number) = (line(&place.span.file), place.span.line);
    let shown = hotspots.iter().take(limits::CONSOLE_HOTSPOTS_MAX);
    let hotspot = shown.filter(|hotspot| hotspot.file == file && hotspot.line == number);
    let hotspot = hotspot.min_by_key(|hotspot| hotspot.columns.0 != place.span.column);
    PlaceRow {
        label: format!("{file}:{number} {}", line(&place.what)),
        url: hotspot.map_or_else(
            || file_url(review, &file, number),
            |hotspot| format!("#hotspot-{}", hotspot.number),
        ),
    }
}

/// A class of interfaces of std that is touched.
pub(super) struct TouchRow {
    pub(super) class: &'static str,
    pub(super) count: usize,
    pub(super) places: Vec<PlaceRow>,
    pub(super) more: usize,
}

pub(super) fn touches(review: i64, report: &CrateReport) -> Vec<TouchRow> {
    let rows = report.touches.classes.iter().map(|touch| {
        let shown = touch.hotspots.iter().take(limits::CONSOLE_PLACES_MAX);
        let places = shown.map(|hotspot| PlaceRow {
            label: format!("{} at {}:{}", line(&hotspot.path), line(&hotspot.span.file), hotspot.span.line),
            url: file_url(review, &hotspot.span.file, hotspot.span.line),
        });
        let places: Vec<PlaceRow> = places.collect();
        let more = touch.count.saturating_sub(places.len());
        TouchRow { class: class_label(touch.class), count: touch.count, places, more }
    });
    rows.collect()
}

/// One of the three answers about unsafe code.
pub(super) struct CountRow {
    pub(super) reader: &'static str,
    pub(super) answer: String,
    pub(super) tone: &'static str,
}

/// The three counts. What is unknown is never shown as a zero.
pub(super) fn counts(report: &CrateReport) -> Vec<CountRow> {
    let summary = &report.source.summary;
    let row = |reader, answer, tone| CountRow { reader, answer, tone };
    let compiler = match &report.compiler {
        CompilerVerdict::Clean => row("compiler", "none: it compiles with -F unsafe-code".to_owned(), "good"),
        CompilerVerdict::Unsafe { errors, .. } => row("compiler", format!("{errors} errors"), "bad"),
        CompilerVerdict::Failed { reason } => row("compiler", format!("unknown: {}", line(reason)), "wait"),
        CompilerVerdict::NotRun { reason } => {
            row("compiler", format!("unknown, not asked: {}", line(reason)), "wait")
        }
    };
    let known = |found: u64, what: &str| match (found, summary.unsafe_code) {
        (0, UnsafeCode::Unknown) => ("0 in what could be read, the rest is unknown".to_owned(), "wait"),
        (0, UnsafeCode::None | UnsafeCode::Counted) => ("none".to_owned(), "good"),
        (found, UnsafeCode::Unknown) => (format!("{found} {what}, and the rest is unknown"), "bad"),
        (found, UnsafeCode::None | UnsafeCode::Counted) => (format!("{found} {what}"), "bad"),
    };
    let (tokens, tokens_tone) = known(summary.token_hotspots as u64, "places of power");
    let (geiger, geiger_tone) = known(summary.geiger.unsafe_total(), "unsafe items");
    vec![compiler, row("token scan", tokens, tokens_tone), row("geiger", geiger, geiger_tone)]
}

/// Why something is unknown or was not read.
pub(super) fn unread(report: &CrateReport) -> Vec<String> {
    let (source, archive) = (&report.source.summary.reasons, &report.archive.unread);
    let mut all: Vec<String> =
        source.iter().chain(archive).chain(&report.touches.unread).map(|text| line(text)).collect();
    all.sort();
    all.dedup();
    all.truncate(limits::CONSOLE_REASONS_MAX);
    all
}

/// Somebody else's audit.
pub(super) struct HintRow {
    pub(super) source: String,
    pub(super) what: String,
    pub(super) criteria: String,
    pub(super) who: String,
    pub(super) notes: String,
    pub(super) trust: String,
}

pub(super) fn hints(judgement: &CrateJudgement) -> Vec<HintRow> {
    judgement.hints.iter().take(limits::CONSOLE_HINTS_MAX).map(hint).collect()
}

fn hint(hint: &AuditHint) -> HintRow {
    let audit = &hint.audit;
    let what = match &audit.kind {
        AuditKind::Full { version } => format!("version {version}"),
        AuditKind::Delta { from, to } => format!("what changed from {from} to {to}"),
        AuditKind::Violation { versions } => format!("{versions} break the criteria"),
    };
    let trust = match hint.trust {
        Trust::Unknown => "unknown",
        Trust::Careful => "careful",
    };
    HintRow {
        source: line(&audit.source),
        what: if hint.this_version { format!("{what} (this one)") } else { what },
        criteria: joined(&audit.criteria),
        who: joined(&audit.who),
        notes: lines(audit.notes.as_deref().unwrap_or_default()),
        trust: format!("{trust}: {}", line(&hint.why)),
    }
}

/// A file of the crate.
pub(super) struct FileRow {
    pub(super) path: String,
    /// Its page; none for what is no text or was not kept.
    pub(super) url: Option<String>,
    pub(super) role: &'static str,
    pub(super) bytes: u64,
    pub(super) hotspots: usize,
    pub(super) unseen: usize,
    pub(super) geiger: String,
    /// What changed in it since the version before, and where that is shown; empty for nothing.
    pub(super) changes: String,
    pub(super) diff_url: String,
    changed: u64,
    rank: u8,
}

/// Every file that is known, the riskiest first: what users compile, by its hotspots, then what the build machine
/// runs, then the rest; of equal ones the one that changed most.
pub(super) fn files(
    review: i64,
    report: Option<&CrateReport>,
    stored: &[CrateFile],
    hotspots: &[HotspotRow],
    delta: Option<&CrateDelta>,
) -> Vec<FileRow> {
    let hotspots = counted(hotspots);
    let mut rows: BTreeMap<String, FileRow> = BTreeMap::new();
    for file in report.into_iter().flat_map(|report| &report.source.files) {
        rows.insert(line(&file.path), source_row(file, &hotspots));
    }
    for binary in report.into_iter().flat_map(|report| &report.archive.binaries) {
        let role = "binary file, not shown";
        rows.entry(line(&binary.path)).or_insert_with(|| other_row(&binary.path, role, 3));
    }
    for path in report.into_iter().flat_map(|report| &report.archive.native_sources) {
        rows.entry(line(path)).or_insert_with(|| other_row(path, "source for another compiler", 2));
    }
    for file in stored {
        let row = rows.entry(file.path.clone()).or_insert_with(|| other_row(&file.path, "text", 5));
        row.url = Some(file_url(review, &file.path, 0));
        row.bytes = file.bytes;
    }
    for file in delta.into_iter().flat_map(|delta| &delta.files) {
        let rank = if file.code { 4 } else { 6 };
        let row = rows
            .entry(file.path.clone())
            .or_insert_with(|| other_row(&file.path, "it is there no more", rank));
        row.changes = file_change(file);
        row.diff_url = diff_url(review, &file.path, 0);
        row.changed = file.added.saturating_add(file.removed);
    }
    let mut rows: Vec<FileRow> = rows.into_values().collect();
    rows.sort_by_key(|row| (row.rank, Reverse(row.hotspots), Reverse(row.changed)));
    rows
}

/// Hotspots of each file: all of them, and those that nobody has looked at.
fn counted(hotspots: &[HotspotRow]) -> BTreeMap<&str, (usize, usize)> {
    let mut found: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for hotspot in hotspots {
        let (all, unseen) = found.entry(hotspot.file.as_str()).or_default();
        *all += 1;
        *unseen += usize::from(hotspot.is(&HotspotState::Unseen));
    }
    found
}

fn source_row(file: &FileFacts, hotspots: &BTreeMap<&str, (usize, usize)>) -> FileRow {
    let path = line(&file.path);
    let (all, unseen) = hotspots.get(path.as_str()).copied().unwrap_or_default();
    let (role, rank) = match file.role {
        Role::Library => ("library", if all > 0 { 0 } else { 4 }),
        Role::BuildScript => ("build script", 1),
        Role::Aside => ("tests, benches, examples", 6),
    };
    let geiger = match &file.geiger {
        GeigerReport::Counted { counts, .. } => counts.unsafe_total().to_string(),
        GeigerReport::Unknown { .. } => "unknown".to_owned(),
    };
    FileRow { bytes: file.bytes, hotspots: all, unseen, geiger, ..other_row(&path, role, rank) }
}

fn other_row(path: &str, role: &'static str, rank: u8) -> FileRow {
    FileRow {
        path: line(path),
        url: None,
        role,
        bytes: 0,
        hotspots: 0,
        unseen: 0,
        geiger: "–".to_owned(),
        changes: String::new(),
        diff_url: String::new(),
        changed: 0,
        rank,
    }
}
