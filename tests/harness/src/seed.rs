//! The seed that tests use: the real one, or a few of its crates, and crates with careless macros on its allowlist.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context as _;

use crate::checkout;

/// The crates of `tests/fixtures` that every test site offers, in the order of their names.
const LOCAL: &[&str] = &["careless", "dep", "fickle", "pm"];

/// What the SDK needs, and what tests ask about: one that has the whole offer compiled again and again waits for these alone.
const FEW: &[&str] = &["base32", "fnv", "serde", "serde_json", "strsim"];

/// Which crates of the real seed a site of a test offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Offer {
    All,
    Few,
}

/// Writes the tests' seed to `into` and gives its path. Existing files are replaced, so that a
/// change of the real seed arrives.
pub(crate) fn write(into: &Path, offer: Offer) -> anyhow::Result<PathBuf> {
    let real = checkout().join("builder/toolchain/seed");
    fs::create_dir_all(into.join("src"))?;
    for file in ["src/lib.rs", "capabilities.toml"] {
        fs::copy(real.join(file), into.join(file))?;
    }
    let mut lines = "[dependencies]\n".to_owned();
    for name in LOCAL {
        let (from, to) = (checkout().join("tests/fixtures").join(name), into.join("local").join(name));
        fs::create_dir_all(to.join("src"))?;
        for file in ["Cargo.toml", "src/lib.rs"] {
            fs::copy(from.join(file), to.join(file))?;
        }
        lines.push_str(&format!("{name} = {{ path = \"local/{name}\", version = \"0.1.0\" }}\n"));
    }
    let manifest = fs::read_to_string(real.join("Cargo.toml"))?.replacen("[dependencies]\n", &lines, 1);
    fs::write(into.join("Cargo.toml"), manifest)?;
    fs::write(into.join("Cargo.lock"), with_local(&fs::read_to_string(real.join("Cargo.lock"))?))?;
    if offer == Offer::Few {
        keep_few(into)?;
    }
    Ok(into.to_path_buf())
}

/// Leaves a few crates of a seed, and what they need.
fn keep_few(seed: &Path) -> anyhow::Result<()> {
    change(&seed.join("Cargo.toml"), |manifest| {
        let offered = manifest.get_mut("dependencies").and_then(toml::Value::as_table_mut);
        offered.context("the seed offers nothing")?.retain(|name, _| is_kept(name));
        Ok(())
    })?;
    let mut used = BTreeSet::new();
    change(&seed.join("Cargo.lock"), |lock| {
        used = keep_used(rows(lock, "package")?);
        Ok(())
    })?;
    change(&seed.join("capabilities.toml"), |grants| {
        rows(grants, "grant")?.retain(|row| row["crate"].as_str().is_some_and(|name| used.contains(name)));
        Ok(())
    })
}

fn is_kept(name: &str) -> bool {
    FEW.contains(&name) || LOCAL.contains(&name)
}

/// Leaves the packages of a lock file that the kept crates need, and gives their names.
fn keep_used(packages: &mut Vec<toml::Value>) -> BTreeSet<String> {
    // Names alone: another version of a crate that is needed may stay.
    let name = |of: &str| of.split(' ').next().unwrap_or_default().to_owned();
    let (mut used, mut next) = (BTreeSet::new(), vec!["mfaas-seed".to_owned()]);
    for package in packages.iter_mut().filter(|package| package["name"].as_str() == Some("mfaas-seed")) {
        let dependencies = package.get_mut("dependencies").and_then(toml::Value::as_array_mut);
        dependencies.into_iter().for_each(|all| all.retain(|of| of.as_str().is_some_and(is_kept)));
    }
    while let Some(wanted) = next.pop() {
        for package in packages.iter().filter(|package| package["name"].as_str() == Some(&wanted)) {
            let needs = package.get("dependencies").and_then(toml::Value::as_array);
            next.extend(needs.into_iter().flatten().filter_map(toml::Value::as_str).map(name));
        }
        let _ = used.insert(wanted);
        next.retain(|wanted| !used.contains(wanted));
    }
    packages.retain(|package| package["name"].as_str().is_some_and(|name| used.contains(name)));
    used
}

/// The tables of an array of a file.
fn rows<'a>(file: &'a mut toml::Table, key: &str) -> anyhow::Result<&'a mut Vec<toml::Value>> {
    let found = file.get_mut(key).and_then(toml::Value::as_array_mut);
    found.with_context(|| format!("no {key} in the seed"))
}

/// Changes a file of the seed.
fn change(path: &Path, by: impl FnOnce(&mut toml::Table) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let mut table: toml::Table = text.parse()?;
    by(&mut table)?;
    Ok(fs::write(path, toml::to_string(&table)?)?)
}

/// The lock as cargo would write it: packages and dependencies in order of their names.
fn with_local(lock: &str) -> String {
    let mut blocks: Vec<String> =
        lock.split("\n[[package]]\n").map(|block| block.trim_end().to_owned()).collect();
    let head = blocks.remove(0);
    for block in blocks.iter_mut().filter(|block| block.starts_with("name = \"mfaas-seed\"")) {
        *block = with_dependencies(block);
    }
    blocks.extend(LOCAL.iter().map(|name| format!("name = \"{name}\"\nversion = \"0.1.0\"")));
    blocks.sort();
    format!("{head}\n\n[[package]]\n{}\n", blocks.join("\n\n[[package]]\n"))
}

/// The seed's own block with the local crates among its dependencies.
fn with_dependencies(block: &str) -> String {
    let (mut names, others): (Vec<String>, Vec<String>) =
        block.lines().map(str::to_owned).partition(|line| line.starts_with(" \""));
    names.extend(LOCAL.iter().map(|name| format!(" \"{name}\",")));
    names.sort();
    let at = others.iter().position(|line| line == "]").unwrap_or(others.len());
    [&others[..at], &names, &others[at..]].concat().join("\n")
}
