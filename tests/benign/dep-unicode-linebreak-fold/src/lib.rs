//! Text folded at the places where Unicode allows it, by columns.
use unicode_linebreak::BreakOpportunity::{self, Mandatory};
use unicode_width::UnicodeWidthStr;

/// The pieces between break opportunities, and whether each ends its line.
fn pieces(text: &str) -> impl Iterator<Item = (&str, BreakOpportunity)> + use<'_> {
    let mut from = 0;
    unicode_linebreak::linebreaks(text).map(move |(at, kind)| {
        let piece = &text[from..at];
        from = at;
        (piece, kind)
    })
}

fn fold(text: &str, columns: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    for (piece, kind) in pieces(text) {
        let wide = line.width() + piece.trim_end().width() > columns;
        if wide && !line.is_empty() {
            lines.push(std::mem::take(&mut line));
        }
        line += piece;
        if kind == Mandatory {
            lines.push(std::mem::take(&mut line));
        }
    }
    lines
}

pub fn handle(request: &[u8]) -> Vec<u8> {
    let request = String::from_utf8_lossy(request);
    let Some((columns, text)) = request.split_once(' ').and_then(|(n, text)| Some((n.parse().ok()?, text))) else {
        return b"WIDTH TEXT".to_vec();
    };
    fold(text, columns).iter().map(|line| format!("{}|\n", line.trim_end())).collect::<String>().into_bytes()
}
