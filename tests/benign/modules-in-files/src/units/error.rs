//! What can be wrong with a question.
use std::fmt;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Problem<'a> {
    Form,
    Number(&'a str),
    Unit(&'a str),
    Kind(&'static str, &'static str),
}

impl fmt::Display for Problem<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Form => f.write_str("VALUE UNIT in UNIT"),
            Self::Number(word) => write!(f, "not a number: {word}"),
            Self::Unit(word) => write!(f, "unknown unit {word}"),
            Self::Kind(from, to) => write!(f, "a {from} is no {to}"),
        }
    }
}

impl std::error::Error for Problem<'_> {}
