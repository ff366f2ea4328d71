//! The hostile strings of `tests/browser/hostile-strings.json`, by what they try.
//!
//! `@@` in a string stands for its number, so that a script that runs says which string it came from.

use mfaas_harness::checkout;
use serde_json::Value;

/// One string.
pub(super) struct Hostile {
    /// Its number, from 0.
    pub(super) number: usize,
    /// What a text field gets.
    pub(super) text: String,
    /// What a file holds: the same, or bytes that are no UTF-8.
    pub(super) bytes: Vec<u8>,
}

impl Hostile {
    /// The string with a tail that no other place has, so that seeing it says where it was put.
    pub(super) fn at(&self, place: &str) -> String {
        format!("{}~{place}{}", self.text, self.number)
    }

    /// No text of the database can hold a NUL.
    pub(super) fn is_storable(&self) -> bool {
        !self.text.contains('\0')
    }

    /// Whether a person may write it into a form: it is what it looks like. Browsers end lines with CRLF, and
    /// white space around the words is cut before they are judged.
    pub(super) fn is_visible(&self) -> bool {
        let words = as_sent(&self.at(""));
        mfaas_ident::sanitise(&words, usize::MAX) == words
    }
}

/// Words as the forms of the console take them.
pub(super) fn as_sent(words: &str) -> String {
    words.replace("\r\n", "\n").trim().to_owned()
}

/// All of them.
pub(super) fn strings() -> Vec<Hostile> {
    let path = checkout().join("tests/browser/hostile-strings.json");
    let groups: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let written = groups.as_object().unwrap().values().flat_map(|group| group.as_array().unwrap());
    written.enumerate().map(|(number, written)| hostile(number, written)).collect()
}

fn hostile(number: usize, written: &Value) -> Hostile {
    let field = |name: &str| written[name].as_str().unwrap_or_default();
    let bytes = match (written.as_str(), written["times"].as_u64()) {
        (Some(text), _) => text.as_bytes().to_vec(),
        (None, Some(times)) => {
            format!("{}{}", field("repeat").repeat(usize::try_from(times).unwrap()), field("then"))
                .into_bytes()
        }
        (None, None) => hex::decode(field("bytes")).unwrap(),
    };
    let bytes = replaced(&bytes, number);
    Hostile { number, text: String::from_utf8_lossy(&bytes).into_owned(), bytes }
}

fn replaced(bytes: &[u8], number: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some(at) = rest.windows(2).position(|pair| pair == b"@@") {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(number.to_string().as_bytes());
        rest = &rest[at + 2..];
    }
    out.extend_from_slice(rest);
    out
}
