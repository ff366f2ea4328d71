//! A copy of a package whose handler can be changed from round to round.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use mfaas_ident::{FunctionName, HandlerPath};

use super::Ended;

/// The package in a temporary directory.
#[derive(Debug)]
pub struct Package {
    dir: tempfile::TempDir,
    /// The function, `bench-` and the package's name.
    pub name: FunctionName,
    original: String,
    handler: String,
    rounds: u64,
}

impl Package {
    /// Copies the package.
    pub fn copy_of(path: &Path) -> anyhow::Result<Self> {
        let usage = |why: String| Ended::usage(format!("{}: {why}", path.display()));
        let tree = mfaas_unpack::SourceTree::from_dir(path)
            .map_err(|e| Ended::usage(format!("{} cannot be packed: {e}", path.display())))?;
        let dir = tempfile::tempdir().context("no temporary directory")?;
        tree.write_into(dir.path())?;
        let (name, handler) = names(&String::from_utf8_lossy(tree.manifest())).map_err(usage)?;
        let lib = dir.path().join("src/lib.rs");
        let original =
            std::fs::read_to_string(&lib).with_context(|| format!("cannot read {}", lib.display()))?;
        Ok(Self { dir, name, original, handler, rounds: 0 })
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// What the handler is called with: the package's `request` file, if it has one.
    pub fn request(&self) -> Option<PathBuf> {
        Some(self.path().join("request")).filter(|path| path.is_file())
    }

    /// Gives the handler another constant and returns the round's number. The constant must reach
    /// the binary: an artifact that a node already has would not be fetched again.
    pub fn change(&mut self) -> anyhow::Result<u64> {
        let unique =
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |t| t.as_nanos());
        let source = with_constant(&self.original, &self.handler, unique).ok_or_else(|| {
            Ended::usage(format!("{} has no `fn {}` in src/lib.rs", self.name, self.handler))
        })?;
        let lib = self.path().join("src/lib.rs");
        std::fs::write(&lib, source).with_context(|| format!("cannot write {}", lib.display()))?;
        self.rounds += 1;
        Ok(self.rounds)
    }
}

/// What the function of a manifest is called here, and the last segment of its handler.
pub(super) fn names(manifest: &str) -> Result<(FunctionName, String), String> {
    let document: toml::Table = manifest.parse().map_err(|e: toml::de::Error| e.message().to_owned())?;
    let package = document.get("package").ok_or("there is no package")?;
    let name = package.get("name").and_then(|name| name.as_str()).ok_or("the package has no name")?;
    let name = FunctionName::parse(&format!("bench-{name}")).map_err(|e| e.to_string())?;
    let handler = || package.get("metadata")?.get("mfaas")?.get("handler")?.as_str();
    let handler = HandlerPath::parse(handler().unwrap_or("handle")).map_err(|e| e.to_string())?;
    Ok((name, handler.as_str().rsplit("::").next().unwrap_or("handle").to_owned()))
}

/// The source with a first statement in the handler that the optimiser must keep.
pub(super) fn with_constant(source: &str, handler: &str, unique: u128) -> Option<String> {
    let function = source.find(&format!("pub fn {handler}("))?;
    let body = function + source[function..].find('{')? + 1;
    Some(format!("{} std::hint::black_box({unique}_u128);{}", &source[..body], &source[body..]))
}
