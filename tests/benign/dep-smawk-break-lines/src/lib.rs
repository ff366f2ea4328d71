//! Lines of even length: the sum of squared gaps is least, the last line's included here.
use smawk::online_column_minima;

fn break_lines<'a>(words: &[&'a str], width: usize) -> Vec<Vec<&'a str>> {
    // Positions of word ends, so that a line's length is a difference.
    let ends: Vec<usize> = std::iter::once(0)
        .chain(words.iter().scan(0, |at, word| {
            *at += word.chars().count() + 1;
            Some(*at)
        }))
        .collect();
    let cost = |minima: &[(usize, i64)], from: usize, to: usize| {
        let length = (ends[to] - ends[from]).saturating_sub(1);
        let gap = width as i64 - length as i64;
        // Overfull lines are dear, and dearer the longer they are.
        let price = if gap < 0 { 1_000_000 * -gap } else { gap * gap };
        minima[from].1 + price
    };
    let minima = online_column_minima(0, ends.len(), cost);
    let mut lines = Vec::new();
    let mut to = words.len();
    while to > 0 {
        let from = minima[to].0;
        lines.push(words[from..to].to_vec());
        to = from;
    }
    lines.reverse();
    lines
}

fn answer(request: &str) -> Option<String> {
    let (width, text) = request.split_once(": ")?;
    let width = width.parse().ok()?;
    let words: Vec<&str> = text.split_whitespace().collect();
    Some(break_lines(&words, width).iter().map(|line| line.join(" ") + "\n").collect())
}

pub fn handle(request: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(request);
    answer(&text).unwrap_or_else(|| "WIDTH: TEXT\n".to_owned()).into_bytes()
}
