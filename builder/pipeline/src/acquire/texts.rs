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
#[allow(clippy::unwrap_used, reason = "a panic is how a test fails")]
mod tests {
    use super::*;

    #[test]
    fn texts_are_kept_and_what_is_none_is_not() {
        let large = vec![b'x'; usize::try_from(CRATE_TEXT.file_bytes_max).unwrap() + 1];
        let files: [(&str, &[u8]); 4] = [
            ("empty", b""),
            ("large.txt", &large),
            ("picture.png", b"\x89PNG\r\n"),
            ("src/lib.rs", b"fn f() {}"),
        ];
        let kept: Vec<String> = of_files(files.into_iter()).into_iter().map(|text| text.path).collect();
        assert_eq!(kept, ["empty", "src/lib.rs"]);
    }

    #[test]
    fn more_files_than_the_limit_are_cut_off() {
        let names: Vec<String> = (0..=CRATE_TEXT.files_max).map(|n| format!("f{n}")).collect();
        let kept = of_files(names.iter().map(|name| (name.as_str(), &b"x"[..])));
        assert_eq!(kept.len(), CRATE_TEXT.files_max);
    }
}
