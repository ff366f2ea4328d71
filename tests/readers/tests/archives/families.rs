//! Families of archives that other readers are known to take in more than one way.

use std::io::Write as _;

use flate2::{Compression, GzBuilder, write::GzEncoder};
use mfaas_readers::tar::{self, BLOCK, entry, file};

use crate::outcome;

/// Cargo.toml, the given blocks, the end.
fn archive(blocks: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = file("Cargo.toml", b"[package]\nname = \"x\"\n");
    blocks.iter().for_each(|block| bytes.extend_from_slice(block));
    tar::end(&mut bytes);
    bytes
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A header for `a`, changed.
fn changed(change: impl Fn(&mut [u8; BLOCK])) -> Vec<u8> {
    entry(b"a", b'0', b"", change)
}

/// The magic of old GNU.
fn gnu(header: &mut [u8; BLOCK]) {
    header[257..265].copy_from_slice(b"ustar  \0");
}

/// pax records before an ordinary file.
fn pax(kind: u8, records: &[u8]) -> Vec<u8> {
    archive(&[entry(b"PaxHeaders/a", kind, records, |_| {}), file("a", b"")])
}

/// `key=value` with its length in front, the length counting itself.
fn record(pair: &str) -> Vec<u8> {
    let mut length = pair.len() + 2;
    while length.to_string().len() + pair.len() + 2 != length {
        length += 1;
    }
    format!("{length} {pair}\n").into_bytes()
}

fn check(cases: &[(&str, &str, Vec<u8>)]) {
    for (what, code, bytes) in cases {
        assert_eq!(outcome(bytes.clone()), *code, "{what}");
        assert_eq!(outcome(gzip(bytes)), *code, "{what}, compressed");
    }
}

#[test]
fn pax_headers() {
    let times = [record("mtime=1700000000.123456789"), record("atime=0"), record("comment=a = b")].concat();
    check(&[
        ("times and a comment", "accepted", pax(b'x', &times)),
        ("a comment for all", "accepted", pax(b'g', &record("comment=0123456789abcdef"))),
        ("another path", "MF0102", pax(b'x', &record("path=src/lib.rs"))),
        ("another path for all", "MF0102", pax(b'g', &record("path=src/lib.rs"))),
        ("another size", "MF0102", pax(b'x', &record("size=512"))),
        ("a negative size", "MF0102", pax(b'x', &record("size=-1"))),
        ("a link target", "MF0102", pax(b'x', &record("linkpath=/etc/passwd"))),
        ("another character set", "MF0102", pax(b'x', &record("hdrcharset=BINARY"))),
        ("a sparse map", "MF0102", pax(b'x', &record("GNU.sparse.map=0,1"))),
        ("a sparse name", "MF0102", pax(b'x', &record("GNU.sparse.name=b"))),
        ("an attribute", "MF0102", pax(b'x', &record("SCHILY.xattr.user.x=1"))),
        ("a deleted path", "MF0102", pax(b'x', &record("path="))),
        ("a path in upper case", "MF0102", pax(b'x', &record("PATH=b"))),
        ("a path behind a newline", "MF0102", pax(b'x', &record("comment=x\n8 path=b"))),
        ("a path behind a NUL", "MF0102", pax(b'x', &record("comment=x\0path=b"))),
        ("a length with a zero in front", "MF0102", pax(b'x', b"012 mtime=1\n")),
        ("a length with a sign", "MF0102", pax(b'x', b"+11 mtime=1\n")),
        ("a length of zero", "MF0102", pax(b'x', b"0 mtime=1\n")),
        ("a length beyond the end", "MF0102", pax(b'x', b"99 mtime=1\n")),
        ("a length that ends early", "MF0102", pax(b'x', b"9 mtime=1\n")),
        ("a length of 2^64", "MF0102", pax(b'x', b"18446744073709551627 mtime=1\n")),
        ("a record without a key", "MF0102", pax(b'x', &record("=1"))),
        ("nothing", "MF0102", pax(b'x', b"")),
        ("NULs behind the records", "MF0102", pax(b'x', b"11 mtime=1\n\0\0")),
        ("a time that is no number", "MF0102", pax(b'x', &record("mtime=now"))),
        ("a time in another base", "MF0102", pax(b'x', &record("mtime=0x10"))),
        ("an infinite time", "MF0102", pax(b'x', &record("mtime=inf"))),
        ("a time of many digits", "MF0102", pax(b'x', &record("mtime=99999999999999999999"))),
        ("a mebibyte of records", "MF0102", pax(b'x', &record(&format!("comment={}", "x".repeat(1 << 20))))),
        ("a record of 4 KiB", "MF0102", pax(b'x', &record(&format!("comment={}", "x".repeat(4096))))),
        (
            "a header for a header",
            "MF0102",
            archive(&[
                entry(b"p", b'x', &record("mtime=1"), |_| {}),
                entry(b"p", b'x', &record("mtime=1"), |_| {}),
                file("a", b""),
            ]),
        ),
        ("a header for the end", "MF0102", archive(&[entry(b"p", b'x', &record("mtime=1"), |_| {})])),
        (
            "records with the magic of GNU",
            "MF0102",
            archive(&[entry(b"p", b'x', &record("mtime=1"), gnu), file("a", b"")]),
        ),
    ]);
}

#[test]
fn names() {
    let long = |kind, name: &[u8]| archive(&[entry(b"././@LongLink", kind, name, gnu), file("a", b"")]);
    let prefixed = |prefix: &'static [u8], name: &'static [u8]| {
        archive(&[entry(name, b'0', b"", move |header| {
            header[345..345 + prefix.len()].copy_from_slice(prefix);
        })])
    };
    check(&[
        ("a GNU long name", "MF0106", long(b'L', b"../../etc/passwd\0")),
        ("a GNU long link", "MF0106", long(b'K', b"/etc/passwd\0")),
        ("a GNU long name of a mebibyte", "MF0106", long(b'L', &vec![b'x'; 1 << 20])),
        ("a prefix", "accepted", prefixed(b"src", b"lib.rs")),
        ("a prefix that climbs", "MF0105", prefixed(b"..", b"a")),
        ("a prefix from the root", "MF0105", prefixed(b"/etc", b"passwd")),
        ("a prefix with a slash at its end", "MF0105", prefixed(b"src/", b"lib.rs")),
        ("a prefix without a name", "MF0102", prefixed(b"src", b"")),
        ("a name from the root below a prefix", "MF0105", prefixed(b"src", b"/lib.rs")),
        ("bytes behind the end of the prefix", "MF0102", prefixed(b"src\0x", b"lib.rs")),
        (
            "a prefix with the magic of GNU",
            "MF0102",
            archive(&[changed(|header| {
                gnu(header);
                header[345..348].copy_from_slice(b"src");
            })]),
        ),
        ("bytes behind the end of the name", "MF0102", archive(&[entry(b"a\0b", b'0', b"", |_| {})])),
        ("a NUL in front", "MF0102", archive(&[entry(b"\0a", b'0', b"", |_| {})])),
        ("a newline", "MF0105", archive(&[file("a\nb", b"")])),
        ("an escape sequence", "MF0105", archive(&[file("a\x1b[2J", b"")])),
        ("a colon, another file on some systems", "MF0105", archive(&[file("a:b", b"")])),
        ("a slash at the end of a file", "MF0105", archive(&[file("a/", b"")])),
        ("a slash at the end of an old file", "MF0105", archive(&[entry(b"a/", 0, b"", |_| {})])),
        ("two slashes at the end of a directory", "MF0105", archive(&[entry(b"a//", b'5', b"", |_| {})])),
        ("a dot at the end", "MF0105", archive(&[file("src/.", b"")])),
        ("the root as a file", "MF0105", archive(&[file(".", b"")])),
        (
            "the root twice",
            "MF0107",
            archive(&[entry(b"./", b'5', b"", |_| {}), entry(b".", b'5', b"", |_| {})]),
        ),
        ("a twin after folding case", "MF0107", archive(&[file("src/a", b""), file("src/A", b"")])),
        ("a twin directory after folding", "MF0107", archive(&[file("src/a", b""), file("SRC/b", b"")])),
        ("a twin of Cargo.toml", "MF0107", archive(&[file("cargo.toml", b"")])),
        ("a twin with a dot in front", "MF0107", archive(&[file("./Cargo.toml", b"")])),
        ("a file below a file", "MF0107", archive(&[file("a", b""), file("a/b", b"")])),
        ("a name of 100 bytes", "accepted", archive(&[file(&"n".repeat(100), b"")])),
    ]);
}

#[test]
fn numbers() {
    let size =
        |field: &'static [u8; 12]| archive(&[changed(|header| header[124..136].copy_from_slice(field))]);
    let at = |from: usize, field: &'static [u8]| {
        archive(&[changed(move |header| header[from..from + field.len()].copy_from_slice(field))])
    };
    check(&[
        ("a size in base 256", "MF0102", size(b"\x80\0\0\0\0\0\0\0\0\0\0\0")),
        ("a negative size in base 256", "MF0102", size(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff")),
        ("a size in base 64", "MF0102", size(b"+0000000000\0")),
        ("a negative size", "MF0102", size(b"-0000000001\0")),
        ("a size with a space in front", "MF0102", size(b" 0000000000\0")),
        ("a size with an underscore", "MF0102", size(b"0000000_000\0")),
        ("a size with a base", "MF0102", size(b"0o000000000\0")),
        ("a size with a digit of another base", "MF0102", size(b"00000000008\0")),
        ("no size", "MF0102", size(b"\0\0\0\0\0\0\0\0\0\0\0\0")),
        ("a size that hides a second one", "MF0102", size(b"00000\x00000512")),
        ("a size of 64 GiB", "MF0103", size(b"777777777777")),
        ("a size without a terminator", "accepted", size(b"000000000000")),
        ("an owner in base 256", "MF0102", at(108, b"\x80\0\0\0\0\0\x27\x10")),
        ("an owner that is no number", "MF0102", at(108, b"root\0\0\0\0")),
        ("a group that is no number", "MF0102", at(116, b"00000x0\0")),
        ("a time before 1970", "MF0102", at(136, b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff")),
        ("a time that is no number", "MF0102", at(136, b"yesterday\0\0\0")),
        ("a device number that is none", "MF0102", at(329, b"xxxxxxx\0")),
        ("owners left empty", "accepted", at(108, &[0; 16])),
        ("bytes behind the owner's name", "MF0102", at(265, b"root\0x")),
        ("a set-user-id mode", "MF0106", at(100, b"0004644\0")),
        ("a mode with the bits of a device", "MF0106", at(100, b"0020644\0")),
        ("a mode that is no number", "MF0102", at(100, b"rw-r--r-")),
        ("a trailer of star", "MF0102", at(508, b"tar\0")),
        ("the old format without a magic", "MF0102", at(257, &[0; 8])),
        ("a magic with another version", "MF0102", at(257, b"ustar\x0099")),
    ]);
    for difference in [-1_i32, 1] {
        let mut bytes = archive(&[file("a", b"")]);
        let sum: i32 = bytes[1024..1536]
            .iter()
            .enumerate()
            .map(|(at, byte)| if (148..156).contains(&at) { 32 } else { i32::from(*byte) })
            .sum();
        bytes[1024 + 148..1024 + 156].copy_from_slice(format!("{:06o}\0 ", sum + difference).as_bytes());
        assert_eq!(outcome(bytes), "MF0102", "a checksum that is off by {difference}");
    }
}

#[test]
fn kinds() {
    let of = |kind: u8| archive(&[entry(b"a", kind, b"", |_| {})]);
    let mut cases: Vec<(&str, &str, Vec<u8>)> = (0..=255_u8)
        .filter(|kind| !matches!(kind, 0 | b'0' | b'5' | b'x' | b'g'))
        .map(|kind| ("a type that is none", "MF0106", of(kind)))
        .collect();
    cases.extend([
        ("a device with the type of a file", "MF0102", archive(&[changed(|h| h[157] = b'x')])),
        (
            "device numbers at a file",
            "accepted",
            archive(&[changed(|h| h[329..337].copy_from_slice(b"0000001\0"))]),
        ),
        (
            "a hard link to itself",
            "MF0106",
            archive(&[file("b", b""), entry(b"a", b'1', b"", |h| h[157] = b'a')]),
        ),
        ("a hard link with content", "MF0106", archive(&[entry(b"a", b'1', b"content", |h| h[157] = b'b')])),
        ("a symbolic link within the tree", "MF0106", archive(&[entry(b"a", b'2', b"", |h| h[157] = b'b')])),
        ("a sparse file", "MF0106", archive(&[entry(b"a", b'S', b"", gnu)])),
        ("a volume header", "MF0106", archive(&[entry(b"a", b'V', b"", gnu)])),
        ("a continued file", "MF0106", archive(&[entry(b"a", b'M', b"", gnu)])),
        ("a directory with content", "MF0102", archive(&[entry(b"a", b'5', b"content", |_| {})])),
        ("a GNU dump directory", "MF0106", archive(&[entry(b"a", b'D', b"Yfile\0\0", gnu)])),
        ("Solaris attributes", "MF0106", archive(&[entry(b"a", b'X', b"16 path=src/a.rs\n", |_| {})])),
    ]);
    check(&cases);
}

#[test]
fn ends() {
    let good = archive(&[file("src/lib.rs", b"pub fn f() {}")]);
    let body = &good[..good.len() - 2 * BLOCK];
    let zeros = |blocks: usize| vec![0; blocks * BLOCK];
    let late = file("late.rs", b"");
    check(&[
        ("whole", "accepted", good.clone()),
        ("padded to a record", "accepted", [body, &zeros(20)].concat()),
        ("no end", "MF0102", body.to_vec()),
        ("one zero block", "MF0102", [body, &zeros(1)].concat()),
        ("a file between the zero blocks", "MF0102", [body, &zeros(1), &late, &zeros(2)].concat()),
        ("a file behind the zero blocks", "MF0102", [good.as_slice(), &late, &zeros(2)].concat()),
        ("an archive behind the archive", "MF0102", [good.as_slice(), &good].concat()),
        ("a byte behind the end", "MF0102", [good.as_slice(), b"x"].concat()),
        ("a zero behind the end", "MF0102", [good.as_slice(), &[0]].concat()),
        ("a hidden byte in the last padding", "MF0102", {
            let mut bytes = good.clone();
            let last = bytes.len() - 2 * BLOCK - 1;
            bytes[last] = 1;
            bytes
        }),
        ("a cut in the content", "MF0102", good[..2 * BLOCK + 100].to_vec()),
        ("a cut in a header", "MF0102", good[..BLOCK + 10].to_vec()),
    ]);
}

#[test]
fn gzip_members() {
    let good = archive(&[file("src/lib.rs", b"pub fn f() {}")]);
    let compressed = gzip(&good);
    let built = |builder: GzBuilder| {
        let mut encoder = builder.write(Vec::new(), Compression::best());
        encoder.write_all(&good).unwrap();
        encoder.finish().unwrap()
    };
    let spoilt = |at: usize, byte: u8| {
        let mut bytes = compressed.clone();
        bytes[at] = byte;
        bytes
    };
    let length = compressed.len();
    let with_checksum = {
        // FHCRC: the low half of the checksum over the ten bytes before it.
        let mut bytes = spoilt(3, 1 << 1);
        let mut crc = flate2::Crc::new();
        crc.update(&bytes[..10]);
        let sum = (crc.sum() as u16).to_le_bytes();
        bytes.splice(10..10, sum);
        bytes
    };
    let (half, other) = good.split_at(BLOCK * 2);
    for (what, code, bytes) in [
        ("plain", "accepted", compressed.clone()),
        ("with a file name", "accepted", built(GzBuilder::new().filename("project.tar").mtime(1))),
        ("stored", "accepted", tar::gzip_stored(&good)),
        ("a file name of 256 bytes", "MF0102", built(GzBuilder::new().filename("n".repeat(256)))),
        ("an extra field", "MF0102", built(GzBuilder::new().extra("ab\x02\0cd"))),
        ("a comment", "MF0102", built(GzBuilder::new().comment("look"))),
        ("a header checksum", "MF0102", with_checksum),
        ("a reserved flag", "MF0102", spoilt(3, 0x20)),
        ("another method", "MF0102", spoilt(2, 7)),
        ("two members of one archive", "MF0102", [gzip(half), gzip(other)].concat()),
        ("an empty member behind", "MF0102", [compressed.clone(), gzip(b"")].concat()),
        ("an empty member in front", "MF0102", [gzip(b""), compressed.clone()].concat()),
        ("a zero behind", "MF0102", [compressed.clone(), vec![0]].concat()),
        ("a wrong length", "MF0102", spoilt(length - 1, 1)),
        ("a wrong checksum", "MF0102", spoilt(length - 5, compressed[length - 5] ^ 1)),
        ("no trailer", "MF0102", compressed[..length - 8].to_vec()),
        ("half a stream", "MF0102", compressed[..length / 2].to_vec()),
        ("half a header", "MF0102", compressed[..5].to_vec()),
        ("gzip in gzip", "MF0102", gzip(&compressed)),
        ("a reserved block type", "MF0102", spoilt(10, 0b111)),
        ("compress", "MF0102", b"\x1f\x9d\x90aaaaaaaaaaaaaaaa".to_vec()),
        ("bzip2", "MF0102", b"BZh91AY&SY".to_vec()),
        ("xz", "MF0102", b"\xfd7zXZ\0".to_vec()),
        ("zstd", "MF0102", b"\x28\xb5\x2f\xfd".to_vec()),
        ("cpio", "MF0102", b"070701".to_vec()),
        ("zip behind the archive", "MF0102", [good.clone(), b"PK\x05\x06".to_vec()].concat()),
    ] {
        assert_eq!(outcome(bytes), code, "{what}");
    }
    // A tar may begin with these letters.
    let named = [file("PKGBUILD", b""), file("Cargo.toml", b""), vec![0; 2 * BLOCK]].concat();
    assert_eq!(outcome(named), "accepted");
}
