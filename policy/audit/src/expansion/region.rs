//! Regions of the expanded text that have power: `unsafe` in all its forms, foreign functions,
//! machine code, `static mut`, and attributes.

use mfaas_rules::facts::{ExpansionFact, MacroOrigin, PrivilegedKind};
use mfaas_rules::profiles::attributes;
use ra_ap_rustc_lexer::TokenKind;

use super::locate::Locator;
use super::view::View;
use crate::attribute::{Attribute, attributes_at};
use crate::token::{Token, behind_group};

/// Facts of an expanded text; benign programs have dozens.
pub(super) const FACTS_MAX: usize = 10_000;
/// Tokens that all regions together may hold, nested ones counted again.
const REGION_TOKENS_MAX: usize = 64_000_000;
/// Tokens of the tenant that one fact spells out.
const SHOWN_MAX: usize = 8;
/// Macros that are machine code. The printer writes them as calls.
const ASSEMBLY: &[&str] = &["asm", "global_asm", "llvm_asm", "naked_asm"];

/// A region: its kind, and the tokens that decide about it.
struct Region {
    kind: PrivilegedKind,
    tokens: std::ops::Range<usize>,
}

/// Every region, in text order.
pub(super) fn facts(view: &View<'_>, locator: &Locator<'_>) -> Result<Vec<ExpansionFact>, String> {
    let mut facts = Vec::new();
    let mut budget = REGION_TOKENS_MAX;
    for at in 0..view.tokens.len() {
        if view.tokens[at].is(TokenKind::Pound) {
            let attributes = attributes_at(view.tokens, at).map_or_else(Vec::new, |(found, _)| found);
            facts.extend(attributes.iter().filter_map(|attribute| attribute_fact(view, locator, attribute)));
        } else if !view.in_attribute[at]
            && let Some(region) = region_at(view.tokens, at)
        {
            budget =
                budget.checked_sub(region.tokens.len()).ok_or("its regions of unsafe code are too large")?;
            facts.push(region_fact(view, locator, &region));
        }
        if facts.len() > FACTS_MAX {
            return Err(format!("it has more than {FACTS_MAX} places to look at"));
        }
    }
    Ok(facts)
}

