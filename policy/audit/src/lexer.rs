//! The tenant's own files, token by token, before any compiler sees them.
//!
//! It knows nothing of scopes or types, so it cannot be led astray by them: a keyword counts
//! wherever it stands, macro bodies and `cfg`-ed out code included; strings, comments and raw
//! identifiers do not count. What it cannot name (a macro fragment in a path or an attribute) is
//! written with a `$` and seen again in the expansion.

mod depth;
mod measure;
mod scan;

use std::collections::BTreeMap;

use mfaas_rules::facts::{SourceFact, SourceFacts};
use mfaas_rules::{Span, limits::LEXER};
use mfaas_unpack::SourceTree;

use crate::imports::Imports;
use crate::path::use_tree;
use crate::text::{Text, start_of};
use crate::token::{Cut, Token, cut};

/// Occurrences of one and the same fact that are kept.
const OCCURRENCES_MAX: usize = 16;
/// Facts kept in all; benign programs have hundreds.
const FACTS_MAX: usize = 50_000;
/// Occurrences of all facts that are looked at.
const PUSHES_MAX: usize = 1_000_000;

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

/// One file, cut into tokens.
struct Source<'a> {
    text: Text<'a>,
    cut: Cut<'a>,
}

/// Cuts every file, as far as the limits on size and tokens go.
fn sources<'a>(tree: &'a SourceTree, facts: &mut Collector) -> Vec<Source<'a>> {
    let mut sources = Vec::new();
    for (file, bytes) in tree.crate_files().filter(|(file, _)| file.ends_with(".rs")) {
        facts.facts.files += 1;
        facts.facts.bytes += bytes.len();
        if bytes.len() > LEXER.file_bytes_max {
            facts.push(SourceFact::Measure { what: "file_bytes_max", value: bytes.len() }, || start_of(file));
            continue;
        }
        if facts.facts.bytes > LEXER.total_bytes_max || facts.facts.tokens > LEXER.tokens_max {
            // Both totals are refused; reading on would only cost time.
            continue;
        }
        match std::str::from_utf8(bytes) {
            Err(_) => facts.push(SourceFact::Unreadable("not UTF-8".to_owned()), || start_of(file)),
            Ok(content) => {
                let text = Text::new(file, content);
                // One more than the limit, so that the total shows that it was passed.
                let left = LEXER.tokens_max + 1 - facts.facts.tokens;
                let cut = cut(content, left, false);
                facts.facts.tokens += cut.tokens.len();
                for fault in &cut.faults {
                    let fact = SourceFact::Unreadable(fault.reason.to_owned());
                    facts.push(fact, || text.span(fault.at, fault.length));
                }
                sources.push(Source { text, cut });
            }
        }
    }
    sources
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

/// Collects facts under the two bounds.
#[derive(Default)]
struct Collector {
    facts: SourceFacts,
    occurrences: BTreeMap<SourceFact, usize>,
    pushes: usize,
    overflow: Option<Span>,
}

impl Collector {
    /// Adds a fact; its place is worked out only if it is kept.
    fn push(&mut self, fact: SourceFact, span: impl FnOnce() -> Span) {
        if self.is_full() {
            return;
        }
        self.pushes += 1;
        if self.pushes > PUSHES_MAX {
            self.overflow = Some(span());
            return;
        }
        let seen = self.occurrences.entry(fact.clone()).or_insert(0);
        *seen += 1;
        if *seen > OCCURRENCES_MAX {
            return;
        }
        if self.facts.facts.len() < FACTS_MAX {
            self.facts.facts.push((fact, span()));
        } else {
            self.overflow = Some(span());
        }
    }

    /// A bound was met: the source is refused, and nothing more is taken.
    fn is_full(&self) -> bool {
        self.overflow.is_some()
    }

    fn finish(mut self) -> SourceFacts {
        if let Some(span) = self.overflow {
            let reason = format!(
                "more than {FACTS_MAX} different paths, macros and attributes, or {PUSHES_MAX} in all"
            );
            self.facts.facts.push((SourceFact::Unreadable(reason), span));
        }
        self.facts.own_macros.sort();
        self.facts.own_macros.dedup();
        self.facts
            .facts
            .sort_by(|(_, a), (_, b)| (&a.file, a.line, a.column).cmp(&(&b.file, b.line, b.column)));
        self.facts
    }
}
