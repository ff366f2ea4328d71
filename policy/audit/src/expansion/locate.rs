//! Where in the tenant's files something of the expansion came from, as well as names can tell.

use std::cell::Cell;

use mfaas_rules::Span;
use mfaas_rules::limits::LEXER;
use mfaas_unpack::SourceTree;
use ra_ap_rustc_lexer::TokenKind;

use crate::lexer::macro_definition;
use crate::text::Text;
use crate::token::{Token, behind_group, cut};

/// Searches through the tree that one expansion may cost; facts past it have no place.
const SEARCHES_MAX: usize = 200;

/// The tenant's files, cut into tokens.
pub(crate) struct Locator<'a> {
    files: Vec<(Text<'a>, Vec<Token<'a>>)>,
    own_macros: Vec<String>,
    searches: Cell<usize>,
}

impl<'a> Locator<'a> {
    pub(crate) fn new(tree: &'a SourceTree) -> Self {
        let sources = tree.files().filter(|(name, _)| name.ends_with(".rs"));
        Self::of(sources.filter_map(|(name, bytes)| Some((name, std::str::from_utf8(bytes).ok()?))))
    }

    /// Of files by name and text.
    pub(crate) fn of(sources: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        let mut files = Vec::new();
        let mut own_macros = Vec::new();
        let mut left = LEXER.tokens_max;
        for (name, content) in sources {
            let tokens = cut(content, left, false).tokens;
            left -= tokens.len();
            own_macros
                .extend((0..tokens.len()).filter_map(|at| macro_definition(&tokens, at)).map(str::to_owned));
            files.push((Text::new(name, content), tokens));
        }
        Self { files, own_macros, searches: Cell::new(0) }
    }

    /// Names of the macros that the tree defines.
    pub(crate) fn own_macros(&self) -> &[String] {
        &self.own_macros
    }

    /// The first call of `called` whose arguments contain `word`, or else its first call, or else
    /// the first `word` anywhere. Without `called`, the first call of any macro that is not the
    /// tenant's own: a region without a foreign identifier still came out of some macro.
    pub(crate) fn call(&self, called: Option<&str>, word: Option<&str>) -> Option<Span> {
        let name = called.map(|called| called.rsplit("::").next().unwrap_or(called));
        let is_call = |tokens: &[Token<'_>], at: usize| {
            let named = match name {
                Some(_) => tokens[at].word() == name,
                None => tokens[at].word().is_some_and(|word| !self.own_macros.iter().any(|own| own == word)),
            };
            named && kind_is(tokens, at + 1, TokenKind::Bang)
        };
        let holds = |tokens: &[Token<'_>], at: usize| {
            let end =
                if tokens.get(at + 2).is_some_and(Token::opens) { behind_group(tokens, at + 2) } else { at };
            word.is_some() && tokens[at..end].iter().any(|token| Some(token.text) == word)
        };
        self.find(|tokens, at| is_call(tokens, at) && holds(tokens, at))
            .or_else(|| name.and_then(|_| self.find(is_call)))
            .or_else(|| self.word(word?))
    }

    /// The first `word` that is an identifier.
    pub(crate) fn word(&self, word: &str) -> Option<Span> {
        self.find(|tokens, at| tokens[at].word() == Some(word))
    }

    /// The first `keyword name`, or else the first `name`.
    pub(crate) fn item(&self, keyword: &str, name: &str) -> Option<Span> {
        let is_item = |tokens: &[Token<'_>], at: usize| {
            tokens[at].word() == Some(name) && at > 0 && tokens[at - 1].is_keyword(keyword)
        };
        self.find(is_item).or_else(|| self.word(name))
    }

    /// The tokens of all files, one behind the other.
    pub(crate) fn all_tokens(&self) -> Vec<Token<'a>> {
        self.files.iter().flat_map(|(_, tokens)| tokens.iter().copied()).collect()
    }

    /// The first place where the last two of `segments` stand in a row, or else the last one.
    pub(crate) fn path(&self, segments: &[&str]) -> Option<Span> {
        let (last, before) = segments.split_last()?;
        let in_a_row = |tokens: &[Token<'_>], at: usize| {
            tokens[at].word() == Some(*last)
                && at >= 3
                && before.last().is_none_or(|before| tokens[at - 3].word() == Some(before))
        };
        self.find(in_a_row).or_else(|| self.word(last))
    }

    fn find(&self, matches: impl Fn(&[Token<'_>], usize) -> bool) -> Option<Span> {
        if self.searches.get() >= SEARCHES_MAX {
            return None;
        }
        self.searches.set(self.searches.get() + 1);
        self.files.iter().find_map(|(text, tokens)| {
            let at = (0..tokens.len()).find(|at| matches(tokens, *at))?;
            Some(text.span(tokens[at].at, tokens[at].text.len()))
        })
    }
}

fn kind_is(tokens: &[Token<'_>], at: usize, kind: TokenKind) -> bool {
    tokens.get(at).is_some_and(|token| token.is(kind))
}
