//! What is known about the crate as a whole.

use super::alias::Aliases;
use super::items::{Function, Items, Owner};
use super::relations::Relations;
use super::run::Run;
use super::traits::Traits;
use super::types::Types;
use crate::path::double_colon;
use crate::token::Token;

/// Everything that is known about the crate as a whole.
pub(super) struct Crate<'a, 'b> {
    pub(super) run: &'b Run<'a, 'b>,
    pub(super) items: &'b Items,
    pub(super) aliases: &'b Aliases<'a>,
    pub(super) types: &'b Types<'a>,
    pub(super) traits: &'b Traits<'a>,
    pub(super) relations: &'b Relations<'a>,
}

impl<'a, 'b> Crate<'a, 'b> {
    /// The name at token `at`.
    pub(super) fn name(&self, at: usize) -> &'a str {
        self.run.word(at).unwrap_or_default()
    }
}

/// `Self` and `Self::Name` in a method of an impl become the types that they stand for.
pub(super) fn with_self<'a>(of: &Crate<'a, '_>, function: &Function, part: Vec<Token<'a>>) -> Vec<Token<'a>> {
    let Some(Owner::Impl(index)) = function.owner else { return part };
    let owner = &of.items.impls[index];
    let run = of.run;
    let mut out = Vec::with_capacity(part.len());
    let mut at = 0;
    while at < part.len() {
        if !part[at].is_keyword("Self") {
            out.push(part[at]);
            at += 1;
            continue;
        }
        let name = double_colon(&part, at + 1).then(|| part.get(at + 3)?.word()).flatten();
        let value = name.and_then(|name| owner.types.iter().find(|(at, _)| run.word(*at) == Some(name)));
        match value {
            Some((_, value)) => {
                out.extend_from_slice(&run.tokens[value.clone()]);
                at += 4;
            }
            None => {
                out.extend_from_slice(&run.tokens[owner.self_type.clone()]);
                at += 1;
            }
        }
    }
    out
}
