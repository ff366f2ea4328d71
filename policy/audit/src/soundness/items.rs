//! The items that the lints look at: functions with the `impl` or `trait` around them, aliases,
//! traits and types.
//!
//! One pass over the tokens with a stack of open bodies; what is no item is stepped over.

use std::collections::BTreeSet;
use std::ops::Range;

use ra_ap_rustc_lexer::TokenKind;

use super::run::Run;

/// What a generic parameter list and its `where` clause say, as ranges of tokens.
#[derive(Debug, Clone, Default)]
pub(super) struct Generics {
    /// Between the angle brackets.
    pub(super) list: Range<usize>,
    /// Behind `where`.
    pub(super) clauses: Range<usize>,
}

/// `fn`.
#[derive(Debug, Clone)]
pub(super) struct Function {
    /// The token of its name.
    pub(super) name: usize,
    pub(super) generics: Generics,
    /// Between the parentheses.
    pub(super) inputs: Range<usize>,
    /// Behind the arrow.
    pub(super) output: Range<usize>,
    pub(super) has_body: bool,
    /// Index of the `impl` or `trait` that it is a method of.
    pub(super) owner: Option<Owner>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    Impl(usize),
    Trait(usize),
}

#[derive(Debug, Clone)]
pub(super) struct Impl {
    pub(super) generics: Generics,
    /// Empty for an inherent one.
    pub(super) of_trait: Range<usize>,
    pub(super) self_type: Range<usize>,
    pub(super) body: Range<usize>,
    /// Associated types: name and value.
    pub(super) types: Vec<(usize, Range<usize>)>,
}

#[derive(Debug, Clone)]
pub(super) struct Trait {
    pub(super) name: usize,
    pub(super) generics: Generics,
    /// Between the colon and the `where` or body.
    pub(super) supertraits: Range<usize>,
    pub(super) body: Range<usize>,
}

/// `type Name<…> = …;` outside of impls and traits.
#[derive(Debug, Clone)]
pub(super) struct Alias {
    pub(super) name: usize,
    pub(super) parameters: Range<usize>,
    pub(super) value: Range<usize>,
}

/// A struct, enum or union.
#[derive(Debug, Clone)]
pub(super) struct Adt {
    pub(super) name: usize,
    pub(super) parameters: Range<usize>,
    /// Behind `where`.
    pub(super) clauses: Range<usize>,
    /// Everything behind the name.
    pub(super) definition: Range<usize>,
}

#[derive(Debug, Default)]
pub(super) struct Items {
    pub(super) functions: Vec<Function>,
    /// Associated constants, as functions without inputs.
    pub(super) constants: Vec<Function>,
    pub(super) impls: Vec<Impl>,
    pub(super) traits: Vec<Trait>,
    pub(super) aliases: Vec<Alias>,
    pub(super) adts: Vec<Adt>,
}

/// An open body.
struct Open {
    end: usize,
    /// `None` for the body of a function.
    owner: Option<Owner>,
}

impl Items {
    pub(super) fn read(run: &Run<'_, '_>) -> Self {
        let mut items = Self::default();
        let mut open: Vec<Open> = Vec::new();
        let mut at = 0;
        while at < run.len() {
            while open.last().is_some_and(|body| body.end <= at) {
                open.pop();
            }
            let owner = open.last().and_then(|body| body.owner);
            at = items.step(run, at, owner, &mut open);
        }
        items
    }

    /// Reads what begins at `at`; returns where to go on.
    fn step(&mut self, run: &Run<'_, '_>, at: usize, owner: Option<Owner>, open: &mut Vec<Open>) -> usize {
        if run.is_keyword(at, "impl") && begins_item(run, at) {
            self.take_impl(run, at, open)
        } else if run.is_keyword(at, "trait") && run.word(at + 1).is_some() {
            self.take_trait(run, at, open)
        } else if run.is_keyword(at, "fn") && run.word(at + 1).is_some() {
            self.take_function(run, at, owner, open)
        } else if run.is_keyword(at, "type") && run.word(at + 1).is_some() {
            self.take_type(run, at, owner)
        } else if is_adt(run, at) {
            self.take_adt(run, at)
        } else if owner.is_some()
            && run.is_keyword(at, "const")
            && run.word(at + 1).is_some()
            && run.is(at + 2, TokenKind::Colon)
        {
            self.take_constant(run, at, owner)
        } else {
            at + 1
        }
    }

