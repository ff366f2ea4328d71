//! What a person or a script sees: results on standard output, everything else on standard error.
//!
//! With `--json` standard output carries JSON and nothing else. Hostile text is sanitised by
//! whoever made it part of an answer and once more here, before it reaches a terminal.

use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use mfaas_ident::{escape_json, sanitise};
use mfaas_wire::{Diagnostic, render};
use serde::Serialize;

use crate::failure::Failure;

/// The longest remark that is shown, in bytes.
const TEXT_BYTES_MAX: usize = 64 << 10;
/// The longest result that is shown, in bytes.
const RESULT_BYTES_MAX: usize = 16 << 20;

/// The way to the terminal.
#[derive(Debug, Clone)]
pub(crate) struct Screen {
    json: bool,
    quiet: bool,
    verbose: bool,
}

impl Screen {
    /// A screen with the user's settings.
    pub(crate) fn new(json: bool, quiet: bool, verbose: bool) -> Self {
        Self { json, quiet, verbose }
    }

    /// Whether standard output is for JSON.
    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// The result: the document with `--json`, the text otherwise.
    pub(crate) fn result<T: Serialize>(
        &self,
        document: &T,
        text: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        if self.json {
            let line = serde_json::to_string(document).map_err(|e| Failure::Local(e.to_string()))?;
            return out(&escape_json(&line));
        }
        let text = text();
        if text.is_empty() { Ok(()) } else { out(&sanitise(&text, RESULT_BYTES_MAX)) }
    }

    /// A function's answer: exactly its bytes where a program reads them, made visible where a person
    /// does. A function is not trusted with anybody's terminal.
    pub(crate) fn answer(&self, bytes: &[u8]) -> Result<(), Failure> {
        if !std::io::stdout().is_terminal() {
            return self.bytes(bytes);
        }
        self.bytes(sanitise(&String::from_utf8_lossy(bytes), RESULT_BYTES_MAX).as_bytes())
    }

    /// Bytes of our own for standard output, exactly as they are.
    pub(crate) fn bytes(&self, bytes: &[u8]) -> Result<(), Failure> {
        let mut stdout = std::io::stdout().lock();
        finish(stdout.write_all(bytes).and_then(|()| stdout.flush()))
    }

    /// A remark on standard error.
    pub(crate) fn note(&self, text: &str) {
        if !self.quiet {
            err(text);
        }
    }

    /// A remark for those who asked for more.
    pub(crate) fn detail(&self, text: &str) {
        if self.verbose {
            err(text);
        }
    }

    /// A diagnostic on standard error: rustc's own drawing verbatim, or ours in the same look.
    pub(crate) fn diagnostic(&self, diagnostic: &Diagnostic) {
        let drawing = if diagnostic.rendered.is_empty() {
            let span = diagnostic.span.as_ref();
            render::diagnostic(
                diagnostic.level,
                &diagnostic.code,
                &diagnostic.message,
                span,
                &diagnostic.hint,
            )
        } else {
            render::foreign(&diagnostic.rendered)
        };
        err(drawing.trim_end());
        err("");
    }

    /// A failure, once, with what to try next.
    pub(crate) fn failure(&self, failure: &Failure) {
        match failure {
            Failure::Told(_) | Failure::Interrupted => return,
            Failure::Problem(problem) => {
                problem.diagnostics.iter().for_each(|diagnostic| self.diagnostic(diagnostic))
            }
            _ => {}
        }
        if self.json {
            let document = match failure {
                Failure::Problem(problem) => serde_json::to_value(problem).unwrap_or_default(),
                other => serde_json::json!({ "detail": other.to_string(), "exit": other.exit() as i32 }),
            };
            // The reader of the pipe may be gone; the exit code still says what happened.
            let _ = out(&escape_json(&document.to_string()));
        }
        err(&format!("error: {failure}"));
        if let Some(hint) = failure.hint() {
            err(&format!("  = help: {hint}"));
        }
    }

    /// A spinner for something that takes a while; invisible where nobody watches.
    pub(crate) fn spinner(&self, message: &str) -> Spinner {
        let watched = !self.quiet && !self.json && std::io::stderr().is_terminal();
        let target = if watched { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(None, target);
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed}") {
            bar.set_style(style);
        }
        bar.set_message(message.to_owned());
        bar.enable_steady_tick(Duration::from_millis(120));
        Spinner(bar)
    }
}

/// A running spinner; disappears with the value.
#[derive(Debug)]
pub(crate) struct Spinner(ProgressBar);

impl Spinner {
    /// Says what is going on now.
    pub(crate) fn message(&self, text: &str) {
        self.0.set_message(sanitise(text, TEXT_BYTES_MAX));
    }

    /// Writes a line above the spinner.
    pub(crate) fn above(&self, screen: &Screen, text: &str) {
        self.0.suspend(|| screen.note(text));
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// Columns of text with the headings on top; every cell is sanitised.
pub(crate) fn table(headings: &[&str], rows: &[Vec<String>]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let cell = |text: &str| mfaas_ident::sanitise_line(text, 200);
    let all: Vec<Vec<String>> =
        std::iter::once(headings.iter().map(|heading| heading.to_uppercase()).collect())
            .chain(rows.iter().map(|row| row.iter().map(|text| cell(text)).collect()))
            .collect();
    let width =
        |column: usize| all.iter().filter_map(|row| row.get(column)).map(|text| text.chars().count()).max();
    let widths: Vec<usize> = (0..headings.len()).map(|column| width(column).unwrap_or(0)).collect();
    let lines: Vec<String> = all
        .iter()
        .map(|row| {
            let cells = row.iter().zip(&widths).map(|(text, width)| format!("{text:width$}"));
            cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        })
        .collect();
    lines.join("\n")
}

fn out(text: &str) -> Result<(), Failure> {
    let text = text.trim_end_matches('\n');
    finish(writeln!(anstream::stdout(), "{text}"))
}

fn err(text: &str) {
    // Nobody is left to tell when standard error is gone.
    let _ = writeln!(anstream::stderr(), "{}", sanitise(text, TEXT_BYTES_MAX));
}

/// `mfaas list | head` closes our output: that ends the output, it is no failure.
fn finish(written: std::io::Result<()>) -> Result<(), Failure> {
    match written {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::Local(format!("cannot write to standard output: {error}")))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// A size for people.
pub(crate) fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}

#[cfg(test)]
mod tests;
