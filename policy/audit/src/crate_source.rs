//! A dependency's file, token by token, for the reviewer: where power stands, what it takes in
//! from elsewhere, which macros it exports.
//!
//! It is the second reader beside geiger and shares nothing with it: a lexer, not a parser, so
//! macro bodies, `quote!`, attributes and code behind `cfg` are tokens like all others. It decides
//! nothing, follows no file by itself (see [`Reference`]) and works without recursion.

use mfaas_ident::sanitise_line;
use mfaas_rules::crate_facts::{ExportedMacro, Hotspot, HotspotKind, TokenReport};
use mfaas_rules::limits::{CRATE_FACTS, LEXER};
use mfaas_rules::profiles::attributes::{LINKAGE, MACHINE_CODE};
use mfaas_rules::profiles::macros::{self, MacroRule};
use ra_ap_rustc_lexer::TokenKind;

use crate::attribute::{Attribute, attributes_at};
use crate::lexer::macro_definition;
use crate::text::Text;
use crate::token::{Token, behind_group, cut};

/// What one file says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FileScan {
    /// The hotspots.
    pub tokens: TokenReport,
    /// Macros for other crates.
    pub exported_macros: Vec<ExportedMacro>,
    /// Files that it takes in.
    pub references: Vec<Reference>,
    /// It defines a procedural macro.
    pub proc_macro: bool,
}

/// A file that another one takes in as source.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reference {
    /// By `include!("…")` or `#[path = "…"]`: the text between the quotes, as written.
    File(String),
    /// Computed: from a variable, by a macro, under another name. What was written, sanitised.
    Computed(String),
}

/// Scans one file; `path` is for the spans and must be sanitised.
pub fn scan(path: &str, content: &str) -> FileScan {
    let text = Text::new(path, content);
    let cut = cut(content, LEXER.tokens_max, false);
    let mut scanner = Scanner { text, tokens: &cut.tokens, found: FileScan::default() };
    scanner.found.tokens.tokens = cut.tokens.len();
    scanner.invisible(content);
    for fault in &cut.faults {
        let at = content.get(fault.at..).and_then(|rest| rest.chars().next());
        // Invisible characters have a kind of their own.
        if !at.is_some_and(is_invisible) {
            scanner.hotspot(HotspotKind::Unreadable, fault.reason, None, fault.at, fault.length);
        }
    }
    if cut.truncated {
        scanner.hotspot(HotspotKind::Unreadable, "more tokens than are read", None, content.len(), 0);
    }
    scanner.walk();
    scanner.found
}

/// Whether the sanitiser would make it visible: one definition of invisible for all.
fn is_invisible(c: char) -> bool {
    let is_plain = c.is_ascii_graphic() || matches!(c, ' ' | '\t' | '\n' | '\r' | '\u{c}');
    // A byte order mark at the beginning is looked at by the caller.
    !is_plain && (c.is_ascii() || sanitise_line(c.encode_utf8(&mut [0; 4]), 16).starts_with("\\u{"))
}

/// Words that matter in literals.
const WORDS: &[(&str, HotspotKind)] =
    &[("unsafe", HotspotKind::WordInLiteral), ("OUT_DIR", HotspotKind::OutDir)];

/// Macros whose argument becomes somebody else's code.
const QUOTES: &[&str] = &["quote", "quote_spanned", "parse_quote", "parse_quote_spanned"];

struct Scanner<'a> {
    text: Text<'a>,
    tokens: &'a [Token<'a>],
    found: FileScan,
}

