//! Attributes in a token stream, those inside `cfg_attr(…)` and `unsafe(…)` included.

use ra_ap_rustc_lexer::TokenKind;

use crate::path::double_colon;
use crate::token::{Token, behind_group};

/// Bytes of an attribute's tokens that are kept.
const TOKENS_BYTES_MAX: usize = 200;

/// One attribute, or one carried by `cfg_attr`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Attribute {
    /// Without spaces and raw prefixes; a macro fragment is `$name`.
    pub(crate) path: String,
    pub(crate) inner: bool,
    pub(crate) in_unsafe: bool,
    /// Behind the path, without spaces, cut.
    pub(crate) tokens: String,
    /// Index of the token that begins the path.
    pub(crate) head: usize,
    /// Indices of everything behind the path: `(…)`, `= …` or nothing.
    pub(crate) arguments: std::ops::Range<usize>,
}

/// The attributes of the `#` at token `at`, and the index behind its `]`; `None` if that `#`
/// begins no attribute.
pub(crate) fn attributes_at(tokens: &[Token<'_>], at: usize) -> Option<(Vec<Attribute>, usize)> {
    let is = |index: usize, kind| tokens.get(index).is_some_and(|token: &Token<'_>| token.is(kind));
    let inner = is(at + 1, TokenKind::Bang);
    let open = at + 1 + usize::from(inner);
    if !is(at, TokenKind::Pound) || !is(open, TokenKind::OpenBracket) {
        return None;
    }
    let behind = behind_group(tokens, open);
    // Unbalanced text has no closing bracket; then everything belongs to it.
    let end = if tokens.get(behind - 1).is_some_and(Token::closes) { behind - 1 } else { behind };
    let mut found = Vec::new();
    // Ranges that hold one attribute each, and whether they stand inside `unsafe(…)`.
    let mut pending = vec![(open + 1..end, false)];
    while let Some((range, in_unsafe)) = pending.pop() {
        if range.is_empty() {
            continue;
        }
        let attribute = read(tokens, range, inner, in_unsafe);
        match attribute.path.as_str() {
            "unsafe" => pending.push((within(&attribute.arguments), true)),
            "cfg_attr" => {
                let carried = split(tokens, within(&attribute.arguments));
                pending.extend(carried.into_iter().skip(1).map(|range| (range, in_unsafe)));
                found.push(attribute);
            }
            _ => found.push(attribute),
        }
    }
    Some((found, behind))
}

/// The range without its brackets.
fn within(group: &std::ops::Range<usize>) -> std::ops::Range<usize> {
    let start = (group.start + 1).min(group.end);
    start..group.end.saturating_sub(1).max(start)
}

fn read(tokens: &[Token<'_>], range: std::ops::Range<usize>, inner: bool, in_unsafe: bool) -> Attribute {
    let mut path = String::new();
    let mut index = range.start;
    while index < range.end {
        let token = &tokens[index];
        if token.word().is_some() || token.is(TokenKind::Dollar) {
            path.push_str(token.text);
            index += 1;
            // A fragment is one segment, `$name`.
            if token.is(TokenKind::Dollar) {
                continue;
            }
            if double_colon(tokens, index) && index + 2 < range.end {
                path.push_str("::");
                index += 2;
                continue;
            }
        // In unbalanced text the range may end between the two.
        } else if index == range.start && double_colon(tokens, index) && index + 2 <= range.end {
            index += 2;
            continue;
        }
        break;
    }
    let mut text = String::new();
    for token in &tokens[index..range.end] {
        if text.len() + token.text.len() > TOKENS_BYTES_MAX {
            text.push('…');
            break;
        }
        text.push_str(token.text);
    }
    Attribute { path, inner, in_unsafe, tokens: text, head: range.start, arguments: index..range.end }
}

/// The parts between the commas of one level; empty parts are left out.
pub(crate) fn split(tokens: &[Token<'_>], range: std::ops::Range<usize>) -> Vec<std::ops::Range<usize>> {
    let mut parts = Vec::new();
    let (mut depth, mut start) = (0usize, range.start);
    for index in range.clone() {
        let token = &tokens[index];
        if token.opens() {
            depth += 1;
        } else if token.closes() {
            depth = depth.saturating_sub(1);
        } else if depth == 0 && token.is(TokenKind::Comma) {
            parts.push(start..index);
            start = index + 1;
        }
    }
    parts.push(start..range.end);
    parts.retain(|part| !part.is_empty());
    parts
}
