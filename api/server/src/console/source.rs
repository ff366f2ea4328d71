//! Lines of a text as rows of a page: in pieces by what they are to rustc's lexer, with the hotspots in their place.
//!
//! The lexer reads the text as it is, from its first byte; only then passes every piece the sanitiser, so nothing
//! that a character does to a page or to a reader can change what is coloured as what. Bytes and pieces of one page
//! are bounded; what is cut says so.

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::ops::Range;

use mfaas_audit::classes::{Class, Piece, classes};
use mfaas_ident::sanitise;

use super::hotspots::HotspotRow;
use crate::limits;

/// One line.
pub(super) struct LineRow {
    pub(super) number: usize,
    pub(super) runs: Vec<Run>,
    /// Bytes that are not shown.
    pub(super) cut: usize,
    pub(super) hotspots: Vec<HotspotRow>,
}

/// A run of pieces that a hotspot's columns cover, or that none covers.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) marked: bool,
    pub(super) parts: Vec<Part>,
}

/// A piece of a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) text: String,
    /// The class of the style sheet; empty for none.
    pub(super) class: &'static str,
}

/// What may still go onto a page.
pub(super) struct Budget {
    bytes: usize,
    pieces: usize,
}

impl Budget {
    /// That of an empty page.
    pub(super) fn of_page() -> Self {
        Self { bytes: limits::CONSOLE_PAGE_TEXT_BYTES_MAX, pieces: limits::CONSOLE_PAGE_PIECES_MAX }
    }

    /// There are lines without colours on the page.
    pub(super) fn is_plain(&self) -> bool {
        self.pieces == 0
    }
}

/// Whether a file is Rust, which its name says: what rustc is pointed at under another name is shown plain.
pub(super) fn is_rust(path: &str) -> bool {
    path.ends_with(".rs")
}

/// The lines of `wanted`, which are counted from 0, sorted and apart. Reading ends with the last of them. With
/// `ends`, line ends of the kind that nobody sees are written out.
pub(super) fn line_rows(
    text: &str,
    rust: bool,
    wanted: &[Range<usize>],
    hotspots: &[HotspotRow],
    ends: bool,
    budget: &mut Budget,
) -> Vec<LineRow> {
    let mut by_line: BTreeMap<usize, Vec<&HotspotRow>> = BTreeMap::new();
    for hotspot in hotspots {
        by_line.entry(usize::try_from(hotspot.line).unwrap_or(usize::MAX)).or_default().push(hotspot);
    }
    let mut pieces = rust.then(|| classes(text)).into_iter().flatten().peekable();
    let (mut rows, mut at, mut wanted) = (Vec::new(), 0, wanted.iter().peekable());
    for (index, line) in text.split_inclusive('\n').enumerate() {
        let start = at;
        at += line.len();
        while wanted.next_if(|range| range.end <= index).is_some() {}
        match wanted.peek() {
            None => break,
            Some(range) if index < range.start => continue,
            Some(_) => {}
        }
        let line = line.strip_suffix('\n').unwrap_or(line);
        let line = if ends { line } else { line.strip_suffix('\r').unwrap_or(line) };
        let hotspots = by_line.remove(&(index + 1)).unwrap_or_default();
        rows.push(line_row(index + 1, line, start, &mut pieces, &hotspots, budget));
    }
    rows
}

fn line_row(
    number: usize,
    line: &str,
    start: usize,
    pieces: &mut Peekable<impl Iterator<Item = Piece>>,
    hotspots: &[&HotspotRow],
    budget: &mut Budget,
) -> LineRow {
    let shown = line.floor_char_boundary(limits::CONSOLE_LINE_BYTES_MAX.min(budget.bytes));
    budget.bytes -= shown;
    let inside = |piece: &Range<usize>| piece.start.max(start) - start..piece.end.min(start + shown) - start;
    let mut own: Vec<(Range<usize>, &'static str)> = Vec::new();
    while pieces.next_if(|piece| piece.range.end <= start).is_some() {}
    while let Some(piece) = pieces.peek().filter(|piece| piece.range.start < start + shown) {
        if budget.pieces == 0 {
            break;
        }
        let (range, class) = (inside(&piece.range), class_word(piece.class));
        match own.last_mut() {
            Some((last, same)) if *same == class => last.end = range.end,
            _ => {
                budget.pieces -= 1;
                own.push((range, class));
            }
        }
        if piece.range.end > start + shown {
            break;
        }
        pieces.next();
    }
    let columns: Vec<(u32, u32)> = hotspots.iter().map(|hotspot| hotspot.columns).collect();
    LineRow {
        number,
        runs: runs(&line[..shown], &own, &columns),
        cut: line.len() - shown,
        hotspots: hotspots.iter().map(|hotspot| (*hotspot).clone()).collect(),
    }
}

/// The line in pieces of one class each, those within the columns of a hotspot marked.
fn runs(line: &str, classes: &[(Range<usize>, &'static str)], columns: &[(u32, u32)]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    let mut classes = classes.iter().peekable();
    for (column, (at, c)) in (1_u32..).zip(line.char_indices()) {
        while classes.next_if(|(range, _)| range.end <= at).is_some() {}
        let class = classes.peek().filter(|(range, _)| range.contains(&at)).map_or("", |(_, class)| class);
        let marked = columns.iter().any(|(first, end)| (*first..*end).contains(&column));
        if runs.last().is_none_or(|run| run.marked != marked) {
            runs.push(Run { marked, parts: Vec::new() });
        }
        let Some(run) = runs.last_mut() else { continue };
        match run.parts.last_mut() {
            Some(part) if part.class == class => part.text.push(c),
            _ => run.parts.push(Part { text: c.to_string(), class }),
        }
    }
    // No piece can grow past the bound: the longest escape of a character has ten bytes.
    for part in runs.iter_mut().flat_map(|run| &mut run.parts) {
        part.text = sanitise(&part.text, 10 * limits::CONSOLE_LINE_BYTES_MAX);
    }
    runs
}

/// The name of a class in the style sheet. Names of items are most of a text and have the text's own colour.
fn class_word(class: Class) -> &'static str {
    match class {
        Class::Plain | Class::Ident => "",
        Class::Comment => "t-comment",
        Class::DocComment => "t-doc",
        Class::Str => "t-str",
        Class::Char => "t-char",
        Class::Number => "t-num",
        Class::Lifetime => "t-life",
        Class::Keyword => "t-kw",
        Class::Unsafe => "t-unsafe",
        Class::Macro => "t-mac",
        Class::Attribute => "t-attr",
        Class::Punct => "t-op",
    }
}

#[cfg(test)]
mod tests;
