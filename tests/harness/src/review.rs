//! What reviewers do on an installation.

use crate::{Run, Stack};

impl Stack {
    /// The token of a reviewer of that name, who is a person of their own.
    ///
    /// # Panics
    /// When it cannot be made.
    pub fn reviewer(&self, name: &str) -> String {
        let create = ["token", "create", name, "--role", "reviewer", "--person", name];
        self.cli(create).ok().stdout.trim().to_owned()
    }

    /// `mfaas review --json` with this token.
    pub fn review(&self, token: &str, arguments: &[&str]) -> Run {
        let line = [&["review", "--json"], arguments].concat();
        self.cli_with(line, &[("MFAAS_TOKEN", token)])
    }

    /// `mfaas crate --json` with this token.
    pub fn crates(&self, token: &str, arguments: &[&str]) -> Run {
        let line = [&["crate", "--json"], arguments].concat();
        self.cli_with(line, &[("MFAAS_TOKEN", token)])
    }
}
