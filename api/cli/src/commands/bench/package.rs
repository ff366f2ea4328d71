//! A copy of a package whose handler can be changed from round to round.

use std::path::{Path, PathBuf};

use mfaas_ident::{FunctionName, HandlerPath};

use crate::commands::deploy::name_of_package;
use crate::failure::Failure;

/// The package in a temporary directory.
#[derive(Debug)]
pub(super) struct Package {
    dir: tempfile::TempDir,
    /// The function, `bench-` and the package's name.
    pub(super) name: FunctionName,
    /// What the handler is called with, from the package's `request` file, or nothing.
    pub(super) request: Vec<u8>,
    original: String,
    handler: String,
    rounds: u64,
}

impl Package {
    /// Copies the package.
    pub(super) fn copy_of(path: &Path) -> Result<Self, Failure> {
        let tree = mfaas_unpack::SourceTree::from_dir(path)
            .map_err(|e| Failure::Usage(format!("{} cannot be packed: {e}", path.display())))?;
        let dir = tempfile::tempdir().map_err(|e| Failure::Local(format!("no temporary directory: {e}")))?;
        tree.write_into(dir.path()).map_err(|e| Failure::Local(e.to_string()))?;
        let package = name_of_package(path)?;
        let name =
            FunctionName::parse(&format!("bench-{package}")).map_err(|e| Failure::Usage(e.to_string()))?;
        let lib = dir.path().join("src/lib.rs");
        let original = std::fs::read_to_string(&lib).map_err(Failure::io("cannot read", &lib))?;
        let handler = handler_of(&String::from_utf8_lossy(tree.manifest()))?;
        let request = tree.get("request").map(<[u8]>::to_vec).unwrap_or_default();
        Ok(Self { dir, name, request, original, handler, rounds: 0 })
    }

    /// The directory.
    pub(super) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Gives the handler another constant and returns the round's number. The constant must reach
    /// the binary: an artifact that a node already has would not be fetched again.
    pub(super) fn change(&mut self) -> Result<u64, Failure> {
        let unique =
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |t| t.as_nanos());
        let source = with_constant(&self.original, &self.handler, unique).ok_or_else(|| {
            Failure::Usage(format!("{} has no `fn {}` in src/lib.rs", self.name, self.handler))
        })?;
        let lib: PathBuf = self.path().join("src/lib.rs");
        std::fs::write(&lib, source).map_err(Failure::io("cannot write", &lib))?;
        self.rounds += 1;
        Ok(self.rounds)
    }
}

/// The last segment of the manifest's handler.
fn handler_of(manifest: &str) -> Result<String, Failure> {
    let document: toml::Table = manifest
        .parse()
        .map_err(|e: toml::de::Error| Failure::Usage(format!("Cargo.toml: {}", e.message())))?;
    let handler = document
        .get("package")
        .and_then(|package| package.get("metadata")?.get("mfaas")?.get("handler")?.as_str())
        .unwrap_or("handle");
    let handler = HandlerPath::parse(handler).map_err(|e| Failure::Usage(e.to_string()))?;
    Ok(handler.as_str().rsplit("::").next().unwrap_or("handle").to_owned())
}

/// The source with a first statement in the handler that the optimiser must keep.
pub(super) fn with_constant(source: &str, handler: &str, unique: u128) -> Option<String> {
    let function = source.find(&format!("pub fn {handler}("))?;
    let body = function + source[function..].find('{')? + 1;
    Some(format!("{} std::hint::black_box({unique}_u128);{}", &source[..body], &source[body..]))
}
