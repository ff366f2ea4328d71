//! The rows of the table.

use serde::Serialize;

/// One crate.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Row {
    pub(super) name: String,
    pub(super) version: String,
    /// As the workspace of all of them switches them on.
    pub(super) features: Vec<String>,
    pub(super) geiger: Counted,
    pub(super) tokens: Counted,
    /// Errors of the lint; `clean` is 0.
    pub(super) compiler: Counted,
    pub(super) build_script: bool,
    pub(super) proc_macro: bool,
}

/// A number, or the reason why there is none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Counted {
    Number(u64),
    Unknown(String),
}

/// All rows, and what was asked for and is not among them.
#[derive(Debug, Default, Serialize)]
pub(super) struct Table {
    pub(super) rows: Vec<Row>,
    pub(super) missing: Vec<Missing>,
}

#[derive(Debug, Serialize)]
pub(super) struct Missing {
    pub(super) name: String,
    pub(super) reason: String,
}
