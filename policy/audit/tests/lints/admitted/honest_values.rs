// Functions with nested references as values: one type brings the data and the proof.
#[derive(Clone, Copy)]
pub struct Token<'t> {
    text: &'t str,
}

impl<'t> Token<'t> {
    fn text(&self) -> &'t str {
        self.text
    }

    fn parse(text: &'t str) -> Option<Self> {
        Some(Self { text })
    }
}

pub struct Names<'a, 'b> {
    first: &'a [&'b str],
}

impl<'a, 'b> Names<'a, 'b> {
    fn new(first: &'a [&'b str]) -> Self {
        Names { first }
    }

    fn longest(&self) -> Option<&'b str> {
        self.first.iter().copied().reduce(longer)
    }
}

fn longer<'a>(a: &'a str, b: &'a str) -> &'a str {
    if a.len() < b.len() { b } else { a }
}

fn largest<'a, T: Ord>(a: &'a T, b: &'a T) -> &'a T {
    if a < b { b } else { a }
}

fn trimmed<'a, 'b>(words: &'a mut Vec<&'b str>, word: &'b str) -> &'a mut Vec<&'b str> {
    words.push(word.trim());
    words
}

pub fn all(lines: &[&str], numbers: &[u32]) -> usize {
    let texts: Vec<&str> = lines.iter().copied().filter_map(Token::parse).map(|t| t.text()).collect();
    let tokens: Vec<Token<'_>> = lines.iter().copied().filter_map(Token::parse).collect();
    let more: Vec<&str> = tokens.iter().map(Token::text).collect();
    let names: Option<Names<'_, '_>> = Some(&texts[..]).map(Names::new);
    let words = texts.iter().copied().fold(&mut Vec::new(), |words, word| trimmed(words, word)).len();
    let most = numbers.iter().reduce(largest);
    more.len() + words + names.and_then(|n| n.longest()).map_or(0, str::len) + most.map_or(0, |n| *n as usize)
}
