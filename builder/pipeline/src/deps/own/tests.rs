#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use mfaas_ident::Digest;
use mfaas_unpack::CrateArchive;

use super::{HOSTED, own_crates};

#[test]
fn the_archives_are_the_same_each_time_and_our_reader_reads_them() {
    let (first, second) = (own_crates().unwrap(), own_crates().unwrap());
    assert_eq!(first.len(), 3);
    for (one, two) in first.iter().zip(&second) {
        assert_eq!(Digest::of(&one.archive), Digest::of(&two.archive), "{}", one.name);
        let archive = CrateArchive::read(&one.archive, &format!("{}-{}", one.name, one.version)).unwrap();
        assert_eq!(archive.left_out(), &[] as &[String]);
        assert_eq!(archive.get("Cargo.toml"), Some(one.manifest.as_bytes()));
        assert!(archive.get("src/lib.rs").is_some());
    }
}

/// A developer's copy cannot be compiled into what runs on a node.
#[test]
fn nothing_of_a_node_is_in_them() {
    for own in own_crates().unwrap() {
        let archive = CrateArchive::read(&own.archive, &format!("{}-{}", own.name, own.version)).unwrap();
        assert!(HOSTED.iter().all(|path| archive.get(path).is_none()), "{}", own.name);
        assert!(!own.manifest.contains("features"), "{}", own.manifest);
        let allocator =
            archive.files().find(|(_, text)| String::from_utf8_lossy(text).contains("#[global_allocator]"));
        assert!(allocator.is_none(), "{}: {:?}", own.name, allocator.map(|(path, _)| path));
    }
}
