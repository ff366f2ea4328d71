//! Source trees made in memory, through the door that uploads take.
#![allow(clippy::unwrap_used, dead_code, reason = "a panic is how a test fails; each test file uses a part")]

use mfaas_unpack::{SourceTree, Upload};

/// A tree of these files and a small Cargo.toml.
pub(crate) fn tree(files: &[(&str, &[u8])]) -> SourceTree {
    let mut archive = tar::Builder::new(Vec::new());
    let mut add = |path: &str, content: &[u8]| {
        let mut header = tar::Header::new_ustar();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, path, content).unwrap();
    };
    add("Cargo.toml", b"[package]\nname = \"x\"\n");
    files.iter().for_each(|(path, content)| add(path, content));
    Upload::new(archive.into_inner().unwrap()).unwrap().unpack().unwrap()
}

/// A tree whose only source file is `source`.
pub(crate) fn library(source: &str) -> SourceTree {
    tree(&[("src/lib.rs", source.as_bytes())])
}
