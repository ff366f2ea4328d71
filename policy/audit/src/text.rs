//! Byte offsets become places that a person can look up.

use mfaas_ident::sanitise;
use mfaas_rules::Span;

/// Bytes of a line that a finding shows.
const LINE_BYTES_MAX: usize = 200;

/// A file's text with the offsets of its lines.
#[derive(Debug)]
pub(crate) struct Text<'a> {
    file: &'a str,
    text: &'a str,
    /// Offset of the first byte of each line, in order; the first is 0.
    line_starts: Vec<usize>,
}

impl<'a> Text<'a> {
    pub(crate) fn new(file: &'a str, text: &'a str) -> Self {
        let line_starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Self { file, text, line_starts }
    }

    /// The place of `length` bytes from `start` on; cut at the end of the line.
    pub(crate) fn span(&self, start: usize, length: usize) -> Span {
        let start = self.text.floor_char_boundary(start.min(self.text.len()));
        let line = self.line_starts.partition_point(|at| *at <= start).saturating_sub(1);
        let from = self.line_starts.get(line).copied().unwrap_or(0);
        let to = self.line_starts.get(line + 1).map_or(self.text.len(), |next| next - 1);
        let shown = self.text.get(from..to).unwrap_or_default();
        // A generated file may be one line of megabytes: columns are counted up to a bound.
        let column = characters(self.text.get(from..start).unwrap_or_default());
        let end = self.text.floor_char_boundary(start.saturating_add(length).min(to).max(start));
        let width = characters(self.text.get(start..end).unwrap_or_default());
        Span {
            file: self.file.to_owned(),
            line: number(line + 1),
            column: column + 1,
            end_column: column + 1 + width.max(1),
            // Tabs stay, for whoever draws the line with a caret below it.
            text: sanitise(window(shown), LINE_BYTES_MAX),
        }
    }
}

/// The beginning of a line, so that sanitising a huge line does not cost its whole length.
fn window(line: &str) -> &str {
    &line[..line.floor_char_boundary(LINE_BYTES_MAX * 2)]
}

/// Characters of `text`, counted over at most 16 KiB.
fn characters(text: &str) -> u32 {
    number(text[..text.floor_char_boundary(16 << 10)].chars().count())
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// A place in a file whose text cannot be shown: its first line.
pub(crate) fn start_of(file: &str) -> Span {
    Span { file: file.to_owned(), line: 1, column: 1, end_column: 2, text: String::new() }
}
