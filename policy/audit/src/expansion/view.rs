//! Whose the tokens of an expanded text are.

use ra_ap_rustc_lexer::TokenKind;

use super::hygiene::Hygiene;
use crate::attribute::attributes_at;
use crate::path::{is_plain_keyword, path_at};
use crate::token::Token;

/// The tokens with the question that everything turns on: whose are they?
pub(super) struct View<'a> {
    pub(super) tokens: &'a [Token<'a>],
    pub(super) hygiene: &'a Hygiene,
    /// For each token, whether it stands among the arguments of an attribute, which are printed
    /// without contexts.
    pub(super) in_attribute: Vec<bool>,
    /// For each token, whether it belongs to a path that one of std's derives emitted. They mark
    /// only its head as theirs and the rest as the tenant's.
    in_derived_path: Vec<bool>,
    /// Behind the head of such a path.
    in_derived_tail: Vec<bool>,
}

impl<'a> View<'a> {
    pub(super) fn new(tokens: &'a [Token<'a>], hygiene: &'a Hygiene) -> Self {
        let mut in_attribute = vec![false; tokens.len()];
        for at in (0..tokens.len()).filter(|at| tokens[*at].is(TokenKind::Pound)) {
            if let Some((_, behind)) = attributes_at(tokens, at) {
                in_attribute[at..behind].fill(true);
            }
        }
        let mut in_derived_path = vec![false; tokens.len()];
        let mut in_derived_tail = vec![false; tokens.len()];
        for at in 0..tokens.len() {
            if tokens[at].context.is_some_and(|context| hygiene.is_std_derive(context))
                && let Some(path) = path_at(tokens, at)
            {
                in_derived_path[at..=path.last].fill(true);
                in_derived_tail[at + 1..path.last + 1].fill(true);
            }
        }
        Self { tokens, hygiene, in_attribute, in_derived_path, in_derived_tail }
    }

    /// Written by the tenant, or emitted by a macro of its own, or without a mark to tell.
    pub(super) fn is_tenants(&self, at: usize) -> bool {
        let token = &self.tokens[at];
        match token.context {
            Some(context) => {
                token.word().is_some() && self.hygiene.is_own(context) && !self.in_derived_path[at]
            }
            // `&self` and `super let` are printed without a mark; as a path they have one.
            None if matches!(token.text, "crate" | "self" | "super" | "Self") => false,
            None => token.word().is_some() && !is_plain_keyword(token),
        }
    }

    /// Behind the head of a path that a derive emitted: its mark is that of the derived type, so it
    /// says nothing about who emitted it.
    pub(super) fn is_derived_tail(&self, at: usize) -> bool {
        self.in_derived_tail[at]
    }

    /// The context of an identifier that std or a dependency emitted.
    pub(super) fn foreign_context(&self, at: usize) -> Option<u32> {
        self.tokens[at].context.filter(|context| !self.hygiene.is_own(*context))
    }
}
