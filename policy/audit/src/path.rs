//! Paths in a token stream: those in expressions, types, attributes and macro bodies, and those
//! of `use` trees, one for each leaf.

use ra_ap_rustc_lexer::TokenKind;

use crate::token::Token;

/// Segments of a path that are kept. Judgements need the first three or four; the bound keeps
/// `use a::b::…::{…}` from multiplying.
const SEGMENTS_MAX: usize = 12;
/// Groups open at once in one `use`: more than the nesting limit lets pass.
const GROUPS_MAX: usize = 256;

/// Keywords behind which a path may begin: `return ::std::…`, `as std::…`. The path keywords
/// (`crate`, `self`, `super`, `Self`) are missing since they are segments themselves.
const KEYWORDS: &[&str] = &[
    "as", "async", "await", "become", "box", "break", "const", "continue", "do", "dyn", "else", "enum",
    "extern", "false", "fn", "for", "gen", "if", "impl", "in", "let", "loop", "macro", "match", "mod",
    "move", "mut", "pub", "ref", "return", "static", "struct", "trait", "true", "try", "type", "typeof",
    "unsafe", "use", "where", "while", "yield",
];

/// One path, or one leaf of a `use` tree with everything before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Path<'a> {
    /// As written, raw prefixes removed, `self` of a use group resolved. A macro fragment is `$name`;
    /// a glob ends with `*`.
    pub(crate) segments: Vec<&'a str>,
    /// The segment came behind a `$`: its text is a fragment's name.
    pub(crate) fragment_head: bool,
    /// Written with a leading `::`.
    pub(crate) leading: bool,
    /// The name behind `as`.
    pub(crate) alias: Option<&'a str>,
    /// Index of the token that names the first segment.
    pub(crate) head: usize,
    /// Index of the token that names the last segment.
    pub(crate) last: usize,
}

impl Path<'_> {
    /// The name that an import brings into scope; none for globs and `as _`.
    pub(crate) fn binds(&self) -> Option<&str> {
        match self.alias.or(self.segments.last().copied()) {
            None | Some("_" | "*") => None,
            name => name,
        }
    }
}

/// Whether tokens `at` and `at + 1` are one `::`.
pub(crate) fn double_colon(tokens: &[Token<'_>], at: usize) -> bool {
    match (tokens.get(at), tokens.get(at + 1)) {
        (Some(first), Some(second)) => {
            first.is(TokenKind::Colon) && second.is(TokenKind::Colon) && first.at + 1 == second.at
        }
        _ => false,
    }
}

/// Whether a non-raw word is a keyword that cannot be a path segment.
pub(crate) fn is_plain_keyword(token: &Token<'_>) -> bool {
    token.is(TokenKind::Ident) && KEYWORDS.contains(&token.text)
}

/// The path whose first segment is token `at`, or `None` if no path begins there. The result
/// ends before generic arguments.
pub(crate) fn path_at<'a>(tokens: &[Token<'a>], at: usize) -> Option<Path<'a>> {
    let token = tokens.get(at)?;
    let word = token.word()?;
    if is_plain_keyword(token) {
        return None;
    }
    let leading = match before(tokens, at) {
        Before::Segment => return None,
        Before::LeadingColons => true,
        Before::Nothing => false,
    };
    let fragment_head = at > 0 && tokens[at - 1].is(TokenKind::Dollar) && word != "crate";
    let mut path = Path { segments: vec![word], fragment_head, leading, alias: None, head: at, last: at };
    let mut next = at + 1;
    while double_colon(tokens, next) {
        let mut name = next + 2;
        if tokens.get(name).is_some_and(|token| token.is(TokenKind::Dollar)) {
            name += 1;
        }
        let Some(word) = tokens.get(name).and_then(Token::word) else { break };
        if path.segments.len() < SEGMENTS_MAX {
            path.segments.push(word);
        }
        path.last = name;
        next = name + 1;
    }
    Some(path)
}

enum Before {
    /// This word continues a path.
    Segment,
    /// `::` with nothing before it.
    LeadingColons,
    Nothing,
}

