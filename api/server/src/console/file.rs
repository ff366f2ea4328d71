//! One file of a crate: numbered lines with the spots in their place.
//!
//! The text is a blob that the acquirer stored; nothing is unpacked here, and the path of the address is
//! compared with rows, never given to a file system. Every piece of every line passes the sanitiser before
//! it is printed, and what is cut says so.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use mfaas_ident::sanitise;
use mfaas_rules::limits::CRATE_TEXT;
use mfaas_rules::review::ReviewState;
use serde::Deserialize;

use super::frame::{Frame, html};
use super::review::Dossier;
use super::spots::{SpotRow, file_url, seen};
use crate::access::Caller;
use crate::app::App;
use crate::extract::{Path, Query};
use crate::limits;
use crate::refusal::Refusal;

#[derive(Template)]
#[template(path = "review_file.html")]
struct FilePage {
    frame: Frame,
    id: i64,
    name: String,
    version: String,
    path: String,
    bytes: u64,
    open: bool,
    back: &'static str,
    spots_seen: usize,
    spots_count: usize,
    whole: Vec<SpotRow>,
    lines: Vec<LineRow>,
    lines_count: usize,
    earlier: Option<String>,
    later: Option<String>,
}

/// One line.
struct LineRow {
    number: usize,
    parts: Vec<Part>,
    /// Bytes that are not shown.
    cut: usize,
    spots: Vec<SpotRow>,
}

/// A piece of a line.
#[derive(Debug, PartialEq, Eq)]
struct Part {
    text: String,
    marked: bool,
}

/// Which part of the file is wanted.
#[derive(Deserialize)]
pub(super) struct FileQuery {
    line: Option<usize>,
}

/// The page.
pub(super) async fn show(
    State(app): State<App>,
    _caller: Caller,
    frame: Frame,
    Path((id, path)): Path<(i64, String)>,
    Query(query): Query<FileQuery>,
) -> Result<Response, Refusal> {
    // Paths are stored as people can read them; anything else names nothing.
    if mfaas_ident::sanitise_line(&path, path.len()) != path {
        return Err(Refusal::not_found("such file in the crate"));
    }
    let dossier = Dossier::read(&app, id).await?;
    let file = app.catalog.crate_file(&dossier.review.checksum, &path).await?;
    let bytes = app.blobs.get(&file.blob, CRATE_TEXT.file_bytes_max).await?;
    let text = String::from_utf8_lossy(&bytes);
    let spots: Vec<SpotRow> = dossier.spots.into_iter().filter(|spot| spot.file == file.path).collect();
    let window = Window::of(text.lines().count(), query.line.unwrap_or(1));
    let url = |line: usize| file_url(id, &file.path, u32::try_from(line).unwrap_or(u32::MAX));
    let page = FilePage {
        frame: frame.at("reviews"),
        id,
        name: dossier.review.name.to_string(),
        version: dossier.review.version.to_string(),
        bytes: file.bytes,
        open: dossier.review.state == ReviewState::Open,
        back: "file",
        spots_seen: seen(&spots),
        spots_count: spots.len(),
        whole: spots.iter().filter(|spot| is_outside(spot, window.count)).cloned().collect(),
        lines: line_rows(&text, &window, &spots),
        lines_count: window.count,
        earlier: window.earlier().map(url),
        later: window.later().map(url),
        path: file.path.clone(),
    };
    html(&page, &page.frame.nonce)
}

/// A spot that no line of the file can show.
fn is_outside(spot: &SpotRow, lines: usize) -> bool {
    usize::try_from(spot.line).is_ok_and(|line| line == 0 || line > lines)
}

/// The lines of one page.
#[derive(Debug, PartialEq, Eq)]
struct Window {
    /// The first, from 1.
    first: usize,
    /// All lines of the file.
    count: usize,
}

impl Window {
    /// The page that holds `line`. Pages do not overlap, so a line is on exactly one.
    fn of(count: usize, line: usize) -> Self {
        let line = line.clamp(1, count.max(1));
        let first = (line - 1) / limits::CONSOLE_FILE_LINES_MAX * limits::CONSOLE_FILE_LINES_MAX + 1;
        Self { first, count }
    }

