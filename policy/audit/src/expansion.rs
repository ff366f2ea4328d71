//! The macro-expanded source, with the hygiene context of every identifier.
//!
//! What arrives is the text of `rustc -Zunpretty=expanded,hygiene`: each identifier is followed by
//! a comment `/* name#context */`, and the last comment holds two tables that lead from a context
//! to the macro that emitted the identifier. So the text tells apart what the tenant wrote
//! (context #0, or emitted by a macro of its own) and what std or a dependency emitted, which a
//! filter over the source cannot.
//!
//! Keywords, operators and literals carry no context. An `unsafe` is therefore attributed to the
//! macros that all foreign identifiers within it have in common: whoever emitted the keyword also
//! emitted everything around them. Where that says nothing, the chain stays empty, which the rules
//! refuse; tokens without a mark that could do harm count as the tenant's.
//!
//! Names of macros prove nothing: a dependency may have a `pin` of its own. Whether std emitted
//! something is told by its `$crate`, which is printed as the crate's name under a symbol of its own.
//!
//! The tenant's own comments survive into the text. A context is believed only in the first
//! comment behind an identifier, the tables only in the last comment of all, and never behind a
//! keyword.

mod hygiene;
pub(crate) mod locate;
mod region;
mod view;

use std::collections::{BTreeSet, HashMap};

use mfaas_rules::facts::{ExpansionFact, ExpansionFacts};
use mfaas_unpack::SourceTree;
use ra_ap_rustc_lexer::TokenKind;

use self::hygiene::Hygiene;
use self::locate::Locator;
use self::region::FACTS_MAX;
use self::view::View;
use crate::imports::Imports;
use crate::lexer::{declarations, macro_definition};
use crate::path::{Path, is_plain_keyword, path_at, use_tree};
use crate::token::{Cut, Token, behind_group, cut};

/// Size of an expanded text.
const TEXT_BYTES_MAX: usize = 32 << 20;
/// Tokens of an expanded text.
const TOKENS_MAX: usize = 4_000_000;
/// Open brackets at one point of an expanded text.
const NESTING_MAX: usize = 1_000;
/// The number under which the compiler knows the name `$crate`. With another number no macro would
/// be std's, and the audited ones would be refused.
const DOLLAR_CRATE: u32 = 0;
/// Reads an expanded text. The tenant's tree serves to find the places that facts speak of.
pub fn read(text: &[u8], tree: &SourceTree) -> ExpansionFacts {
    parse(text, tree)
        .unwrap_or_else(|reason| ExpansionFacts { unreadable: Some(reason), ..ExpansionFacts::default() })
}

/// The tokens of an expanded text without the bodies of macro definitions, for readers to which
/// it does not matter who wrote what.
pub(crate) fn plain_tokens(text: &[u8]) -> Result<Vec<Token<'_>>, String> {
    let mut tokens = cut_text(text)?.tokens;
    remove_macro_definitions(&mut tokens);
    check_nesting(&tokens)?;
    Ok(tokens)
}

fn cut_text(text: &[u8]) -> Result<Cut<'_>, String> {
    if text.len() > TEXT_BYTES_MAX {
        return Err("it is larger than 32 MiB".to_owned());
    }
    let text = std::str::from_utf8(text).map_err(|_| "it is not UTF-8".to_owned())?;
    let cut = cut(text, TOKENS_MAX, true);
    if cut.truncated {
        return Err(format!("it has more than {TOKENS_MAX} tokens"));
    }
    match cut.faults.first() {
        Some(fault) => Err(format!("it contains {}", fault.reason)),
        None => Ok(cut),
    }
}

