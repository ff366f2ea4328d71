//! How deep the compiler's tree of an expression may become, counted from above without parsing.
//!
//! `1 + 1 + 1 …`, `x.f().f()…`, `a as u8 as u8 …` and `else if … else if …` hold no bracket in a
//! bracket, and yet each step is one level of the tree, which the compiler walks by recursion. So
//! steps are counted between separators, and those of the deepest group among them are added:
//! never less than the real depth, and little more in code that people write.

use ra_ap_rustc_lexer::TokenKind;

use super::peak::Peak;
use crate::path::is_plain_keyword;
use crate::token::{Token, glued};

/// Keywords that put one expression around another.
const KEYWORDS: &[&str] = &["as", "else", "if", "match", "while", "return", "break", "yield", "move"];

/// What a `?` or an `.await` counts: the compiler puts a `match` with calls in its place.
const DESUGARED_STEPS: usize = 4;

/// What is open at one point: a group, or the file.
#[derive(Default)]
struct Level {
    /// Steps since the last separator.
    steps: usize,
    /// The deepest group since then.
    inner: usize,
    /// The deepest of everything before.
    before: usize,
    /// The steps in front of the condition of an `else if`. The next block is no part of that
    /// condition's tree.
    condition: Option<usize>,
    /// Between the two `|` of a closure, where commas separate nothing.
    in_parameters: bool,
    /// Open `<` of a `::<`, likewise.
    generics: usize,
}

impl Level {
    fn depth(&self) -> usize {
        self.before.max(self.steps + self.inner)
    }

    /// A new expression begins.
    fn separate(&mut self) {
        *self = Self { before: self.depth(), ..Self::default() };
    }
}

/// The deepest expression of a file, and a token in it.
pub(super) fn depth(tokens: &[Token<'_>]) -> Peak {
    let mut levels = vec![Level::default()];
    let mut peak = Peak::default();
    for (at, token) in tokens.iter().enumerate() {
        if token.opens() {
            if let Some(level) = levels.last_mut() {
                open(level, tokens, at);
            }
            levels.push(Level::default());
        } else if token.closes() {
            // Brackets that do not pair up are refused elsewhere; the file's own level stays.
            let closed = if levels.len() > 1 { levels.pop() } else { None };
            if let (Some(closed), Some(level)) = (closed, levels.last_mut()) {
                level.inner = level.inner.max(closed.depth() + 1);
                if token.is(TokenKind::CloseBrace) && !continues(tokens.get(at + 1)) {
                    level.separate();
                }
            }
        } else if let Some(level) = levels.last_mut() {
            step(level, tokens, at);
        }
        if let Some(level) = levels.last() {
            peak.raise(level.depth(), at);
        }
    }
    peak
}

/// The opening bracket at `at`: a call, an index, the block behind a condition, or none of them.
fn open(level: &mut Level, tokens: &[Token<'_>], at: usize) {
    if tokens[at].is(TokenKind::OpenBrace) {
        if let Some(steps) = level.condition.take() {
            level.steps = steps;
        }
    } else if at > 0 && ends_operand(&tokens[at - 1]) {
        level.steps += 1;
    }
}

/// A token that is no bracket.
fn step(level: &mut Level, tokens: &[Token<'_>], at: usize) {
    let token = &tokens[at];
    let is_arrow = token.is(TokenKind::Gt) && glued(tokens, at) == Some(TokenKind::Eq);
    if token.is(TokenKind::Semi) || is_arrow {
        return level.separate();
    }
    match token.kind {
        TokenKind::Comma if level.generics == 0 && !level.in_parameters => return level.separate(),
        TokenKind::Lt if level.generics > 0 || glued(tokens, at) == Some(TokenKind::Colon) => {
            level.generics += 1;
        }
        TokenKind::Gt if glued(tokens, at) != Some(TokenKind::Minus) => {
            level.generics = level.generics.saturating_sub(1);
        }
        TokenKind::Or if level.in_parameters => level.in_parameters = false,
        // The second half of `||` begins nothing.
        TokenKind::Or if glued(tokens, at) == Some(TokenKind::Or) => {}
        TokenKind::Or if at == 0 || !ends_operand(&tokens[at - 1]) => level.in_parameters = true,
        _ => {}
    }
    // `&&` and `..=` are one step.
    let is_first = !glued(tokens, at).is_some_and(is_operator);
    if token.is(TokenKind::Question) || token.is_keyword("await") {
        level.steps += DESUGARED_STEPS;
    } else if is_operator(token.kind) && is_first {
        level.steps += 1;
    } else if KEYWORDS.iter().any(|keyword| token.is_keyword(keyword)) {
        level.steps += 1;
        if token.is_keyword("else") {
            level.condition = Some(level.steps);
        }
    }
}

/// Whether an expression may go on behind a closing brace with this token.
fn continues(next: Option<&Token<'_>>) -> bool {
    next.is_some_and(|next| {
        let goes_on = next.opens() || is_operator(next.kind) || next.is(TokenKind::Question);
        goes_on || next.is_keyword("else") || next.is_keyword("as")
    })
}

/// Whether an operand may end with this token, so that a bracket behind it is a call or an index.
fn ends_operand(token: &Token<'_>) -> bool {
    let is_word = token.word().is_some() && !is_plain_keyword(token);
    is_word
        || ["true", "false", "await"].iter().any(|keyword| token.is_keyword(keyword))
        || token.is_literal()
        || token.closes()
        || matches!(token.kind, TokenKind::Question | TokenKind::Gt)
}

fn is_operator(kind: TokenKind) -> bool {
    matches!(
        kind,
        TokenKind::Dot
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
    )
}
