//! A stress input's folder: its source and what is expected of it.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use serde::Deserialize;

/// A source that burdens the compiler.
#[derive(Debug, Clone)]
pub struct StressInput {
    /// The folder's name.
    pub name: String,
    /// What may become of it.
    pub expect: Expect,
    source: Source,
}

/// `expect.toml`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    /// What the burden is, for people.
    pub what: String,
    /// The names of limits that may end it; the answer has to contain one of them. Which of
    /// several comes first depends on the machine.
    pub limits: Vec<String>,
    /// The codes that may be the answer's first.
    pub codes: Vec<String>,
    /// It ends within two seconds or so.
    #[serde(default)]
    pub quick: bool,
}

/// `input.toml`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Source {
    /// More lines of Cargo.toml.
    #[serde(default)]
    manifest: String,
    /// The parts of `src/lib.rs`, in order.
    part: Vec<Part>,
}

/// A text, or one that is repeated with `{i}` replaced by 0, 1, 2 …
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Part {
    text: String,
    times: Option<u32>,
}

/// Size of a generated source; above it a mistake in a folder is more likely than a stress input.
const SOURCE_BYTES_MAX: usize = 16 << 20;

impl StressInput {
    /// All stress inputs, by name.
    pub fn all() -> anyhow::Result<Vec<Self>> {
        let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases");
        let folders = std::fs::read_dir(&cases).with_context(|| cases.display().to_string())?;
        let mut inputs =
            folders.map(|entry| Self::read(&entry?.path())).collect::<anyhow::Result<Vec<_>>>()?;
        inputs.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(inputs)
    }

    /// The one of that name.
    pub fn named(name: &str) -> anyhow::Result<Self> {
        Self::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("cases").join(name))
    }

    fn read(folder: &Path) -> anyhow::Result<Self> {
        let name = folder.file_name().context("a folder without a name")?.to_string_lossy().into_owned();
        let (expect, source) = (parse(&folder.join("expect.toml"))?, parse(&folder.join("input.toml"))?);
        let mut input = Self { name, expect, source };
        if input.expect.limits.is_empty() || input.expect.codes.is_empty() {
            bail!("{}: nothing is expected of it", input.name);
        }
        // On a machine with more to do than cores the wall is reached before 30 s of CPU.
        if input.expect.limits.iter().any(|limit| limit == "cpu_seconds_max") {
            input.allow("wall_seconds_max", "MF0403");
        }
        Ok(input)
    }

    /// The same, of which one ending is expected.
    #[must_use]
    pub fn expecting(mut self, limit: &str, code: &str) -> Self {
        self.expect.limits = vec![limit.to_owned()];
        self.expect.codes = vec![code.to_owned()];
        self
    }

    /// One ending more is as good.
    pub fn allow(&mut self, limit: &str, code: &str) {
        self.expect.limits.push(limit.to_owned());
        self.expect.codes.push(code.to_owned());
    }

    /// The source as text.
    pub fn source(&self) -> anyhow::Result<String> {
        let mut text = String::new();
        for part in &self.source.part {
            match part.times {
                None => text.push_str(&part.text),
                Some(times) if part.text.contains("{i}") => {
                    text.extend((0..times).map(|number| part.text.replace("{i}", &number.to_string())));
                }
                Some(times) => text.push_str(&part.text.repeat(times as usize)),
            }
            if text.len() > SOURCE_BYTES_MAX {
                bail!("{}: more than {SOURCE_BYTES_MAX} bytes of source", self.name);
            }
        }
        Ok(text)
    }

    /// Writes the package below `directory` and answers where it is.
    pub fn write_into(&self, directory: &Path) -> anyhow::Result<PathBuf> {
        let package = directory.join(&self.name);
        std::fs::create_dir_all(package.join("src"))?;
        let head = "[package]\nname = \"stress\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n";
        std::fs::write(package.join("Cargo.toml"), format!("{head}{}", self.source.manifest))?;
        std::fs::write(package.join("src/lib.rs"), self.source()?)?;
        Ok(package)
    }
}

fn parse<T: serde::de::DeserializeOwned>(file: &Path) -> anyhow::Result<T> {
    let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
    toml::from_str(&text).with_context(|| file.display().to_string())
}