fn parse(text: &[u8], tree: &SourceTree) -> Result<ExpansionFacts, String> {
    let mut cut = cut_text(text)?;
    let mut hygiene = tables(&cut)?;
    attach_contexts(&mut cut, &hygiene)?;
    remove_macro_definitions(&mut cut.tokens);
    check_nesting(&cut.tokens)?;
    let locator = Locator::new(tree);
    hygiene.declare_own(own_macros(&cut.tokens, &locator));
    let borrowed = borrowed_names(&cut.tokens);
    hygiene.declare_borrowed(&borrowed.names, &borrowed.std_heads);
    let view = View::new(&cut.tokens, &hygiene);
    let mut facts = region::facts(&view, &locator)?;
    facts.extend(std_paths(&view, &locator)?);
    if facts.len() > FACTS_MAX {
        return Err(format!("it has more than {FACTS_MAX} places to look at"));
    }
    Ok(ExpansionFacts { facts, unreadable: None })
}

/// The tables stand in the last comment, and nothing follows them.
fn tables(cut: &Cut<'_>) -> Result<Hygiene, String> {
    let last = cut.comments.last().filter(|comment| comment.after == cut.tokens.len());
    let table = last.and_then(|comment| comment.text.strip_prefix("/*")?.strip_suffix("*/"));
    Hygiene::parse(table.ok_or("it does not end with the tables of hygiene")?)
}

/// Moves the contexts from the comments to the identifiers and lifetimes before them.
fn attach_contexts(cut: &mut Cut<'_>, hygiene: &Hygiene) -> Result<(), String> {
    for comment in &cut.comments {
        let Some((symbol, context)) = context_of(comment.text) else { continue };
        let Some(token) = comment.after.checked_sub(1).and_then(|index| cut.tokens.get_mut(index)) else {
            continue;
        };
        let carries = match token.kind {
            TokenKind::Lifetime { .. } | TokenKind::RawLifetime | TokenKind::RawIdent => true,
            TokenKind::Ident => !is_plain_keyword(token),
            // A comment of the tenant that looks like a context.
            _ => false,
        };
        if !carries {
            continue;
        }
        if token.context.is_some() {
            return Err(format!("`{}` is followed by two contexts", token.text));
        }
        if !hygiene.knows(context) {
            return Err(format!("context #{context} is not in the table"));
        }
        token.context = Some(context);
        token.is_dollar_crate = symbol == DOLLAR_CRATE;
    }
    Ok(())
}

/// `/* 123#4 */`, possibly broken over lines, is symbol 123 in context 4.
fn context_of(comment: &str) -> Option<(u32, u32)> {
    let inner = comment.strip_prefix("/*")?.strip_suffix("*/")?;
    let (name, context) = inner.trim().split_once('#')?;
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (inner.len() != inner.trim().len() && digits(name) && digits(context))
        .then(|| Some((name.parse().ok()?, context.parse().ok()?)))
        .flatten()
}

/// Macro definitions stay in the text with their bodies as written, without contexts. A body has
/// no effect before it is expanded, and what it expands to is in the text too.
pub(crate) fn remove_macro_definitions(tokens: &mut Vec<Token<'_>>) {
    let mut kept = Vec::with_capacity(tokens.len());
    let mut at = 0;
    while at < tokens.len() {
        let is_definition =
            macro_definition(tokens, at).is_some() && tokens.get(at + 3).is_some_and(Token::opens);
        if is_definition {
            // The head stays, so that the names of the tenant's macros can be collected.
            kept.extend_from_slice(&tokens[at..at + 3]);
            at = behind_group(tokens, at + 3);
        } else {
            kept.push(tokens[at]);
            at += 1;
        }
    }
    *tokens = kept;
}

