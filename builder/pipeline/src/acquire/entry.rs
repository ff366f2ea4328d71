//! A crate's line in the site's index, from the manifest in its archive.
//!
//! The manifest is a stranger's: it is read under limits, every word of it is parsed, and what cannot be
//! told for sure makes no line. A line is about the one target that functions are compiled for: what only
//! other platforms need is left out, because nobody decides about it and it is offered nowhere, and cargo
//! would not resolve without it. Nothing here compiles, resolves or asks anybody.

use std::collections::{BTreeMap, BTreeSet};

use cargo_metadata::cargo_platform::{Cfg, Platform};
use mfaas_ident::{CrateName, Digest, sanitise_line};
use mfaas_rules::limits::INDEX_ENTRY;
use semver::{Version, VersionReq};
use serde::{Deserialize, Serialize};

use crate::toolchain::TARGET;

/// Changes with every change of what a line says; lines of another revision are made again.
pub(crate) const ENTRY_REVISION: u32 = 1;

/// What the compiler says about [`TARGET`], as far as manifests ask for it.
const TARGET_CFG: &[&str] = &[
    "panic=\"abort\"",
    "target_abi=\"\"",
    "target_arch=\"x86_64\"",
    "target_endian=\"little\"",
    "target_env=\"gnu\"",
    "target_family=\"unix\"",
    "target_feature=\"fxsr\"",
    "target_feature=\"sse\"",
    "target_feature=\"sse2\"",
    "target_has_atomic=\"16\"",
    "target_has_atomic=\"32\"",
    "target_has_atomic=\"64\"",
    "target_has_atomic=\"8\"",
    "target_has_atomic=\"ptr\"",
    "target_os=\"linux\"",
    "target_pointer_width=\"64\"",
    "target_vendor=\"unknown\"",
    "unix",
];

/// The line about `name` `version` whose archive has this checksum, or why there is none; sanitised.
pub(crate) fn entry(
    manifest: &[u8],
    name: &CrateName,
    version: &Version,
    checksum: &Digest,
) -> Result<serde_json::Value, String> {
    let found = read(manifest, name, version)?;
    let dependencies = found.dependencies()?;
    let (features, features2) = features(&found.features, &dependencies)?;
    let line = Line {
        name,
        vers: version,
        v: if features2.is_empty() { 1 } else { 2 },
        deps: dependencies.kept,
        cksum: checksum,
        features,
        features2,
        yanked: false,
        links: found.package.links.as_deref().map(word).transpose()?,
        rust_version: found.package.rust_version()?,
    };
    let line = serde_json::to_value(&line).map_err(|error| shown(&error))?;
    match line.to_string().len() <= INDEX_ENTRY.line_bytes_max {
        true => Ok(line),
        false => Err(format!("its line has more than {} bytes", INDEX_ENTRY.line_bytes_max)),
    }
}

/// A line as cargo reads it.
#[derive(Serialize)]
struct Line<'a> {
    name: &'a CrateName,
    vers: &'a Version,
    v: u32,
    deps: Vec<Dependency>,
    cksum: &'a Digest,
    features: BTreeMap<String, Vec<String>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    features2: BTreeMap<String, Vec<String>>,
    yanked: bool,
    links: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rust_version: Option<String>,
}

/// A dependency in a line. `registry` stays empty: it means the one that the line is from.
#[derive(Debug, Clone, Serialize)]
struct Dependency {
    name: String,
    req: VersionReq,
    features: Vec<String>,
    optional: bool,
    default_features: bool,
    target: Option<String>,
    kind: Kind,
    registry: Option<String>,
    package: Option<CrateName>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Normal,
    Build,
}

/// What is read of a manifest. Development dependencies concern nobody but the crate's author.
#[derive(Deserialize)]
struct Manifest {
    #[serde(alias = "project")]
    package: Package,
    #[serde(default)]
    features: BTreeMap<String, Vec<String>>,
    #[serde(flatten)]
    tables: Tables,
    #[serde(default)]
    target: BTreeMap<String, Tables>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: Version,
    links: Option<String>,
    #[serde(rename = "rust-version")]
    rust_version: Option<String>,
}

