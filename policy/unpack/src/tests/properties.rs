//! What holds for every tree and for any bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;

use proptest::prelude::*;

use super::{archive, entry, file, gzip, unpack};
use crate::path::{Kind, parse};

type Files = BTreeMap<String, Vec<u8>>;

fn component() -> impl Strategy<Value = String> {
    "[a-zA-Z0-9_.][a-zA-Z0-9_.-]{0,8}"
}

fn path() -> impl Strategy<Value = String> {
    prop::collection::vec(component(), 1..5).prop_map(|parts| parts.join("/"))
}

/// Files that can be a tree: no path is refused, and none is a file and a directory.
fn files() -> impl Strategy<Value = Files> {
    let content = prop::collection::vec(any::<u8>(), 0..1_500);
    prop::collection::btree_map(path(), content, 0..12).prop_map(|mut files| {
        let mut folded: BTreeSet<String> = BTreeSet::new();
        files.retain(|path, _| {
            let own = path.to_ascii_lowercase();
            parse(path.as_bytes(), Kind::File).is_ok_and(|parsed| parsed.as_ref() == Some(path))
                && own != "cargo.toml"
                && folded.iter().all(|other| !below(other, &own) && !below(&own, other))
                && has_lower_directories(path)
                && folded.insert(own)
        });
        files
    })
}

fn below(path: &str, directory: &str) -> bool {
    path == directory || path.strip_prefix(directory).is_some_and(|rest| rest.starts_with('/'))
}

/// Directories must be spelled alike; the simplest way is to spell them in lower case.
fn has_lower_directories(path: &str) -> bool {
    path.rsplit_once('/')
        .is_none_or(|(directory, _)| !directory.bytes().any(|byte| byte.is_ascii_uppercase()))
}

/// How a writer may put one file into an archive.
#[derive(Debug, Clone)]
struct Manner {
    dot: bool,
    gnu: bool,
    old_kind: bool,
    split: prop::sample::Index,
    mode: u16,
    owner: u16,
    seconds: u32,
    announced: bool,
    directory: bool,
}

fn manner() -> impl Strategy<Value = Manner> {
    (any::<[bool; 5]>(), any::<prop::sample::Index>(), 0_u16..0o1000, any::<u16>(), any::<u32>()).prop_map(
        |([dot, gnu, old_kind, announced, directory], split, mode, owner, seconds)| Manner {
            dot,
            gnu,
            old_kind,
            split,
            mode,
            owner,
            seconds,
            announced,
            directory,
        },
    )
}

fn written(path: &str, content: &[u8], manner: &Manner, named: &mut Vec<String>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let dot = if manner.dot { "./" } else { "" };
    let parent = path.rsplit_once('/').map(|(parent, _)| parent.to_owned());
    if let Some(parent) = parent.filter(|parent| manner.directory && !named.contains(parent)) {
        bytes.extend(entry(&format!("{dot}{parent}/"), b'5', b"", |_| {}));
        named.push(parent);
    }
    if manner.announced {
        let time = format!("mtime={:010}.5", manner.seconds);
        bytes.extend(entry("PaxHeaders/x", b'x', format!("{} {time}\n", time.len() + 4).as_bytes(), |_| {}));
    }
    let slashes: Vec<usize> = path.match_indices('/').map(|(at, _)| at).collect();
    let (prefix, name) = match slashes.as_slice() {
        slashes if !slashes.is_empty() && !manner.gnu && !manner.dot => {
            let at = slashes[manner.split.index(slashes.len())];
            (path[..at].to_owned(), path[at + 1..].to_owned())
        }
        _ => (String::new(), format!("{dot}{path}")),
    };
    let kind = if manner.old_kind { 0 } else { b'0' };
    bytes.extend(entry(&name, kind, content, |header| {
        header[100..108].copy_from_slice(format!("{:07o}\0", manner.mode).as_bytes());
        header[108..116].copy_from_slice(format!("{:07o}\0", manner.owner).as_bytes());
        header[136..148].copy_from_slice(format!("{:011o}\0", manner.seconds).as_bytes());
        header[345..345 + prefix.len()].copy_from_slice(prefix.as_bytes());
        if manner.gnu {
            header[257..265].copy_from_slice(b"ustar  \0");
        }
    }));
    bytes
}