/// What follows costs time by depth; expansions of benign programs are a few dozen deep.
fn check_nesting(tokens: &[Token<'_>]) -> Result<(), String> {
    let mut depth = 0usize;
    for token in tokens {
        if token.opens() {
            depth += 1;
        } else if token.closes() {
            depth = depth.saturating_sub(1);
        }
        if depth > NESTING_MAX {
            return Err(format!("it is nested deeper than {NESTING_MAX} brackets"));
        }
    }
    Ok(())
}

/// Every name under which a macro of the tenant may be called: the definitions in its files and
/// in the expanded text, and what `use … as …` makes of them.
fn own_macros(tokens: &[Token<'_>], locator: &Locator<'_>) -> BTreeSet<String> {
    let mut own: BTreeSet<String> = locator.own_macros().iter().cloned().collect();
    own.extend((0..tokens.len()).filter_map(|at| macro_definition(tokens, at)).map(str::to_owned));
    let mut aliases: HashMap<&str, Vec<&str>> = HashMap::new();
    for at in (0..tokens.len()).filter(|at| tokens[*at].is_keyword("use")) {
        for leaf in &use_tree(tokens, at).0 {
            if let (Some(name), Some(alias)) = (leaf.segments.last(), leaf.alias) {
                aliases.entry(name).or_default().push(alias);
            }
        }
    }
    let mut pending: Vec<String> = own.iter().cloned().collect();
    while let Some(name) = pending.pop() {
        for alias in aliases.remove(name.as_str()).unwrap_or_default() {
            if own.insert(alias.to_owned()) {
                pending.push(alias.to_owned());
            }
        }
    }
    own
}

/// What the `use`s of a text say about the names of macros.
#[derive(Default)]
struct BorrowedNames {
    /// Names given to something that is not known to be std's, or taken from another crate.
    names: BTreeSet<String>,
    /// Names given to modules and items of std: `use std::pin;`.
    std_heads: BTreeSet<String>,
}

/// rustc's tables name a macro as its caller wrote it, so `use dep::x as pin;` makes `x` look like
/// std's `pin`.
fn borrowed_names(tokens: &[Token<'_>]) -> BorrowedNames {
    let mut found = BorrowedNames::default();
    let mut local: BTreeSet<&str> = ["crate", "self", "super"].into();
    for (at, token) in tokens.iter().enumerate() {
        // A variant or an item of the tenant may be called `Copy`, and is no macro.
        if ["mod", "enum", "struct", "trait"].iter().any(|keyword| token.is_keyword(keyword)) {
            local.extend(tokens.get(at + 1).and_then(Token::word));
        }
    }
    for at in (0..tokens.len()).filter(|at| tokens[*at].is_keyword("use")) {
        for leaf in &use_tree(tokens, at).0 {
            let (Some(name), Some(head)) = (leaf.binds(), leaf.segments.first()) else { continue };
            let is_renamed = leaf.alias.is_some() && leaf.alias != leaf.segments.last().copied();
            if hygiene::STD_ROOTS.contains(head) {
                found.std_heads.insert(name.to_owned());
            } else if is_renamed || !local.contains(head) {
                found.names.insert(name.to_owned());
            }
        }
    }
    found
}

/// Paths into std, core and alloc that the tenant wrote or chose a part of.
fn std_paths(view: &View<'_>, locator: &Locator<'_>) -> Result<Vec<ExpansionFact>, String> {
    let mut imports = Imports::default();
    declarations(view.tokens, &mut imports, &mut Vec::new());
    let mut leaves = Vec::new();
    let mut paths = Vec::new();
    let mut at = 0;
    while at < view.tokens.len() {
        if view.tokens[at].is_keyword("use") {
            let (found, behind) = use_tree(view.tokens, at);
            leaves.extend(found.into_iter().filter(|path| is_tenants_path(view, path)));
            at = behind;
            continue;
        }
        if !view.in_attribute[at]
            && let Some(path) = path_at(view.tokens, at)
            && path.segments.len() > 1
            && is_tenants_path(view, &path)
        {
            paths.push(path);
        }
        at += 1;
    }
    leaves.iter().for_each(|leaf| imports.add(leaf));
    imports.settle();
    if imports.overflow {
        return Err("one name is imported in too many meanings".to_owned());
    }
    let mut seen = BTreeSet::new();
    let mut facts = Vec::new();
    for path in leaves.iter().chain(&paths) {
        for resolved in imports.resolve(path) {
            if seen.insert(resolved.clone()) {
                let span = locator.path(&path.segments);
                facts.push(ExpansionFact::TenantStdPath { path: resolved, span });
            }
        }
    }
    Ok(facts)
}

/// The tenant wrote the head, or any part behind a head that a macro emitted.
fn is_tenants_path(view: &View<'_>, path: &Path<'_>) -> bool {
    (path.head..=path.last).any(|at| view.is_tenants(at))
}
