//! Type aliases and associated types, written out before a signature is looked at.
//!
//! Names are taken for what they may mean anywhere in the crate: an alias that shares its name
//! with another one, or with a type, becomes a tuple of all meanings.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use ra_ap_rustc_lexer::TokenKind;

use super::items::{Items, declared};
use super::run::Run;
use super::types::Types;
use crate::token::Token;

/// Rounds of writing out; aliases of aliases of aliases are rarer.
const ROUNDS_MAX: usize = 16;
/// Set on a token inside an alias that has the alias' own name: `type Result<T> = fmt::Result<T>`.
const FOREIGN: u32 = u32::MAX;
/// Tokens of one signature, written out.
const SIGNATURE_TOKENS_MAX: usize = 8_192;

/// One meaning of a name.
#[derive(Debug)]
struct Meaning<'a> {
    parameters: Vec<&'a str>,
    value: Vec<Token<'a>>,
}

/// Every alias of a crate.
#[derive(Debug, Default)]
pub(super) struct Aliases<'a> {
    meanings: HashMap<&'a str, Vec<Meaning<'a>>>,
    /// Names that may also be those of types.
    shared: HashSet<&'a str>,
    /// Modules of the crate, and the words for itself.
    modules: HashSet<&'a str>,
}

impl<'a> Aliases<'a> {
    pub(super) fn new(run: &Run<'a, '_>, items: &Items, types: &Types<'a>) -> Self {
        let mut aliases = Self::default();
        for alias in &items.aliases {
            let Some(name) = run.word(alias.name) else { continue };
            let parameters = declared(run, alias.parameters.clone());
            let mut value = run.tokens[alias.value.clone()].to_vec();
            for token in value.iter_mut().filter(|token| token.word() == Some(name)) {
                token.context = Some(FOREIGN);
            }
            aliases.meanings.entry(name).or_default().push(Meaning { parameters, value });
        }
        let adts = items.adts.iter().filter_map(|adt| run.word(adt.name));
        let names = adts.chain(types.imported());
        aliases.shared = names.filter(|name| aliases.meanings.contains_key(name)).collect();
        let modules =
            (0..run.len()).filter(|at| run.is_keyword(*at, "mod")).filter_map(|at| run.word(at + 1));
        aliases.modules = ["crate", "self", "super"].into_iter().chain(modules).collect();
        aliases
    }