    fn take_impl(&mut self, run: &Run<'_, '_>, at: usize, open: &mut Vec<Open>) -> usize {
        let (list, mut from) = generics_at(run, at + 1);
        if run.is_keyword(from, "const") {
            from += 1;
        }
        let head_end = head_end(run, from);
        let is_for = |at: usize| run.is_keyword(at, "for") && !run.is_binder(at);
        let for_at = run.scan_flat(from, head_end, is_for);
        let where_at = run.scan_flat(from, head_end, |at| run.is_keyword(at, "where"));
        let (of_trait, self_type) = if for_at < where_at && is_for(for_at) {
            (from..for_at, for_at + 1..where_at)
        } else {
            (from..from, from..where_at)
        };
        let body = body_at(run, head_end);
        let generics = Generics { list, clauses: (where_at + 1).min(head_end)..head_end };
        let owner = Owner::Impl(self.impls.len());
        open.push(Open { end: body.end, owner: Some(owner) });
        self.impls.push(Impl { generics, of_trait, self_type, body, types: Vec::new() });
        head_end + 1
    }

    fn take_trait(&mut self, run: &Run<'_, '_>, at: usize, open: &mut Vec<Open>) -> usize {
        let (list, from) = generics_at(run, at + 2);
        let head_end = head_end(run, from);
        let where_at = run.scan_flat(from, head_end, |at| run.is_keyword(at, "where"));
        let supertraits = if run.is(from, TokenKind::Colon) { from + 1..where_at } else { from..from };
        let generics = Generics { list, clauses: (where_at + 1).min(head_end)..head_end };
        let body = body_at(run, head_end);
        open.push(Open { end: body.end, owner: Some(Owner::Trait(self.traits.len())) });
        self.traits.push(Trait { name: at + 1, generics, supertraits, body });
        head_end + 1
    }

    fn take_function(
        &mut self,
        run: &Run<'_, '_>,
        at: usize,
        owner: Option<Owner>,
        open: &mut Vec<Open>,
    ) -> usize {
        let (list, paren) = generics_at(run, at + 2);
        if !run.is(paren, TokenKind::OpenParen) {
            return at + 2;
        }
        let behind = run.behind_group(paren);
        let head_end = head_end(run, behind);
        let where_at = run.scan_flat(behind, head_end, |at| run.is_keyword(at, "where"));
        let has_arrow = run.is(behind, TokenKind::Minus) && run.is_arrow_head(behind + 1);
        let output = if has_arrow { behind + 2..where_at } else { behind..behind };
        let body = body_at(run, head_end);
        let has_body = !body.is_empty();
        open.push(Open { end: body.end, owner: None });
        self.functions.push(Function {
            name: at + 1,
            generics: Generics { list, clauses: (where_at + 1).min(head_end)..head_end },
            inputs: paren + 1..behind.saturating_sub(1).max(paren + 1),
            output,
            has_body,
            owner,
        });
        head_end + 1
    }

    /// Its value is stepped into, since a block can hold items.
    fn take_constant(&mut self, run: &Run<'_, '_>, at: usize, owner: Option<Owner>) -> usize {
        let ends = |at: usize| run.is(at, TokenKind::Semi) || run.is(at, TokenKind::Eq);
        let end = run.scan_flat(at + 3, run.len(), ends);
        let has_body = run.is(end, TokenKind::Eq);
        let (generics, inputs) = (Generics::default(), end..end);
        self.constants.push(Function {
            name: at + 1,
            generics,
            inputs,
            output: at + 3..end,
            has_body,
            owner,
        });
        end.max(at + 3)
    }

