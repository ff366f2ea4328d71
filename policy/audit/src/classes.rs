//! What each piece of a Rust text is to rustc's own lexer, for whoever shows it to people.
//!
//! The pieces are those that the facts are gathered from, so a page cannot colour as a comment what the token scan
//! took for code. Reading begins at the file's first byte, since nothing else tells a string from what stands
//! between two strings; it is lazy, so it ends where the reader ends, and keeps a few tokens at a time whatever the
//! text holds. Nothing is dropped or changed: the pieces one after another are the text.

use std::collections::VecDeque;
use std::ops::Range;

use ra_ap_rustc_lexer::{FrontmatterAllowed, LiteralKind, TokenKind, strip_shebang, tokenize};

/// What a piece is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// White space, and what is no Rust.
    Plain,
    /// A comment, the line of a script's interpreter, frontmatter.
    Comment,
    /// A comment that is documentation.
    DocComment,
    /// Strings of every kind.
    Str,
    /// A character or a byte.
    Char,
    /// A number.
    Number,
    /// A lifetime or a label.
    Lifetime,
    /// A keyword other than `unsafe`.
    Keyword,
    /// The keyword `unsafe`.
    Unsafe,
    /// A name, raw or not.
    Ident,
    /// The name of a macro where it is called, with its `!`.
    Macro,
    /// An attribute, its texts and comments excepted.
    Attribute,
    /// Everything else that is a token.
    Punct,
}

/// A piece of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// Its bytes.
    pub range: Range<usize>,
    /// What it is.
    pub class: Class,
}

/// The pieces of a text from its beginning, without gaps.
pub fn classes(text: &str) -> impl Iterator<Item = Piece> {
    let bom = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    let head = bom + strip_shebang(&text[bom..]).unwrap_or(0);
    let first = (head > 0).then_some(Piece { range: 0..head, class: Class::Comment });
    first.into_iter().chain(Reader {
        text,
        at: head,
        tokens: tokenize(&text[head..], FrontmatterAllowed::Yes),
        ahead: VecDeque::new(),
        attribute: 0,
    })
}

/// Tokens that are looked at before the one in question is named: `#`, `!` and `[`.
const AHEAD_MAX: usize = 3;

struct Reader<'a, I> {
    text: &'a str,
    at: usize,
    tokens: I,
    ahead: VecDeque<(TokenKind, usize)>,
    /// Brackets that are open since an attribute began.
    attribute: usize,
}

impl<I: Iterator<Item = ra_ap_rustc_lexer::Token>> Iterator for Reader<'_, I> {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        while self.ahead.len() < AHEAD_MAX
            && let Some(token) = self.tokens.next()
        {
            self.ahead.push_back((token.kind, token.len as usize));
        }
        let (kind, length) = self.ahead.pop_front()?;
        let range = self.at..self.at + length;
        let class = self.class(kind, &self.text[range.clone()]);
        self.at = range.end;
        Some(Piece { range, class })
    }
}

