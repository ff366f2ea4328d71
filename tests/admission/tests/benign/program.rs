//! One benign program on disk.

use std::path::PathBuf;

use serde::Deserialize;

use crate::case::Case;

/// Every program shows at least so much of itself.
const CASES_MIN: usize = 3;

/// A folder with Cargo.toml, `src/` and cases.json.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) name: String,
    pub(crate) directory: PathBuf,
    pub(crate) cases: Vec<Case>,
    manifest: toml::Table,
}

/// What the person who wrote it says about it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct About {
    tags: Vec<String>,
}

impl Program {
    /// # Panics
    /// When a part is missing or is not what its name says.
    pub(crate) fn read(directory: PathBuf) -> Self {
        let name = directory.file_name().unwrap().to_string_lossy().into_owned();
        let text = |file: &str| {
            std::fs::read_to_string(directory.join(file))
                .unwrap_or_else(|error| panic!("{name}/{file}: {error}"))
        };
        let cases: Vec<Case> = serde_json::from_str(&text("cases.json"))
            .unwrap_or_else(|error| panic!("{name}/cases.json: {error}"));
        let manifest =
            text("Cargo.toml").parse().unwrap_or_else(|error| panic!("{name}/Cargo.toml: {error}"));
        let about: About =
            toml::from_str(&text("about.toml")).unwrap_or_else(|error| panic!("{name}/about.toml: {error}"));
        assert!(!about.tags.is_empty(), "{name}/about.toml names nothing");
        assert!(cases.len() >= CASES_MIN, "{name} has {} cases", cases.len());
        assert!(cases.iter().all(Case::demands_something), "{name} has a case that demands nothing");
        Self { name, directory, cases, manifest }
    }

    /// A setting of `[package.metadata.mfaas]`.
    pub(crate) fn setting(&self, key: &str) -> Option<&str> {
        self.manifest.get("package")?.get("metadata")?.get("mfaas")?.get(key)?.as_str()
    }

    /// Whether it stands on a crate other than the SDK.
    pub(crate) fn has_dependencies(&self) -> bool {
        let table = self.manifest.get("dependencies").and_then(toml::Value::as_table);
        table.is_some_and(|table| table.keys().any(|name| name != "mfaas"))
    }
}
