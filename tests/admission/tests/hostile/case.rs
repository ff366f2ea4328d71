//! A case as it lies on disk: files, and files that are described because nobody wants to read them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use mfaas_harness::Archive;
use serde::Deserialize;

/// Everything that a tenant uploads.
pub(crate) type Files = BTreeMap<String, Vec<u8>>;

/// One folder.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) folder: PathBuf,
    pub(crate) files: Files,
}

/// `generate.toml`: files made of repeated text.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Generate {
    file: Vec<Generated>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Generated {
    path: String,
    parts: Vec<Part>,
}

#[derive(Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum Part {
    Text(String),
    /// `{n}` counts from 0.
    Repeated {
        repeat: String,
        times: usize,
    },
}

impl Case {
    /// The folders below `root`, in the order of their names; those that contain one of `filters`
    /// if there are any.
    pub(crate) fn all(root: &Path, filters: &[String]) -> anyhow::Result<Vec<Self>> {
        let mut names: Vec<String> = std::fs::read_dir(root)
            .with_context(|| root.display().to_string())?
            .flatten()
            .filter(|entry| {
                entry.path().join("expect.toml").is_file() || entry.path().join("package").is_dir()
            })
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .filter(|name| filters.is_empty() || filters.iter().any(|filter| name.contains(filter.as_str())))
            .collect();
        names.sort();
        names.into_iter().map(|name| Self::read(root, name)).collect()
    }

    fn read(root: &Path, name: String) -> anyhow::Result<Self> {
        let folder = root.join(&name);
        let mut files = Files::new();
        read_tree(&folder.join("package"), "", &mut files).with_context(|| name.clone())?;
        let described = folder.join("generate.toml");
        if described.is_file() {
            let text = std::fs::read_to_string(&described)?;
            let described: Generate = toml::from_str(&text).with_context(|| name.clone())?;
            files
                .extend(described.file.into_iter().map(|file| (file.path.clone(), file.text().into_bytes())));
        }
        Ok(Self { name, folder, files })
    }

    /// The family: what stands before the first hyphen, for the samples; `pipeline` for those of
    /// no family and the cases that the end-to-end tests deploy.
    pub(crate) fn family(&self) -> &str {
        const FAMILIES: &[&str] =
            &["attr", "mac", "pm", "snd", "evd", "lint", "lnk", "cg", "dos", "rt", "elf", "gei", "poc"];
        let start = self.name.split('-').next().unwrap_or_default();
        FAMILIES.iter().copied().find(|family| *family == start).unwrap_or("pipeline")
    }

    /// The archive that a tenant would send, made without any check.
    pub(crate) fn upload(&self) -> Vec<u8> {
        let mut archive = Archive::default();
        for (path, bytes) in &self.files {
            archive.file(path, bytes);
        }
        archive.finish()
    }
}

impl Generated {
    fn text(&self) -> String {
        let mut text = String::new();
        for part in &self.parts {
            match part {
                Part::Text(part) => text.push_str(part),
                Part::Repeated { repeat, times } if repeat.contains("{n}") => {
                    text.extend((0..*times).map(|n| repeat.replace("{n}", &n.to_string())));
                }
                Part::Repeated { repeat, times } => text.push_str(&repeat.repeat(*times)),
            }
        }
        text
    }
}

fn read_tree(directory: &Path, below: &str, files: &mut Files) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(directory).with_context(|| directory.display().to_string())? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if below.is_empty() { name } else { format!("{below}/{name}") };
        if entry.file_type()?.is_dir() {
            read_tree(&entry.path(), &path, files)?;
        } else {
            files.insert(path, std::fs::read(entry.path())?);
        }
    }
    Ok(())
}
