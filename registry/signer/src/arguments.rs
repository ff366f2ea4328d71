//! What stands behind a command's name: options in any order, each once, and nothing that the command does not know.

use std::path::PathBuf;

use anyhow::{Context as _, bail};

/// The words that nobody has taken yet.
#[derive(Debug)]
pub(crate) struct Arguments(Vec<String>);

impl Arguments {
    pub(crate) fn new(words: Vec<String>) -> Self {
        Self(words)
    }

    /// The next word, whatever it is.
    pub(crate) fn word(&mut self) -> Option<String> {
        (!self.0.is_empty()).then(|| self.0.remove(0))
    }

    /// The next word as the path of a file; `what` is for the error.
    pub(crate) fn file(&mut self, what: &str) -> anyhow::Result<PathBuf> {
        let word = self.word().filter(|word| !word.starts_with("--"));
        word.map(PathBuf::from).with_context(|| format!("{what} is missing"))
    }

    /// Whether the option is there.
    pub(crate) fn switch(&mut self, name: &str) -> bool {
        let at = self.0.iter().position(|word| word == name);
        at.map(|at| self.0.remove(at)).is_some()
    }

    /// The value of an option.
    pub(crate) fn value(&mut self, name: &str) -> anyhow::Result<Option<String>> {
        let Some(at) = self.0.iter().position(|word| word == name) else { return Ok(None) };
        let Some(value) = self.0.get(at + 1).filter(|value| !value.starts_with("--")).cloned() else {
            bail!("{name} needs a value")
        };
        self.0.drain(at..at + 2);
        Ok(Some(value))
    }

    /// The values of an option that may be given several times.
    pub(crate) fn values(&mut self, name: &str) -> anyhow::Result<Vec<String>> {
        let mut values = Vec::new();
        while let Some(value) = self.value(name)? {
            values.push(value);
        }
        Ok(values)
    }

    /// The path that an option must give.
    pub(crate) fn path(&mut self, name: &str) -> anyhow::Result<PathBuf> {
        Ok(self.value(name)?.with_context(|| format!("{name} is missing"))?.into())
    }

    /// To be called when everything was taken.
    pub(crate) fn end(self) -> anyhow::Result<()> {
        match self.0.first() {
            Some(word) => bail!("`{word}` is not understood here"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
