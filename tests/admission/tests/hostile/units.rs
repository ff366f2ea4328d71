//! A macro and a build script that write over what another crate's compilation has made.
//!
//! With a sandbox for each unit nothing of the victim changes, and a file that is not a unit's own ends the
//! build; with one sandbox for all of them both marks get into what would be kept.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use mfaas_builder::ablation::compile_dependencies;
use mfaas_harness::checkout;

/// Names this case on the command line.
pub(crate) const NAME: &str = "units";
/// The crates of `tests/fixtures` that take part.
const CRATES: [&str; 3] = ["usurped", "usurper", "victim"];
const MANIFEST: &str = "[workspace]\n[package]\nname = \"mfaas-seed\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n\
    [dependencies]\nusurped = { path = \"local/usurped\" }\nvictim = { path = \"local/victim\" }\n";
const LOCK: &str = "version = 4\n\n[[package]]\nname = \"mfaas-seed\"\nversion = \"0.1.0\"\ndependencies = [\n \"usurped\",\n \"victim\",\n]\n\n\
    [[package]]\nname = \"usurped\"\nversion = \"0.1.0\"\ndependencies = [\n \"usurper\",\n \"victim\",\n]\n\n\
    [[package]]\nname = \"usurper\"\nversion = \"0.1.0\"\n\n[[package]]\nname = \"victim\"\nversion = \"0.1.0\"\n";

/// Compiles with the layer and without it, and says what came of it.
pub(crate) fn try_both(toolchain: &Path) -> anyhow::Result<()> {
    let marks = |kept: &BTreeMap<String, Vec<u8>>, mark: &str| -> anyhow::Result<bool> {
        let victim = kept.get("victim").context("the victim was not kept")?;
        Ok(victim.windows(mark.len()).any(|window| window == mark.as_bytes()))
    };
    let together = compile(toolchain, true, true)?;
    for mark in ["USURPED BY A MACRO", "USURPED BY A SCRIPT"] {
        anyhow::ensure!(marks(&together, mark)?, "in one sandbox the victim is not `{mark}`");
    }
    let apart = compile(toolchain, false, false)?;
    anyhow::ensure!(!marks(&apart, "USURPED")?, "in sandboxes of their own the victim is usurped");
    let refused = compile(toolchain, true, false).err().context("a file of another name was taken")?;
    anyhow::ensure!(refused.to_string().contains("MF0411"), "{refused}");
    println!("units: a macro and a build script reach no other unit; in one sandbox both do");
    Ok(())
}

/// `with_macro`: the macro is called, too.
fn compile(toolchain: &Path, with_macro: bool, together: bool) -> anyhow::Result<BTreeMap<String, Vec<u8>>> {
    let work = tempfile::tempdir()?;
    let seed = write_seed(&work.path().join("seed"), with_macro)?;
    Ok(compile_dependencies(&seed, toolchain, work.path(), together)?)
}

fn write_seed(root: &Path, with_macro: bool) -> anyhow::Result<PathBuf> {
    std::fs::create_dir_all(root.join("src"))?;
    std::fs::write(root.join("src/lib.rs"), "")?;
    std::fs::write(root.join("Cargo.toml"), MANIFEST)?;
    std::fs::write(root.join("Cargo.lock"), LOCK)?;
    for name in CRATES {
        let (from, to) = (checkout().join("tests/fixtures").join(name), root.join("local").join(name));
        std::fs::create_dir_all(to.join("src"))?;
        for file in ["Cargo.toml", "src/lib.rs", "build.rs"] {
            if from.join(file).exists() {
                std::fs::copy(from.join(file), to.join(file))?;
            }
        }
    }
    if !with_macro {
        std::fs::write(
            root.join("local/usurped/src/lib.rs"),
            "pub fn secret() -> u32 { victim::secret() }\n",
        )?;
    }
    Ok(root.to_path_buf())
}
