#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use mfaas_rules::limits::CRATE_ARCHIVE;
use proptest::prelude::*;

use super::CrateArchive;
use crate::UnpackError;

const TOP: &str = "sample-1.2.3";

/// One entry as cargo writes it: the old GNU magic, no owner, a time.
fn entry(path: &str, kind: u8, link: &str, content: &[u8]) -> Vec<u8> {
    let mut header = [0u8; 512];
    header[..path.len()].copy_from_slice(path.as_bytes());
    header[100..108].copy_from_slice(b"0000644\0");
    header[108..116].copy_from_slice(b"0000000\0");
    header[116..124].copy_from_slice(b"0000000\0");
    header[124..136].copy_from_slice(format!("{:011o}\0", content.len()).as_bytes());
    header[136..148].copy_from_slice(b"10000000000\0");
    header[156] = kind;
    header[157..157 + link.len()].copy_from_slice(link.as_bytes());
    header[257..265].copy_from_slice(b"ustar  \0");
    header[148..156].fill(b' ');
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    let mut bytes = header.to_vec();
    bytes.extend_from_slice(content);
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    bytes
}

fn file(path: &str, content: &[u8]) -> Vec<u8> {
    entry(&format!("{TOP}/{path}"), b'0', "", content)
}

fn packed(entries: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = file("Cargo.toml", b"[package]\n");
    entries.iter().for_each(|entry| bytes.extend_from_slice(entry));
    bytes.resize(bytes.len() + 1024, 0);
    gzip(&bytes)
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn read(entries: &[Vec<u8>]) -> Result<CrateArchive, UnpackError> {
    CrateArchive::read(&packed(entries), TOP)
}

#[test]
fn names_that_an_upload_may_not_have_are_read() {
    let long = format!("src/{}/deep.rs", "directory".repeat(20));
    let name = entry("././@LongLink", b'L', "", format!("{TOP}/{long}\0").as_bytes());
    let archive = read(&[
        file("build.rs", b"fn main() {}"),
        file(".cargo/config.toml", b""),
        file("a b (c)+[d]=e.txt", b"x"),
        file("CARGO.toml", b""),
        file("-dash", b""),
        name,
        file("src/cut", b"deep"),
    ])
    .unwrap();
    assert_eq!(archive.get(&long).unwrap(), b"deep");
    assert_eq!(archive.get("build.rs").unwrap(), b"fn main() {}");
    assert_eq!((archive.files().len(), archive.left_out().len()), (7, 0));
}

#[test]
fn what_is_left_out_is_listed_and_nothing_is_followed() {
    let top = |path: &str, kind, link: &str| entry(&format!("{TOP}/{path}"), kind, link, b"");
    let archive = read(&[
        top("src/link.rs", b'2', "/etc/passwd"),
        top("src/hard.rs", b'1', "sample-1.2.3/Cargo.toml"),
        top("pipe", b'6', ""),
        top("device", b'3', ""),
        top("odd", b'V', ""),
        file("src/\u{202e}sr.bil", b""),
        file("esc\u{1b}[2J", b""),
    ])
    .unwrap();
    assert_eq!(archive.files().map(|(path, _)| path).collect::<Vec<_>>(), ["Cargo.toml"]);
    let left_out = archive.left_out();
    assert_eq!(left_out.len(), 7, "{left_out:?}");
    assert_eq!(left_out[0], "src/link.rs: a symbolic link, which is not followed");
    assert!(left_out.iter().all(|line| line.chars().all(|c| !c.is_control() && c != '\u{202e}')));
}

#[test]
fn what_two_readers_could_take_differently_ends_the_reading() {
    let cases: Vec<(&str, Vec<Vec<u8>>)> = vec![
        ("outside", vec![entry("other-1.0.0/a", b'0', "", b"")]),
        ("beside", vec![entry("sample-1.2.30/a", b'0', "", b"")]),
        ("the directory as a file", vec![entry(TOP, b'0', "", b"")]),
        ("upwards", vec![file("../x", b"")]),
        ("inner upwards", vec![file("src/../../x", b"")]),
        ("dot", vec![file("./x", b"")]),
        ("empty component", vec![file("a//x", b"")]),
        ("absolute", vec![entry("/etc/passwd", b'0', "", b"")]),
        ("twice", vec![file("Cargo.toml", b"other")]),
        ("file and directory", vec![file("a", b""), file("a/b", b"")]),
        ("directory and file", vec![file("a/b", b""), file("a", b"")]),
        ("link and file", vec![entry(&format!("{TOP}/a"), b'2', "x", b""), file("a", b"")]),
        ("link with content", vec![entry(&format!("{TOP}/a"), b'2', "x", b"bytes")]),
        ("long name of nothing", vec![entry("l", b'L', "", b"sample-1.2.3/x\0")]),
        ("two long names", vec![entry("l", b'L', "", b"a\0"), entry("l", b'L', "", b"b\0"), file("x", b"")]),
        ("empty long name", vec![entry("l", b'L', "", b"\0"), file("x", b"")]),
        ("pax path", vec![entry("p", b'x', "", b"9 path=a\n"), file("x", b"")]),
    ];
    for (what, entries) in cases {
        assert!(read(&entries).is_err(), "{what}");
    }
    let mut more = packed(&[]);
    more.push(0);
    assert!(CrateArchive::read(&more, TOP).is_err(), "bytes behind the end");
    assert!(CrateArchive::read(&packed(&[])[..40], TOP).is_err(), "cut off");
    assert!(CrateArchive::read(b"plain", TOP).is_err(), "no gzip");
}

#[test]
fn every_limit_holds() {
    let many: Vec<Vec<u8>> =
        (0..CRATE_ARCHIVE.entries_max).map(|number| file(&format!("f{number}"), b"")).collect();
    assert!(matches!(read(&many), Err(UnpackError::TooManyEntries { .. })));
    let bomb = vec![0; usize::try_from(CRATE_ARCHIVE.unpacked_bytes_max).unwrap()];
    assert!(matches!(read(&[file("zeros", &bomb)]), Err(UnpackError::UnpackedTooLarge { .. })));
    let large = vec![0x1f; usize::try_from(CRATE_ARCHIVE.archive_bytes_max).unwrap() + 1];
    assert!(CrateArchive::read(&large, TOP).is_err());
    let deep = format!("{}x", "d/".repeat(CRATE_ARCHIVE.path_depth_max));
    assert!(read(&[file(&deep, b"")]).is_err());
}

#[test]
fn it_is_written_below_the_given_directory_alone() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("crate");
    std::fs::create_dir(&root).unwrap();
    read(&[file("src/a/b.rs", b"x")]).unwrap().write_into(&root).unwrap();
    assert_eq!(std::fs::read(root.join("src/a/b.rs")).unwrap(), b"x");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
}