#[derive(Deserialize)]
struct Tables {
    #[serde(default)]
    dependencies: BTreeMap<String, Written>,
    #[serde(default, rename = "build-dependencies", alias = "build_dependencies")]
    build: BTreeMap<String, Written>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Requirement(String),
    Table(Box<WrittenTable>),
}

#[derive(Deserialize)]
struct WrittenTable {
    version: Option<String>,
    package: Option<String>,
    #[serde(default)]
    optional: bool,
    #[serde(default = "yes", rename = "default-features", alias = "default_features")]
    default_features: bool,
    #[serde(default)]
    features: Vec<String>,
    registry: Option<String>,
    #[serde(rename = "registry-index")]
    registry_index: Option<String>,
}

fn yes() -> bool {
    true
}

/// The manifest, if it is that of this version.
fn read(manifest: &[u8], name: &CrateName, version: &Version) -> Result<Manifest, String> {
    if manifest.len() > INDEX_ENTRY.manifest_bytes_max {
        return Err(format!("its Cargo.toml has more than {} bytes", INDEX_ENTRY.manifest_bytes_max));
    }
    let text = std::str::from_utf8(manifest).map_err(|_| "its Cargo.toml is no text".to_owned())?;
    let found: Manifest = toml::from_str(text).map_err(|error| shown(&error))?;
    if found.package.name != name.as_str() || found.package.version != *version {
        return Err("its Cargo.toml is that of another crate or version".to_owned());
    }
    Ok(found)
}

impl Package {
    fn rust_version(&self) -> Result<Option<String>, String> {
        let Some(written) = self.rust_version.as_deref() else { return Ok(None) };
        let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        match written.len() <= 20 && written.split('.').all(is_number) {
            true => Ok(Some(written.to_owned())),
            false => Err("its rust-version is none".to_owned()),
        }
    }
}

/// The dependencies of all tables.
struct Dependencies {
    /// Those of our target, and those of all.
    kept: Vec<Dependency>,
    /// What only other platforms could have switched on.
    left_out: BTreeSet<String>,
}

impl Dependencies {
    fn keeps(&self, name: &str) -> bool {
        self.kept.iter().any(|dependency| dependency.name == name)
    }
}

impl Manifest {
    fn dependencies(&self) -> Result<Dependencies, String> {
        let mut found = Dependencies { kept: self.tables.read(None)?, left_out: BTreeSet::new() };
        for (target, tables) in &self.target {
            let dependencies = tables.read(Some(target))?;
            if is_ours(target)? {
                found.kept.extend(dependencies);
            } else {
                let optional = dependencies.into_iter().filter(|dependency| dependency.optional);
                found.left_out.extend(optional.map(|dependency| dependency.name));
            }
        }
        match found.kept.len() + found.left_out.len() > INDEX_ENTRY.dependencies_max {
            true => Err(format!("it has more than {} dependencies", INDEX_ENTRY.dependencies_max)),
            false => Ok(found),
        }
    }
}

impl Tables {
    fn read(&self, target: Option<&String>) -> Result<Vec<Dependency>, String> {
        let normal = self.dependencies.iter().map(|(name, written)| (name, written, Kind::Normal));
        let build = self.build.iter().map(|(name, written)| (name, written, Kind::Build));
        normal.chain(build).map(|(name, written, kind)| written.read(name, kind, target)).collect()
    }
}

