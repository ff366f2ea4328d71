//! The archive reader.

use mfaas_unpack::{SourceTree, Upload};

use crate::tar;

/// What is made of an input before it is read. A change of one byte would otherwise hardly ever
/// get past a checksum.
#[derive(Clone, Copy)]
struct Dressing {
    /// Every header gets its right checksum.
    mend: bool,
    /// Two zero blocks follow.
    end: bool,
    /// Cargo.toml comes first.
    manifest: bool,
    /// One gzip member around everything.
    gzip: bool,
}

impl Dressing {
    fn of(bits: u8) -> Self {
        let bit = |number: u8| bits >> number & 1 == 1;
        Self { mend: bit(0), end: bit(1), manifest: bit(2), gzip: bit(3) }
    }

    fn dress(self, body: &[u8]) -> Vec<u8> {
        let mut bytes = if self.manifest { tar::file("Cargo.toml", b"") } else { Vec::new() };
        bytes.extend_from_slice(body);
        if self.end {
            tar::pad(&mut bytes);
        }
        if self.mend {
            tar::mend_all(&mut bytes);
        }
        if self.end {
            tar::end(&mut bytes);
        }
        if self.gzip { tar::gzip_stored(&bytes) } else { bytes }
    }
}

/// The first byte says how the rest is dressed; the rest is the archive.
///
/// # Panics
/// When a tree that was accepted does not survive being written as tar again, or its own digest.
pub fn archive(input: &[u8]) {
    let Some((bits, body)) = input.split_first() else { return };
    let bytes = Dressing::of(*bits).dress(body);
    let Ok(tree) = Upload::new(bytes).and_then(|upload| upload.unpack()) else { return };
    assert!(tree.get("Cargo.toml").is_some(), "a tree without Cargo.toml");
    for (path, _) in tree.files() {
        assert!(!path.starts_with('/') && path.split('/').all(|part| !matches!(part, "" | "." | "..")));
        assert!(
            path.bytes().all(|byte| byte.is_ascii_graphic() && !b"\\:*?\"<>|".contains(&byte)),
            "{path:?}"
        );
    }
    let again = written_again(&tree);
    assert_eq!(again, tree, "the same tree in other bytes");
    assert_eq!(again.tree_digest(), tree.tree_digest());
}

/// The tree from an archive that other code wrote, in the opposite order.
fn written_again(tree: &SourceTree) -> SourceTree {
    let mut bytes = Vec::new();
    for (path, content) in tree.files().collect::<Vec<_>>().into_iter().rev() {
        let (prefix, name) = split(path);
        bytes.extend(tar::entry(name.as_bytes(), b'0', content, |header| {
            header[345..345 + prefix.len()].copy_from_slice(prefix.as_bytes());
        }));
    }
    tar::end(&mut bytes);
    let again = Upload::new(bytes).and_then(|upload| upload.unpack());
    again.unwrap_or_else(|error| panic!("accepted once, but not again: {error}"))
}

/// A path as ustar's prefix (at most 155 bytes) and name (at most 100).
fn split(path: &str) -> (&str, &str) {
    if path.len() <= 100 {
        return ("", path);
    }
    let fits = |(at, _): &(usize, &str)| *at <= 155 && path.len() - at - 1 <= 100;
    let slash = path.match_indices('/').find(fits);
    slash.map_or_else(|| panic!("{path:?} fits no ustar header"), |(at, _)| (&path[..at], &path[at + 1..]))
}
