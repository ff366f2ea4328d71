//! Copies what is needed of an installed Rust into a directory named by its digest.
//!
//! The copy is made beside its final place and renamed when complete, so a half-made toolchain
//! is never found under a digest. Nothing is downloaded.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use mfaas_ident::{Digest, ToolchainId};
use sha2::Digest as _;

use super::imported::{COMPILER_PART, LINK_PART, MANIFEST_FILE, RUSTC_VERSION, TARGET, TRUSTED_PART};
use super::stub;
use crate::error::BuilderError;

/// Parts of std that no function and no dependency may link: the test harness, which would
/// bring its own `main`, and the profiler's run-time, which writes files.
const STD_LEFT_OUT: &[&str] = &["libtest-", "libgetopts-", "libprofiler_builtins-"];

/// Imports `sysroot` (as `rustc --print sysroot` prints it) into `into/<id>`, and answers the
/// id. A toolchain that is there already is left alone.
///
/// Fails if the compiler is not exactly the pinned version or a part is missing.
pub(crate) fn import(sysroot: &Path, into: &Path) -> Result<ToolchainId, BuilderError> {
    std::fs::create_dir_all(into).map_err(BuilderError::io(into))?;
    let staging =
        tempfile::Builder::new().prefix(".import-").tempdir_in(into).map_err(BuilderError::io(into))?;
    let root = staging.path();
    let mut files = copy_parts(&parts(sysroot)?, root)?;
    check_version(&root.join(COMPILER_PART).join("bin/rustc"))?;
    stub::write_link_root(&root.join(COMPILER_PART), &root.join(LINK_PART))?;
    files.extend(digest_directory(root, LINK_PART)?);
    let manifest = manifest(files);
    let id = ToolchainId(Digest::of(manifest.as_bytes()));
    write_file(&root.join(MANIFEST_FILE), manifest.as_bytes())?;
    install(staging, &into.join(id.to_string()))?;
    Ok(id)
}

/// A file to copy: where it is, and where it goes relative to the toolchain's root.
struct Part {
    from: PathBuf,
    to: String,
}

/// The files of a sysroot that are needed, and nothing else: no docs, no other tools, no
/// sanitizer run-times, no symlinks.
fn parts(sysroot: &Path) -> Result<Vec<Part>, BuilderError> {
    let rustlib = format!("lib/rustlib/{TARGET}");
    let mut parts = vec![
        part(sysroot, COMPILER_PART, "bin/rustc"),
        part(sysroot, COMPILER_PART, &format!("{rustlib}/bin/rust-lld")),
        part(sysroot, TRUSTED_PART, "bin/cargo"),
    ];
    for name in file_names(&sysroot.join("lib"))? {
        if name.starts_with("librustc_driver-") || name.starts_with("libLLVM.so.") {
            parts.push(part(sysroot, COMPILER_PART, &format!("lib/{name}")));
        }
    }
    let std = format!("{rustlib}/lib");
    for name in file_names(&sysroot.join(&std))? {
        let wanted = name.ends_with(".rlib") || name.ends_with(".rmeta");
        if wanted && !STD_LEFT_OUT.iter().any(|prefix| name.starts_with(prefix)) {
            parts.push(part(sysroot, COMPILER_PART, &format!("{std}/{name}")));
        }
    }
    Ok(parts)
}

fn part(sysroot: &Path, part: &str, relative: &str) -> Part {
    Part { from: sysroot.join(relative), to: format!("{part}/{relative}") }
}

