//! What the compiler's parser follows by recursion, measured without any.

use mfaas_rules::facts::SourceFact;
use ra_ap_rustc_lexer::TokenKind;

use super::collector::Collector;
use super::depth::depth;
use super::peak::Peak;
use super::source::Source;
use crate::token::{Token, glued};

/// Adds the peaks of `source` to `facts`, and whether its brackets pair up; answers the depth of
/// its brackets.
pub(super) fn measure(source: &Source<'_>, facts: &mut Collector) -> usize {
    let tokens = &source.cut.tokens;
    let (mut literal, mut identifier) = (Peak::default(), Peak::default());
    for (at, token) in tokens.iter().enumerate() {
        if token.is_literal() {
            literal.raise(token.text.len(), at);
        } else {
            identifier.raise(token.text.len(), at);
        }
    }
    let chain = [operators(tokens), generics(tokens), assignments(tokens)];
    let chain = chain.into_iter().max_by_key(|peak| peak.value).unwrap_or_default();
    let nesting = nesting(source, facts);
    let peaks = [
        ("nesting_max", nesting),
        ("operator_chain_max", chain),
        ("expression_depth_max", depth(tokens)),
        ("literal_bytes_max", literal),
        ("identifier_bytes_max", identifier),
    ];
    for (what, peak) in peaks {
        if let Some(token) = tokens.get(peak.token) {
            facts.push(SourceFact::Measure { what, value: peak.value }, || {
                source.text.span(token.at, token.text.len())
            });
        }
    }
    nesting.value
}

/// Open brackets at one point. Brackets that do not pair up are reported: what they nest cannot
/// be told.
fn nesting(source: &Source<'_>, facts: &mut Collector) -> Peak {
    let mut open: Vec<(TokenKind, usize)> = Vec::new();
    let mut peak = Peak::default();
    let mut fault = None;
    for (at, token) in source.cut.tokens.iter().enumerate() {
        let closing = match token.kind {
            TokenKind::OpenParen => Some(TokenKind::CloseParen),
            TokenKind::OpenBracket => Some(TokenKind::CloseBracket),
            TokenKind::OpenBrace => Some(TokenKind::CloseBrace),
            _ => None,
        };
        if let Some(closing) = closing {
            open.push((closing, at));
            peak.raise(open.len(), at);
        } else if token.closes() && open.pop().is_none_or(|(wanted, _)| wanted != token.kind) {
            fault.get_or_insert(at);
        }
    }
    if !source.cut.truncated {
        fault = fault.or(open.first().map(|(_, at)| *at));
    }
    if let Some(at) = fault {
        let token = &source.cut.tokens[at];
        let reason = SourceFact::Unreadable("brackets that do not pair up".to_owned());
        facts.push(reason, || source.text.span(token.at, token.text.len()));
    }
    peak
}

/// Prefix operators and prefix keywords in a row: `- - -`, `&&mut &mut`, `|| || ||`,
/// `return return`, `* const * const`.
fn operators(tokens: &[Token<'_>]) -> Peak {
    longest_run(tokens, |token| match token.kind {
        TokenKind::Minus | TokenKind::Bang | TokenKind::And | TokenKind::Star | TokenKind::Or => Some(true),
        TokenKind::Ident => match token.text {
            "return" | "break" | "yield" | "box" | "move" | "dyn" | "impl" | "ref" => Some(true),
            "mut" | "const" | "raw" | "static" | "async" => Some(false),
            _ => None,
        },
        TokenKind::Lifetime { .. } => Some(false),
        _ => None,
    })
}

/// `A<A<A<…`: angle brackets opened with nothing but names between them.
fn generics(tokens: &[Token<'_>]) -> Peak {
    longest_run(tokens, |token| match token.kind {
        TokenKind::Lt => Some(true),
        TokenKind::Ident
        | TokenKind::RawIdent
        | TokenKind::Colon
        | TokenKind::And
        | TokenKind::Star
        | TokenKind::Comma
        | TokenKind::Lifetime { .. }
        | TokenKind::OpenParen
        | TokenKind::OpenBracket => Some(false),
        _ => None,
    })
}

/// The most counted tokens in a row: `Some(true)` counts, `Some(false)` may stand between,
/// `None` ends the row.
fn longest_run(tokens: &[Token<'_>], judge: impl Fn(&Token<'_>) -> Option<bool>) -> Peak {
    let mut peak = Peak::default();
    let mut run = 0;
    for (at, token) in tokens.iter().enumerate() {
        match judge(token) {
            Some(true) => run += 1,
            Some(false) => {}
            None => run = 0,
        }
        peak.raise(run, at);
    }
    peak
}

/// `a = b = c` and `fn() -> fn() ->`, between two separators.
fn assignments(tokens: &[Token<'_>]) -> Peak {
    let mut peak = Peak::default();
    let mut run = 0;
    for (at, token) in tokens.iter().enumerate() {
        match token.kind {
            TokenKind::Semi | TokenKind::Comma => run = 0,
            TokenKind::OpenBrace | TokenKind::CloseBrace | TokenKind::CloseBracket => run = 0,
            TokenKind::Eq if assigns(tokens, at) => run += 1,
            TokenKind::Gt if glued(tokens, at) == Some(TokenKind::Minus) => run += 1,
            _ => {}
        }
        peak.raise(run, at);
    }
    peak
}

/// Whether the `=` at token `at` ends an assignment operator, and not `==`, `!=`, `<=`, `>=` or
/// the first half of `==` and `=>`.
fn assigns(tokens: &[Token<'_>], at: usize) -> bool {
    let begins_another = tokens.get(at + 1).is_some_and(|next| {
        matches!(next.kind, TokenKind::Eq | TokenKind::Gt) && glued(tokens, at + 1) == Some(TokenKind::Eq)
    });
    let is_comparison = match glued(tokens, at) {
        Some(TokenKind::Eq | TokenKind::Bang) => true,
        // `<<=` assigns, `<=` compares.
        Some(angle @ (TokenKind::Lt | TokenKind::Gt)) => glued(tokens, at - 1) != Some(angle),
        _ => false,
    };
    !begins_another && !is_comparison
}