impl Written {
    fn read(&self, name: &str, kind: Kind, target: Option<&String>) -> Result<Dependency, String> {
        let plain;
        let table = match self {
            Self::Table(table) => table,
            Self::Requirement(requirement) => {
                plain = Box::new(WrittenTable::of(requirement));
                &plain
            }
        };
        if table.registry.is_some() || table.registry_index.is_some() {
            return Err("it depends on a crate of another registry".to_owned());
        }
        let package = |name: &str| CrateName::parse(name).map_err(|error| shown(&error));
        let requirement = word(table.version.as_deref().unwrap_or("*"))?;
        Ok(Dependency {
            name: package(name)?.to_string(),
            req: VersionReq::parse(&requirement).map_err(|error| shown(&error))?,
            features: table.features.iter().map(|feature| feature_word(feature)).collect::<Result<_, _>>()?,
            optional: table.optional,
            default_features: table.default_features,
            target: target.map(|target| word(target)).transpose()?,
            kind,
            registry: None,
            package: table.package.as_deref().map(package).transpose()?,
        })
    }
}

impl WrittenTable {
    fn of(requirement: &str) -> Self {
        Self {
            version: Some(requirement.to_owned()),
            package: None,
            optional: false,
            default_features: true,
            features: Vec::new(),
            registry: None,
            registry_index: None,
        }
    }
}

type Features = BTreeMap<String, Vec<String>>;

/// The features for every cargo, and those that only newer ones understand. What a feature switches on of a
/// dependency that is not in the line is left out of it: cargo ignores a version whose features name one.
fn features(written: &Features, dependencies: &Dependencies) -> Result<(Features, Features), String> {
    let words: usize = written.values().map(|values| 1 + values.len()).sum();
    if words > INDEX_ENTRY.feature_words_max {
        return Err(format!("its features take more than {} words", INDEX_ENTRY.feature_words_max));
    }
    let (mut plain, mut newer) = (Features::new(), Features::new());
    for (name, values) in written {
        let mut kept = Vec::new();
        for value in values {
            if is_there(&feature_word(value)?, written, dependencies) {
                kept.push(value.clone());
            }
        }
        let is_newer = kept.iter().any(|value| value.starts_with("dep:") || value.contains("?/"));
        let features = if is_newer { &mut newer } else { &mut plain };
        features.insert(feature_word(name)?, kept);
    }
    // An optional dependency is a feature of its name, which others may switch on, unless a feature hides it.
    let hidden =
        |name: &str| written.values().flatten().any(|value| value.strip_prefix("dep:") == Some(name));
    for name in &dependencies.left_out {
        if !dependencies.keeps(name) && !written.contains_key(name) && !hidden(name) {
            plain.insert(name.clone(), Vec::new());
        }
    }
    Ok((plain, newer))
}

fn is_there(value: &str, written: &Features, dependencies: &Dependencies) -> bool {
    if let Some(name) = value.strip_prefix("dep:") {
        return dependencies.keeps(name);
    }
    match value.split_once('/') {
        Some((name, _)) => dependencies.keeps(name.strip_suffix('?').unwrap_or(name)),
        None => written.contains_key(value) || dependencies.keeps(value),
    }
}

/// Whether our target is one of those that `target` means.
fn is_ours(target: &str) -> Result<bool, String> {
    let platform: Platform = word(target)?.parse().map_err(|error| shown(&error))?;
    let known: Result<Vec<Cfg>, _> = TARGET_CFG.iter().map(|text| text.parse()).collect();
    Ok(platform.matches(TARGET, &known.map_err(|error| shown(&error))?))
}

/// A text of bounded length without characters that are not seen.
fn word(text: &str) -> Result<String, String> {
    match text.len() <= INDEX_ENTRY.word_bytes_max && !text.chars().any(char::is_control) {
        true => Ok(text.to_owned()),
        false => Err(format!("a word of its Cargo.toml cannot be offered: {}", sanitise_line(text, 100))),
    }
}

fn feature_word(text: &str) -> Result<String, String> {
    let is_plain = |c: char| c.is_alphanumeric() || "_-+./?:".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => word(text),
        false => Err(format!("a feature cannot have the name {}", sanitise_line(text, 100))),
    }
}

fn shown(error: &dyn std::fmt::Display) -> String {
    sanitise_line(&error.to_string(), 300)
}

#[cfg(test)]
mod tests;
