//! The files of a crate that a reviewer reads: text, whole, and named as its report names them.
//!
//! The archive is read here, in the acquirer, under the archive's limits, which leave out names that a person
//! cannot read. Whoever shows a text later gets it as it is and never meets the archive.

use mfaas_rules::limits::CRATE_TEXT;
use mfaas_unpack::CrateArchive;

use super::download::Download;

/// A text file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Text {
    /// Its path.
    pub(crate) path: String,
    /// Its bytes, which are UTF-8.
    pub(crate) content: Vec<u8>,
}

/// The texts of an archive, as far as the limits go. An archive that cannot be read has none: its report says
/// why.
pub(crate) fn texts(download: &Download) -> Vec<Text> {
    match CrateArchive::read(&download.bytes, &download.top()) {
        Ok(archive) => of_files(archive.files()),
        Err(_) => Vec::new(),
    }
}

fn of_files<'a>(files: impl Iterator<Item = (&'a str, &'a [u8])>) -> Vec<Text> {
    files
        .filter(|(_, content)| is_shown(content))
        .take(CRATE_TEXT.files_max)
        .map(|(path, content)| Text { path: path.to_owned(), content: content.to_vec() })
        .collect()
}

fn is_shown(content: &[u8]) -> bool {
    content.len() as u64 <= CRATE_TEXT.file_bytes_max && std::str::from_utf8(content).is_ok()
}

#[cfg(test)]
mod tests;