impl Scanner<'_> {
    fn hotspot(&mut self, kind: HotspotKind, what: &str, inside: Option<&str>, at: usize, length: usize) {
        let report = &mut self.found.tokens;
        *report.counts.entry(kind).or_default() += 1;
        if report.hotspots.len() < CRATE_FACTS.hotspots_max {
            report.hotspots.push(Hotspot {
                kind,
                what: sanitise_line(what, 100),
                inside: inside.map(|label| sanitise_line(label, 100)),
                span: self.text.span(at, length),
            });
        }
    }

    /// Every place counts, comments and literals too: there they mislead the reader.
    fn invisible(&mut self, content: &str) {
        let start = if content.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
        for (at, c) in content.char_indices().filter(|(at, c)| *at >= start && is_invisible(*c)) {
            self.hotspot(HotspotKind::Invisible, &format!("U+{:04X}", u32::from(c)), None, at, c.len_utf8());
        }
    }

    fn walk(&mut self) {
        let mut labels: Vec<String> = Vec::new();
        // For each open bracket the innermost macro around it, as an index.
        let mut open: Vec<Option<usize>> = Vec::new();
        for at in 0..self.tokens.len() {
            let token = self.tokens[at];
            if token.opens() {
                let around = open.last().copied().flatten();
                open.push(macro_behind(self.tokens, at).map_or(around, |label| {
                    labels.push(label);
                    Some(labels.len() - 1)
                }));
                if open.len() == LEXER.nesting_max + 1 {
                    self.hotspot(HotspotKind::Unreadable, "nested too deep to be read", None, token.at, 1);
                }
            } else if token.closes() {
                open.pop();
            }
            let inside = open.last().copied().flatten().and_then(|label| labels.get(label));
            self.token(at, inside.map(String::as_str), open.len() <= LEXER.nesting_max);
        }
    }

    /// What follows a bracket to its end costs time by depth, and is left to `shallow` places.
    fn token(&mut self, at: usize, inside: Option<&str>, shallow: bool) {
        let token = self.tokens[at];
        if token.is_literal() {
            for (word, kind) in WORDS.iter().filter(|(word, _)| token.text.contains(word)) {
                self.hotspot(*kind, &format!("`{word}` in a literal"), inside, token.at, token.text.len());
            }
        } else if let Some((kind, what)) = keyword(self.tokens, at) {
            self.hotspot(kind, &what, inside, token.at, token.text.len());
        } else if shallow {
            self.group(at, inside);
        }
    }

    fn group(&mut self, at: usize, inside: Option<&str>) {
        let token = self.tokens[at];
        if token.is(TokenKind::Pound) {
            self.attributes(at, inside);
        } else if let Some((name, open)) = defined_macro(self.tokens, at) {
            self.exported_macro(at, name, open);
        } else if let Some(name) = token.word() {
            self.named_macro(at, name, inside);
        }
    }

    /// A macro of std that matters, called or given another name; or a quotation.
    fn named_macro(&mut self, at: usize, name: &str, inside: Option<&str>) {
        let bang = self.tokens.get(at + 1).is_some_and(|next| next.is(TokenKind::Bang));
        let call = bang && self.tokens.get(at + 2).is_some_and(Token::opens);
        if call && QUOTES.contains(&name) {
            let token = self.tokens[at];
            self.hotspot(HotspotKind::Quote, &format!("{name}!"), inside, token.at, token.text.len());
        }
        let Some(row) = macros::ROWS.iter().find(|row| row.name == name) else { return };
        let kind = match (row.rule, name) {
            (MacroRule::MachineCode, "is_x86_feature_detected") => return,
            (MacroRule::MachineCode, _) => HotspotKind::MachineCode,
            (MacroRule::BuildInput, "include") => HotspotKind::Include,
            (MacroRule::BuildInput, _) => HotspotKind::BuildInput,
            (MacroRule::Allow | MacroRule::Refuse, _) => return,
        };
        let imported = imports(self.tokens, at);
        if !call && !imported {
            return;
        }
        let token = self.tokens[at];
        self.hotspot(kind, &format!("{name}!"), inside, token.at, token.text.len());
        if kind == HotspotKind::Include {
            let reference = if call { included(self.tokens, at + 2) } else { None };
            self.found.references.push(reference.map_or_else(
                || Reference::Computed("include! of something computed".to_owned()),
                Reference::File,
            ));
        }
    }

    fn attributes(&mut self, at: usize, inside: Option<&str>) {
        let Some((attributes, _)) = attributes_at(self.tokens, at) else { return };
        for attribute in attributes {
            let head = self.tokens[attribute.head];
            let Attribute { path, in_unsafe, .. } = &attribute;
            let last = path.rsplit("::").next().unwrap_or(path);
            let kind = if *in_unsafe {
                Some(HotspotKind::UnsafeAttribute)
            } else if LINKAGE.contains(&last) {
                Some(HotspotKind::Linkage)
            } else if MACHINE_CODE.contains(&last) {
                Some(HotspotKind::MachineCode)
            } else if path == "path" {
                self.found.references.push(module_path(self.tokens, &attribute));
                Some(HotspotKind::ModulePath)
            } else {
                // Inside of a macro's tokens it is somebody else's.
                self.found.proc_macro |= inside.is_none() && path.starts_with("proc_macro");
                None
            };
            if let Some(kind) = kind {
                self.hotspot(kind, &format!("#[{path}]"), inside, head.at, head.text.len());
            }
        }
    }

    /// The `macro_rules! name` at token `at`, if an attribute before it exports it; its body begins at
    /// `open`.
    fn exported_macro(&mut self, at: usize, name: &str, open: usize) {
        if !exported(self.tokens, at) {
            return;
        }
        if !self.tokens.get(open).is_some_and(Token::opens) {
            return;
        }
        let body = &self.tokens[open..behind_group(self.tokens, open)];
        let token = self.tokens[open - 1];
        self.found.exported_macros.push(ExportedMacro {
            name: sanitise_line(name, 100),
            powers: powers(body),
            passes_attributes: passes_attributes(body),
            wraps_caller: wraps_caller(body),
            span: self.text.span(token.at, token.text.len()),
        });
    }
}

