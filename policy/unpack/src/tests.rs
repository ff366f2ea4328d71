#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod properties;

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use mfaas_rules::limits::ARCHIVE;

use super::{SourceTree, UnpackError, Upload};

const MANIFEST: &str = "[package]\nname = \"x\"\n";

/// One entry as bytes; `change` may spoil the header before its checksum is made.
fn entry(path: &str, kind: u8, content: &[u8], change: impl Fn(&mut [u8; 512])) -> Vec<u8> {
    let mut header = [0u8; 512];
    header[..path.len()].copy_from_slice(path.as_bytes());
    header[100..108].copy_from_slice(b"0000644\0");
    header[108..116].copy_from_slice(b"0000000\0");
    header[116..124].copy_from_slice(b"0000000\0");
    header[124..136].copy_from_slice(format!("{:011o}\0", content.len()).as_bytes());
    header[136..148].copy_from_slice(b"00000000000\0");
    header[156] = kind;
    header[257..265].copy_from_slice(b"ustar\x0000");
    change(&mut header);
    header[148..156].fill(b' ');
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    let mut bytes = header.to_vec();
    bytes.extend_from_slice(content);
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    bytes
}

fn file(path: &str, content: &[u8]) -> Vec<u8> {
    entry(path, b'0', content, |_| {})
}

