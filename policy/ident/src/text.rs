//! The one sanitiser: every hostile text that reaches a terminal, a page or a log goes through it.

use std::fmt::Write as _;

/// Makes control, bidi and other invisible characters visible as `\u{…}`, keeps `\n` and `\t`,
/// and cuts at `max_bytes` (of the result), adding `…` when something was cut.
///
/// Bidi overrides make a reviewer read another program than the compiler does (CVE-2021-42574);
/// ESC sequences rewrite a terminal.
pub fn sanitise(text: &str, max_bytes: usize) -> String {
    clean(text, max_bytes, |c| matches!(c, '\n' | '\t'))
}

/// As [`sanitise`], for texts that must stay on one line: `\n` and `\t` are shown as escapes too.
pub fn sanitise_line(text: &str, max_bytes: usize) -> String {
    clean(text, max_bytes, |_| false)
}

/// Writes the invisible characters of a JSON text as JSON escapes (`\\u202e`). The document stays the
/// same for whoever parses it; a terminal or an editor that shows it obeys none of them. White space
/// between the values stays.
pub fn escape_json(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if c == '\n' || !is_invisible(c) {
            out.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            // Writing to a String cannot fail.
            let _ = write!(out, "\\u{unit:04x}");
        }
    }
    out
}

fn clean(text: &str, max_bytes: usize, keep: fn(char) -> bool) -> String {
    let mut out = String::with_capacity(text.len().min(max_bytes));
    let mut piece = String::new();
    for c in text.chars() {
        piece.clear();
        if !keep(c) && is_invisible(c) {
            // Writing to a String cannot fail.
            let _ = write!(piece, "\\u{{{:x}}}", c as u32);
        } else {
            piece.push(c);
        }
        if out.len() + piece.len() > max_bytes {
            out.push('…');
            return out;
        }
        out.push_str(&piece);
    }
    out
}

/// Characters that change how others are shown, or show nothing themselves.
fn is_invisible(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}
