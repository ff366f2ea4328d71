//! The format of `deps.json`.

use mfaas_catalog::CrateClosure;
use mfaas_ident::{CrateName, Digest, ToolchainId};
use mfaas_rules::LinkedCrate;
use mfaas_rules::profiles::std_items::Capability;
use serde::{Deserialize, Serialize};

/// Everything about one cache. Unknown fields are refused: a cache of another format is rebuilt,
/// not guessed at.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Index {
    /// The toolchain that compiled it.
    pub(super) toolchain: ToolchainId,
    /// The version of the interface that the shim speaks.
    pub(super) abi_version: u32,
    /// The shim and what it is made of. It is not among the crates: tenants cannot name it.
    pub(super) shim: Product,
    pub(super) abi: Product,
    /// What stands in for the standard library.
    pub(super) facade: Facade,
    /// Every crate of the resolution that was compiled, and the SDK, sorted by name and version.
    pub(super) crates: Vec<CachedCrate>,
}

impl Index {
    /// Every crate with what it needs, as the registry records it.
    pub(super) fn closures(&self) -> Vec<CrateClosure> {
        let closure = |entry: &CachedCrate| CrateClosure {
            of: entry.as_part().into(),
            needs: entry.closure.iter().cloned().map(LinkedCrate::from).collect(),
        };
        self.crates.iter().map(closure).collect()
    }
}

/// The compiled stand-ins. What a product is called in source is in its `extern_name`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Facade {
    /// The types that are ours.
    pub(super) own: Product,
    /// For `proc_macro` and `test`.
    pub(super) compiler_crates: Vec<Product>,
    /// One set for each combination of capabilities; the first has none, and is for functions.
    pub(super) sets: Vec<StandIns>,
}

/// The stand-ins for std, core and alloc with these capabilities.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StandIns {
    /// Sorted.
    pub(super) granted: Vec<Capability>,
    pub(super) crates: Vec<Product>,
}

impl Facade {
    /// Every file of it.
    pub(super) fn products(&self) -> impl Iterator<Item = &Product> {
        let sets = self.sets.iter().flat_map(|set| &set.crates);
        std::iter::once(&self.own).chain(&self.compiler_crates).chain(sets)
    }

    /// What a crate with these capabilities is compiled against; `None` if no such set was built.
    pub(super) fn stand_ins(&self, granted: &[Capability]) -> Option<impl Iterator<Item = &Product>> {
        let set = self.sets.iter().find(|set| set.granted == granted)?;
        Some(set.crates.iter().chain(&self.compiler_crates))
    }
}

/// One crate of the cache.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CachedCrate {
    /// Package name in the registry.
    pub(crate) name: CrateName,
    /// The version of the one resolution.
    pub(crate) version: semver::Version,
    /// sha256 of the `.crate` file as Cargo.lock has it; of the source files for our own crates.
    pub(crate) checksum: String,
    /// Features that it was compiled with.
    pub(crate) features: Vec<String>,
    /// What functions link or the compiler loads; `None` for crates that only build scripts and
    /// macros used.
    pub(crate) product: Option<Product>,
    /// Whether the seed offers it by name.
    pub(crate) direct: bool,
    /// What it needs, itself not included, sorted.
    pub(crate) closure: Vec<ClosureCrate>,
}

impl CachedCrate {
    /// The crate as a part of another one's closure.
    pub(crate) fn as_part(&self) -> ClosureCrate {
        ClosureCrate {
            name: self.name.clone(),
            version: self.version.clone(),
            checksum: self.checksum.clone(),
        }
    }
}

/// The compiled file of a crate.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Product {
    /// Linked into functions, or loaded by the compiler.
    pub(crate) kind: CrateKind,
    /// The crate's name in source.
    pub(crate) extern_name: String,
    /// File name in the library directory.
    pub(crate) file: String,
    /// sha256 of that file.
    pub(crate) digest: Digest,
}

/// A crate that comes along with another.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClosureCrate {
    /// Package name.
    pub(crate) name: CrateName,
    /// Version.
    pub(crate) version: semver::Version,
    /// As in [`CachedCrate::checksum`].
    pub(crate) checksum: String,
}

impl From<ClosureCrate> for LinkedCrate {
    fn from(part: ClosureCrate) -> Self {
        Self { name: part.name, version: part.version, checksum: part.checksum }
    }
}

/// What a compiled crate is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CrateKind {
    /// An rlib.
    Library,
    /// A procedural macro: a shared object that the compiler loads.
    ProcMacro,
}
