//! Rust tokens with their place, as rustc's own lexer cuts them; white space and comments are
//! dropped.
//!
//! The tenant's source is always compiled as edition 2024, so what that edition reserves
//! (guarded strings, unknown prefixes) is an error here too, and two readers cannot cut the same
//! bytes differently.

use ra_ap_rustc_lexer::{FrontmatterAllowed, LiteralKind, TokenKind, tokenize};

/// One token.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Token<'a> {
    pub(crate) kind: TokenKind,
    /// The text as written; `r#` of a raw identifier is cut off.
    pub(crate) text: &'a str,
    /// Byte offset of the token in its file.
    pub(crate) at: usize,
    /// The hygiene context that the expansion printer wrote behind an identifier.
    pub(crate) context: Option<u32>,
    /// It was written as `$crate`, which the expansion printer resolves to a crate's name.
    pub(crate) is_dollar_crate: bool,
}

impl<'a> Token<'a> {
    pub(crate) fn is(&self, kind: TokenKind) -> bool {
        self.kind == kind
    }

    /// An identifier or keyword, raw or not.
    pub(crate) fn word(&self) -> Option<&'a str> {
        matches!(self.kind, TokenKind::Ident | TokenKind::RawIdent | TokenKind::ForcedKeywordIdent)
            .then_some(self.text)
    }

    /// This keyword, and not a raw identifier of that spelling.
    pub(crate) fn is_keyword(&self, keyword: &str) -> bool {
        matches!(self.kind, TokenKind::Ident | TokenKind::ForcedKeywordIdent) && self.text == keyword
    }

    pub(crate) fn is_literal(&self) -> bool {
        matches!(self.kind, TokenKind::Literal { .. })
    }

    pub(crate) fn opens(&self) -> bool {
        matches!(self.kind, TokenKind::OpenParen | TokenKind::OpenBracket | TokenKind::OpenBrace)
    }

    pub(crate) fn closes(&self) -> bool {
        matches!(self.kind, TokenKind::CloseParen | TokenKind::CloseBracket | TokenKind::CloseBrace)
    }
}

/// Something in the text that is not Rust.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) at: usize,
    pub(crate) length: usize,
    pub(crate) reason: &'static str,
}

/// A comment between tokens, for the reader of expansions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Comment<'a> {
    pub(crate) text: &'a str,
    /// Number of tokens before it.
    pub(crate) after: usize,
}

/// The result of cutting one text.
#[derive(Debug, Default)]
pub(crate) struct Cut<'a> {
    pub(crate) tokens: Vec<Token<'a>>,
    pub(crate) faults: Vec<Fault>,
    pub(crate) comments: Vec<Comment<'a>>,
    /// The limit on tokens was met; the rest was not read.
    pub(crate) truncated: bool,
}

/// Faults kept of one text: one is enough to refuse it.
const FAULTS_MAX: usize = 16;

/// Cuts `text` into at most `tokens_max` tokens. Comments are kept only if asked for.
pub(crate) fn cut(text: &str, tokens_max: usize, keep_comments: bool) -> Cut<'_> {
    let mut cut = Cut::default();
    // rustc drops one byte order mark at the very beginning.
    let mut at = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    find_controls(text, at, &mut cut.faults);
    for token in tokenize(&text[at..], FrontmatterAllowed::Yes) {
        let length = token.len as usize;
        let text = &text[at..at + length];
        if let Some(reason) = fault(token.kind)
            && cut.faults.len() < FAULTS_MAX
        {
            cut.faults.push(Fault { at, length, reason });
        }
        match token.kind {
            TokenKind::Whitespace | TokenKind::Frontmatter { .. } => {}
            TokenKind::LineComment { .. } | TokenKind::BlockComment { .. } => {
                if keep_comments {
                    cut.comments.push(Comment { text, after: cut.tokens.len() });
                }
            }
            kind => {
                if cut.tokens.len() == tokens_max {
                    cut.truncated = true;
                    return cut;
                }
                let text = match kind {
                    TokenKind::RawIdent => text.strip_prefix("r#").unwrap_or(text),
                    TokenKind::ForcedKeywordIdent => text.strip_prefix("k#").unwrap_or(text),
                    _ => text,
                };
                cut.tokens.push(Token { kind, text, at, context: None, is_dollar_crate: false });
            }
        }
        at += length;
    }
    cut
}

