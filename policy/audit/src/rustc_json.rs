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
/// Places of one message that are kept.
const REMARKS_MAX: usize = 100;

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
    /// Every place that the message or one of its notes names, those inside of macros included,
    /// with what is said there.
    pub remarks: Vec<Remark>,
}

/// A place that a message names, and the words beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remark {
    /// The file as the compiler names it.
    pub file: String,
    /// The words; empty if there are none.
    pub text: String,
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
    #[serde(default)]
    children: Vec<RawChild>,
    rendered: Option<String>,
}

#[derive(Deserialize)]
struct RawChild {
    #[serde(default)]
    spans: Vec<RawSpan>,
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
    label: Option<String>,
    expansion: Option<Box<RawExpansion>>,
}

#[derive(Deserialize)]
struct RawExpansion {
    span: RawSpan,
    def_site_span: Option<RawSpan>,
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
    let remarks = remarks(&raw);
    Some(Diagnostic {
        level,
        message: sanitise(&raw.message, MESSAGE_BYTES_MAX),
        code: raw.code.as_ref().map(|code| sanitise_line(&code.code, 100)),
        rendered: sanitise(&rendered(&raw), RENDERED_BYTES_MAX),
        span: raw.spans.iter().find(|span| span.is_primary).map(|span| place(call_site(span))),
        remarks,
    })
}

/// Where the tenant's own text leads to a place inside of a macro.
fn call_site(span: &RawSpan) -> &RawSpan {
    match &span.expansion {
        Some(expansion) if span.text.is_empty() => call_site(&expansion.span),
        _ => span,
    }
}

/// The whole message without the notes about names of types that rustc writes to files: they name
/// another file at every run, in a directory that is gone when the message is read.
fn rendered(raw: &RawDiagnostic) -> String {
    const NOTES: [&str; 2] = [
        "= note: the full name for the type has been written to '",
        "= note: consider using `--verbose` to print",
    ];
    let text = raw.rendered.as_deref().unwrap_or(&raw.message);
    let is_kept = |line: &&str| !NOTES.iter().any(|note| line.trim_start().starts_with(note));
    text.split_inclusive('\n').filter(is_kept).collect()
}

fn remarks(raw: &RawDiagnostic) -> Vec<Remark> {
    let mut remarks = Vec::new();
    for span in raw.spans.iter().chain(raw.children.iter().flat_map(|child| &child.spans)) {
        note(span, &mut remarks);
    }
    remarks
}

fn note(span: &RawSpan, remarks: &mut Vec<Remark>) {
    if remarks.len() >= REMARKS_MAX {
        return;
    }
    remarks.push(Remark {
        file: sanitise_line(&span.file_name, 200),
        text: span.label.as_deref().map_or_else(String::new, |label| sanitise(label, MESSAGE_BYTES_MAX)),
    });
    if let Some(expansion) = &span.expansion {
        note(&expansion.span, remarks);
        if let Some(definition) = &expansion.def_site_span {
            note(definition, remarks);
        }
    }
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