impl<I> Reader<'_, I> {
    fn class(&mut self, kind: TokenKind, text: &str) -> Class {
        let class = self.alone(kind, text);
        if self.attribute == 0 {
            if kind == TokenKind::Pound && self.opens_attribute() {
                // The first bracket is counted when it comes.
                self.attribute = 1;
                return Class::Attribute;
            }
            return class;
        }
        self.inside_attribute(kind);
        match class {
            Class::Keyword
            | Class::Ident
            | Class::Macro
            | Class::Punct
            | Class::Number
            | Class::Char
            | Class::Lifetime => Class::Attribute,
            Class::Plain
            | Class::Comment
            | Class::DocComment
            | Class::Str
            | Class::Unsafe
            | Class::Attribute => class,
        }
    }

    /// Whether `[` or `![` comes next.
    fn opens_attribute(&self) -> bool {
        let kind = |at: usize| self.ahead.get(at).map(|(kind, _)| *kind);
        let behind = usize::from(kind(0) == Some(TokenKind::Bang));
        kind(behind) == Some(TokenKind::OpenBracket)
    }

    /// Counts brackets; one more than there are, so that what stands before the first is inside.
    fn inside_attribute(&mut self, kind: TokenKind) {
        match kind {
            TokenKind::OpenBracket => self.attribute += 1,
            TokenKind::CloseBracket => {
                self.attribute -= 1;
                if self.attribute == 1 {
                    self.attribute = 0;
                }
            }
            _ => {}
        }
    }

    /// The class of a token that stands in no attribute.
    fn alone(&self, kind: TokenKind, text: &str) -> Class {
        match kind {
            TokenKind::LineComment { doc_style } | TokenKind::BlockComment { doc_style, .. } => {
                match doc_style {
                    Some(_) => Class::DocComment,
                    None => Class::Comment,
                }
            }
            TokenKind::Frontmatter { .. } => Class::Comment,
            TokenKind::Literal { kind, .. } => literal(kind),
            TokenKind::Lifetime { .. } | TokenKind::RawLifetime | TokenKind::UnknownPrefixLifetime => {
                Class::Lifetime
            }
            TokenKind::Ident => self.word(text),
            TokenKind::RawIdent | TokenKind::ForcedKeywordIdent | TokenKind::InvalidIdent => Class::Ident,
            TokenKind::Bang if self.is_macro_bang() => Class::Macro,
            TokenKind::Whitespace
            | TokenKind::Unknown
            | TokenKind::UnknownPrefix
            | TokenKind::GuardedStrPrefix
            | TokenKind::Eof => Class::Plain,
            TokenKind::Semi
            | TokenKind::Comma
            | TokenKind::Dot
            | TokenKind::OpenParen
            | TokenKind::CloseParen
            | TokenKind::OpenBrace
            | TokenKind::CloseBrace
            | TokenKind::OpenBracket
            | TokenKind::CloseBracket
            | TokenKind::At
            | TokenKind::Pound
            | TokenKind::Tilde
            | TokenKind::Question
            | TokenKind::Colon
            | TokenKind::Dollar
            | TokenKind::Eq
            | TokenKind::Bang
            | TokenKind::Lt
            | TokenKind::Gt
            | TokenKind::Minus
            | TokenKind::And
            | TokenKind::Or
            | TokenKind::Plus
            | TokenKind::Star
            | TokenKind::Slash
            | TokenKind::Caret
            | TokenKind::Percent => Class::Punct,
        }
    }

    fn word(&self, text: &str) -> Class {
        if text == "unsafe" {
            return Class::Unsafe;
        }
        if KEYWORDS.binary_search(&text).is_ok() {
            return Class::Keyword;
        }
        let is = |at: usize, wanted| self.ahead.get(at).is_some_and(|(kind, _)| *kind == wanted);
        // `name!=` compares.
        if is(0, TokenKind::Bang) && !is(1, TokenKind::Eq) { Class::Macro } else { Class::Ident }
    }

    /// Whether a `!` stands right behind the name of a macro, and before no `=`.
    fn is_macro_bang(&self) -> bool {
        let before = self.text[..self.at].chars().next_back();
        let is_name = before.is_some_and(|c| c == '_' || c.is_alphanumeric());
        is_name && !self.ahead.front().is_some_and(|(kind, _)| *kind == TokenKind::Eq)
    }
}

fn literal(kind: LiteralKind) -> Class {
    match kind {
        LiteralKind::Int { .. } | LiteralKind::Float { .. } => Class::Number,
        LiteralKind::Char { .. } | LiteralKind::Byte { .. } => Class::Char,
        LiteralKind::Str { .. }
        | LiteralKind::ByteStr { .. }
        | LiteralKind::CStr { .. }
        | LiteralKind::RawStr { .. }
        | LiteralKind::RawByteStr { .. }
        | LiteralKind::RawCStr { .. } => Class::Str,
    }
}

/// Keywords of every edition, sorted, `unsafe` left out. The words that mean something in one place alone (`union`,
/// `macro_rules`, `auto`, `safe`) are names.
const KEYWORDS: &[&str] = &[
    "Self", "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate", "do",
    "dyn", "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop",
    "macro", "match", "mod", "move", "mut", "override", "priv", "pub", "ref", "return", "self", "static",
    "struct", "super", "trait", "true", "try", "type", "typeof", "unsized", "use", "virtual", "where",
    "while", "yield",
];

#[cfg(test)]
mod tests;