/// A shebang line, control characters, and the characters that make text read in another order
/// than the compiler reads it (CVE-2021-42574).
fn find_controls(text: &str, start: usize, faults: &mut Vec<Fault>) {
    if ra_ap_rustc_lexer::strip_shebang(&text[start..]).is_some() {
        faults.push(Fault { at: start, length: 2, reason: "a first line starting with `#!`" });
    }
    for (at, c) in text[start..].char_indices() {
        let reason = match c {
            '\t' | '\n' | '\r' | '\u{c}' => continue,
            '\0'..='\u{1f}' | '\u{7f}' => "a control character",
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => "a bidirectional control character",
            _ => continue,
        };
        faults.push(Fault { at: start + at, length: c.len_utf8(), reason });
        if faults.len() >= FAULTS_MAX {
            return;
        }
    }
}

/// Why a token is an error in every position, if it is.
fn fault(kind: TokenKind) -> Option<&'static str> {
    match kind {
        TokenKind::BlockComment { terminated: false, .. } => Some("an unterminated comment"),
        TokenKind::Frontmatter { .. } => Some("frontmatter"),
        TokenKind::InvalidIdent => Some("an identifier with an emoji"),
        TokenKind::ForcedKeywordIdent => Some("a keyword written with `k#`"),
        TokenKind::UnknownPrefix | TokenKind::UnknownPrefixLifetime => Some("an unknown literal prefix"),
        TokenKind::GuardedStrPrefix => Some("a reserved `#` before a string"),
        TokenKind::Lifetime { starts_with_number: true } => Some("a lifetime that starts with a digit"),
        TokenKind::Unknown => Some("a character that is not Rust"),
        TokenKind::Literal { kind, .. } => literal_fault(kind),
        TokenKind::LineComment { .. }
        | TokenKind::BlockComment { .. }
        | TokenKind::Whitespace
        | TokenKind::Ident
        | TokenKind::RawIdent
        | TokenKind::RawLifetime
        | TokenKind::Lifetime { .. }
        | TokenKind::Semi
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
        | TokenKind::Percent
        | TokenKind::Eof => None,
    }
}

fn literal_fault(kind: LiteralKind) -> Option<&'static str> {
    match kind {
        LiteralKind::Char { terminated: false }
        | LiteralKind::Byte { terminated: false }
        | LiteralKind::Str { terminated: false }
        | LiteralKind::ByteStr { terminated: false }
        | LiteralKind::CStr { terminated: false }
        | LiteralKind::RawStr { n_hashes: None }
        | LiteralKind::RawByteStr { n_hashes: None }
        | LiteralKind::RawCStr { n_hashes: None } => Some("an unterminated literal"),
        LiteralKind::Int { .. }
        | LiteralKind::Float { .. }
        | LiteralKind::Char { .. }
        | LiteralKind::Byte { .. }
        | LiteralKind::Str { .. }
        | LiteralKind::ByteStr { .. }
        | LiteralKind::CStr { .. }
        | LiteralKind::RawStr { .. }
        | LiteralKind::RawByteStr { .. }
        | LiteralKind::RawCStr { .. } => None,
    }
}

/// The token behind the group that `open` opens, or the end: every bracket counts alike, since
/// unbalanced text is refused as a whole.
pub(crate) fn behind_group(tokens: &[Token<'_>], open: usize) -> usize {
    let mut depth = 0usize;
    for (offset, token) in tokens[open..].iter().enumerate() {
        if token.opens() {
            depth += 1;
        } else if token.closes() {
            depth = depth.saturating_sub(1);
            if depth == 0 {
                return open + offset + 1;
            }
        }
    }
    tokens.len()
}

/// The token directly before token `at`, without white space between them.
pub(crate) fn glued(tokens: &[Token<'_>], at: usize) -> Option<TokenKind> {
    let before = tokens.get(at.checked_sub(1)?)?;
    (before.at + before.text.len() == tokens.get(at)?.at).then_some(before.kind)
}
