//! Admission beside the bare compiler: what a deploy costs, whole or stage by stage, and what the same compiler calls cost
//! alone, in the same run.
//!
//! Rounds alternate, so that a machine that gets slower gets slower for both; every round changes
//! a constant in the source, so that nothing is answered from a store. It must never call an aim met that was not measured.

pub mod bare;
pub mod cpu;
pub mod deploy;
pub mod package;
pub mod stages;
pub mod table;

use std::fmt;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use bare::{Bare, Builder};
use package::Package;
use table::Sample;

/// What every round of a run has.
#[derive(Debug)]
pub struct Plan {
    /// Measured rounds for each package; one more warms up.
    pub rounds: u32,
    /// Whether nothing is said on the way.
    pub quiet: bool,
    /// What compiles.
    pub builder: Builder,
}

/// Ours and the bare compilation beside it.
#[derive(Debug, Clone)]
pub struct Round<T> {
    /// What is measured.
    pub ours: T,
    /// The compiler alone.
    pub bare: Sample,
}

impl Plan {
    /// Measures a package as often as planned.
    pub fn rounds<T>(
        &self,
        package: &mut Package,
        ours: impl Fn(&Package) -> anyhow::Result<T>,
    ) -> anyhow::Result<Vec<Round<T>>> {
        let mut rounds = Vec::new();
        for round in 0..=self.rounds {
            if !self.quiet {
                // Without a standard error there is nobody to tell.
                let _ = writeln!(std::io::stderr(), "{}: round {round} of {}", package.name, self.rounds);
            }
            let measured = self.one_round(package, &ours)?;
            // Round 0 warms caches and pools.
            if round > 0 {
                rounds.push(measured);
            }
        }
        Ok(rounds)
    }

    /// Both sides of the same changed source; which goes first alternates.
    fn one_round<T>(
        &self,
        package: &mut Package,
        ours: impl Fn(&Package) -> anyhow::Result<T>,
    ) -> anyhow::Result<Round<T>> {
        let number = package.change()?;
        let bare = Bare::of(&self.builder, package.path())?;
        if number % 2 == 0 {
            Ok(Round { ours: ours(package)?, bare: bare.measure()? })
        } else {
            let bare = bare.measure()?;
            Ok(Round { ours: ours(package)?, bare })
        }
    }
}

/// The end of a run that measured nothing, with the exit code that says why.
#[derive(Debug)]
pub struct Ended {
    /// One of those of `mfaas`.
    pub code: u8,
    /// Nothing where a program of ours has said it already.
    pub text: Option<String>,
}

impl Ended {
    /// What was asked for makes no sense.
    pub fn usage(text: String) -> anyhow::Error {
        Self { code: 2, text: Some(text) }.into()
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.text {
            Some(text) => f.write_str(text),
            None => write!(f, "ended with exit code {}", self.code),
        }
    }
}

impl std::error::Error for Ended {}

/// A program beside our own.
pub fn beside_us(program: &str) -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe().context("find our own executable")?;
    let path = own.with_file_name(program);
    anyhow::ensure!(path.is_file(), "{program} is not beside {}", own.display());
    Ok(path)
}

/// Examples of the source tree that we stand in or were built in.
pub fn examples(names: [&str; 2]) -> anyhow::Result<Vec<PathBuf>> {
    let own = std::env::current_exe().unwrap_or_default();
    let here = std::env::current_dir().unwrap_or_default();
    let examples = std::iter::once(here.as_path())
        .chain(own.ancestors())
        .map(|dir| dir.join("examples"))
        .find(|dir| dir.join("hello/Cargo.toml").is_file())
        .ok_or_else(|| Ended::usage("examples/hello is not here; name the packages".to_owned()))?;
    let present = names.map(|name| examples.join(name)).into_iter().filter(|path| Path::is_dir(path));
    Ok(present.collect())
}

#[cfg(test)]
mod tests;
