//! The reader of dependencies' archives.

use mfaas_unpack::CrateArchive;

use crate::tar;

/// The directory that everything has to lie in.
const TOP: &str = "sample-1.2.3";

/// The first byte says how the rest is dressed: whether every header gets its right checksum, whether
/// two zero blocks follow, whether a Cargo.toml comes first. One gzip member is around everything,
/// unless the fourth bit is set.
///
/// # Panics
/// When an archive that was accepted has a file that lies elsewhere, twice, or both as a file and as a
/// directory, or says something that a terminal would obey.
pub fn package(input: &[u8]) {
    let Some((bits, body)) = input.split_first() else { return };
    let bit = |number: u8| bits >> number & 1 == 1;
    let mut bytes = if bit(2) { tar::file("sample-1.2.3/Cargo.toml", b"") } else { Vec::new() };
    bytes.extend_from_slice(body);
    if bit(1) {
        tar::pad(&mut bytes);
    }
    if bit(0) {
        tar::mend_all(&mut bytes);
    }
    if bit(1) {
        tar::end(&mut bytes);
    }
    let bytes = if bit(3) { bytes } else { tar::gzip_stored(&bytes) };
    let Ok(archive) = CrateArchive::read(&bytes, TOP) else { return };
    let paths: Vec<&str> = archive.files().map(|(path, _)| path).collect();
    for path in &paths {
        assert!(path.split('/').all(|part| !matches!(part, "" | "." | "..")), "{path:?}");
        let below = format!("{path}/");
        assert!(!paths.iter().any(|other| other.starts_with(&below)), "{path:?} is a file and a directory");
    }
    let shown = paths.into_iter().chain(archive.left_out().iter().map(String::as_str));
    for text in shown {
        assert!(!text.chars().any(char::is_control), "{text:?}");
    }
}
