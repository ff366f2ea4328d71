//! The seed that tests use: the real one, and crates with careless macros on its allowlist.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::checkout;

/// The crates of `tests/fixtures` that every test site offers, in the order of their names.
const LOCAL: &[&str] = &["careless", "dep", "fickle", "pm"];

/// Writes the tests' seed to `into` and gives its path. Existing files are replaced, so that a
/// change of the real seed arrives.
pub(crate) fn write(into: &Path) -> anyhow::Result<PathBuf> {
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
    Ok(into.to_path_buf())
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