proptest! {
    #[test]
    fn two_archives_of_one_tree_are_one_source(
        (files, order) in files().prop_flat_map(|files| {
            let entries: Vec<(String, Vec<u8>)> = files.clone().into_iter().collect();
            (Just(files), Just(entries).prop_shuffle())
        }),
        manners in prop::collection::vec(manner(), 12),
        padding in 0_usize..20,
        compressed in any::<bool>(),
    ) {
        let plain: Vec<Vec<u8>> = files.iter().map(|(path, content)| file(path, content)).collect();
        let plain = unpack(archive(&plain)).unwrap();
        let mut named = Vec::new();
        let otherwise: Vec<Vec<u8>> = order
            .iter()
            .zip(&manners)
            .map(|((path, content), manner)| written(path, content, manner, &mut named))
            .collect();
        let mut bytes = archive(&otherwise);
        bytes.resize(bytes.len() + padding * 512, 0);
        let other = unpack(if compressed { gzip(&bytes) } else { bytes }).unwrap();
        prop_assert_eq!(plain.tree_digest(), other.tree_digest());
        prop_assert_eq!(plain.pack().unwrap().digest(), other.pack().unwrap().digest());
        prop_assert_eq!(plain, other);
    }

    #[test]
    fn two_trees_are_two_sources(files in files(), at in any::<prop::sample::Index>(), kind in 0..4) {
        prop_assume!(!files.is_empty());
        let mut changed = files.clone();
        let path = changed.keys().nth(at.index(files.len())).unwrap().clone();
        let mut content = changed.remove(&path).unwrap();
        match kind {
            // The file is gone.
            0 => {}
            1 => {
                content.push(0);
                changed.insert(path, content);
            }
            2 => {
                match content.first_mut() {
                    Some(first) => *first ^= 1,
                    None => content.push(1),
                }
                changed.insert(path, content);
            }
            // A name that no other file has.
            _ => {
                changed.insert(format!("{path}__renamed"), content);
            }
        }
        let tree = |files: &Files| {
            let entries: Vec<Vec<u8>> = files.iter().map(|(path, content)| file(path, content)).collect();
            unpack(archive(&entries)).unwrap()
        };
        let (before, after) = (tree(&files), tree(&changed));
        prop_assert_ne!(before.tree_digest(), after.tree_digest());
        prop_assert_ne!(before.pack().unwrap().digest(), after.pack().unwrap().digest());
    }

    #[test]
    fn a_tree_survives_packing(files in files()) {
        let entries: Vec<Vec<u8>> = files.iter().map(|(path, content)| file(path, content)).collect();
        let tree = unpack(archive(&entries)).unwrap();
        prop_assert_eq!(tree.files().len(), files.len() + 1);
        prop_assert_eq!(tree.pack().unwrap().unpack().unwrap(), tree);
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..4096)) {
        let _ = unpack(bytes.clone());
        let _ = unpack([&[0x1f, 0x8b, 8, 0], bytes.as_slice()].concat());
        let _ = unpack(gzip(&bytes));
    }

    /// A prefix of an archive is none.
    #[test]
    fn nothing_cut_off_is_accepted(files in files(), at in any::<prop::sample::Index>(), compressed in any::<bool>()) {
        let entries: Vec<Vec<u8>> = files.iter().map(|(path, content)| file(path, content)).collect();
        let whole = archive(&entries);
        let whole = if compressed { gzip(&whole) } else { whole };
        let cut = whole[..at.index(whole.len())].to_vec();
        prop_assert!(unpack(cut).is_err());
        prop_assert!(unpack([whole.as_slice(), b"x"].concat()).is_err());
    }

    #[test]
    fn what_is_accepted_reads_the_same_elsewhere(
        changes in prop::collection::vec((0usize..3072, any::<u8>()), 0..4),
        mend in any::<bool>(),
    ) {
        let mut bytes = archive(&[file("src/lib.rs", b"pub fn f() {}")]);
        for (at, byte) in changes {
            bytes[at] = byte;
        }
        if mend {
            // Mend the second header's checksum, so that changes get past it.
            bytes[1024 + 148..1024 + 156].fill(b' ');
            let sum: u32 = bytes[1024..1536].iter().map(|byte| u32::from(*byte)).sum();
            bytes[1024 + 148..1024 + 156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        }
        if let Ok(tree) = unpack(bytes.clone()) {
            let ours: Files =
                tree.files().map(|(path, content)| (path.to_owned(), content.to_vec())).collect();
            prop_assert_eq!(ours, as_tar_reads_it(&bytes));
        }
    }
}

/// What the `tar` crate, which repairs, makes of the same bytes.
fn as_tar_reads_it(bytes: &[u8]) -> Files {
    let mut files = Files::new();
    for entry in tar::Archive::new(bytes).entries().unwrap() {
        let mut entry = entry.unwrap();
        let path = entry.path().unwrap().to_str().unwrap().trim_start_matches("./").to_owned();
        let mut content = Vec::new();
        entry.read_to_end(&mut content).unwrap();
        if entry.header().entry_type().is_file() {
            files.insert(path, content);
        }
    }
    files
}
