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

    /// `mfaas allow --json` with somebody's token.
    pub fn allow(&self, token: &str, arguments: &[&str]) -> Run {
        let line = [&["allow", "--json"], arguments].concat();
        self.cli_with(line, &[("MFAAS_TOKEN", token)])
    }
}
