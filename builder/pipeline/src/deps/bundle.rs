//! Our own crates inside every artifact: ABI, SDK and shim, as source text carried in this
//! program, so that builder and node runtime meet only through what a digest names.

use std::path::Path;

use mfaas_ident::Digest;

use crate::error::BuilderError;

macro_rules! sources {
    ($($file:literal),* $(,)?) => {
        /// Path below the bundle, and text.
        const SOURCES: &[(&str, &str)] =
            &[$(($file, include_str!(concat!("../../../../node-runtime/", $file)))),*];
    };
}

sources![
    "abi/src/call.rs",
    "abi/src/callee.rs",
    "abi/src/content_type.rs",
    "abi/src/fields.rs",
    "abi/src/frame.rs",
    "abi/src/http.rs",
    "abi/src/kv.rs",
    "abi/src/lib.rs",
    "abi/src/log.rs",
    "abi/src/object.rs",
    "abi/src/status.rs",
    "abi/src/suspended.rs",
    "abi/src/symbols.rs",
    "abi/src/volume.rs",
    "sdk/src/asset.rs",
    "sdk/src/binding.rs",
    "sdk/src/cache.rs",
    "sdk/src/call.rs",
    "sdk/src/error.rs",
    "sdk/src/handler.rs",
    "sdk/src/http.rs",
    "sdk/src/input.rs",
    "sdk/src/json.rs",
    "sdk/src/kv.rs",
    "sdk/src/lib.rs",
    "sdk/src/log.rs",
    "sdk/src/objects.rs",
    "sdk/src/output.rs",
    "sdk/src/request.rs",
    "sdk/src/response.rs",
    "sdk/src/testing.rs",
    "sdk/src/testing/http.rs",
    "sdk/src/volume.rs",
    "sdk/src/waiting.rs",
    "shim/src/arena.rs",
    "shim/src/arena/large.rs",
    "shim/src/arena/room.rs",
    "shim/src/assets.rs",
    "shim/src/block_on.rs",
    "shim/src/bounded.rs",
    "shim/src/call.rs",
    "shim/src/entry.rs",
    "shim/src/host.rs",
    "shim/src/lib.rs",
    "shim/src/waiting.rs",
];

/// The line of the ABI's source that holds its version.
const ABI_VERSION_LINE: &str = "pub const ABI_VERSION: u32 = ";

/// The version of the interface that the bundled shim speaks, as its source says.
pub(super) fn abi_version() -> Result<u32, BuilderError> {
    SOURCES
        .iter()
        .filter(|(path, _)| path.starts_with("abi/"))
        .flat_map(|(_, text)| text.lines())
        .find_map(|line| line.strip_prefix(ABI_VERSION_LINE)?.strip_suffix(';')?.parse().ok())
        .ok_or_else(|| BuilderError::Command {
            command: "reading the bundled ABI",
            problem: "its source names no version".to_owned(),
        })
}

/// The digest over every path and text.
pub(super) fn digest() -> Digest {
    let mut list = String::new();
    for (path, text) in SOURCES {
        list.push_str(&format!("{}  {path}\n", Digest::of(text.as_bytes())));
    }
    Digest::of(list.as_bytes())
}

/// The sources of one of our crates: path below its own directory, and text.
pub(super) fn of_part(part: &str) -> impl Iterator<Item = (&str, &str)> {
    SOURCES.iter().filter_map(move |(path, text)| Some((path.strip_prefix(part)?.strip_prefix('/')?, *text)))
}

/// Writes the sources below `root`.
pub(super) fn write(root: &Path) -> Result<(), BuilderError> {
    for (path, text) in SOURCES {
        let path = root.join(path);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(BuilderError::io(parent))?;
        }
        std::fs::write(&path, text).map_err(BuilderError::io(&path))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
