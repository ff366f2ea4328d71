//! Which names of functions are used as values, not called.

use std::collections::BTreeSet;

use ra_ap_rustc_lexer::TokenKind;

use super::Crate;
use super::run::Run;

/// Names that stand somewhere without a call.
#[derive(Debug, Default)]
pub(super) struct Values<'a> {
    /// By themselves or at the end of a path.
    plain: BTreeSet<&'a str>,
    /// At the end of a path, which is the only way to name a method.
    in_path: BTreeSet<&'a str>,
}

impl<'a> Values<'a> {
    pub(super) fn new(of: &Crate<'a, '_>) -> Self {
        let run = of.run;
        let defined: BTreeSet<&str> =
            of.items.functions.iter().map(|function| of.name(function.name)).collect();
        let mut values = Self::default();
        let mut at = 0;
        while at < run.len() {
            if run.is_keyword(at, "use") {
                at = values.take_use(run, at, &defined);
                continue;
            }
            if let Some(word) = run.word(at)
                && defined.contains(word)
                && is_value(run, at)
            {
                values.plain.insert(word);
                if at >= 2 && run.is_double_colon(at - 2) {
                    values.in_path.insert(word);
                }
            }
            at += 1;
        }
        values
    }

    /// An import under another name hides every use behind it.
    fn take_use(&mut self, run: &Run<'a, '_>, at: usize, defined: &BTreeSet<&'a str>) -> usize {
        let (leaves, behind) = crate::path::use_tree(&run.tokens, at);
        for leaf in leaves {
            if let (Some(name), Some(alias)) = (leaf.segments.last(), leaf.alias)
                && *name != alias
                && let Some(name) = defined.get(name)
            {
                self.plain.insert(name);
                self.in_path.insert(name);
            }
        }
        behind.max(at + 1)
    }

    pub(super) fn has(&self, name: &str, is_method: bool) -> bool {
        if is_method { self.in_path.contains(name) } else { self.plain.contains(name) }
    }
}

/// The name at `at` is an expression by itself: not called, declared, assigned or selected from.
fn is_value(run: &Run<'_, '_>, at: usize) -> bool {
    let before = |kind| at > 0 && run.is(at - 1, kind);
    let declared =
        ["fn", "mod", "struct", "enum", "union", "trait", "type", "let", "mut", "ref", "const", "static"];
    if declared.iter().any(|keyword| at > 0 && run.is_keyword(at - 1, keyword)) {
        return false;
    }
    // A field or a method's call; `..name` is a range.
    if before(TokenKind::Dot) && !(at >= 2 && run.is(at - 2, TokenKind::Dot)) {
        return false;
    }
    let mut next = at + 1;
    if run.is_double_colon(next) {
        if !run.is(next + 2, TokenKind::Lt) {
            return false;
        }
        next = run.behind_angles(next + 2);
        if run.is_double_colon(next) {
            return false;
        }
    }
    let is_assigned = run.is(next, TokenKind::Eq) && !run.is(next + 1, TokenKind::Eq);
    !(run.is(next, TokenKind::OpenParen)
        || run.is(next, TokenKind::Colon)
        || run.is(next, TokenKind::Bang)
        || is_assigned)
}
