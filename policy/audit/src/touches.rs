//! What a crate reaches for in std, by class: files, network, processes, environment, standard input
//! and output, threads, clocks, state.
//!
//! All paths that lead into std, after `use` is resolved over the whole crate as the lexer of tenants'
//! source does it (a name that is imported anywhere means the import everywhere), compared with the
//! rows of the profile. Code that only the crate's own tests compile is left out. Where a path
//! cannot be told, the report says so: a class that is missing is not a class that is not touched.

use std::collections::BTreeMap;

use mfaas_ident::sanitise_line;
use mfaas_rules::crate_facts::{ApiClass, ApiHotspot, ApiTouch, TouchReport};
use mfaas_rules::limits::{CRATE_FACTS, LEXER};
use mfaas_rules::profiles::crate_rules::{API_MACROS, API_PATHS, PATH_METHODS, SHARED_CELLS};
use ra_ap_rustc_lexer::TokenKind;

use crate::crate_source::macro_behind;
use crate::imports::{Imports, StdPath};
use crate::lexer::{declarations, imports_of};
use crate::path::{double_colon, path_at, use_tree};
use crate::text::Text;
use crate::token::{Token, behind_group, cut};

/// Sentences about what could not be told.
const UNREAD_MAX: usize = 50;

/// Reads every file of a crate that its users compile: path, which must be sanitised, and text.
pub fn touches<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> TouchReport {
    let mut found = Collector::default();
    let mut sources = Vec::new();
    let mut left = LEXER.tokens_max;
    for (path, content) in files {
        let cut = cut(content, left, false);
        left -= cut.tokens.len();
        if cut.truncated || !cut.faults.is_empty() {
            found.unread(format!("{path}: it could not be read to its end"));
        }
        let tokens = without_tests(&cut.tokens);
        sources.push(Source { path, text: Text::new(path, content), tokens });
    }
    let mut imports = Imports::default();
    sources.iter().for_each(|source| declarations(&source.tokens, &mut imports, &mut Vec::new()));
    sources.iter().for_each(|source| imports_of(&source.tokens, &mut imports));
    imports.settle();
    if imports.overflow {
        found.unread("one name is imported in too many meanings".to_owned());
    }
    sources.iter().for_each(|source| Scanner { source, imports: &imports, found: &mut found }.walk());
    found.finish()
}

struct Source<'a> {
    path: &'a str,
    text: Text<'a>,
    tokens: Vec<Token<'a>>,
}

/// Drops `#[cfg(test)] mod name { … }` at the top of a file: no user ever compiles it. Only there, and
/// with no other attribute before it: a macro may take such tokens and give their inside back.
fn without_tests<'a>(tokens: &[Token<'a>]) -> Vec<Token<'a>> {
    let mut kept = Vec::with_capacity(tokens.len());
    let (mut at, mut depth) = (0, 0usize);
    while let Some(token) = tokens.get(at) {
        let is_first = at == 0 || !tokens[at - 1].is(TokenKind::CloseBracket);
        if depth == 0
            && is_first
            && let Some(behind) = test_module(tokens, at)
        {
            at = behind;
            continue;
        }
        if token.opens() {
            depth += 1;
        } else if token.closes() {
            depth = depth.saturating_sub(1);
        }
        kept.push(*token);
        at += 1;
    }
    kept
}