fn file_names(directory: &Path) -> Result<Vec<String>, BuilderError> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(BuilderError::io(directory))? {
        let entry = entry.map_err(BuilderError::io(directory))?;
        if entry.file_type().map_err(BuilderError::io(directory))?.is_file() {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// Copies every part, and answers path and digest of what was written.
fn copy_parts(parts: &[Part], root: &Path) -> Result<Vec<(String, Digest)>, BuilderError> {
    parts.iter().map(|part| Ok((part.to.clone(), copy_hashed(&part.from, &root.join(&part.to))?))).collect()
}

/// Copies one file and hashes the bytes on their way, so that the digest is of what was copied
/// even if the source changes meanwhile. The copy is read-only, and executable as the source was.
fn copy_hashed(from: &Path, to: &Path) -> Result<Digest, BuilderError> {
    use std::os::unix::fs::PermissionsExt as _;
    let mut source = std::fs::File::open(from).map_err(BuilderError::io(from))?;
    if let Some(parent) = to.parent() {
        std::fs::create_dir_all(parent).map_err(BuilderError::io(parent))?;
    }
    let mut target = std::fs::File::create_new(to).map_err(BuilderError::io(to))?;
    let mut hasher = sha2::Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        let count = source.read(&mut buffer).map_err(BuilderError::io(from))?;
        if count == 0 {
            break;
        }
        hasher.update(&buffer[..count]);
        target.write_all(&buffer[..count]).map_err(BuilderError::io(to))?;
    }
    let mode = source.metadata().map_err(BuilderError::io(from))?.permissions().mode();
    let mode = if mode & 0o111 == 0 { 0o444 } else { 0o555 };
    target.set_permissions(std::fs::Permissions::from_mode(mode)).map_err(BuilderError::io(to))?;
    Ok(Digest::from_bytes(hasher.finalize().into()))
}

/// The compiler must say that it is the pinned version, for the pinned host.
fn check_version(rustc: &Path) -> Result<(), BuilderError> {
    let output =
        std::process::Command::new(rustc).arg("-vV").env_clear().output().map_err(BuilderError::io(rustc))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
    if line("release:") == Some(RUSTC_VERSION) && line("host:") == Some(TARGET) {
        return Ok(());
    }
    let found = text.lines().next().unwrap_or("a compiler that does not start");
    Err(BuilderError::Toolchain {
        path: rustc.to_path_buf(),
        problem: format!(
            "rustc {RUSTC_VERSION} for {TARGET} is needed, this is {}",
            mfaas_ident::sanitise_line(found, 200)
        ),
    })
}

fn digest_directory(root: &Path, part: &str) -> Result<Vec<(String, Digest)>, BuilderError> {
    file_names(&root.join(part))?
        .into_iter()
        .map(|name| {
            let path = root.join(part).join(&name);
            let bytes = std::fs::read(&path).map_err(BuilderError::io(&path))?;
            Ok((format!("{part}/{name}"), Digest::of(&bytes)))
        })
        .collect()
}

/// One line for each file, sorted by path: `<sha256>  <path>`.
fn manifest(mut files: Vec<(String, Digest)>) -> String {
    files.sort();
    files.into_iter().map(|(path, digest)| format!("{digest}  {path}\n")).collect()
}

fn write_file(path: &Path, bytes: &[u8]) -> Result<(), BuilderError> {
    std::fs::write(path, bytes).map_err(BuilderError::io(path))
}

/// Gives the finished directory its name. Another import that was faster wins: its content has
/// the same digest.
fn install(staging: tempfile::TempDir, target: &Path) -> Result<(), BuilderError> {
    use std::os::unix::fs::PermissionsExt as _;
    if target.join(MANIFEST_FILE).exists() {
        return Ok(());
    }
    // tempfile makes 0700; the build user must be able to read the toolchain.
    std::fs::set_permissions(staging.path(), std::fs::Permissions::from_mode(0o755))
        .map_err(BuilderError::io(staging.path()))?;
    match std::fs::rename(staging.path(), target) {
        Ok(()) => {
            // The directory has another name now: there is nothing left to remove.
            let _ = staging.keep();
            Ok(())
        }
        Err(_) if target.join(MANIFEST_FILE).exists() => Ok(()),
        Err(error) => Err(BuilderError::io(target)(error)),
    }
}
