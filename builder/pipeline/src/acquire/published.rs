//! When a version came into its registry, where the index says so.
//!
//! cargo keeps what it read of a sparse index beside its archives: lines of JSON between zero bytes. The format
//! around the lines is cargo's own, so it is not parsed; a line counts only when it names this version with this
//! checksum, and a cache that is not there, or is written in another way, leaves the date unknown. An index
//! names no publisher.

use std::path::Path;

use mfaas_ident::sanitise_line;
use mfaas_rules::crate_facts::Published;
use serde::Deserialize;

use super::download::Download;

/// Bytes of one crate's lines that are read: the longest of the public index has about two million.
const INDEX_BYTES_MAX: u64 = 16 << 20;
/// Bytes of a date.
const DATE_BYTES_MAX: usize = 40;

/// The part of an index line that is of interest here.
#[derive(Deserialize)]
struct Line {
    vers: String,
    cksum: String,
    pubtime: Option<String>,
}

/// What the index below `registries` (cargo's `registry/index`) says of the archive.
pub(super) fn published(registries: &Path, download: &Download) -> Option<Published> {
    let name = download.name.as_str().to_ascii_lowercase();
    std::fs::read_dir(registries).ok()?.flatten().find_map(|registry| {
        let path = registry.path().join(".cache").join(directory(&name)).join(&name);
        let is_small = std::fs::metadata(&path).is_ok_and(|found| found.len() <= INDEX_BYTES_MAX);
        let bytes = if is_small { std::fs::read(&path).ok()? } else { return None };
        date(&bytes, &download.version.to_string(), &download.checksum.to_string())
    })
}

/// Where an index keeps a crate of that name.
fn directory(name: &str) -> String {
    match name.len() {
        0..=2 => name.len().to_string(),
        3 => format!("3/{}", &name[..1]),
        _ => format!("{}/{}", &name[..2], &name[2..4]),
    }
}

fn date(cache: &[u8], version: &str, checksum: &str) -> Option<Published> {
    let lines = cache.split(|byte| *byte == 0).filter(|piece| piece.first() == Some(&b'{'));
    let line = lines
        .filter_map(|piece| serde_json::from_slice::<Line>(piece).ok())
        .find(|line| line.vers == version && line.cksum == checksum)?;
    Some(Published { at: Some(sanitise_line(&line.pubtime?, DATE_BYTES_MAX)), by: None })
}

#[cfg(test)]
mod tests;
