//! What was typed, as what is meant.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use mfaas_executor::Verification;
use mfaas_ident::{Budget, MemoryLimit};
use mfaas_ring::preload::SpeculationControls;

/// What to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// Serve a node.
    Serve,
    /// Say what would hold calls here, with these controls over speculation.
    Protection(SpeculationControls),
    /// Load an image and leave.
    Probe(PathBuf),
    /// Call an image a few times.
    Call(Call),
    /// Say which build this is.
    Version,
}

/// A developer's calls.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Call {
    /// The image.
    pub(crate) file: PathBuf,
    /// CPU time of each call.
    pub(crate) budget: Budget,
    /// Arena of each call.
    pub(crate) memory: MemoryLimit,
    /// How often.
    pub(crate) times: u64,
    /// Whether the image must pass the verifier.
    pub(crate) verification: Verification,
    /// Print the body of the last response and nothing else.
    pub(crate) raw: bool,
}

impl Command {
    pub(crate) fn parse(mut arguments: impl Iterator<Item = OsString>) -> anyhow::Result<Self> {
        let Some(first) = arguments.next() else { return Ok(Self::Serve) };
        if first == "--protection" {
            let controls = arguments.next().context("the controls over speculation are missing")?;
            let controls = controls.to_str().context("controls that are not UTF-8")?;
            return match arguments.next() {
                None => Ok(Self::Protection(serde_json::from_str(controls).context("--protection")?)),
                Some(more) => bail!("unexpected {more:?}"),
            };
        }
        if first == "--version" {
            return match arguments.next() {
                None => Ok(Self::Version),
                Some(more) => bail!("unexpected {more:?}"),
            };
        }
        let file = PathBuf::from(arguments.next().context("a file is missing")?);
        match first.to_str() {
            Some("--probe") => match arguments.next() {
                None => Ok(Self::Probe(file)),
                Some(more) => bail!("unexpected {more:?}"),
            },
            Some("--call") => Call::parse(file, arguments).map(Self::Call),
            _ => bail!(
                "unexpected {first:?}: --protection CONTROLS, --probe FILE, --call FILE, --version, or nothing"
            ),
        }
    }
}

impl Call {
    fn parse(file: PathBuf, mut arguments: impl Iterator<Item = OsString>) -> anyhow::Result<Self> {
        let (budget, memory, verification) = (Budget::DEFAULT, MemoryLimit::DEFAULT, Verification::Required);
        let mut call = Self { file, budget, memory, times: 1, verification, raw: false };
        while let Some(option) = arguments.next() {
            let option = option.into_string().ok().context("an option that is not UTF-8")?;
            match &*option {
                "--raw" => call.raw = true,
                "--unverified" => call.verification = Verification::Waived,
                _ => call.set(&option, arguments.next())?,
            }
        }
        Ok(call)
    }

    /// An option with a value.
    fn set(&mut self, option: &str, value: Option<OsString>) -> anyhow::Result<()> {
        let value = value.with_context(|| format!("{option} needs a value"))?;
        let value = value.into_string().ok().context("a value that is not UTF-8")?;
        match option {
            "--budget" => self.budget = Budget::parse(&value)?,
            "--memory" => self.memory = MemoryLimit::parse(&value)?,
            "--times" => self.times = value.parse().context("--times needs a number")?,
            other => bail!("unexpected {other}"),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
