//! Draws a finding the way rustc draws its errors, as plain text: whoever prints it to a terminal
//! adds colour, whoever puts it into a page escapes it.
//!
//! Everything that is drawn passes the sanitiser here once more, because a drawing is also made
//! from what another program stored. No tenant's byte reaches a terminal as a control character.

use std::fmt::Write as _;

use mfaas_ident::{sanitise, sanitise_line};
use mfaas_rules::{Finding, Layer, Span};

use crate::{Diagnostic, Level};

/// The longest sentence, in bytes.
const MESSAGE_BYTES_MAX: usize = 500;
/// The longest file name, in bytes.
const FILE_BYTES_MAX: usize = 200;
/// The longest line of source, in bytes; the span's own limit, and room for escapes.
const LINE_BYTES_MAX: usize = 400;
/// The longest drawing of another program's making (rustc's) that is shown, in bytes.
const FOREIGN_BYTES_MAX: usize = 64 << 10;
/// How wide a tab is drawn; rustc's width.
const TAB_COLUMNS: usize = 4;

/// The drawing of `finding`, several lines, ending in a line break.
///
/// ```text
/// error[MF0301]: `unsafe` is not available to functions
///  --> src/lib.rs:3:5
///   |
/// 3 |     unsafe { *p }
///   |     ^^^^^^
///   |
///   = help: …
/// ```
pub fn finding(finding: &Finding) -> String {
    diagnostic(Level::Error, finding.code.id(), &finding.message, finding.span.as_ref(), &finding.hint)
}

/// The drawing of a diagnostic: rustc's own where the compiler spoke, of its own accord or because of the
/// facade of std, apart from control characters; ours otherwise, whatever its maker put into
/// `rendered`.
pub fn drawn(item: &Diagnostic) -> String {
    if matches!(item.layer, Layer::Compiler | Layer::Facade) && !item.rendered.is_empty() {
        return foreign(&item.rendered);
    }
    diagnostic(item.level, item.code.id(), &item.message, item.span.as_ref(), &item.hint)
}

/// The drawing of one diagnostic from its parts; an empty `hint` is left out.
pub fn diagnostic(level: Level, code: &str, message: &str, span: Option<&Span>, hint: &str) -> String {
    let mut out = String::new();
    let code = sanitise_line(code, 16);
    let message = sanitise_line(message, MESSAGE_BYTES_MAX);
    // Writing to a String cannot fail, here and below.
    let _ = writeln!(out, "{}[{code}]: {message}", level.as_str());
    let gutter = span.map_or(0, |span| span.line.to_string().len());
    if let Some(span) = span {
        draw_span(&mut out, gutter, span);
    }
    draw_help(&mut out, gutter, hint, span.is_some());
    out
}

/// A drawing that another program made, bounded and without control characters; used for rustc's
/// `rendered` text.
pub fn foreign(rendered: &str) -> String {
    sanitise(rendered, FOREIGN_BYTES_MAX)
}

fn draw_span(out: &mut String, gutter: usize, span: &Span) {
    let file = sanitise_line(&span.file, FILE_BYTES_MAX);
    let _ = writeln!(out, "{:gutter$}--> {file}:{}:{}", "", span.line, span.column);
    if span.text.is_empty() {
        return;
    }
    let (line, columns) = expand_tabs(&sanitise(&span.text, LINE_BYTES_MAX));
    let (start, length) = caret(span, &columns);
    let _ = writeln!(out, "{:gutter$} |", "");
    let _ = writeln!(out, "{:gutter$} | {}", span.line, line.trim_end());
    let _ = writeln!(out, "{:gutter$} | {:start$}{}", "", "", "^".repeat(length));
}

/// The line with tabs drawn as spaces, and for every character (and the end) its column in the
/// drawing, from 0.
fn expand_tabs(text: &str) -> (String, Vec<usize>) {
    let mut line = String::with_capacity(text.len());
    let mut columns = Vec::with_capacity(text.len() + 1);
    let mut column = 0;
    for c in text.chars() {
        columns.push(column);
        let (shown, width) = match c {
            '\t' => (" ".repeat(TAB_COLUMNS), TAB_COLUMNS),
            '\n' => (" ".to_owned(), 1),
            c => (c.to_string(), 1),
        };
        line.push_str(&shown);
        column += width;
    }
    columns.push(column);
    (line, columns)
}

/// Where the carets start and how many they are. A span may point behind a line that was cut:
/// then the caret stands at the end of what is shown, never outside it.
fn caret(span: &Span, columns: &[usize]) -> (usize, usize) {
    let last = columns.len() - 1;
    let first_index = (span.column.max(1) as usize - 1).min(last);
    let end_index = (span.end_column.max(1) as usize - 1).clamp(first_index, last);
    let length = columns[end_index] - columns[first_index];
    (columns[first_index], length.max(1))
}

fn draw_help(out: &mut String, gutter: usize, hint: &str, behind_span: bool) {
    let hint = sanitise(hint, MESSAGE_BYTES_MAX);
    if hint.trim().is_empty() {
        return;
    }
    if behind_span {
        let _ = writeln!(out, "{:gutter$} |", "");
    }
    for (number, line) in hint.trim().lines().enumerate() {
        let label = if number == 0 { "= help: " } else { "        " };
        let _ = writeln!(out, "{:gutter$} {label}{line}", "");
    }
}
