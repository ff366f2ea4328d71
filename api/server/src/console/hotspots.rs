//! The places of a crate that a reviewer has to look at, each with what was said about it.
//!
//! A hotspot is named by file, line, column and kind. Only what the report names is a hotspot: a note about
//! anything else is refused, so that nobody can mark what nobody sees.

use std::collections::BTreeMap;

use mfaas_catalog::HotspotNote;
use mfaas_rules::Span;
use mfaas_rules::crate_facts::{
    CompilerHotspot, CompilerVerdict, CrateReport, FileFacts, GeigerReport, Hotspot, HotspotKind, Role,
};
use mfaas_rules::review::HotspotState;

use super::rows::{line, lines, time};

/// One place.
#[derive(Debug, Clone)]
pub(super) struct HotspotRow {
    /// Its name in notes.
    pub(super) key: String,
    /// Its position among all hotspots, from 1; the anchor is made of it.
    pub(super) number: usize,
    /// Who found it and what it is, in a few words.
    pub(super) kind: String,
    /// What stands there.
    pub(super) what: String,
    /// The file.
    pub(super) file: String,
    /// Its page.
    pub(super) url: String,
    /// The line; 0 for the file as a whole.
    pub(super) line: u32,
    /// First column and the one behind the last.
    pub(super) columns: (u32, u32),
    /// The line's text.
    pub(super) text: String,
    /// What was found at it.
    pub(super) state: HotspotState,
    /// Why.
    pub(super) note: String,
    /// Who looked last, and when; empty while nobody did.
    pub(super) who: String,
}

impl HotspotRow {
    /// The colour of its state; the word beside it says the same.
    pub(super) fn tone(&self) -> &'static str {
        match self.state {
            HotspotState::Unseen => "wait",
            HotspotState::Seen => "busy",
            HotspotState::Justified => "good",
            HotspotState::Unsound => "bad",
        }
    }

    /// Whether a choice of the form is the one that stands.
    pub(super) fn is(&self, state: &HotspotState) -> bool {
        self.state == *state
    }

    /// What the form offers.
    pub(super) fn choices(&self) -> &'static [HotspotState] {
        &HotspotState::ALL
    }

    /// Where it is, in short.
    pub(super) fn place(&self) -> String {
        match self.line {
            0 => self.file.clone(),
            number => format!("{}:{number}:{}", self.file, self.columns.0),
        }
    }
}

/// All hotspots of a review, in the order of its files: what users compile, then what the build machine runs.
pub(super) fn hotspots(review: i64, report: &CrateReport, notes: &[HotspotNote]) -> Vec<HotspotRow> {
    let mut found: Vec<(Role, HotspotRow)> = Vec::new();
    if let CompilerVerdict::Unsafe { hotspots, .. } = &report.compiler {
        found.extend(
            hotspots.iter().map(|hotspot| (role_of(report, &hotspot.span.file), of_compiler(hotspot))),
        );
    }
    for file in report.source.files.iter().filter(|file| file.role != Role::Aside) {
        found.extend(file.tokens.hotspots.iter().map(|hotspot| (file.role, of_tokens(hotspot))));
        found.extend(of_geiger(file).map(|hotspot| (file.role, hotspot)));
    }
    found.sort_by(|(a_role, a), (b_role, b)| {
        let key = |role: &Role, hotspot: &HotspotRow| {
            (*role == Role::BuildScript, hotspot.file.clone(), hotspot.line)
        };
        key(a_role, a).cmp(&key(b_role, b)).then_with(|| (a.columns, &a.key).cmp(&(b.columns, &b.key)))
    });
    let mut hotspots: Vec<HotspotRow> = found.into_iter().map(|(_, hotspot)| hotspot).collect();
    hotspots.dedup_by(|a, b| a.key == b.key);
    let notes: BTreeMap<&str, &HotspotNote> =
        notes.iter().map(|note| (note.hotspot.as_str(), note)).collect();
    for (index, hotspot) in hotspots.iter_mut().enumerate() {
        hotspot.number = index + 1;
        hotspot.url = file_url(review, &hotspot.file, hotspot.line);
        if let Some(note) = notes.get(hotspot.key.as_str()) {
            hotspot.state = note.state;
            hotspot.note = lines(&note.note);
            hotspot.who = format!("{}, {}", note.person, time(note.at));
        }
    }
    hotspots
}

