//! The readers of what is known about a dependency: its files, advisories, other people's audits.

use mfaas_audit::{advisory as said, crate_source, touches::touches, vet};
use mfaas_rules::crate_facts::{Advisory, AuditSet};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Any bytes as the file of one advisory.
///
/// # Panics
/// When it is neither an advisory nor unread, or is about another crate than its place says.
pub fn advisory(input: &[u8]) {
    let set = said::read_all([("thing/RUSTSEC-2021-0001.md", input)]);
    assert_eq!(set.advisories.len() + set.unread.len(), 1);
    for advisory in &set.advisories {
        assert_eq!((advisory.id.as_str(), advisory.package.as_str()), ("RUSTSEC-2021-0001", "thing"));
        assert!(!advisory.title.is_empty());
        survives::<Advisory>(advisory);
        shown(advisory);
    }
    for unread in &set.unread {
        assert_eq!(unread.package.as_ref().map(|name| name.as_str()), Some("thing"));
        shown(unread);
    }
}

/// Any bytes as `audits.toml` and as `imports.lock`.
///
/// # Panics
/// When a file is read in part, or an entry says nothing.
pub fn audits(input: &[u8]) {
    for set in [vet::read_audits("somebody", input), vet::read_imports(input)] {
        assert!(set.unread.is_empty() || (set.audits.is_empty() && set.left_out == 0));
        assert!(set.audits.iter().all(|audit| !audit.criteria.is_empty()));
        survives::<AuditSet>(&set);
        shown(&set);
    }
}

/// Any text as a file of a dependency.
///
/// # Panics
/// When a place is not in the text, or more places are kept than were counted.
pub fn dependency(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let lines = u32::try_from(text.matches('\n').count() + 1).unwrap_or(u32::MAX);
    let scan = crate_source::scan("src/lib.rs", text);
    assert!(scan.tokens.hotspots.len() <= scan.tokens.counts.values().sum());
    assert!(scan.tokens.hotspots.iter().all(|hotspot| (1..=lines).contains(&hotspot.span.line)));
    // A macro that wraps its caller's tokens has the word in its body.
    assert!(scan.exported_macros.iter().all(|one| !one.wraps_caller || !one.powers.is_empty()));
    let report = touches([("src/lib.rs", text)]);
    for touch in &report.classes {
        assert!(!touch.hotspots.is_empty() && touch.hotspots.len() <= touch.count);
        assert!(touch.hotspots.iter().all(|hotspot| (1..=lines).contains(&hotspot.span.line)));
    }
    assert!(report.classes.is_sorted_by(|a, b| a.class < b.class));
    shown(&(scan.tokens, report));
}

/// Written and read again it is the same.
fn survives<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(value: &T) {
    let json = serde_json::to_string(value).unwrap_or_else(|error| panic!("{value:?}: {error}"));
    match serde_json::from_str::<T>(&json) {
        Ok(again) => assert_eq!(*value, again),
        Err(error) => panic!("{json}: {error}"),
    }
}

/// None of its texts moves a terminal or turns its line around.
fn shown(value: &impl Serialize) {
    let json = serde_json::to_string(value).unwrap_or_default();
    assert!(!json.contains(['\u{1b}', '\u{202e}', '\u{2066}']) && !json.contains("\\u001b"), "{json}");
}