fn before(tokens: &[Token<'_>], at: usize) -> Before {
    // A fragment's `$` belongs to the word.
    let at = if at > 0 && tokens[at - 1].is(TokenKind::Dollar) { at - 1 } else { at };
    if at < 2 || !double_colon(tokens, at - 2) {
        return Before::Nothing;
    }
    match at.checked_sub(3).map(|index| &tokens[index]) {
        Some(token) if token.word().is_some() && !is_plain_keyword(token) => Before::Segment,
        // `<T as Trait>::name` and `a > ::std::…` look alike. It counts as a beginning: an associated
        // item named `std` is rarer than an evasion.
        _ => Before::LeadingColons,
    }
}

/// The leaves of the `use` whose keyword is token `at`, and the index behind it. `use<…>`, which
/// captures generics, has no leaves.
pub(crate) fn use_tree<'a>(tokens: &[Token<'a>], at: usize) -> (Vec<Path<'a>>, usize) {
    let mut reader = TreeReader { leaves: Vec::new(), groups: Vec::new(), current: Prefix::default() };
    let mut index = at + 1;
    if tokens.get(index).is_some_and(|token| matches!(token.kind, TokenKind::Lt | TokenKind::Or)) {
        return (Vec::new(), index);
    }
    while let Some(token) = tokens.get(index) {
        match token.kind {
            TokenKind::Semi => break,
            TokenKind::CloseBrace if reader.groups.is_empty() => break,
            // A second `use` before the end: not Rust, and each of them is read once.
            _ if token.is_keyword("use") => break,
            _ => index = reader.token(tokens, index),
        }
    }
    reader.leaf();
    (reader.leaves, index)
}

#[derive(Debug, Clone, Default)]
struct Prefix<'a> {
    segments: Vec<&'a str>,
    fragment_head: bool,
    leading: bool,
    alias: Option<&'a str>,
    head: usize,
    last: usize,
    /// Something has been written since the last separator.
    open: bool,
}

struct TreeReader<'a> {
    leaves: Vec<Path<'a>>,
    groups: Vec<Prefix<'a>>,
    current: Prefix<'a>,
}

impl<'a> TreeReader<'a> {
    /// Takes the token at `index`; answers the index of the next one to take.
    fn token(&mut self, tokens: &[Token<'a>], index: usize) -> usize {
        let token = tokens[index];
        match token.kind {
            TokenKind::OpenBrace => self.open_group(),
            TokenKind::CloseBrace => {
                self.leaf();
                self.groups.pop();
                self.current = Prefix::default();
            }
            TokenKind::Colon => {
                self.current.leading |= self.current.segments.is_empty();
                self.current.open |= self.current.leading;
            }
            TokenKind::Star => self.segment("*", index, false),
            TokenKind::Dollar => {
                if let Some(word) = tokens.get(index + 1).and_then(Token::word) {
                    self.segment(word, index + 1, word != "crate");
                    return index + 2;
                }
            }
            _ if token.is_keyword("as") => {
                let alias = tokens.get(index + 1).and_then(Token::word);
                self.current.alias = alias.or(Some("_"));
                return index + 2;
            }
            _ => match token.word() {
                Some(word) => self.segment(word, index, false),
                // A comma, or the brackets of a macro repetition: both end a leaf.
                None => {
                    self.leaf();
                    self.current = self.groups.last().cloned().unwrap_or_default();
                }
            },
        }
        index + 1
    }

    fn open_group(&mut self) {
        let mut prefix = std::mem::take(&mut self.current);
        prefix.open = false;
        self.current = prefix.clone();
        // Past the bound the innermost group is forgotten, which makes later leaves longer than
        // written; nesting of that depth is refused anyway.
        if self.groups.len() < GROUPS_MAX {
            self.groups.push(prefix);
        }
    }

    fn segment(&mut self, word: &'a str, index: usize, fragment: bool) {
        let current = &mut self.current;
        current.open = true;
        if current.segments.is_empty() {
            current.head = index;
            current.fragment_head = fragment;
        }
        current.last = index;
        // `a::{self}` is `a`.
        let is_group_self = word == "self" && !current.segments.is_empty();
        if !is_group_self && current.segments.len() < SEGMENTS_MAX {
            current.segments.push(word);
        }
    }

    /// Ends a leaf, if one was written.
    fn leaf(&mut self) {
        let current = std::mem::take(&mut self.current);
        if current.open && !current.segments.is_empty() {
            self.leaves.push(Path {
                segments: current.segments,
                fragment_head: current.fragment_head,
                leading: current.leading,
                alias: current.alias,
                head: current.head,
                last: current.last,
            });
        }
    }
}