/// A whole archive: Cargo.toml, the given entries, two zero blocks.
fn archive(entries: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = file("Cargo.toml", MANIFEST.as_bytes());
    entries.iter().for_each(|entry| bytes.extend_from_slice(entry));
    bytes.resize(bytes.len() + 1024, 0);
    bytes
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn unpack(bytes: Vec<u8>) -> Result<SourceTree, UnpackError> {
    Upload::new(bytes)?.unpack()
}

/// The code of the refusal, or `accepted`.
fn outcome(bytes: Vec<u8>) -> String {
    match unpack(bytes) {
        Ok(_) => "accepted".to_owned(),
        Err(error) => error.code().map_or_else(|| "disk".to_owned(), |code| code.id().to_owned()),
    }
}

#[test]
fn an_ordinary_archive_is_accepted_plain_and_compressed() {
    let bytes = archive(&[file("src/lib.rs", b"pub fn f() {}")]);
    for upload in [bytes.clone(), gzip(&bytes)] {
        let tree = unpack(upload).unwrap();
        assert_eq!(tree.get("src/lib.rs").unwrap(), b"pub fn f() {}");
        assert_eq!(tree.manifest(), MANIFEST.as_bytes());
        assert_eq!(tree.files().len(), 2);
    }
}

#[test]
fn what_ordinary_writers_add_means_nothing() {
    let directory = |path| entry(path, b'5', b"", |_| {});
    let times = b"28 mtime=1700000000.1234567\n20 comment=anything\n";
    let plain = archive(&[file("src/lib.rs", b"")]);
    let written_otherwise = [
        directory("./"),
        file("./Cargo.toml", MANIFEST.as_bytes()),
        directory("./src/"),
        entry("PaxHeaders/lib.rs", b'x', times, |_| {}),
        entry("./src/lib.rs", 0, b"", |header| header[257..265].copy_from_slice(b"ustar  \0")),
        directory("empty"),
        vec![0; 10_240],
    ]
    .concat();
    assert_eq!(unpack(plain).unwrap().tree_digest(), unpack(written_otherwise).unwrap().tree_digest());
}

#[test]
fn the_ustar_prefix_is_part_of_the_path() {
    let prefixed = entry("lib.rs", b'0', b"", |header| header[345..348].copy_from_slice(b"src"));
    assert!(unpack(archive(&[prefixed])).unwrap().get("src/lib.rs").is_some());
    let climbing = entry("passwd", b'0', b"", |header| header[345..347].copy_from_slice(b".."));
    assert_eq!(outcome(archive(&[climbing])), "MF0105");
}

#[test]
fn paths_that_mean_more_than_they_say_are_refused() {
    for path in [
        "/etc/passwd",
        "../x",
        "a/../b",
        "a/./b",
        "a//b",
        "././a",
        "-rf",
        "a/-rf",
        "a b",
        "a\\b",
        "a\nb",
        "a:b",
        "ä",
        "a/",
        "~",
        "a/..",
        "..",
        ".",
        "./",
        "con\u{7f}",
    ] {
        assert_eq!(outcome(archive(&[file(path, b"")])), "MF0105", "{path:?}");
    }
    assert_eq!(outcome(archive(&[file("", b"")])), "MF0105");
    assert_eq!(outcome(archive(&[file(&"a/".repeat(16).replace("a/", "d/"), b"")])), "MF0105");
    let sixteen = format!("{}x", "d/".repeat(15));
    assert_eq!(outcome(archive(&[file(&sixteen, b"")])), "accepted");
    assert_eq!(outcome(archive(&[file(&format!("d/{sixteen}"), b"")])), "MF0105");
    let long = entry(&"n".repeat(99), b'0', b"", |header| header[345..500].fill(b'p'));
    assert_eq!(outcome(archive(&[long])), "MF0105", "255 bytes");
}

#[test]
fn only_files_and_directories_pass() {
    for (kind, code) in [
        (b'1', "MF0106"),
        (b'2', "MF0106"),
        (b'3', "MF0106"),
        (b'4', "MF0106"),
        (b'6', "MF0106"),
        (b'7', "MF0106"),
        (b'L', "MF0106"),
        (b'K', "MF0106"),
        (b'S', "MF0106"),
        (b'V', "MF0106"),
        (b'M', "MF0106"),
        (b'X', "MF0106"),
    ] {
        assert_eq!(outcome(archive(&[entry("a", kind, b"", |_| {})])), code, "{:?}", kind as char);
    }
    for mode in [b"0004755\0", b"0002755\0", b"0001755\0"] {
        let special = entry("a", b'0', b"", |header| header[100..108].copy_from_slice(mode));
        assert_eq!(outcome(archive(&[special])), "MF0106");
    }
}

#[test]
fn a_path_has_one_meaning() {
    for (first, second) in [
        (file("src/lib.rs", b"1"), file("src/lib.rs", b"2")),
        (file("src/lib.rs", b"1"), file("./src/lib.rs", b"2")),
        (file("src/lib.rs", b""), file("src/LIB.rs", b"")),
        (file("src/lib.rs", b""), file("Src/other.rs", b"")),
        (file("a", b""), file("a/b", b"")),
        (file("a/b", b""), file("a", b"")),
        (entry("a", b'5', b"", |_| {}), entry("a/", b'5', b"", |_| {})),
        (file("a/b", b""), entry("A", b'5', b"", |_| {})),
    ] {
        assert_eq!(outcome(archive(&[first, second])), "MF0107");
    }
}

#[test]
fn files_that_steer_the_build_are_refused() {
    for path in [
        ".cargo/config.toml",
        "src/.cargo/config",
        ".Cargo/config",
        "rust-toolchain",
        "rust-toolchain.toml",
        "a/rust-toolchain.toml",
        "build.rs",
        "Build.rs",
        ".git/config",
        "a/.git",
    ] {
        assert_eq!(outcome(archive(&[file(path, b"")])), "MF0109", "{path}");
    }
    for path in ["Cargo.lock", "src/build.rs", ".gitignore", "cargo/config", "inner/Cargo.toml"] {
        assert_eq!(outcome(archive(&[file(path, b"")])), "accepted", "{path}");
    }
    let without = [file("src/lib.rs", b""), vec![0; 1024]].concat();
    assert_eq!(outcome(without), "MF0108");
    let inside = [file("project/Cargo.toml", b""), vec![0; 1024]].concat();
    assert_eq!(outcome(inside), "MF0108", "a directory around everything is not stripped");
}

#[test]
fn an_archive_ends_where_it_says() {
    let good = archive(&[file("src/lib.rs", b"pub fn f() {}")]);
    let compressed = gzip(&good);
    let spoilt = [
        Vec::new(),
        vec![0; 512],
        good[..good.len() - 512].to_vec(),
        good[..good.len() - 1024].to_vec(),
        good[..1024 + 100].to_vec(),
        [good.clone(), vec![1]].concat(),
        [good.clone(), vec![0; 100]].concat(),
        [good.clone(), file("late.rs", b"")].concat(),
        [compressed.clone(), vec![0]].concat(),
        [compressed.clone(), compressed.clone()].concat(),
        compressed[..compressed.len() - 1].to_vec(),
        compressed[..20].to_vec(),
        b"PK\x03\x04".to_vec(),
        b"hello".to_vec(),
        gzip(b"hello"),
        gzip(&compressed),
    ];
    for (index, bytes) in spoilt.into_iter().enumerate() {
        assert_eq!(outcome(bytes), "MF0102", "case {index}");
    }
    let mut wrong_checksum = compressed;
    let length = wrong_checksum.len();
    wrong_checksum[length - 6] ^= 1;
    assert_eq!(outcome(wrong_checksum), "MF0102");
}

#[test]
fn headers_have_one_reading() {
    type Change = fn(&mut [u8; 512]);
    let changes: [(&str, Change); 9] = [
        ("base-256 size", |header| header[124] = 0x80),
        ("digits behind the padding", |header| header[124..136].copy_from_slice(b"0000000 000\0")),
        ("negative size", |header| header[124..136].copy_from_slice(b"-0000000001\0")),
        ("empty size", |header| header[124..136].fill(0)),
        ("bytes behind the name", |header| header[50] = b'x'),
        ("bytes behind the header", |header| header[511] = 1),
        ("a link target", |header| header[157] = b'x'),
        ("no magic", |header| header[257..265].fill(0)),
        ("GNU times", |header| {
            header[257..265].copy_from_slice(b"ustar  \0");
            header[345] = b'1';
        }),
    ];
    for (name, change) in changes {
        assert_eq!(outcome(archive(&[entry("a", b'0', b"", change)])), "MF0102", "{name}");
    }
    assert_eq!(outcome(archive(&[entry("a", b'5', b"content", |_| {})])), "MF0102");
    let mut wrong_sum = archive(&[file("a", b"")]);
    wrong_sum[1024] = b'b';
    assert_eq!(outcome(wrong_sum), "MF0102");
    let mut hidden = archive(&[file("a", b"x")]);
    hidden[1024 + 512 + 100] = b'!';
    assert_eq!(outcome(hidden), "MF0102", "bytes in the padding");
}

#[test]
fn pax_records_with_an_effect_are_refused() {
    for records in [
        "18 path=src/x.rs\n",
        "11 size=99\n",
        "27 GNU.sparse.major=000001\n",
        "17 linkpath=/etc\n",
        "9 mtime=1",
        "x mtime=1\n",
        "99999 mtime=1\n",
        "3 m\n",
        "8 mtime\n",
        "0 ",
        " ",
        "19 mtime=1\n9 path=a\n",
        "14 LIBARCHIVE=\n",
    ] {
        let bytes = archive(&[entry("p", b'x', records.as_bytes(), |_| {}), file("a", b"")]);
        assert_eq!(outcome(bytes), "MF0102", "{records:?}");
    }
}

#[test]
fn every_limit_holds() {
    let too_large = vec![0x1f; ARCHIVE.upload_bytes_max as usize + 1];
    assert_eq!(outcome(too_large), "MF0101");

    let bomb = archive(&[file("zero.bin", &vec![0; 80 << 20])]);
    assert_eq!(outcome(gzip(&bomb)), "MF0103");
    let claims = entry("a", b'0', b"", |header| header[124..136].copy_from_slice(b"77777777777\0"));
    assert_eq!(outcome(archive(&[claims])), "MF0103");
    let endless = [archive(&[]), vec![0; 80 << 20]].concat();
    assert_eq!(outcome(gzip(&endless)), "MF0103", "zero blocks behind the end are counted");

    let many: Vec<Vec<u8>> = (0..ARCHIVE.entries_max - 1).map(|n| file(&format!("m{n}"), b"")).collect();
    assert_eq!(outcome(gzip(&archive(&many))), "accepted");
    let more = [many, vec![file("last", b"")]].concat();
    assert_eq!(outcome(gzip(&archive(&more))), "MF0104");
}

/// Each limit taken alone: met exactly it admits, passed by one it refuses.
#[test]
fn every_limit_holds_to_the_last_one() {
    let limit = ARCHIVE.upload_bytes_max as usize;
    assert_ne!(outcome(vec![0; limit]), "MF0101");
    assert_eq!(outcome(vec![0; limit + 1]), "MF0101");

    // The tar as a whole: Cargo.toml and the end take four blocks, the other header one.
    let limit = ARCHIVE.unpacked_bytes_max as usize;
    let filled = |bytes: usize| gzip(&archive(&[file("zero.bin", &vec![0; bytes - 5 * 512])]));
    assert_eq!(outcome(filled(limit)), "accepted");
    assert_eq!(outcome(filled(limit + 1)), "MF0103");

    let implied = |files: usize| {
        let inside: Vec<Vec<u8>> = (0..files).map(|n| file(&format!("d{n}/f"), b"")).collect();
        outcome(gzip(&archive(&inside)))
    };
    let pairs = (ARCHIVE.entries_max - 1) / 2;
    assert_eq!((implied(pairs).as_str(), implied(pairs + 1).as_str()), ("accepted", "MF0104"));

    let long = |bytes: usize| {
        let prefix = "p".repeat(bytes - 101);
        let change =
            |header: &mut [u8; 512]| header[345..345 + prefix.len()].copy_from_slice(prefix.as_bytes());
        outcome(archive(&[entry(&"n".repeat(100), b'0', b"", change)]))
    };
    let limit = ARCHIVE.path_bytes_max;
    assert_eq!((long(limit).as_str(), long(limit + 1).as_str()), ("accepted", "MF0105"));

    let comment = |bytes: usize| {
        let records = format!("{bytes} comment={}\n", "x".repeat(bytes - 14));
        assert_eq!(records.len(), bytes);
        outcome(archive(&[entry("p", b'x', records.as_bytes(), |_| {}), file("a", b"")]))
    };
    assert_eq!((comment(4096).as_str(), comment(4097).as_str()), ("accepted", "MF0102"));
}

/// A directory and its archive meet the same limit at the same byte.
#[test]
fn a_directory_is_measured_as_its_archive() {
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("Cargo.toml"), MANIFEST).unwrap();
    let zeros = |bytes: u64| {
        let file = std::fs::File::create(root.path().join("zero.bin")).unwrap();
        file.set_len(bytes).unwrap();
        SourceTree::from_dir(root.path())
    };
    let full = ARCHIVE.unpacked_bytes_max - 5 * 512;
    assert_eq!(zeros(full).unwrap().pack().unwrap().unpack().unwrap().files().len(), 2);
    assert!(matches!(zeros(full + 1), Err(UnpackError::UnpackedTooLarge { .. })));
    // One name that no ustar header can hold is refused here, not when it is packed.
    std::fs::remove_file(root.path().join("zero.bin")).unwrap();
    std::fs::write(root.path().join("n".repeat(101)), b"").unwrap();
    assert!(matches!(SourceTree::from_dir(root.path()), Err(UnpackError::Path { .. })));
}

