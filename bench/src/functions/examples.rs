//! Examples of bulk functions as images for the executor: each by its own source and manifest, with the dependencies that it
//! names compiled as the builder compiles them, and linked as the builder links.
//!
//! It must never resolve or download anything: the versions are those that this benchmark itself was built with.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};
use mfaas_ident::{Budget, MemoryLimit};
use toml::{Table, Value};

use super::toolchain;

/// The source of the one exported symbol, as the builder has it; in it a word stands for the handler's path.
const ENTRY: &str = include_str!("../../../builder/toolchain/entry.rs");
const HANDLER: &str = "HANDLER";
/// How dependencies of functions are compiled (`CARGO_PROFILE` of the builder's flags).
const PROFILE: &str = "opt-level = 3\npanic = \"abort\"\ncodegen-units = 1\ndebug = 0\nlto = \"off\"\n";
/// What the manifest of an example calls our SDK.
const SDK: &str = "mfaas";

/// A built example.
#[derive(Debug)]
pub struct Example {
    /// Its image.
    pub image: Vec<u8>,
    /// CPU time of one call.
    pub budget: Budget,
    /// Memory of one call.
    pub memory: MemoryLimit,
}

/// Compiles the example of that name in a directory in which functions were built.
pub(super) fn build(directory: &Path, name: &str) -> anyhow::Result<Example> {
    let (root, package) = (Path::new(env!("CARGO_MANIFEST_DIR")), directory.join(name));
    let example = root.join("../examples").join(name);
    let text = fs::read_to_string(example.join("Cargo.toml")).context("read the example's manifest")?;
    let mut manifest: Table = text.parse().context("the example's manifest")?;
    let declared = Declared::of(&manifest)?;
    adopt(&mut manifest, &example.join("src/lib.rs"), &root.join("../node-runtime"))?;
    fs::create_dir(&package).context("a directory for the example")?;
    fs::write(package.join("Cargo.toml"), manifest.to_string()).context("write a manifest")?;
    fs::copy(root.join("Cargo.lock"), package.join("Cargo.lock")).context("copy the lock file")?;
    cargo(&package, name)?;
    let entry = package.join("entry.rs");
    fs::write(&entry, ENTRY.replace(HANDLER, &declared.handler)).context("write the entry")?;
    let built = package.join("target/release");
    let library = |name: &str| library(&built.join("deps"), name);
    let libraries = [
        ("function", built.join("libfunction.rlib")),
        ("mfaas", library("mfaas")?),
        ("mfaas_shim", library("mfaas_shim")?),
    ];
    let image = toolchain::example(directory, (&entry, &name.replace('-', "_")), &libraries)?;
    Ok(Example { image, budget: declared.budget, memory: declared.memory })
}

/// What an example says about itself.
struct Declared {
    handler: String,
    budget: Budget,
    memory: MemoryLimit,
}

impl Declared {
    fn of(manifest: &Table) -> anyhow::Result<Self> {
        let metadata = manifest.get("package").and_then(|package| package.get("metadata")?.get("mfaas"));
        let word = |key: &str| {
            let value = metadata.and_then(|metadata| metadata.get(key)?.as_str());
            value.with_context(|| format!("the example declares no {key}"))
        };
        ensure!(word("class")? == "bulk", "the example is no bulk function");
        Ok(Self {
            handler: word("handler")?.to_owned(),
            budget: Budget::parse(word("budget")?)?,
            memory: MemoryLimit::parse(word("memory")?)?,
        })
    }
}

/// Makes the example's manifest that of a package beside it, with the SDK of this checkout for an executor.
fn adopt(manifest: &mut Table, source: &Path, runtime: &Path) -> anyhow::Result<()> {
    let path = |path: PathBuf| Value::from(path.display().to_string());
    let table = |rows: Vec<(&str, Value)>| {
        Value::Table(rows.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
    };
    let library = table(vec![("name", "function".into()), ("path", path(source.to_owned()))]);
    manifest.insert("lib".to_owned(), library);
    manifest.insert("workspace".to_owned(), Value::Table(Table::new()));
    let release = PROFILE.parse::<Table>().context("a profile")?;
    manifest.insert("profile".to_owned(), table(vec![("release", Value::Table(release))]));
    let dependencies = manifest.get_mut("dependencies").and_then(Value::as_table_mut);
    let dependencies = dependencies.context("the example has no dependencies")?;
    dependencies.insert(SDK.to_owned(), table(vec![("path", path(runtime.join("sdk")))]));
    let hosted = vec![("path", path(runtime.join("shim"))), ("features", vec!["hosted"].into())];
    dependencies.insert("mfaas-shim".to_owned(), table(hosted));
    Ok(())
}

fn cargo(package: &Path, name: &str) -> anyhow::Result<()> {
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        // Where the compiler is pinned.
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(["build", "--release", "--offline", "--quiet", "--lib", "--manifest-path"])
        .arg(package.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(package.join("target"))
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .output()
        .context("start cargo")?;
    ensure!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// The one library of a crate among those that cargo has built.
fn library(directory: &Path, name: &str) -> anyhow::Result<PathBuf> {
    let start = format!("lib{name}-");
    let entries = fs::read_dir(directory).context("list what cargo has built")?.filter_map(Result::ok);
    let mut found = entries.map(|entry| entry.path()).filter(|path| {
        let file = path.file_name().and_then(|file| file.to_str()).unwrap_or_default();
        file.starts_with(&start) && file.ends_with(".rlib")
    });
    let library = found.next().with_context(|| format!("cargo has built no {name}"))?;
    ensure!(found.next().is_none(), "cargo has built {name} twice");
    Ok(library)
}