    fn earlier(&self) -> Option<usize> {
        self.first.checked_sub(limits::CONSOLE_FILE_LINES_MAX).filter(|first| *first > 0)
    }

    fn later(&self) -> Option<usize> {
        Some(self.first + limits::CONSOLE_FILE_LINES_MAX).filter(|first| *first <= self.count)
    }
}

fn line_rows(text: &str, window: &Window, spots: &[SpotRow]) -> Vec<LineRow> {
    let lines = text.lines().enumerate().skip(window.first - 1).take(limits::CONSOLE_FILE_LINES_MAX);
    lines.map(|(index, line)| line_row(index + 1, line, spots)).collect()
}

fn line_row(number: usize, line: &str, spots: &[SpotRow]) -> LineRow {
    let own = spots.iter().filter(|spot| usize::try_from(spot.line) == Ok(number));
    let spots: Vec<SpotRow> = own.cloned().collect();
    let shown = line.floor_char_boundary(limits::CONSOLE_LINE_BYTES_MAX);
    let columns: Vec<(u32, u32)> = spots.iter().map(|spot| spot.columns).collect();
    LineRow { number, parts: parts(&line[..shown], &columns), cut: line.len() - shown, spots }
}

/// The line in pieces, those within the columns of a spot marked.
fn parts(line: &str, columns: &[(u32, u32)]) -> Vec<Part> {
    let mut parts: Vec<(String, bool)> = Vec::new();
    for (column, c) in (1_u32..).zip(line.chars()) {
        let marked = columns.iter().any(|(first, end)| (*first..*end).contains(&column));
        match parts.last_mut() {
            Some((text, same)) if *same == marked => text.push(c),
            _ => parts.push((c.to_string(), marked)),
        }
    }
    // No piece can grow past the bound: the longest escape of a character has ten bytes.
    let clean = |text: String| sanitise(&text, 10 * limits::CONSOLE_LINE_BYTES_MAX);
    parts.into_iter().map(|(text, marked)| Part { text: clean(text), marked }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(line: &str, columns: &[(u32, u32)]) -> String {
        let draw = |part: &Part| if part.marked { format!("[{}]", part.text) } else { part.text.clone() };
        parts(line, columns).iter().map(draw).collect()
    }

    #[test]
    fn columns_are_characters_and_marks_may_overlap_or_miss() {
        assert_eq!(drawn("ä unsafe { x }", &[(3, 9)]), "ä [unsafe] { x }");
        assert_eq!(drawn("abcdef", &[(2, 4), (3, 5), (9, 12), (0, 0), (5, 2)]), "a[bcd]ef");
        assert_eq!(drawn("a\u{202e}b\u{1b}\tc", &[(2, 3)]), "a[\\u{202e}]b\\u{1b}\tc");
        assert_eq!(drawn("", &[(1, 2)]), "");
    }

    #[test]
    fn every_line_is_on_exactly_one_page() {
        let max = limits::CONSOLE_FILE_LINES_MAX;
        let first = |line| Window::of(2 * max + 1, line).first;
        assert_eq!(
            [first(0), first(1), first(max), first(max + 1), first(usize::MAX)],
            [1, 1, 1, max + 1, 2 * max + 1]
        );
        let second = Window::of(2 * max + 1, max + 1);
        assert_eq!((second.earlier(), second.later()), (Some(1), Some(2 * max + 1)));
        assert_eq!((Window::of(0, 1).earlier(), Window::of(0, 1).later()), (None, None));
    }

    #[test]
    fn a_long_line_says_how_much_is_missing() {
        let row = line_row(1, &"ä".repeat(limits::CONSOLE_LINE_BYTES_MAX), &[]);
        assert_eq!(
            (row.parts[0].text.len(), row.cut),
            (limits::CONSOLE_LINE_BYTES_MAX, limits::CONSOLE_LINE_BYTES_MAX)
        );
    }
}
