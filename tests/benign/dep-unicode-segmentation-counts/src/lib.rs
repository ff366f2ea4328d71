//! How long is a text? Four answers.
use unicode_segmentation::UnicodeSegmentation;

#[derive(Debug, Default, Clone)]
struct Counts {
    bytes: usize,
    chars: usize,
    graphemes: usize,
    words: usize,
}

fn counts(text: &str) -> Counts {
    Counts {
        bytes: text.len(),
        chars: text.chars().count(),
        graphemes: text.graphemes(true).count(),
        words: text.unicode_words().count(),
    }
}

pub fn handle(request: &[u8]) -> Vec<u8> {
    match std::str::from_utf8(request) {
        Ok(text) => {
            let Counts { bytes, chars, graphemes, words } = counts(text);
            let reversed: String = text.graphemes(true).rev().collect();
            format!("{bytes} bytes, {chars} chars, {graphemes} graphemes, {words} words, reversed {reversed}")
        }
        Err(error) => format!("not UTF-8 after {} bytes", error.valid_up_to()),
    }
    .into_bytes()
}
