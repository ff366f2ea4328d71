//! Our own manifest: the seed's, and the crates beside it.
//!
//! A crate that the seed offers already keeps its one entry and gets the features; another major
//! version of it gets an entry under a name of its own. What a tenant wrote is never copied here but
//! as a name, a requirement and names of features, all parsed.

use mfaas_ident::CrateName;
use mfaas_rules::{CrateRequest, exact};
use semver::{Version, VersionReq};
use toml::{Table, Value};

use super::error::AcquireError;
use crate::deps::Lockfile;

/// What stands in front of a manifest that we wrote.
const HEADER: &str = "# Written by mfaas-builder from a seed and the crates that were approved since.\n";
/// The package of a workspace without a seed.
const EMPTY: &str =
    "[workspace]\n[package]\nname = \"mfaas-seed\"\nversion = \"0.1.0\"\nedition = \"2024\"\n";

/// A request as it is typed: `name`, `name@requirement`, `name@=1.2.3`.
pub(crate) fn parse_request(
    text: &str,
    features: Vec<String>,
    default_features: bool,
) -> Result<CrateRequest, AcquireError> {
    let (name, requirement) = text.split_once('@').unwrap_or((text, "*"));
    let problem = |text: String| AcquireError::Other { reason: mfaas_ident::sanitise_line(&text, 300) };
    let name = CrateName::parse(name).map_err(|error| problem(format!("{text}: {error}")))?;
    // A whole version means that one, as for `cargo install`.
    let requirement = match Version::parse(requirement) {
        Ok(version) => exact(&version),
        Err(_) => {
            VersionReq::parse(requirement).map_err(|error| problem(format!("{requirement}: {error}")))?
        }
    };
    let request = CrateRequest { name, requirement, features, default_features };
    check_features(&request).map(|()| request)
}

/// cargo reads `dep/feature` and `dep:name` in a list of features; a request names plain ones.
fn check_features(request: &CrateRequest) -> Result<(), AcquireError> {
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '+' | '.');
    match request.features.iter().find(|name| name.is_empty() || !name.chars().all(is_plain)) {
        None => Ok(()),
        Some(feature) => Err(AcquireError::NoFeature {
            name: request.name.to_string(),
            feature: mfaas_ident::sanitise_line(feature, 100),
        }),
    }
}

/// The manifest of a workspace that offers nothing yet.
pub(crate) fn empty() -> String {
    EMPTY.to_owned()
}

/// `manifest` with these crates beside what it offers. `locked` is the resolution of `manifest`.
pub(crate) fn with(
    manifest: &str,
    locked: &Lockfile,
    requests: &[CrateRequest],
) -> Result<String, AcquireError> {
    let problem = |reason: String| AcquireError::Other { reason };
    let mut table: Table =
        manifest.parse().map_err(|error| problem(format!("the seed's Cargo.toml: {error}")))?;
    let dependencies = table.entry("dependencies").or_insert_with(|| Value::Table(Table::new()));
    let dependencies =
        dependencies.as_table_mut().ok_or_else(|| problem("`dependencies` is no table".to_owned()))?;
    for request in requests {
        check_features(request)?;
        match entry_of(dependencies, locked, request) {
            Some(key) => widen(dependencies, &key, request),
            None => {
                dependencies.insert(free_key(dependencies, request), Value::Table(entry(request)));
            }
        }
    }
    let text = toml::to_string(&table).map_err(|error| problem(error.to_string()))?;
    Ok(format!("{HEADER}{text}"))
}

/// The entry that gives the request what it asks for: of the same package, in a version that it takes.
fn entry_of(dependencies: &Table, locked: &Lockfile, request: &CrateRequest) -> Option<String> {
    let of_package = dependencies.iter().filter(|(key, value)| package(key, value) == request.name.as_str());
    let mut fitting = of_package.filter(|(_, value)| {
        let requirement = requirement(value);
        let mut versions = locked.versions(&request.name).filter(|version| requirement.matches(version));
        versions.any(|version| request.requirement.matches(version))
            // Not resolved yet: another request of this very run.
            || requirement == request.requirement
    });
    fitting.next().map(|(key, _)| key.clone())
}

fn package<'a>(key: &'a str, value: &'a Value) -> &'a str {
    value.get("package").and_then(Value::as_str).unwrap_or(key)
}

fn requirement(value: &Value) -> VersionReq {
    let text = value.as_str().or_else(|| value.get("version").and_then(Value::as_str));
    text.and_then(|text| VersionReq::parse(text).ok()).unwrap_or(VersionReq::STAR)
}

/// Adds the request's features to an entry.
fn widen(dependencies: &mut Table, key: &str, request: &CrateRequest) {
    let Some(value) = dependencies.get_mut(key) else { return };
    let mut table = match &*value {
        Value::Table(table) => table.clone(),
        other => Table::from_iter([("version".to_owned(), Value::clone(other))]),
    };
    let mut features: Vec<String> = table
        .get("features")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|feature| feature.as_str().map(str::to_owned))
        .chain(request.features.iter().cloned())
        .collect();
    features.sort();
    features.dedup();
    if !features.is_empty() {
        table.insert("features".to_owned(), features.into());
    }
    if request.default_features {
        table.remove("default-features");
    }
    *value = Value::Table(table);
}

fn entry(request: &CrateRequest) -> Table {
    let mut table = Table::new();
    table.insert("package".to_owned(), request.name.as_str().into());
    table.insert("version".to_owned(), request.requirement.to_string().into());
    if !request.features.is_empty() {
        table.insert("features".to_owned(), request.features.clone().into());
    }
    if !request.default_features {
        table.insert("default-features".to_owned(), false.into());
    }
    table
}

/// The package's name, or one with a number where another version has that.
fn free_key(dependencies: &Table, request: &CrateRequest) -> String {
    let name = request.name.as_str();
    let numbered = (2..).map(|number: u32| format!("{name}-{number}"));
    std::iter::once(name.to_owned())
        .chain(numbered)
        .find(|key| !dependencies.contains_key(key))
        .unwrap_or_else(|| name.to_owned())
}

#[cfg(test)]
mod tests;
