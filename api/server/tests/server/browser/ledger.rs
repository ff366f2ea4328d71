//! What was put where, and which page has to show it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use mfaas_ident::{sanitise, sanitise_line};
use serde_json::{Value, json};

/// More than any text of the console is cut at.
const WHOLE: usize = 16_000;

/// Strings by place, and the pages that the browser opens.
#[derive(Default)]
pub(super) struct Ledger {
    places: BTreeMap<&'static str, (usize, usize)>,
    pub(super) pages: Vec<Value>,
    /// Texts that pages have to show.
    pub(super) expected: usize,
}

impl Ledger {
    /// A string stands in a place.
    pub(super) fn placed(&mut self, place: &'static str) {
        self.places.entry(place).or_default().0 += 1;
    }

    /// A place did not take it.
    pub(super) fn refused(&mut self, place: &'static str) {
        self.places.entry(place).or_default().1 += 1;
    }

    /// One of the two.
    pub(super) fn tried(&mut self, place: &'static str, taken: bool) {
        if taken { self.placed(place) } else { self.refused(place) }
    }

    /// A page to open, and the texts that it has to show.
    pub(super) fn page(&mut self, path: &str, cookie: &str, status: u16, texts: &[String]) {
        self.expected += texts.len();
        let cookie = cookie.split_once('=').map_or("", |(_, value)| value);
        let page = json!({ "name": path, "path": path, "cookie": cookie, "status": status, "texts": texts });
        self.pages.push(page);
    }

    /// Strings that stand somewhere and strings that were refused, over all places.
    pub(super) fn totals(&self) -> (usize, usize) {
        self.places.values().fold((0, 0), |(placed, refused), (p, r)| (placed + p, refused + r))
    }

    /// Every string was tried in every place: nothing was left out in silence.
    pub(super) fn assert_complete(&self, strings: usize) {
        for (place, (placed, refused)) in &self.places {
            assert_eq!(placed + refused, strings, "{place}: {placed} placed and {refused} refused");
        }
    }

    /// The table for people.
    pub(super) fn table(&self) -> String {
        let mut out = String::new();
        for (place, (placed, refused)) in &self.places {
            // Writing to a String cannot fail.
            let _ = writeln!(out, "  {place:<44} {placed:>4} placed {refused:>4} refused");
        }
        out
    }
}

/// A text as a page shows it on one line.
pub(super) fn line(text: &str) -> String {
    sanitise_line(text, WHOLE)
}

/// A text as a page shows it on several.
pub(super) fn lines(text: &str) -> String {
    sanitise(text, WHOLE)
}

/// A text in SQL.
pub(super) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// A part of an address: everything but letters and digits is escaped.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() {
            out.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}