/// How many of them somebody has looked at.
pub(super) fn seen(hotspots: &[HotspotRow]) -> usize {
    hotspots.iter().filter(|hotspot| hotspot.state != HotspotState::Unseen).count()
}

/// The page of a file, at a line of it.
pub(super) fn file_url(review: i64, path: &str, at: u32) -> String {
    let page = format!("/reviews/{review}/files/{}", encoded(path));
    match at {
        0 => page,
        at => format!("{page}?line={at}#L{at}"),
    }
}

/// What changed in a file since the version that was decided about before, at a line of the new text.
pub(super) fn diff_url(review: i64, path: &str, at: u32) -> String {
    let page = format!("/reviews/{review}/files/{}?view=diff", encoded(path));
    match at {
        0 => page,
        at => format!("{page}&line={at}#L{at}"),
    }
}

/// A path as a part of an address. Everything but letters, digits and a few others is escaped, so that no
/// path can end the address or lead out of it.
fn encoded(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_./~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

fn role_of(report: &CrateReport, path: &str) -> Role {
    report.source.files.iter().find(|file| file.path == path).map_or(Role::Library, |file| file.role)
}

fn of_compiler(hotspot: &CompilerHotspot) -> HotspotRow {
    row(&hotspot.span, "compiler", "unsafe code, says the compiler", &hotspot.message)
}

fn of_tokens(hotspot: &Hotspot) -> HotspotRow {
    let what = match &hotspot.inside {
        Some(inside) => format!("{} in {inside}", hotspot.what),
        None => hotspot.what.clone(),
    };
    let (word, label) = kind(hotspot.kind);
    row(&hotspot.span, word, label, &what)
}

/// A file of which geiger says more than nothing, as a whole: it names no lines.
fn of_geiger(file: &FileFacts) -> Option<HotspotRow> {
    let what = match &file.geiger {
        GeigerReport::Counted { counts, .. } if counts.unsafe_total() == 0 => return None,
        GeigerReport::Counted { counts, .. } => {
            format!("{} unsafe items in this file", counts.unsafe_total())
        }
        GeigerReport::Unknown { reason } => format!("could not read this file: {reason}"),
    };
    let span = Span { file: file.path.clone(), line: 0, column: 0, end_column: 0, text: String::new() };
    Some(row(&span, "geiger", "geiger", &what))
}

fn row(span: &Span, word: &str, kind: &str, what: &str) -> HotspotRow {
    let file = line(&span.file);
    HotspotRow {
        key: format!("{file}:{}:{}:{word}", span.line, span.column),
        number: 0,
        kind: kind.to_owned(),
        what: line(what),
        url: String::new(),
        file,
        line: span.line,
        columns: (span.column, span.end_column),
        text: line(&span.text),
        state: HotspotState::Unseen,
        note: String::new(),
        who: String::new(),
    }
}

/// A kind of hotspots for people.
pub(super) fn kind_label(of: HotspotKind) -> &'static str {
    kind(of).1
}

/// The word of a kind in a hotspot's name, and a few words for people.
fn kind(kind: HotspotKind) -> (&'static str, &'static str) {
    match kind {
        HotspotKind::Unsafe => ("unsafe", "the keyword unsafe"),
        HotspotKind::UnsafeAttribute => ("unsafe-attribute", "unsafe attribute"),
        HotspotKind::Linkage => ("linkage", "symbols, sections or libraries"),
        HotspotKind::ExternBlock => ("extern-block", "extern block"),
        HotspotKind::StaticMut => ("static-mut", "static mut"),
        HotspotKind::MachineCode => ("machine-code", "machine code"),
        HotspotKind::Include => ("include", "another file's tokens"),
        HotspotKind::ModulePath => ("module-path", "another file's module"),
        HotspotKind::BuildInput => ("build-input", "data of the build machine"),
        HotspotKind::OutDir => ("out-dir", "what a build script wrote"),
        HotspotKind::Quote => ("quote", "code for another crate"),
        HotspotKind::WordInLiteral => ("word-in-literal", "unsafe in a literal"),
        HotspotKind::Invisible => ("invisible", "invisible character"),
        HotspotKind::Unreadable => ("unreadable", "not Rust as the lexer reads it"),
    }
}

#[cfg(test)]
mod tests;
