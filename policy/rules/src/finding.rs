//! A finding: one thing that is wrong, with its code, its place and the way out.

use serde::{Deserialize, Serialize};

use crate::Code;

/// The layer that saw it. The threat table of docs/threat-model.md has one column for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// The archive reader.
    Archive,
    /// The key allowlist of Cargo.toml, and the dependency allowlist.
    Manifest,
    /// The lexer over the tenant's files.
    Lexer,
    /// The lexer over the macro-expanded source, with hygiene marks.
    Expansion,
    /// The lints over the expanded source that know the compiler's open soundness holes.
    Soundness,
    /// The facade of std that the source is compiled against.
    Facade,
    /// The list of files and variables that the compiler read.
    DepInfo,
    /// rustc itself.
    Compiler,
    /// The link against the stub of allowed symbols.
    Linker,
    /// The inspection of the ELF image.
    Binary,
    /// The verifier of machine code.
    MachineCode,
    /// The throw-away load in a locked-down worker.
    ThrowawayLoad,
    /// The build sandbox and its limits. Findings that are kept call it by an older name.
    #[serde(rename = "cage", alias = "sandbox")]
    Sandbox,
    /// The signer's repetition.
    Signer,
    /// The node's verification.
    Node,
    /// The worker that runs the function.
    Runtime,
}

impl Layer {
    /// Its word for people: on the wire, in the console and in tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Archive => "archive",
            Self::Manifest => "manifest",
            Self::Lexer => "lexer",
            Self::Expansion => "expansion",
            Self::Soundness => "soundness",
            Self::Facade => "facade",
            Self::DepInfo => "dep_info",
            Self::Compiler => "compiler",
            Self::Linker => "linker",
            Self::Binary => "binary",
            Self::MachineCode => "machine_code",
            Self::ThrowawayLoad => "throwaway_load",
            Self::Sandbox => "sandbox",
            Self::Signer => "signer",
            Self::Node => "node",
            Self::Runtime => "runtime",
        }
    }
}

/// A place in the tenant's own files. Lines and columns count from 1, columns in characters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Span {
    /// Path within the source tree, for example `src/lib.rs`.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
    /// First column, from 1, in characters.
    pub column: u32,
    /// The column behind the last one.
    pub end_column: u32,
    /// The whole line, sanitised and cut to 200 bytes.
    pub text: String,
}

/// One reason for a refusal or a wait.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The stable code.
    pub code: Code,
    /// One sentence about this occurrence, sanitised.
    pub message: String,
    /// Where, if it is in a file of the tenant.
    pub span: Option<Span>,
    /// What to do instead.
    pub hint: String,
    /// Who saw it.
    pub layer: Layer,
}

impl Finding {
    /// A finding without a place, with the code's own hint. The message is sanitised here, so
    /// that no caller can forget it.
    pub fn new(code: Code, layer: Layer, message: impl AsRef<str>) -> Self {
        Self {
            code,
            message: mfaas_ident::sanitise(message.as_ref(), 500),
            span: None,
            hint: code.hint().to_owned(),
            layer,
        }
    }

    /// The same finding, at a place.
    #[must_use]
    pub fn at(mut self, span: Span) -> Self {
        self.span = Some(span);
        self
    }

    /// The same finding, with or without a place.
    #[must_use]
    pub fn at_opt(mut self, span: Option<Span>) -> Self {
        self.span = span;
        self
    }

    /// The same finding, with a hint for this occurrence.
    #[must_use]
    pub fn hint(mut self, hint: impl AsRef<str>) -> Self {
        self.hint = mfaas_ident::sanitise(hint.as_ref(), 500);
        self
    }
}
