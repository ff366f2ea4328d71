//! A lexer that takes Unicode identifiers.
use unicode_xid::UnicodeXID;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Token<'a> {
    Keyword(&'a str),
    Name(&'a str),
    Number(u64),
    Text(&'a str),
    Symbol(char),
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Lexer<'a> {
    fn while_(&mut self, test: impl Fn(char) -> bool) -> &'a str {
        let rest = &self.text[self.at..];
        let end = rest.find(|c| !test(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    fn token(&mut self) -> Result<Option<Token<'a>>, (usize, String)> {
        self.while_(char::is_whitespace);
        let from = self.at;
        let Some(first) = self.text[from..].chars().next() else { return Ok(None) };
        let token = match first {
            c if c.is_xid_start() => match self.while_(UnicodeXID::is_xid_continue) {
                word @ ("let" | "fn" | "if" | "else") => Token::Keyword(word),
                word => Token::Name(word),
            },
            '0'..='9' => {
                let digits = self.while_(|c| c.is_ascii_digit());
                Token::Number(digits.parse().map_err(|_| (from, format!("{digits} is too large")))?)
            }
            '"' => {
                self.at += 1;
                let inside = self.while_(|c| c != '"');
                if self.at == self.text.len() {
                    return Err((from, "a string without an end".to_owned()));
                }
                self.at += 1;
                Token::Text(inside)
            }
            c @ ('=' | '+' | '-' | '*' | '/' | ';' | '(' | ')') => {
                self.at += 1;
                Token::Symbol(c)
            }
            other => return Err((from, format!("unexpected {other}"))),
        };
        Ok(Some(token))
    }
}

fn list(text: &str) -> Result<String, (usize, String)> {
    let mut lexer = Lexer { text, at: 0 };
    let mut out = String::new();
    while let Some(token) = lexer.token()? {
        out += &match token {
            Token::Keyword(word) => format!("keyword {word}\n"),
            Token::Name(name) => format!("name {name}\n"),
            Token::Number(n) => format!("number {n}\n"),
            Token::Text(text) => format!("string {text}\n"),
            Token::Symbol(c) => format!("symbol {c}\n"),
        };
    }
    Ok(out)
}

pub fn handle(request: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(request);
    list(&text).unwrap_or_else(|(at, why)| format!("error at {at}: {why}\n")).into_bytes()
}
