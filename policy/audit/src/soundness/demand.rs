//! What stands behind the colon of a bound: `'a + Trait<X = Y> + (for<'b> Fn(&'b str))`.

use std::ops::Range;

use ra_ap_rustc_lexer::TokenKind;

use super::run::Run;

/// One of several, between the pluses.
#[derive(Debug, Clone)]
pub(super) enum Demand<'a> {
    Lifetime(&'a str),
    Trait(Trait<'a>),
}

/// `path::Name<argument, X = Type, Y: Bound>`.
#[derive(Debug, Clone)]
pub(super) struct Trait<'a> {
    /// The last segment of its path.
    pub(super) name: &'a str,
    /// Lifetimes and types.
    pub(super) arguments: Vec<Range<usize>>,
    /// Associated types that are given a type.
    pub(super) named: Vec<&'a str>,
    /// Associated types with the bounds that stand behind them.
    pub(super) bounded: Vec<(&'a str, Range<usize>)>,
}

/// The demands in `range`.
pub(super) fn demands<'a>(run: &Run<'a, '_>, range: Range<usize>) -> Vec<Demand<'a>> {
    let mut found = Vec::new();
    let mut from = range.start;
    while from < range.end {
        let mut to = run.scan_flat(from, range.end, |at| run.is(at, TokenKind::Plus));
        // A stray closing token is stepped over, so that nothing behind it is lost.
        while to < range.end && !run.is(to, TokenKind::Plus) {
            to = run.scan_flat(to + 1, range.end, |at| run.is(at, TokenKind::Plus));
        }
        found.extend(demand(run, from..to));
        from = to + 1;
    }
    found
}

fn demand<'a>(run: &Run<'a, '_>, range: Range<usize>) -> Option<Demand<'a>> {
    let mut at = range.start;
    while at < range.end {
        if let Some(lifetime) = run.lifetime(at) {
            return Some(Demand::Lifetime(lifetime));
        }
        if run.is_binder(at) {
            at = run.behind_angles(at + 1);
        } else if run.is(at, TokenKind::OpenBracket) {
            at = run.behind_group(at);
        } else if run.is_keyword(at, "use") {
            return None;
        } else if run.word(at).is_some() && !run.is_keyword(at, "const") && !run.is_keyword(at, "async") {
            return of_path(run, at, range.end);
        } else {
            at += 1;
        }
    }
    None
}

fn of_path<'a>(run: &Run<'a, '_>, head: usize, end: usize) -> Option<Demand<'a>> {
    let mut at = head;
    while run.is_double_colon(at + 1) && run.word(at + 3).is_some() && at + 3 < end {
        at += 3;
    }
    let mut found =
        Trait { name: run.word(at)?, arguments: Vec::new(), named: Vec::new(), bounded: Vec::new() };
    let open = if run.is_double_colon(at + 1) { at + 3 } else { at + 1 };
    if open < end && run.is(open, TokenKind::Lt) {
        let inner = open + 1..run.behind_angles(open).saturating_sub(1).max(open + 1);
        for argument in run.split(inner) {
            let equals = run.scan_flat(argument.start, argument.end, |at| run.is(at, TokenKind::Eq));
            let name = run.word(argument.start);
            match (name, run.colon(argument.start..equals)) {
                (Some(name), _) if run.is(equals, TokenKind::Eq) && equals < argument.end => {
                    found.named.push(name);
                }
                (Some(name), Some(colon)) => found.bounded.push((name, colon + 1..argument.end)),
                _ => found.arguments.push(argument),
            }
        }
    }
    Some(Demand::Trait(found))
}