/// The index behind `#[cfg(test)] mod name { … }` that begins at `at`.
fn test_module(tokens: &[Token<'_>], at: usize) -> Option<usize> {
    let words = ["#", "[", "cfg", "(", "test", ")", "]", "mod"];
    let written = tokens.get(at..at + words.len())?;
    let matches = written.iter().zip(words).all(|(token, word)| token.text == word);
    let open = at + words.len() + 1;
    (matches && tokens.get(open)?.is(TokenKind::OpenBrace)).then(|| behind_group(tokens, open))
}

struct Scanner<'a, 'f> {
    source: &'a Source<'a>,
    imports: &'a Imports,
    found: &'f mut Collector,
}

impl Scanner<'_, '_> {
    fn walk(&mut self) {
        let tokens = &self.source.tokens;
        // Behind this token a `use` has been read, so its words are no paths of their own.
        let mut imported_until = 0;
        // For each open bracket: in the argument of a macro.
        let mut open: Vec<bool> = Vec::new();
        for at in 0..tokens.len() {
            let in_macro = open.last() == Some(&true);
            if tokens[at].opens() {
                open.push(in_macro || macro_behind(tokens, at).is_some());
            } else if tokens[at].closes() {
                open.pop();
            } else if tokens[at].is_keyword("use") {
                imported_until = self.import(at);
            } else if at >= imported_until {
                self.path(at, in_macro);
            }
            self.macro_call(at);
            self.method(at);
            self.state(at);
        }
    }

    fn import(&mut self, at: usize) -> usize {
        let tokens = &self.source.tokens;
        let is_public = at > 0 && tokens[at - 1].is_keyword("pub");
        let (leaves, behind) = use_tree(tokens, at);
        for leaf in &leaves {
            for path in self.imports.resolve(leaf) {
                let whole = is_public || leaf.segments.last() == Some(&"*");
                self.resolved(&path, whole, leaf.head, leaf.last);
            }
        }
        behind
    }

    fn path(&mut self, at: usize, in_macro: bool) {
        let tokens = &self.source.tokens;
        let Some(path) = path_at(tokens, at) else { return };
        let is_macro = tokens.get(path.last + 1).is_some_and(|token| token.is(TokenKind::Bang));
        if path.segments.len() > 1 {
            for resolved in self.imports.resolve(&path).iter().filter(|_| !is_macro) {
                self.resolved(resolved, false, path.head, path.last);
            }
        }
        if path.segments == ["std"] && in_macro {
            // It may become the head of any path.
            self.unread_at(at, "`std` alone as a macro's argument");
        }
    }

    fn unread_at(&mut self, at: usize, what: &str) {
        let line = self.source.text.span(self.source.tokens[at].at, 1).line;
        self.found.unread(format!("{}:{line}: {what}", self.source.path));
    }

    fn resolved(&mut self, path: &StdPath, whole: bool, first: usize, last: usize) {
        let segments: Vec<&str> =
            path[1..].iter().map(String::as_str).filter(|segment| *segment != "*").collect();
        let mut classes: Vec<ApiClass> = class_of(&segments).into_iter().collect();
        if whole {
            classes.extend(below(&segments));
            classes.sort_unstable();
            classes.dedup();
        }
        for class in classes {
            self.touch(class, &path.join("::"), first, last);
        }
        // `std::$m::read`: behind the fragment's place may stand whatever there is.
        let open = segments.len().checked_sub(self.open_segments(first, last));
        if open.is_none_or(|open| open < segments.len() && below(&segments[..open]).next().is_some()) {
            self.unread_at(first, "a path into std that a macro puts together");
        }
        self.found.names_paths |= segments.first() == Some(&"path");
    }

    /// Segments of a written path from its first fragment on.
    fn open_segments(&self, first: usize, last: usize) -> usize {
        let tokens = &self.source.tokens[first..=last];
        let fragment = tokens.iter().position(|token| token.is(TokenKind::Dollar));
        let behind = fragment.map_or(&[][..], |at| &tokens[at..]);
        behind.iter().filter(|token| token.word().is_some()).count()
    }

    fn touch(&mut self, class: ApiClass, path: &str, first: usize, last: usize) {
        let (first, last) = (&self.source.tokens[first], &self.source.tokens[last]);
        self.found.touch(class, || ApiHotspot {
            path: sanitise_line(path, 100),
            span: self.source.text.span(first.at, (last.at + last.text.len()).saturating_sub(first.at)),
        });
    }

    fn macro_call(&mut self, at: usize) {
        let tokens = &self.source.tokens;
        let Some(name) = tokens[at].word() else { return };
        let is_call = tokens.get(at + 1).is_some_and(|token| token.is(TokenKind::Bang))
            && tokens.get(at + 2).is_some_and(Token::opens);
        // `use std::println as say` and `std::println` in a path mean the same.
        let is_path = at > 1 && double_colon(tokens, at - 2);
        if let Some((_, class)) = API_MACROS.iter().find(|(of, _)| *of == name)
            && (is_call || is_path)
        {
            self.touch(*class, &format!("{name}!"), at, at);
        }
    }

    /// `.exists(`, which counts if the crate names `std::path`; known only at the end.
    fn method(&mut self, at: usize) {
        let tokens = &self.source.tokens;
        let Some(name) = tokens[at].word().filter(|name| PATH_METHODS.contains(name)) else { return };
        if at > 0 && matches!(tokens[at - 1].kind, TokenKind::Dot | TokenKind::Colon) {
            let span = self.source.text.span(tokens[at].at, name.len());
            self.found.methods.add(|| ApiHotspot { path: format!("Path::{name}"), span });
        }
    }

    /// `static NAME: Mutex<…>`, `static mut`.
    fn state(&mut self, at: usize) {
        let tokens = &self.source.tokens;
        if !tokens[at].is_keyword("static") {
            return;
        }
        let item = tokens[at + 1..].iter().take(STATIC_TOKENS_MAX);
        let mut kind = item.take_while(|token| !matches!(token.kind, TokenKind::Eq | TokenKind::Semi));
        let keeps = |word: &str| word.starts_with("Atomic") || SHARED_CELLS.contains(&word) || word == "mut";
        if kind.any(|token| token.word().is_some_and(keeps)) {
            self.touch(ApiClass::GlobalState, "static", at, at);
        }
    }
}

/// Tokens of a static's type that are looked at.
const STATIC_TOKENS_MAX: usize = 64;

/// The class of the longest row that fits.
fn class_of(segments: &[&str]) -> Option<ApiClass> {
    let fits = |row: &&[&str]| {
        row.len() <= segments.len() && row.iter().zip(segments).all(|(row, seen)| *row == "*" || row == seen)
    };
    // A row that names its segments beats one that does not.
    let weight = |row: &[&str]| (row.len(), row.iter().filter(|segment| **segment != "*").count());
    let rows = API_PATHS.iter().filter(|row| fits(&row.path));
    rows.max_by_key(|row| weight(row.path)).and_then(|row| row.class)
}

/// The classes of everything below a module that is imported whole or handed on.
fn below<'a>(segments: &'a [&'a str]) -> impl Iterator<Item = ApiClass> + 'a {
    API_PATHS
        .iter()
        .filter(move |row| row.path.len() > segments.len())
        .filter(move |row| row.path.iter().zip(segments).all(|(row, seen)| *row == "*" || row == seen))
        .filter_map(|row| row.class)
}

/// One class's places.
#[derive(Default)]
struct Places {
    count: usize,
    hotspots: Vec<ApiHotspot>,
}

impl Places {
    fn add(&mut self, hotspot: impl FnOnce() -> ApiHotspot) {
        self.count += 1;
        if self.hotspots.len() < CRATE_FACTS.hotspots_max {
            self.hotspots.push(hotspot());
        }
    }
}

#[derive(Default)]
struct Collector {
    classes: BTreeMap<ApiClass, Places>,
    methods: Places,
    names_paths: bool,
    unread: Vec<String>,
}

impl Collector {
    fn touch(&mut self, class: ApiClass, hotspot: impl FnOnce() -> ApiHotspot) {
        self.classes.entry(class).or_default().add(hotspot);
    }

    fn unread(&mut self, what: String) {
        if self.unread.len() < UNREAD_MAX {
            self.unread.push(sanitise_line(&what, 300));
        }
    }

    fn finish(mut self) -> TouchReport {
        if self.names_paths && self.methods.count > 0 {
            let fs = self.classes.entry(ApiClass::Fs).or_default();
            fs.count += self.methods.count;
            let room = CRATE_FACTS.hotspots_max.saturating_sub(fs.hotspots.len());
            fs.hotspots.extend(self.methods.hotspots.into_iter().take(room));
        }
        let classes = self.classes.into_iter();
        let touch = |(class, places): (ApiClass, Places)| ApiTouch {
            class,
            count: places.count,
            hotspots: places.hotspots,
        };
        TouchReport { classes: classes.map(touch).collect(), unread: self.unread }
    }
}
