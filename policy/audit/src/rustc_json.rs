//! The compiler's messages (`--error-format=json`), as objects.
//!
//! The rendered text is kept as rustc wrote it, since users are shown the compiler's own words;
//! control and bidirectional characters in it, which come from the tenant's source, are made
//! visible. Paths are left as they are: remapping them belongs to whoever ran the compiler.

use mfaas_ident::{sanitise, sanitise_line};
use mfaas_rules::Span;
use serde::Deserialize;

/// Size of one line; rustc prints at most a few source lines per message.
const LINE_BYTES_MAX: usize = 1 << 20;
/// Size of one rendered message that is kept.
const RENDERED_BYTES_MAX: usize = 16 << 10;
/// Size of one message text.
const MESSAGE_BYTES_MAX: usize = 2 << 10;

/// One message of the compiler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// How bad it is.
    pub level: Level,
    /// The first line, without level and code.
    pub message: String,
    /// `E0308`, or a lint's name.
    pub code: Option<String>,
    /// The whole message as rustc draws it, without colours.
    pub rendered: String,
    /// The primary place.
    pub span: Option<Span>,
}

/// The levels that rustc has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// The compilation fails.
    Error,
    /// It does not.
    Warning,
    /// Notes, helps and summaries.
    Note,
    /// A crash of the compiler.
    InternalError,
}

#[derive(Deserialize)]
struct RawDiagnostic {
    message: String,
    code: Option<RawCode>,
    level: String,
    #[serde(default)]
    spans: Vec<RawSpan>,
    rendered: Option<String>,
}

#[derive(Deserialize)]
struct RawCode {
    code: String,
}

#[derive(Deserialize)]
struct RawSpan {
    file_name: String,
    line_start: u32,
    line_end: u32,
    column_start: u32,
    column_end: u32,
    is_primary: bool,
    #[serde(default)]
    text: Vec<RawLine>,
}

#[derive(Deserialize)]
struct RawLine {
    text: String,
}

/// Reads one line of stderr. `None` if it is no diagnostic: artifact notices, plain text.
pub fn read(line: &str) -> Option<Diagnostic> {
    if line.len() > LINE_BYTES_MAX || !line.starts_with('{') {
        return None;
    }
    let raw: RawDiagnostic = serde_json::from_str(line).ok()?;
    let level = match raw.level.as_str() {
        "error" => Level::Error,
        "warning" => Level::Warning,
        "note" | "help" | "failure-note" => Level::Note,
        // "error: internal compiler error", and whatever a later compiler adds.
        _ => Level::InternalError,
    };
    Some(Diagnostic {
        level,
        message: sanitise(&raw.message, MESSAGE_BYTES_MAX),
        code: raw.code.map(|code| sanitise_line(&code.code, 100)),
        rendered: sanitise(raw.rendered.as_deref().unwrap_or(&raw.message), RENDERED_BYTES_MAX),
        span: raw.spans.iter().find(|span| span.is_primary).map(place),
    })
}

fn place(raw: &RawSpan) -> Span {
    // A place over several lines is shown to the end of its first line.
    let one_line = raw.line_start == raw.line_end;
    let end = if one_line { raw.column_end } else { raw.column_start.saturating_add(1) };
    Span {
        file: sanitise_line(&raw.file_name, 200),
        line: raw.line_start,
        column: raw.column_start,
        end_column: end.max(raw.column_start.saturating_add(1)),
        text: raw.text.first().map_or_else(String::new, |line| sanitise(&line.text, 200)),
    }
}