    /// `tokens` with every alias written out, except for the names in `kept`; `None` if they
    /// become too long.
    pub(super) fn write_out(
        &self,
        tokens: Vec<Token<'a>>,
        kept: &[&str],
        run: &Run<'a, '_>,
    ) -> Option<Vec<Token<'a>>> {
        if tokens.len() > SIGNATURE_TOKENS_MAX {
            return None;
        }
        self.write_out_long(tokens, kept, run)
    }

    /// The same for the fields of a type, which may be long before anything is written out.
    pub(super) fn write_out_long(
        &self,
        tokens: Vec<Token<'a>>,
        kept: &[&str],
        run: &Run<'a, '_>,
    ) -> Option<Vec<Token<'a>>> {
        let mut tokens = tokens;
        let tokens_max = tokens.len() + SIGNATURE_TOKENS_MAX;
        for _ in 0..ROUNDS_MAX {
            if !(0..tokens.len()).any(|at| self.is_alias(&tokens, at, kept)) {
                return Some(tokens);
            }
            tokens = self.round(&Run::new(tokens, run.budget()), kept, tokens_max)?;
        }
        None
    }

    /// Whether `name` may be an alias.
    pub(super) fn knows(&self, name: &str) -> bool {
        self.meanings.contains_key(name)
    }

    fn is_alias(&self, tokens: &[Token<'_>], at: usize, kept: &[&str]) -> bool {
        let token = &tokens[at];
        let is_named =
            token.word().is_some_and(|word| self.meanings.contains_key(word) && !kept.contains(&word));
        // `name = Type` names an associated type, and `x: Type` a parameter.
        let next = |kind| tokens.get(at + 1).is_some_and(|token| token.is(kind));
        let is_binding =
            next(TokenKind::Eq) || (next(TokenKind::Colon) && !crate::path::double_colon(tokens, at + 1));
        is_named && !is_binding && token.context != Some(FOREIGN) && self.is_own_path(tokens, at)
    }

    /// Nothing stands before the name, or a path that begins in the crate.
    fn is_own_path(&self, tokens: &[Token<'_>], at: usize) -> bool {
        let mut head = at;
        while head >= 3 && crate::path::double_colon(tokens, head - 2) {
            match tokens[head - 3].word() {
                Some(_) => head -= 3,
                None => return false,
            }
        }
        let is_rooted = head >= 2 && crate::path::double_colon(tokens, head - 2);
        head == at || (!is_rooted && tokens[head].word().is_some_and(|word| self.modules.contains(word)))
    }

    /// Every alias once.
    fn round(&self, run: &Run<'a, '_>, kept: &[&str], tokens_max: usize) -> Option<Vec<Token<'a>>> {
        let mut out: Vec<Token<'a>> = Vec::with_capacity(run.len());
        let mut at = 0;
        while at < run.len() {
            let token = run.tokens[at];
            if out.len() > tokens_max {
                return None;
            }
            if !self.is_alias(&run.tokens, at, kept) {
                out.push(token);
                at += 1;
                continue;
            }
            drop_path(&mut out);
            let turbofish = if run.is_double_colon(at + 1) && run.is(at + 3, TokenKind::Lt) { 2 } else { 0 };
            let open = at + 1 + turbofish;
            let (arguments, behind) = if run.is(open, TokenKind::Lt) {
                let behind = run.behind_angles(open);
                (run.split(open + 1..behind.saturating_sub(1).max(open + 1)), behind)
            } else {
                (Vec::new(), at + 1)
            };
            self.replace(run, at, &arguments, &mut out);
            at = behind;
        }
        Some(out)
    }

    /// Writes all meanings of the alias at `at`.
    fn replace(&self, run: &Run<'a, '_>, at: usize, arguments: &[Range<usize>], out: &mut Vec<Token<'a>>) {
        let Some((name, meanings)) = run.word(at).and_then(|name| Some((name, self.meanings.get(name)?)))
        else {
            return;
        };
        let is_shared = self.shared.contains(name);
        let several = is_shared || meanings.len() > 1;
        let punctuation = |kind, text| Token { kind, text, at: run.tokens[at].at, context: None };
        if several {
            out.push(punctuation(TokenKind::OpenParen, "("));
        }
        for meaning in meanings {
            meaning.write(run, at, arguments, out);
            if several {
                out.push(punctuation(TokenKind::Comma, ","));
            }
        }
        if is_shared {
            // The type of that name cannot stay under it, or it would be written out for ever; its
            // arguments as a reference's are the strongest thing that it could mean.
            out.push(punctuation(TokenKind::Lt, "<"));
            for argument in arguments {
                out.extend_from_slice(&run.tokens[argument.clone()]);
                out.push(punctuation(TokenKind::Comma, ","));
            }
            out.push(punctuation(TokenKind::Gt, ">"));
        }
        if several {
            out.push(punctuation(TokenKind::CloseParen, ")"));
        }
    }
}

impl<'a> Meaning<'a> {
    fn write(&self, run: &Run<'a, '_>, at: usize, arguments: &[Range<usize>], out: &mut Vec<Token<'a>>) {
        let is_lifetime = |name: &str| name.starts_with('\'');
        let (lifetimes, types): (Vec<&Range<usize>>, Vec<&Range<usize>>) =
            arguments.iter().partition(|range| run.lifetime(range.start).is_some());
        let argument = |name: &str| {
            let same_kind = self.parameters.iter().filter(|other| is_lifetime(other) == is_lifetime(name));
            let index = same_kind.into_iter().position(|other| *other == name)?;
            if is_lifetime(name) { lifetimes.get(index) } else { types.get(index) }
        };
        for token in &self.value {
            let name = match token.kind {
                TokenKind::Lifetime { .. } | TokenKind::RawLifetime => Some(token.text),
                _ => token.word(),
            };
            let Some(name) = name.filter(|name| self.parameters.contains(name)) else {
                out.push(*token);
                continue;
            };
            match argument(name) {
                Some(range) => out.extend_from_slice(&run.tokens[(*range).clone()]),
                // An elided lifetime, or a type's default that is then unknown.
                None if is_lifetime(name) => {
                    let kind = TokenKind::Lifetime { starts_with_number: false };
                    out.push(Token { kind, text: "'_", at: run.tokens[at].at, context: None });
                }
                None => out.push(*token),
            }
        }
    }
}

/// Takes the path before an alias away: `crate::types::` of `crate::types::Alias`.
fn drop_path(out: &mut Vec<Token<'_>>) {
    while out.len() >= 3 {
        let end = out.len();
        let is_segment = crate::path::double_colon(out, end - 2) && out[end - 3].word().is_some();
        if !is_segment {
            return;
        }
        out.truncate(end - 3);
    }
}
