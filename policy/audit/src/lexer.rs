//! The tenant's own files, token by token, before any compiler sees them.
//!
//! It knows nothing of scopes or types, so it cannot be led astray by them: a keyword counts
//! wherever it stands, macro bodies and `cfg`-ed out code included; strings, comments and raw
//! identifiers do not count. What it cannot name (a macro fragment in a path or an attribute) is
//! written with a `$` and seen again in the expansion.

mod collector;
mod depth;
mod measure;
mod peak;
mod scan;
mod source;

use mfaas_rules::facts::{SourceFact, SourceFacts};
use mfaas_rules::limits::LEXER;
use mfaas_unpack::SourceTree;

use self::collector::Collector;
use self::source::sources;
use crate::imports::Imports;
use crate::path::use_tree;
use crate::text::start_of;
use crate::token::Token;

/// Reads every `.rs` file of the crate: those under `src/`, which are all that a compiler is shown.
/// Files past a limit are not read any further; the number that passed the limit is among the
/// facts.
pub fn scan(tree: &SourceTree) -> SourceFacts {
    let mut facts = Collector::default();
    let sources = sources(tree, &mut facts);
    let mut imports = Imports::default();
    for text in &sources {
        declarations(&text.cut.tokens, &mut imports, &mut facts.facts.own_macros);
    }
    for source in &sources {
        imports_of(&source.cut.tokens, &mut imports);
    }
    imports.settle();
    if imports.overflow {
        let reason = SourceFact::Unreadable("one name is imported in too many meanings".to_owned());
        facts.push(reason, || start_of("src/lib.rs"));
    }
    for source in &sources {
        let nesting = measure::measure(source, &mut facts);
        // Deeper text is refused, and what follows costs time by depth.
        if nesting <= LEXER.nesting_max {
            scan::scan(source, &imports, &mut facts);
        }
    }
    facts.finish()
}

/// The names of modules, macros and roots, which the meaning of paths depends on.
pub(crate) fn declarations(tokens: &[Token<'_>], imports: &mut Imports, own_macros: &mut Vec<String>) {
    let word = |at: usize| tokens.get(at).and_then(Token::word);
    for (at, token) in tokens.iter().enumerate() {
        if token.is_keyword("mod") {
            if let Some(name) = word(at + 1) {
                imports.declare_module(name);
            }
        } else if token.is_keyword("crate") && at > 0 && tokens[at - 1].is_keyword("extern") {
            let is_renamed = tokens.get(at + 2).is_some_and(|token| token.is_keyword("as"));
            let name = if is_renamed { word(at + 3) } else { word(at + 1) };
            if let (Some(root @ ("std" | "core" | "alloc")), Some(name)) = (word(at + 1), name) {
                imports.declare_root(root, name);
            }
        } else if let Some(name) = macro_definition(tokens, at) {
            own_macros.push(name.to_owned());
        }
    }
}

/// The name that `macro_rules! name` at token `at` defines.
pub(crate) fn macro_definition<'a>(tokens: &[Token<'a>], at: usize) -> Option<&'a str> {
    let [first, second, third] = tokens.get(at..at + 3)? else { return None };
    let is_definition = first.word() == Some("macro_rules") && second.is(ra_ap_rustc_lexer::TokenKind::Bang);
    is_definition.then(|| third.word()).flatten()
}

/// Every `use`, those in macro bodies included.
pub(crate) fn imports_of(tokens: &[Token<'_>], imports: &mut Imports) {
    let mut at = 0;
    while at < tokens.len() {
        if tokens[at].is_keyword("use") {
            let (leaves, behind) = use_tree(tokens, at);
            leaves.iter().for_each(|leaf| imports.add(leaf));
            at = behind;
        } else {
            at += 1;
        }
    }
}
