//! A run of tokens in which brackets, generics and types can be measured.
//!
//! Nothing here recurses, and every walk is paid from one budget: text that makes the walks long
//! ends the reading, and what was not read is refused.

use std::cell::Cell;
use std::ops::Range;

use ra_ap_rustc_lexer::TokenKind;

use crate::path::double_colon;
use crate::token::Token;

/// Tokens that all walks over one text may touch together.
const STEPS_MAX: usize = 50_000_000;

/// What is left for walking.
#[derive(Debug)]
pub(super) struct Budget(Cell<usize>);

impl Budget {
    pub(super) fn new() -> Self {
        Self(Cell::new(STEPS_MAX))
    }

    /// Pays for `steps`; false once nothing is left.
    pub(super) fn pay(&self, steps: usize) -> bool {
        let left = self.0.get().saturating_sub(steps);
        self.0.set(left);
        left > 0
    }

    /// Fails once the text has proved too long to be read as a whole.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.0.get() == 0 { Err("its items are too long to be read".to_owned()) } else { Ok(()) }
    }
}

/// Tokens with the ends of their groups.
#[derive(Debug)]
pub(super) struct Run<'a, 'b> {
    pub(super) tokens: Vec<Token<'a>>,
    /// For each opening bracket, the token behind its group; for others, the token behind it.
    behind: Vec<usize>,
    budget: &'b Budget,
}

impl<'a, 'b> Run<'a, 'b> {
    pub(super) fn new(tokens: Vec<Token<'a>>, budget: &'b Budget) -> Self {
        let mut behind: Vec<usize> = (1..=tokens.len()).collect();
        let mut open = Vec::new();
        for (at, token) in tokens.iter().enumerate() {
            if token.opens() {
                open.push(at);
                // Until its end is found, a group goes on to the end of the run.
                behind[at] = tokens.len();
            } else if token.closes()
                && let Some(from) = open.pop()
            {
                behind[from] = at + 1;
            }
        }
        budget.pay(tokens.len());
        Self { tokens, behind, budget }
    }

    pub(super) fn len(&self) -> usize {
        self.tokens.len()
    }

    pub(super) fn budget(&self) -> &'b Budget {
        self.budget
    }

    pub(super) fn is(&self, at: usize, kind: TokenKind) -> bool {
        self.tokens.get(at).is_some_and(|token| token.is(kind))
    }

    pub(super) fn is_keyword(&self, at: usize, keyword: &str) -> bool {
        self.tokens.get(at).is_some_and(|token| token.is_keyword(keyword))
    }

    /// The identifier or keyword at `at`.
    pub(super) fn word(&self, at: usize) -> Option<&'a str> {
        self.tokens.get(at).and_then(Token::word)
    }

    /// The lifetime at `at`, with its quote.
    pub(super) fn lifetime(&self, at: usize) -> Option<&'a str> {
        let token = self.tokens.get(at)?;
        matches!(token.kind, TokenKind::Lifetime { .. } | TokenKind::RawLifetime).then_some(token.text)
    }

    pub(super) fn is_double_colon(&self, at: usize) -> bool {
        double_colon(&self.tokens, at)
    }

    /// `for<'a>`, and not the `for` of `impl Trait for <X as Y>::Z`.
    pub(super) fn is_binder(&self, at: usize) -> bool {
        let declares = self.lifetime(at + 2).is_some() || self.is(at + 2, TokenKind::Gt);
        self.is_keyword(at, "for") && self.is(at + 1, TokenKind::Lt) && declares
    }

    /// The `>` of `->` or `=>`, which closes nothing.
    pub(super) fn is_arrow_head(&self, at: usize) -> bool {
        at > 0
            && self.is(at, TokenKind::Gt)
            && matches!(self.tokens[at - 1].kind, TokenKind::Minus | TokenKind::Eq)
            && self.tokens[at - 1].at + 1 == self.tokens[at].at
    }

    /// Behind the bracket group that `open` opens.
    pub(super) fn behind_group(&self, open: usize) -> usize {
        self.behind.get(open).copied().unwrap_or(self.len())
    }

    /// Behind the generics that the `<` at `open` begins.
    pub(super) fn behind_angles(&self, open: usize) -> usize {
        let mut depth = 0usize;
        let mut at = open;
        while at < self.len() && self.budget.pay(1) {
            match self.tokens[at].kind {
                TokenKind::Lt => depth += 1,
                TokenKind::Gt if !self.is_arrow_head(at) => {
                    depth -= 1;
                    if depth == 0 {
                        return at + 1;
                    }
                }
                TokenKind::Semi => return at,
                _ if self.tokens[at].opens() => {
                    at = self.behind_group(at);
                    continue;
                }
                _ if self.tokens[at].closes() => return at,
                _ => {}
            }
            at += 1;
        }
        self.len()
    }

    /// The first token from `from` on, outside of brackets and generics, that `ends` accepts; a
    /// closing bracket always ends.
    pub(super) fn scan_flat(&self, from: usize, limit: usize, ends: impl Fn(usize) -> bool) -> usize {
        let mut at = from;
        while at < limit && self.budget.pay(1) {
            let token = &self.tokens[at];
            if ends(at) || token.closes() || (token.is(TokenKind::Gt) && !self.is_arrow_head(at)) {
                return at;
            }
            at = if token.opens() {
                self.behind_group(at)
            } else if token.is(TokenKind::Lt) {
                self.behind_angles(at)
            } else {
                at + 1
            };
        }
        limit
    }

    /// Where the type that begins at `from` ends; its bounds (`+ …`) belong to it if `bounds`.
    pub(super) fn type_end(&self, from: usize, limit: usize, bounds: bool) -> usize {
        self.scan_flat(from, limit, |at| {
            let token = &self.tokens[at];
            match token.kind {
                TokenKind::Comma | TokenKind::Semi | TokenKind::OpenBrace => true,
                TokenKind::Eq => !self.is_arrow_head(at + 1),
                TokenKind::Plus => !bounds,
                _ => token.is_keyword("where") || token.is_keyword("as"),
            }
        })
    }

    /// The parts of `range` between commas outside of brackets and generics.
    pub(super) fn split(&self, range: Range<usize>) -> Vec<Range<usize>> {
        let mut parts = Vec::new();
        let mut from = range.start;
        while from < range.end {
            let mut to = self.scan_flat(from, range.end, |at| self.is(at, TokenKind::Comma));
            // A stray closing token is stepped over, so that nothing behind it is lost.
            while to < range.end && !self.is(to, TokenKind::Comma) {
                to = self.scan_flat(to + 1, range.end, |at| self.is(at, TokenKind::Comma));
            }
            if from < to {
                parts.push(from..to);
            }
            from = to + 1;
        }
        parts
    }

    /// A single `:` in `range` outside of brackets and generics.
    pub(super) fn colon(&self, range: Range<usize>) -> Option<usize> {
        let mut from = range.start;
        loop {
            let at = self.scan_flat(from, range.end, |at| self.is(at, TokenKind::Colon));
            if at >= range.end || !self.is(at, TokenKind::Colon) {
                return None;
            }
            if !self.is_double_colon(at) {
                return Some(at);
            }
            from = at + 2;
        }
    }
}
