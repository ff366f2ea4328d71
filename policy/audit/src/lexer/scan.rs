//! One pass over one file: keywords, attributes, macros and paths.

use mfaas_rules::facts::SourceFact;
use ra_ap_rustc_lexer::TokenKind;

use super::collector::Collector;
use super::source::Source;
use crate::attribute::{Attribute, attributes_at, split};
use crate::imports::Imports;
use crate::path::{Path, is_plain_keyword, path_at, use_tree};
use crate::token::Token;

/// Adds what `source` contains to `facts`.
pub(super) fn scan(source: &Source<'_>, imports: &Imports, facts: &mut Collector) {
    let mut scanner = Scanner { source, tokens: &source.cut.tokens, imports, facts };
    // Behind this token a `use` has been read, so its words are no paths of their own.
    let mut imported_until = 0;
    for at in 0..scanner.tokens.len() {
        if scanner.facts.is_full() {
            return;
        }
        scanner.keyword(at);
        scanner.attribute(at);
        if scanner.tokens[at].is_keyword("use") {
            imported_until = scanner.import(at);
        } else if at >= imported_until {
            scanner.path(at);
        }
    }
}

struct Scanner<'a, 'f> {
    source: &'a Source<'a>,
    tokens: &'a [Token<'a>],
    imports: &'a Imports,
    facts: &'f mut Collector,
}

impl Scanner<'_, '_> {
    /// Reports `fact` at the tokens `first..=last`.
    fn report(&mut self, fact: SourceFact, first: usize, last: usize) {
        let (first, last) = (&self.tokens[first], &self.tokens[last]);
        self.facts.push(fact, || self.source.text.span(first.at, last.at + last.text.len() - first.at));
    }

    fn keyword(&mut self, at: usize) {
        let token = &self.tokens[at];
        if token.is_keyword("unsafe") {
            self.report(SourceFact::Unsafe, at, at);
        } else if token.is_keyword("static") && self.is_keyword(at + 1, "mut") {
            self.report(SourceFact::StaticMut, at, at + 1);
        } else if token.is_keyword("extern") {
            self.external(at);
        } else if token.is_keyword("macro")
            && let Some(name) = self.word(at + 1)
        {
            self.report(SourceFact::MacroItem(name), at, at + 1);
        }
    }

    /// `extern crate`, `extern "abi" fn`, `extern "abi" {`; anything else behind `extern` (a macro
    /// fragment) counts as a block.
    fn external(&mut self, at: usize) {
        if self.is_keyword(at + 1, "crate") {
            let name = self.word(at + 2).unwrap_or_default();
            // A raw `std` is std; a fragment in place of the name stands before its word.
            let renamed = (at + 3..at + 5).find(|index| self.is_keyword(*index, "as"));
            let alias = renamed.map(|index| self.word(index + 1).unwrap_or_default());
            self.report(SourceFact::ExternCrate { name, alias }, at, at + 1);
            return;
        }
        let abi = usize::from(self.tokens.get(at + 1).is_some_and(Token::is_literal));
        let fact =
            if self.is_keyword(at + 1 + abi, "fn") { SourceFact::ExternFn } else { SourceFact::ExternBlock };
        self.report(fact, at, at + abi);
    }

    fn attribute(&mut self, at: usize) {
        if !self.tokens[at].is(TokenKind::Pound) {
            return;
        }
        let Some((attributes, _)) = attributes_at(self.tokens, at) else { return };
        for attribute in attributes {
            if attribute.path == "derive" {
                self.derives(&attribute);
            }
            let Attribute { path, inner, in_unsafe, tokens, head, .. } = attribute;
            self.report(SourceFact::Attribute { path, inner, in_unsafe, tokens }, head, head);
        }
    }

    fn derives(&mut self, attribute: &Attribute) {
        let arguments = attribute.arguments.clone();
        let inside =
            (arguments.start + 1).min(arguments.end)..arguments.end.saturating_sub(1).max(arguments.start);
        if inside.is_empty() {
            return;
        }
        for part in split(self.tokens, inside) {
            let path = self.tokens[part.clone()].iter().map(|token| token.text).collect::<String>();
            let path = path.strip_prefix("::").unwrap_or(&path).to_owned();
            self.report(SourceFact::Derive(path), part.start, part.end - 1);
        }
    }

    /// The `use` at token `at`; answers the index behind it.
    fn import(&mut self, at: usize) -> usize {
        let (leaves, behind) = use_tree(self.tokens, at);
        for leaf in &leaves {
            for path in self.imports.resolve(leaf) {
                self.report(SourceFact::StdPath(path), leaf.head, leaf.last);
            }
        }
        behind
    }

    /// The path that begins at token `at`, if one does.
    fn path(&mut self, at: usize) {
        let Some(path) = path_at(self.tokens, at) else { return };
        if let Some(name) = macro_call(self.tokens, &path) {
            self.report(SourceFact::MacroCall(name), path.head, path.last + 1);
        }
        // A word alone is a variable, a type, anything: only `use` gives it a meaning.
        if path.segments.len() > 1 {
            for resolved in self.imports.resolve(&path) {
                self.report(SourceFact::StdPath(resolved), path.head, path.last);
            }
        }
    }

    fn word(&self, at: usize) -> Option<String> {
        self.tokens.get(at).and_then(Token::word).map(str::to_owned)
    }

    fn is_keyword(&self, at: usize, keyword: &str) -> bool {
        self.tokens.get(at).is_some_and(|token| token.is_keyword(keyword))
    }
}

/// The name of the macro that `path` calls: `path!` and an opening bracket or, for `macro_rules`,
/// a name.
pub(crate) fn macro_call(tokens: &[Token<'_>], path: &Path<'_>) -> Option<String> {
    let bang = path.last + 1;
    let behind = tokens.get(bang + 1)?;
    let is_call = tokens[bang].is(TokenKind::Bang)
        && !is_plain_keyword(&tokens[path.last])
        && (behind.opens()
            || (behind.word().is_some() && path.segments == ["macro_rules"])
            || behind.is(TokenKind::Dollar));
    let sign = if path.head > 0 && tokens[path.head - 1].is(TokenKind::Dollar) { "$" } else { "" };
    is_call.then(|| format!("{sign}{}", path.segments.join("::")))
}
