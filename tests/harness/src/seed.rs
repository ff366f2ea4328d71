//! The seed that tests use: the real one, and a crate with a careless macro on its allowlist.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::checkout;

/// Writes the tests' seed to `into` and gives its path. Existing files are replaced, so that a
/// change of the real seed arrives.
pub(crate) fn write(into: &Path) -> anyhow::Result<PathBuf> {
    let real = checkout().join("builder/toolchain/seed");
    fs::create_dir_all(into.join("src"))?;
    fs::create_dir_all(into.join("local/careless/src"))?;
    fs::copy(real.join("src/lib.rs"), into.join("src/lib.rs"))?;
    let careless = checkout().join("tests/fixtures/careless");
    for file in ["Cargo.toml", "src/lib.rs"] {
        fs::copy(careless.join(file), into.join("local/careless").join(file))?;
    }
    let manifest = fs::read_to_string(real.join("Cargo.toml"))?.replacen(
        "[dependencies]\n",
        "[dependencies]\ncareless = { path = \"local/careless\", version = \"0.1.0\" }\n",
        1,
    );
    fs::write(into.join("Cargo.toml"), manifest)?;
    fs::write(into.join("Cargo.lock"), with_careless(&fs::read_to_string(real.join("Cargo.lock"))?))?;
    Ok(into.to_path_buf())
}

/// The lock as cargo would write it: packages and dependencies in order of their names.
fn with_careless(lock: &str) -> String {
    const NAME: &str = "careless";
    let mut blocks: Vec<String> = lock.split("\n[[package]]\n").map(str::to_owned).collect();
    let head = blocks.remove(0);
    for block in &mut blocks {
        *block = block.trim_end().to_owned();
        if block.starts_with("name = \"mfaas-seed\"") {
            let mut lines: Vec<&str> = block.lines().collect();
            let at = lines
                .iter()
                .position(|line| line.starts_with(" \"") && line.trim_matches([' ', '"', ',']) > NAME)
                .unwrap_or(lines.len() - 1);
            let line = format!(" \"{NAME}\",");
            lines.insert(at, &line);
            *block = lines.join("\n");
        }
    }
    blocks.push(format!("name = \"{NAME}\"\nversion = \"0.1.0\""));
    blocks.sort();
    format!("{}\n\n[[package]]\n{}\n", head.trim_end(), blocks.join("\n\n[[package]]\n"))
}