/// The name that a definition at token `at` gives, and where its body begins. The name may be another
/// macro's fragment: `macro_rules! $name`.
fn defined_macro<'a>(tokens: &[Token<'a>], at: usize) -> Option<(&'a str, usize)> {
    if let Some(name) = macro_definition(tokens, at) {
        return Some((name, at + 3));
    }
    let [first, second, third, fourth] = tokens.get(at..at + 4)? else { return None };
    let is_definition =
        first.word() == Some("macro_rules") && second.is(TokenKind::Bang) && third.is(TokenKind::Dollar);
    is_definition.then(|| fourth.word().map(|name| (name, at + 4))).flatten()
}

/// A keyword that hands out power, and what stands there.
fn keyword(tokens: &[Token<'_>], at: usize) -> Option<(HotspotKind, String)> {
    let token = tokens[at];
    if token.is_keyword("unsafe") {
        let next = tokens.get(at + 1).map_or("", |next| next.text);
        Some((HotspotKind::Unsafe, format!("unsafe {next}")))
    } else if token.is_keyword("static") && is_keyword(tokens, at + 1, "mut") {
        Some((HotspotKind::StaticMut, "static mut".to_owned()))
    } else if token.is_keyword("extern") && opens_foreign_block(tokens, at) {
        Some((HotspotKind::ExternBlock, "extern block".to_owned()))
    } else {
        None
    }
}

fn is_keyword(tokens: &[Token<'_>], at: usize, keyword: &str) -> bool {
    tokens.get(at).is_some_and(|token| token.is_keyword(keyword))
}

/// The macro whose body or argument the bracket at `at` opens.
pub(crate) fn macro_behind(tokens: &[Token<'_>], at: usize) -> Option<String> {
    let word = |back: usize| at.checked_sub(back).and_then(|index| tokens.get(index)?.word());
    let bang = |back: usize| {
        at.checked_sub(back)
            .and_then(|index| tokens.get(index))
            .is_some_and(|token| token.is(TokenKind::Bang))
    };
    if bang(1) {
        return word(2).map(|name| format!("{name}!"));
    }
    match (word(3), word(1)) {
        (Some("macro_rules"), Some(name)) if bang(2) => Some(format!("macro_rules! {name}")),
        _ => None,
    }
}

/// `extern {`, `extern "abi" {`, and what a macro's fragment may become one of them.
fn opens_foreign_block(tokens: &[Token<'_>], at: usize) -> bool {
    let abi = usize::from(tokens.get(at + 1).is_some_and(Token::is_literal));
    match tokens.get(at + 1 + abi) {
        Some(next) => next.is(TokenKind::OpenBrace) || next.is(TokenKind::Dollar),
        None => false,
    }
}

/// Whether the word at `at` is brought in under its own or another name: `use core::arch::asm;`,
/// `use std::include as take`.
fn imports(tokens: &[Token<'_>], at: usize) -> bool {
    let before = at.checked_sub(1).and_then(|index| tokens.get(index));
    let behind_path = before.is_some_and(|token| {
        matches!(token.kind, TokenKind::Colon | TokenKind::OpenBrace | TokenKind::Comma)
    });
    let renamed = is_keyword(tokens, at + 1, "as") && tokens.get(at + 2).and_then(Token::word).is_some();
    let whole = before.is_some_and(|token| token.is(TokenKind::Colon))
        && tokens.get(at + 1).is_some_and(|token| token.is(TokenKind::Semi));
    behind_path && (renamed || whole)
}

/// The file of `include!("…")`, whose bracket stands at `open`.
fn included(tokens: &[Token<'_>], open: usize) -> Option<String> {
    let behind = behind_group(tokens, open);
    match tokens.get(open + 1..behind.checked_sub(1)?)? {
        [literal] => plain_text(literal),
        [literal, comma] if comma.is(TokenKind::Comma) => plain_text(literal),
        _ => None,
    }
}

fn module_path(tokens: &[Token<'_>], attribute: &Attribute) -> Reference {
    let plain = match tokens.get(attribute.arguments.clone()) {
        Some([equals, literal]) if equals.is(TokenKind::Eq) => plain_text(literal),
        _ => None,
    };
    plain.map_or_else(|| Reference::Computed("#[path] of something computed".to_owned()), Reference::File)
}

/// The text of a string literal without escapes.
fn plain_text(token: &Token<'_>) -> Option<String> {
    if !token.is_literal() {
        return None;
    }
    let raw = token.text.strip_prefix('r').map(|text| text.trim_matches('#'));
    let text = raw.unwrap_or(token.text).strip_prefix('"')?.strip_suffix('"')?;
    (raw.is_some() || !text.contains('\\')).then(|| text.to_owned())
}

/// Whether one of the attributes directly before token `at` is `macro_export`. They are read
/// backwards, bracket by bracket.
fn exported(tokens: &[Token<'_>], at: usize) -> bool {
    let mut end = at;
    while end > 0 && tokens[end - 1].is(TokenKind::CloseBracket) {
        let Some(start) = before_group(tokens, end - 1) else { return false };
        let Some(pound) = start.checked_sub(1).filter(|pound| tokens[*pound].is(TokenKind::Pound)) else {
            return false;
        };
        if tokens[start..end].iter().any(|token| token.word() == Some("macro_export")) {
            return true;
        }
        end = pound;
    }
    false
}

/// The bracket that the one at `close` closes.
fn before_group(tokens: &[Token<'_>], close: usize) -> Option<usize> {
    let mut depth = 0usize;
    for at in (0..=close).rev() {
        if tokens[at].closes() {
            depth += 1;
        } else if tokens[at].opens() {
            depth -= 1;
            if depth == 0 {
                return Some(at);
            }
        }
    }
    None
}

/// Kinds of power in a macro's body, sorted.
fn powers(body: &[Token<'_>]) -> Vec<HotspotKind> {
    let mut kinds: Vec<HotspotKind> = (0..body.len()).filter_map(|at| power(body, at)).collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds
}

fn power(tokens: &[Token<'_>], at: usize) -> Option<HotspotKind> {
    let word = tokens[at].word()?;
    let bang = tokens.get(at + 1).is_some_and(|next| next.is(TokenKind::Bang));
    let machine_code =
        || macros::ROWS.iter().any(|row| row.name == word && row.rule == MacroRule::MachineCode);
    if let Some((kind, _)) = keyword(tokens, at) {
        return Some(kind);
    }
    if bang && word != "is_x86_feature_detected" && machine_code() {
        return Some(HotspotKind::MachineCode);
    }
    (LINKAGE.contains(&word) && in_attribute(tokens, at)).then_some(HotspotKind::Linkage)
}

/// `#[word` or `#![word`.
fn in_attribute(tokens: &[Token<'_>], at: usize) -> bool {
    let kind = |back: usize| at.checked_sub(back).and_then(|index| tokens.get(index)).map(|token| token.kind);
    kind(1) == Some(TokenKind::OpenBracket) && matches!(kind(2), Some(TokenKind::Pound | TokenKind::Bang))
}

/// `#[$meta]`, `#$attribute`, `#[cfg_attr(…, $meta)]`, with or without more around the fragment. Not
/// `#[doc = $text]` and its like, whose name the macro has chosen.
fn passes_attributes(body: &[Token<'_>]) -> bool {
    (0..body.len()).filter(|at| body[*at].is(TokenKind::Pound)).any(|at| {
        let inner = usize::from(body.get(at + 1).is_some_and(|token| token.is(TokenKind::Bang)));
        let (open, first) = (at + 1 + inner, at + 2 + inner);
        let is_dollar = |at: usize| body.get(at).is_some_and(|token| token.is(TokenKind::Dollar));
        is_dollar(open)
            || (body.get(open).is_some_and(Token::opens) && (is_dollar(first) || carries(body, first)))
    })
}

/// `cfg_attr(` and a fragment among the next tokens; how far that goes is bounded, and further is taken
/// for one.
fn carries(body: &[Token<'_>], at: usize) -> bool {
    if body.get(at).and_then(Token::word) != Some("cfg_attr") {
        return false;
    }
    let mut depth = 0usize;
    for (count, token) in body[at + 1..].iter().enumerate() {
        if token.is(TokenKind::Dollar) || count > CARRIED_MAX {
            return true;
        }
        if token.opens() {
            depth += 1;
        } else if token.closes() {
            depth = depth.saturating_sub(1);
            if depth == 0 {
                return false;
            }
        }
    }
    true
}

/// Tokens of one `cfg_attr` that are looked at.
const CARRIED_MAX: usize = 200;

/// Whether tokens of the caller stand inside of `unsafe`: what the caller writes there is unsafe code
/// that its own `-F unsafe-code` does not see. `unsafe { $e }`, `unsafe impl Send for $t {}`,
/// `unsafe fn $name() { … }`: from the word to the end of its first braces. `$crate` is nobody's token.
/// A matcher is not told from a body: `(unsafe $e:expr)` counts, too. One pass, whatever the depth.
fn wraps_caller(body: &[Token<'_>]) -> bool {
    // For each open bracket: inside of unsafe, and behind an `unsafe` whose braces are still to come.
    let mut open: Vec<(bool, bool)> = vec![(false, false)];
    for (at, token) in body.iter().enumerate() {
        let Some((inside, behind)) = open.last_mut() else { return false };
        if token.opens() {
            let within = *inside || *behind;
            *behind &= !token.is(TokenKind::OpenBrace);
            open.push((within, false));
        } else if token.closes() {
            open.pop();
        } else if token.is(TokenKind::Semi) {
            *behind = false;
        } else if token.is_keyword("unsafe") {
            *behind = true;
        } else if (*inside || *behind) && is_fragment(body, at) {
            return true;
        }
    }
    false
}

fn is_fragment(body: &[Token<'_>], at: usize) -> bool {
    let name = body.get(at + 1).and_then(Token::word);
    body[at].is(TokenKind::Dollar) && name.is_some_and(|name| name != "crate")
}