    fn take_type(&mut self, run: &Run<'_, '_>, at: usize, owner: Option<Owner>) -> usize {
        let (parameters, from) = generics_at(run, at + 2);
        let end = run.scan_flat(from, run.len(), |at| run.is(at, TokenKind::Semi));
        let equals = run.scan_flat(from, end, |at| run.is(at, TokenKind::Eq) && !run.is_arrow_head(at + 1));
        let value_end = run.scan_flat(equals, end, |at| run.is_keyword(at, "where"));
        let value = (equals + 1).min(value_end)..value_end;
        match owner {
            None if !value.is_empty() => self.aliases.push(Alias { name: at + 1, parameters, value }),
            Some(Owner::Impl(index)) if !value.is_empty() => self.impls[index].types.push((at + 1, value)),
            Some(_) | None => {}
        }
        end.max(at + 2)
    }

    fn take_adt(&mut self, run: &Run<'_, '_>, at: usize) -> usize {
        let (parameters, from) = generics_at(run, at + 2);
        let end = run
            .scan_flat(from, run.len(), |at| run.is(at, TokenKind::Semi) || run.is(at, TokenKind::OpenBrace));
        let end = if run.is(end, TokenKind::OpenBrace) { run.behind_group(end) } else { end };
        let where_at = run.scan_flat(from, end, |at| run.is_keyword(at, "where"));
        let clauses = where_at..run.scan_flat(where_at, end, |at| run.is(at, TokenKind::OpenBrace));
        self.adts.push(Adt { name: at + 1, parameters, clauses, definition: at + 2..end });
        // Bodies are stepped into: a constant inside a discriminant can hold items.
        from.max(at + 2)
    }
}

/// `impl` begins an item, and is not the type `impl Trait`.
fn begins_item(run: &Run<'_, '_>, at: usize) -> bool {
    let Some(before) = at.checked_sub(1).map(|index| &run.tokens[index]) else { return true };
    matches!(
        before.kind,
        TokenKind::Semi | TokenKind::OpenBrace | TokenKind::CloseBrace | TokenKind::CloseBracket
    ) || before.is_keyword("unsafe")
        || before.is_keyword("default")
}

fn is_adt(run: &Run<'_, '_>, at: usize) -> bool {
    let named = run.word(at + 1).is_some();
    let keyword = ["struct", "enum"].iter().any(|keyword| run.is_keyword(at, keyword));
    let opens =
        |at| run.is(at, TokenKind::OpenBrace) || run.is(at, TokenKind::Lt) || run.is_keyword(at, "where");
    named && (keyword || (run.is_keyword(at, "union") && opens(at + 2)))
}

/// The list of generics at `at`, if one is there, and the token behind it.
fn generics_at(run: &Run<'_, '_>, at: usize) -> (Range<usize>, usize) {
    if !run.is(at, TokenKind::Lt) {
        return (at..at, at);
    }
    let behind = run.behind_angles(at);
    (at + 1..behind.saturating_sub(1).max(at + 1), behind)
}

/// The `{` or `;` that ends a head.
fn head_end(run: &Run<'_, '_>, from: usize) -> usize {
    run.scan_flat(from, run.len(), |at| run.is(at, TokenKind::OpenBrace) || run.is(at, TokenKind::Semi))
}

/// The body whose `{` is at `at`, without its braces; empty if none is there.
fn body_at(run: &Run<'_, '_>, at: usize) -> Range<usize> {
    if !run.is(at, TokenKind::OpenBrace) {
        return at..at;
    }
    at + 1..run.behind_group(at).saturating_sub(1).max(at + 1)
}

/// Names that a list of generics declares: lifetimes with their quote, types, not constants.
pub(super) fn declared<'a>(run: &Run<'a, '_>, list: Range<usize>) -> Vec<&'a str> {
    let mut names = Vec::new();
    for part in run.split(list) {
        let mut at = part.start;
        while run.is(at, TokenKind::Pound) && at < part.end {
            at = run.behind_group(at + 1);
        }
        if run.is_keyword(at, "const") {
            continue;
        }
        names.extend(run.lifetime(at).or_else(|| run.word(at)));
    }
    names
}

/// Names bound by `for<…>` anywhere in the run.
pub(super) fn bound_names<'a>(run: &Run<'a, '_>) -> BTreeSet<&'a str> {
    (0..run.len())
        .filter(|at| run.is_binder(*at))
        .flat_map(|at| {
            let behind = run.behind_angles(at + 1);
            declared(run, at + 2..behind.saturating_sub(1).max(at + 2))
        })
        .collect()
}
