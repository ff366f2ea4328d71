//! The drawing of diagnostics, for spans as they are on the wire. The drawing itself is
//! `mfaas_delivery::render`, so that the builder's `check` and the server cannot draw differently.

pub use mfaas_delivery::render::{drawn, finding, foreign};
use mfaas_rules::Span;

use crate::{Level, SourceSpan};

/// The drawing of one diagnostic from its parts; an empty `hint` is left out.
pub fn diagnostic(level: Level, code: &str, message: &str, span: Option<&SourceSpan>, hint: &str) -> String {
    let span = span.map(|span| Span {
        file: span.file.clone(),
        line: span.line,
        column: span.column,
        end_column: span.end_column,
        text: span.text.clone(),
    });
    mfaas_delivery::render::diagnostic(level, code, message, span.as_ref(), hint)
}