#[test]
fn a_refusal_shows_the_path_sanitised() {
    let finding = unpack(archive(&[file("a\u{1b}[2J", b"")])).unwrap_err().finding().unwrap();
    assert_eq!(finding.code.id(), "MF0105");
    assert!(!finding.message.contains('\u{1b}'));
}

#[test]
fn a_directory_comes_back_as_it_was() {
    let root = tempfile::tempdir().unwrap();
    let make = |path: &str, content: &str| {
        let path = root.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    };
    make("Cargo.toml", MANIFEST);
    make("src/deep/x.rs", "pub fn f() {}");
    make("target/debug/huge", "left out");
    make(".git/config", "left out");
    let tree = SourceTree::from_dir(root.path()).unwrap();
    assert_eq!(tree.files().map(|(path, _)| path).collect::<Vec<_>>(), ["Cargo.toml", "src/deep/x.rs"]);

    let copy = tempfile::tempdir().unwrap();
    tree.write_into(copy.path()).unwrap();
    assert_eq!(SourceTree::from_dir(copy.path()).unwrap(), tree);
    assert!(matches!(tree.write_into(copy.path()), Err(UnpackError::Disk { .. })), "nothing is overwritten");

    let part = tempfile::tempdir().unwrap();
    tree.write_crate_into(part.path()).unwrap();
    assert!(part.path().join("src/deep/x.rs").is_file() && !part.path().join("Cargo.toml").exists());

    std::os::unix::fs::symlink("/etc/passwd", root.path().join("src/leak.rs")).unwrap();
    assert!(matches!(SourceTree::from_dir(root.path()), Err(UnpackError::EntryType { .. })));
}

#[test]
fn packing_is_deterministic_and_its_bytes_are_the_identity() {
    let tree = unpack(archive(&[file("src/b.rs", b"b"), file("src/a.rs", b"a")])).unwrap();
    let other = unpack(archive(&[file("src/a.rs", b"a"), file("src/b.rs", b"b")])).unwrap();
    assert_eq!(tree.pack().unwrap().digest(), other.pack().unwrap().digest());
    assert_eq!(tree.pack().unwrap().unpack().unwrap(), tree);
    // Where a path ends and its content begins is part of the identity.
    let shifted = unpack(archive(&[file("src/a.rs", b"ab"), file("src/b.rs", b"")])).unwrap();
    assert_ne!(shifted.tree_digest(), tree.tree_digest());
}