/// The region that token `at` begins, if it does.
fn region_at(tokens: &[Token<'_>], at: usize) -> Option<Region> {
    let token = &tokens[at];
    let keyword =
        |index: usize, word| tokens.get(index).is_some_and(|token: &Token<'_>| token.is_keyword(word));
    let region = |kind, end| Some(Region { kind, tokens: at..end });
    if token.is_keyword("unsafe") {
        return Some(unsafe_region(tokens, at));
    }
    // `unsafe extern` has been taken at its `unsafe`.
    if token.is_keyword("extern") && !(at > 0 && tokens[at - 1].is_keyword("unsafe")) {
        let open = at + 1 + usize::from(tokens.get(at + 1).is_some_and(Token::is_literal));
        let is_block = tokens.get(open).is_some_and(|token| token.is(TokenKind::OpenBrace));
        return if is_block { region(PrivilegedKind::ExternBlock, behind_group(tokens, open)) } else { None };
    }
    if token.is_keyword("static") && keyword(at + 1, "mut") {
        return region(PrivilegedKind::StaticMut, item_end(tokens, at));
    }
    let is_assembly = token.word().is_some_and(|word| ASSEMBLY.contains(&word))
        && tokens.get(at + 1).is_some_and(|token| token.is(TokenKind::Bang));
    if is_assembly {
        let opens = tokens.get(at + 2).is_some_and(Token::opens);
        return region(PrivilegedKind::Assembly, if opens { behind_group(tokens, at + 2) } else { at + 2 });
    }
    None
}

fn unsafe_region(tokens: &[Token<'_>], at: usize) -> Region {
    let keyword =
        |index: usize, word| tokens.get(index).is_some_and(|token: &Token<'_>| token.is_keyword(word));
    let is = |index: usize, kind| tokens.get(index).is_some_and(|token: &Token<'_>| token.is(kind));
    let next = at + 1;
    let abi = usize::from(tokens.get(next + 1).is_some_and(Token::is_literal));
    let (kind, end) = if is(next, TokenKind::OpenBrace) {
        (PrivilegedKind::Block, behind_group(tokens, next))
    } else if keyword(next, "impl") {
        (PrivilegedKind::Impl, item_end(tokens, next))
    } else if keyword(next, "trait") || keyword(next, "auto") {
        (PrivilegedKind::Trait, item_end(tokens, next))
    } else if keyword(next, "extern") && is(next + 1 + abi, TokenKind::OpenBrace) {
        (PrivilegedKind::ExternBlock, behind_group(tokens, next + 1 + abi))
    } else if keyword(next, "fn") && is(next + 1, TokenKind::OpenParen) {
        // The type of a function pointer.
        (PrivilegedKind::Fn, behind_group(tokens, next + 1))
    } else if keyword(next, "fn") || keyword(next, "extern") || keyword(next, "static") {
        (PrivilegedKind::Fn, item_end(tokens, next))
    } else {
        // A form that this reader does not know has no foreign identifier, so no chain either.
        (PrivilegedKind::Block, next)
    };
    Region { kind, tokens: at..end }
}

/// Behind the item whose head begins at `from`: its `;`, or its first `{…}` outside of generics.
fn item_end(tokens: &[Token<'_>], from: usize) -> usize {
    let mut nesting = Nesting::default();
    for at in from..tokens.len() {
        if nesting.is_flat() {
            match tokens[at].kind {
                TokenKind::OpenBrace => return behind_group(tokens, at),
                TokenKind::Semi => return at + 1,
                // The item stood inside brackets that end here, as a function pointer's type does.
                _ if tokens[at].closes() => return at,
                _ => {}
            }
        }
        nesting.take(tokens, at);
    }
    tokens.len()
}

/// Open brackets, generics among them.
#[derive(Default)]
struct Nesting {
    open: Vec<TokenKind>,
    /// How many of them are braces.
    braces: usize,
}

impl Nesting {
    fn is_flat(&self) -> bool {
        self.open.is_empty()
    }

    /// Within generics, and not within a block inside them.
    fn in_generics(&self) -> bool {
        self.open
            .iter()
            .rev()
            .take_while(|kind| **kind != TokenKind::OpenBrace)
            .any(|kind| *kind == TokenKind::Lt)
    }

    fn take(&mut self, tokens: &[Token<'_>], at: usize) {
        let token = &tokens[at];
        let before = at.checked_sub(1).map(|index| &tokens[index]);
        match token.kind {
            // `name<` and `::<` open generics; `a < b` looks the same and ends at the next bracket.
            TokenKind::Lt
                if before.is_some_and(|before| before.word().is_some() || before.is(TokenKind::Colon)) =>
            {
                self.open.push(TokenKind::Lt);
            }
            TokenKind::Gt
                if self.open.last() == Some(&TokenKind::Lt)
                    && !before
                        .is_some_and(|before| matches!(before.kind, TokenKind::Minus | TokenKind::Eq)) =>
            {
                self.open.pop();
            }
            _ if token.opens() => {
                self.open.push(token.kind);
                self.braces += usize::from(token.is(TokenKind::OpenBrace));
            }
            _ if token.closes() => {
                // Whatever looked like generics ends with the bracket around it.
                let mut ended = self.open.pop();
                while ended == Some(TokenKind::Lt) {
                    ended = self.open.pop();
                }
                self.braces -= usize::from(ended == Some(TokenKind::OpenBrace));
            }
            _ => {}
        }
    }
}

fn region_fact(view: &View<'_>, locator: &Locator<'_>, region: &Region) -> ExpansionFact {
    let emitted = emitted_tokens(view, region);
    let common = common_expansions(view, &emitted);
    let by_std = is_by_std(view, &emitted, &common);
    let chain: Vec<MacroOrigin> =
        common.iter().filter_map(|expansion| view.hygiene.origin(expansion).cloned()).collect();
    let (tenant_tokens, type_tokens) = match region.kind {
        PrivilegedKind::Impl => impl_tokens(view, region.tokens.clone()),
        PrivilegedKind::Block
        | PrivilegedKind::Fn
        | PrivilegedKind::Trait
        | PrivilegedKind::ExternBlock
        | PrivilegedKind::Attribute
        | PrivilegedKind::Assembly
        | PrivilegedKind::StaticMut => code_tokens(view, region.tokens.clone()),
    };
    // The innermost macro whose name can stand in the tenant's text.
    let nameable = chain.iter().rfind(|origin| !origin.own && !origin.name.starts_with("$crate"));
    let called = nameable.map(|origin| origin.name.as_str());
    let word = tenant_tokens.first().or(type_tokens.first()).map(String::as_str);
    let span = locator.call(called, word);
    ExpansionFact::Privileged { kind: region.kind, chain, by_std, tenant_tokens, type_tokens, span }
}

/// The tokens that tell who emitted the region. The type that a derive is told about may come from
/// another macro, which emitted the type and not the impl: `struct` and `#[derive(Clone)]` in a macro
/// of a dependency. Behind the head of a path that a derive emitted, a mark says nothing.
fn emitted_tokens(view: &View<'_>, region: &Region) -> Vec<usize> {
    let tokens = region.tokens.clone().filter(|at| !view.is_derived_tail(*at));
    match region.kind {
        PrivilegedKind::Impl => {
            let is_type: Vec<bool> = impl_types(view, region.tokens.clone()).into_iter().collect();
            tokens.filter(|at| !is_type.get(*at - region.tokens.start).copied().unwrap_or(false)).collect()
        }
        PrivilegedKind::Block
        | PrivilegedKind::Fn
        | PrivilegedKind::Trait
        | PrivilegedKind::ExternBlock
        | PrivilegedKind::Attribute
        | PrivilegedKind::Assembly
        | PrivilegedKind::StaticMut => tokens.collect(),
    }
}

/// Whether the innermost macro that the whole region comes from is one of std's. The table does
/// not say whose a macro is, but its `$crate` does: it stands for the crate that defines it, and
/// nothing else is printed under that symbol. A macro of a dependency that has the name of std's
/// has another one, or none.
fn is_by_std(view: &View<'_>, tokens: &[usize], common: &[&str]) -> bool {
    tokens.iter().any(|at| {
        let token = &view.tokens[*at];
        token.is_dollar_crate
            && matches!(token.text, "std" | "core" | "alloc")
            && view.foreign_context(*at).is_some_and(|context| view.hygiene.chain(context) == common)
    })
}

/// The macros within whose output all foreign identifiers among `tokens` stand: whoever emitted
/// the region is among them. Empty if there are none, or if they have nothing in common.
fn common_expansions<'v>(view: &'v View<'_>, tokens: &[usize]) -> Vec<&'v str> {
    let mut contexts: Vec<u32> = tokens.iter().filter_map(|at| view.foreign_context(*at)).collect();
    contexts.sort_unstable();
    contexts.dedup();
    let mut chains = contexts.iter().map(|context| view.hygiene.chain(*context));
    let mut common = chains.next().unwrap_or_default();
    for chain in chains {
        let shared = common.iter().zip(&chain).take_while(|(a, b)| a == b).count();
        common.truncate(shared);
    }
    common
}

/// The tenant's tokens in code: those in type position apart, which is between the angle brackets
/// of a path and behind the colon of a `static`.
fn code_tokens(view: &View<'_>, tokens: std::ops::Range<usize>) -> (Vec<String>, Vec<String>) {
    let (mut code, mut types) = (Shown::default(), Shown::default());
    let mut nesting = Nesting::default();
    // Inside `static NAME: …` up to its `=`: the brackets and braces that were open before it.
    let mut static_type: Option<(usize, usize)> = None;
    for at in tokens {
        let token = &view.tokens[at];
        if token.is_keyword("static") {
            static_type = Some((nesting.open.len(), nesting.braces));
        } else if token.is(TokenKind::Eq) && static_type.is_some_and(|(open, _)| open == nesting.open.len()) {
            static_type = None;
        }
        if may_be_tenants(view, at) {
            let in_static_type = static_type.is_some_and(|(_, braces)| nesting.braces == braces);
            if nesting.in_generics() || in_static_type { types.add(token.text) } else { code.add(token.text) }
        }
        nesting.take(view.tokens, at);
    }
    (code.0, types.0)
}

/// The tenant's tokens in `unsafe impl<…> Trait for Type where … {…}`, those in type position
/// apart.
fn impl_tokens(view: &View<'_>, tokens: std::ops::Range<usize>) -> (Vec<String>, Vec<String>) {
    let (mut code, mut types) = (Shown::default(), Shown::default());
    for (at, is_type) in tokens.clone().zip(impl_types(view, tokens)) {
        if may_be_tenants(view, at) {
            if is_type { &mut types } else { &mut code }.add(view.tokens[at].text);
        }
    }
    (code.0, types.0)
}

/// For each token of such an impl, whether it stands in type position: all but the trait's own
/// path and the body do.
fn impl_types(view: &View<'_>, tokens: std::ops::Range<usize>) -> Vec<bool> {
    let mut nesting = Nesting::default();
    let mut behind_trait = false;
    let mut in_body = false;
    let mut is_type = Vec::with_capacity(tokens.len());
    for at in tokens {
        let token = &view.tokens[at];
        let flat = nesting.is_flat();
        behind_trait |= flat && token.is_keyword("for");
        in_body |= flat && token.is(TokenKind::OpenBrace);
        let in_generics = !flat && nesting.in_generics();
        is_type.push(!in_body && (behind_trait || in_generics));
        nesting.take(view.tokens, at);
    }
    is_type
}

/// Identifiers that are the tenant's, and unmarked tokens that could be and could do harm: a
/// literal or a cast is all that a wild pointer needs.
fn may_be_tenants(view: &View<'_>, at: usize) -> bool {
    let token = &view.tokens[at];
    if token.text == "_" {
        return false;
    }
    view.is_tenants(at) || token.is_literal() || token.is_keyword("as")
}

/// Spelled-out tokens, bounded.
#[derive(Default)]
struct Shown(Vec<String>);

impl Shown {
    fn add(&mut self, text: &str) {
        if self.0.len() < SHOWN_MAX {
            self.0.push(mfaas_ident::sanitise_line(text, 60));
        }
    }
}

/// An attribute that gives power to whoever wrote it: over symbols and sections, machine code,
/// `unsafe(…)`; and every one of the tenant that is not known to be harmless, since a macro may
/// have put it together.
fn attribute_fact(view: &View<'_>, locator: &Locator<'_>, attribute: &Attribute) -> Option<ExpansionFact> {
    let last = attribute.path.rsplit("::").next().unwrap_or(&attribute.path);
    let powerful = attribute.in_unsafe
        || attributes::LINKAGE.contains(&last)
        || attributes::MACHINE_CODE.contains(&last)
        || matches!(last, "global_allocator" | "panic_handler" | "alloc_error_handler");
    let tenants = view.is_tenants(attribute.head);
    // The printer itself writes this one, in the tenant's name.
    let printers = attribute.path == "feature" && attribute.tokens == "(prelude_import)";
    if printers || !(powerful || (tenants && !is_listed(&attribute.path))) {
        return None;
    }
    let tenant_tokens =
        if tenants { vec![mfaas_ident::sanitise_line(&attribute.path, 60)] } else { Vec::new() };
    Some(ExpansionFact::Privileged {
        kind: PrivilegedKind::Attribute,
        chain: view
            .foreign_context(attribute.head)
            .map(|context| view.hygiene.chain(context))
            .unwrap_or_default()
            .iter()
            .filter_map(|expansion| view.hygiene.origin(expansion).cloned())
            .collect(),
        by_std: false,
        tenant_tokens,
        type_tokens: Vec::new(),
        span: locator.word(last),
    })
}

fn is_listed(path: &str) -> bool {
    attributes::ROWS
        .iter()
        .any(|row| row.path.strip_suffix('*').map_or(row.path == path, |start| path.starts_with(start)))
}
