//! A toolchain that was imported, and what of the host's system it runs with.

use std::path::{Path, PathBuf};

use mfaas_ident::{Digest, ToolchainId};

use crate::error::BuilderError;
use crate::sandbox::{Sandbox, View};

/// The one version that this program compiles with.
pub(crate) const RUSTC_VERSION: &str = "1.95.0";
/// The one target.
pub(crate) const TARGET: &str = "x86_64-unknown-linux-gnu";
/// The list of all files with their digests, in the format of `sha256sum`; its own digest is
/// the toolchain's id.
pub(super) const MANIFEST_FILE: &str = "manifest.sha256";
/// What a tenant's compile may see: rustc, its libraries, std, the linker.
pub(super) const COMPILER_PART: &str = "rustc";
/// The link root: a stub of libc and empty archives for the other names std asks for.
pub(super) const LINK_PART: &str = "link";
/// What only the trusted dependency build may see. It counts towards the id, because cargo
/// chooses flags and features of every dependency.
pub(super) const TRUSTED_PART: &str = "trusted";

/// An imported toolchain whose manifest matches its name.
#[derive(Debug, Clone)]
pub(crate) struct Toolchain {
    id: ToolchainId,
    root: PathBuf,
}

impl Toolchain {
    /// Opens `…/toolchains/<id>`. The manifest's digest must be the directory's name; the files
    /// themselves were hashed at import and are read-only.
    pub(crate) fn open(root: &Path) -> Result<Self, BuilderError> {
        let problem =
            |problem: &str| BuilderError::Toolchain { path: root.to_path_buf(), problem: problem.to_owned() };
        let root = root.canonicalize().map_err(BuilderError::io(root))?;
        let name = root.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let id: ToolchainId = name.parse().map_err(|_| problem("the directory is not named by a digest"))?;
        let manifest = root.join(MANIFEST_FILE);
        let bytes = std::fs::read(&manifest).map_err(BuilderError::io(&manifest))?;
        if Digest::of(&bytes) != id.0 {
            return Err(problem("the manifest does not match the directory's name"));
        }
        Ok(Self { id, root })
    }

    /// The digest over everything that can influence an artifact.
    pub(crate) fn id(&self) -> ToolchainId {
        self.id
    }

    /// The sysroot of the compiler; `/toolchain` in the sandbox.
    pub(crate) fn compiler_root(&self) -> PathBuf {
        self.root.join(COMPILER_PART)
    }

    /// The compiler on the host.
    pub(crate) fn compiler_file(&self) -> PathBuf {
        self.compiler_root().join("bin/rustc")
    }

    /// The stub libc and the empty archives; `/link` in the sandbox.
    pub(crate) fn link_root(&self) -> PathBuf {
        self.root.join(LINK_PART)
    }

    /// The directory of cargo, for the trusted job alone.
    pub(crate) fn trusted_root(&self) -> PathBuf {
        self.root.join(TRUSTED_PART)
    }
}

/// The program that starts every dynamic executable; the others are mapped by it.
const HOST_LOADER: &str = "/lib64/ld-linux-x86-64.so.2";
/// Where Debian keeps the C library.
const HOST_LIBRARY_ROOT: &str = "/lib/x86_64-linux-gnu";
/// What rustc, lld and a worker need of it.
const HOST_LIBRARIES: &[&str] =
    &["libc.so.6", "libdl.so.2", "libgcc_s.so.1", "libm.so.6", "libpthread.so.0", "librt.so.1", "libz.so.1"];

/// The files of the operating system that a compiler needs beside its own, as a sandbox shows them.
/// They are not part of the toolchain's id: they run the compiler, they do not become part of
/// what it makes.
///
/// Missing ones are left out (libpthread and its kind are empty shells since glibc 2.34, and a
/// later one may drop them); a program that does need one fails to start, and says so.
pub(crate) fn host_libraries(sandbox: &Sandbox) -> Vec<View> {
    let mut views = vec![sandbox.execute(Path::new(HOST_LOADER), HOST_LOADER)];
    for name in HOST_LIBRARIES {
        let path = Path::new(HOST_LIBRARY_ROOT).join(name);
        if path.exists() {
            views.push(sandbox.load(&path, &path.to_string_lossy()));
        }
    }
    views
}