/// Paths that mean more than they say, and plain ones.
const PATHS: &[&str] = &[
    "sample-1.2.3/src/lib.rs",
    "sample-1.2.3/a",
    "sample-1.2.3/a/b",
    "sample-1.2.3/../x",
    "sample-1.2.3/./x",
    "sample-1.2.3",
    "sample-1.2.3/",
    "../x",
    "/x",
    "x",
    "sample-1.2.3/\u{202e}",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// Any entries in any order: no panic, and whatever is accepted leads nowhere else.
    #[test]
    fn what_is_accepted_stays_inside(
        entries in prop::collection::vec((0..PATHS.len(), prop::sample::select(b"0567123LKxgSV\0".to_vec()), prop::collection::vec(any::<u8>(), 0..40)), 0..6),
        spoilt in prop::option::of((0..4096usize, any::<u8>())),
    ) {
        let entries: Vec<Vec<u8>> =
            entries.iter().map(|(path, kind, content)| entry(PATHS[*path], *kind, "", content)).collect();
        let mut bytes: Vec<u8> = file("Cargo.toml", b"").into_iter().chain(entries.concat()).collect();
        bytes.resize(bytes.len() + 1024, 0);
        if let Some((at, value)) = spoilt {
            let at = at % bytes.len();
            bytes[at] = value;
        }
        if let Ok(archive) = CrateArchive::read(&gzip(&bytes), TOP) {
            for (path, _) in archive.files() {
                prop_assert!(!path.starts_with('/') && !path.is_empty(), "{path:?}");
                prop_assert!(path.split('/').all(|part| !matches!(part, "" | "." | "..")), "{path:?}");
                prop_assert!(path.chars().all(|c| !c.is_control()), "{path:?}");
            }
            let directory = tempfile::tempdir().unwrap();
            archive.write_into(directory.path()).unwrap();
        }
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..2_000)) {
        let _ = CrateArchive::read(&bytes, TOP);
        let _ = CrateArchive::read(&gzip(&bytes), TOP);
    }
}
