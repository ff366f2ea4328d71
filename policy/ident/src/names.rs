//! Names of people's things: tenants, functions, aliases, versions, crates, nodes, handlers.

use crate::{ParseError, text_newtype};

fn is_label(text: &str, max: usize) -> bool {
    let bytes = text.as_bytes();
    (1..=max).contains(&bytes.len())
        && bytes[0].is_ascii_lowercase()
        && bytes.iter().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'_'))
}

text_newtype!(
    /// A tenant: the owner of functions and the border of visibility.
    TenantName, "tenant name",
    "1 to 40 characters of a-z, 0-9, '-', '_', starting with a letter", |t| is_label(t, 40)
);
text_newtype!(
    /// A function, unique within its tenant.
    FunctionName, "function name",
    "1 to 63 characters of a-z, 0-9, '-', '_', starting with a letter", |t| is_label(t, 63)
);
text_newtype!(
    /// A movable name for one version of a function; `live` is the one that invocations use
    /// when they name none.
    AliasName, "alias",
    "1 to 40 characters of a-z, 0-9, '-', '_', starting with a letter", |t| is_label(t, 40)
);
text_newtype!(
    /// Data of a site that its operators have made and grant to tenants.
    ResourceName, "resource name",
    "1 to 63 characters of a-z, 0-9, '-', '_', starting with a letter", |t| is_label(t, 63)
);
text_newtype!(
    /// What a function calls data that it may reach.
    BindingName, "binding name",
    "1 to 40 characters of a-z, 0-9, '-', '_', starting with a letter", |t| is_label(t, 40)
);
text_newtype!(
    /// When a function is called by its site, unique within the function.
    ScheduleName, "schedule name",
    "1 to 40 characters of a-z, 0-9, '-', '_', starting with a letter", |t| is_label(t, 40)
);
text_newtype!(
    /// For which changes of objects a function is called by its site, unique within the function.
    TriggerName, "trigger name",
    "1 to 40 characters of a-z, 0-9, '-', '_', starting with a letter", |t| is_label(t, 40)
);
text_newtype!(
    /// A serving machine.
    NodeName, "node name",
    "1 to 63 characters of a-z, 0-9, '-', '_', starting with a letter", |t| is_label(t, 63)
);
text_newtype!(
    /// A crate's package name as the registry spells it.
    CrateName, "crate name",
    "1 to 64 characters of A-Z, a-z, 0-9, '-', '_', starting with a letter",
    |t| (1..=64).contains(&t.len())
        && t.as_bytes()[0].is_ascii_alphabetic()
        && t.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
);
text_newtype!(
    /// Where the handler is in the tenant's crate, for example `api::handle`.
    ///
    /// It becomes source text of the generated entry, so only plain identifiers pass: no raw
    /// identifiers, no keywords, no generics, no white space.
    HandlerPath, "handler",
    "1 to 8 plain identifiers joined by '::', none of them a keyword, 128 characters at most",
    is_handler
);

text_newtype!(
    /// A person or machine account that a token acts for. Two tokens of one person have one
    /// vote, so two spellings of one name must not look alike.
    PersonName, "person",
    "1 to 200 characters of a-z, 0-9 and '.', '_', '@', '+', ':', '/', '-', starting with a letter or digit",
    |t| (1..=200).contains(&t.len())
        && t.as_bytes()[0].is_ascii_alphanumeric()
        && t.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"._@+:/-".contains(&b))
);

impl AliasName {
    /// The alias that an invocation without a version means.
    pub fn live() -> Self {
        Self("live".to_owned())
    }
}

const KEYWORDS: &[&str] = &[
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate", "do", "dyn",
    "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop",
    "macro", "match", "mod", "move", "mut", "override", "priv", "pub", "ref", "return", "self", "Self",
    "static", "struct", "super", "trait", "true", "try", "type", "typeof", "unsafe", "unsized", "use",
    "virtual", "where", "while", "yield",
];

fn is_handler(text: &str) -> bool {
    let mut count = 0;
    text.len() <= 128
        && text.split("::").all(|part| {
            count += 1;
            is_plain_identifier(part)
        })
        && count <= 8
}

fn is_plain_identifier(part: &str) -> bool {
    let bytes = part.as_bytes();
    !bytes.is_empty()
        && part != "_"
        && (bytes[0].is_ascii_alphabetic() || bytes[0] == b'_')
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'_')
        && !KEYWORDS.contains(&part)
}

/// A function's immutable version: 1, 2, 3, … within the function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct VersionNumber(u32);

impl VersionNumber {
    /// The first version of a function.
    pub const FIRST: Self = Self(1);

    /// Checks that `number` is at least 1 and fits the database's integer.
    pub fn new(number: u32) -> Result<Self, ParseError> {
        if (1..=i32::MAX as u32).contains(&number) {
            Ok(Self(number))
        } else {
            Err(ParseError::new("version", &number.to_string(), "a whole number from 1 to 2147483647"))
        }
    }

    /// Reads decimal digits without sign or leading zero.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let error = || ParseError::new("version", text, "a whole number from 1 to 2147483647");
        if text.starts_with(['+', '0']) {
            return Err(error());
        }
        text.parse::<u32>().map_err(|_| error()).and_then(|number| Self::new(number).map_err(|_| error()))
    }

    /// The number itself.
    pub fn get(self) -> u32 {
        self.0
    }
}

impl std::fmt::Display for VersionNumber {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl TryFrom<u32> for VersionNumber {
    type Error = ParseError;
    fn try_from(number: u32) -> Result<Self, ParseError> {
        Self::new(number)
    }
}

impl From<VersionNumber> for u32 {
    fn from(version: VersionNumber) -> u32 {
        version.0
    }
}

/// Which version of a function is meant: a number or an alias.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Selector {
    /// Exactly this version.
    Version(VersionNumber),
    /// Whatever the alias names at the moment of the call.
    Alias(AliasName),
}

impl Selector {
    /// A text that starts with a digit is a version, anything else an alias.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        if text.starts_with(|c: char| c.is_ascii_digit()) {
            VersionNumber::parse(text).map(Self::Version)
        } else {
            AliasName::parse(text).map(Self::Alias)
        }
    }
}

impl std::fmt::Display for Selector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Version(version) => version.fmt(f),
            Self::Alias(alias) => alias.fmt(f),
        }
    }
}

impl TryFrom<String> for Selector {
    type Error = ParseError;
    fn try_from(text: String) -> Result<Self, ParseError> {
        Self::parse(&text)
    }
}

impl From<Selector> for String {
    fn from(selector: Selector) -> String {
        selector.to_string()
    }
}

/// `name`, `name@3` or `name@live`: how a person points at a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionRef {
    /// The function.
    pub name: FunctionName,
    /// The part behind `@`, if there was one.
    pub selector: Option<Selector>,
}

impl std::str::FromStr for FunctionRef {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Self, ParseError> {
        match text.split_once('@') {
            None => Ok(Self { name: FunctionName::parse(text)?, selector: None }),
            Some((name, selector)) => {
                Ok(Self { name: FunctionName::parse(name)?, selector: Some(Selector::parse(selector)?) })
            }
        }
    }
}

/// One upload and everything that came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct DeploymentId(pub uuid::Uuid);

impl std::fmt::Display for DeploymentId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::str::FromStr for DeploymentId {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Self, ParseError> {
        uuid::Uuid::parse_str(text).map(Self).map_err(|_| ParseError::new("deployment id", text, "a UUID"))
    }
}
