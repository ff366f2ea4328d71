//! `expect.toml` against what happened.

use std::fmt::Write as _;

use anyhow::Context as _;
use toml_edit::{DocumentMut, Item, value};

use crate::case::Case;
use crate::ladder::{Climb, End};

/// How an image ends without the verifier on a machine with protection keys, where that is another end.
const UNDER_KEYS: &str = "unverified_under_keys";
/// Rewrites what differs instead of failing.
const BLESS: &str = "MFAAS_BLESS";
/// Statuses of a call that was ended, or answered, with nothing else harmed.
const CONTAINED: &[&str] = &[
    "ok",
    "handler_error",
    "panicked",
    "over_budget",
    "stack_overflow",
    "out_of_memory",
    "denied",
    "fault",
    "aborted",
    "bad_output",
    "worker ended",
    "not loaded",
];

/// Why the case did not end as it has to; `None` if it did.
pub(crate) fn compare(case: &Case, climb: &Climb) -> anyhow::Result<Option<String>> {
    let path = case.folder.join("expect.toml");
    let text = if path.is_file() { std::fs::read_to_string(&path)? } else { String::new() };
    let mut expected: DocumentMut = text.parse().with_context(|| path.display().to_string())?;
    if let Some(broken) = promise(&expected, climb) {
        return Ok(Some(broken));
    }
    let mut reason = String::new();
    for (key, found) in observed(climb, &expected) {
        let same = expected.get(key).map(text_of) == found.as_ref().map(text_of);
        if same {
            continue;
        }
        if std::env::var_os(BLESS).is_some() {
            match found {
                Some(found) => expected[key] = found,
                None => {
                    expected.remove(key);
                }
            }
        } else {
            let (wanted, found) = (expected.get(key).map(text_of), found.as_ref().map(text_of));
            write!(reason, "{key}: {} instead of {}; ", shown(found), shown(wanted))?;
        }
    }
    if std::env::var_os(BLESS).is_some() {
        std::fs::write(&path, expected.to_string())?;
    }
    Ok((!reason.is_empty()).then_some(reason))
}

fn shown(text: Option<String>) -> String {
    text.unwrap_or_else(|| "nothing".to_owned())
}

fn text_of(item: &Item) -> String {
    item.to_string().trim().to_owned()
}

/// What a run says under each key of `expect.toml` that a run can say something about.
fn observed(climb: &Climb, expected: &DocumentMut) -> [(&'static str, Option<Item>); 7] {
    let rung = |number: usize| climb.rungs.get(number);
    let further: toml_edit::Array = climb.rungs.iter().skip(2).map(|rung| rung.layer.as_str()).collect();
    let runs = match &climb.end {
        End::Image(status) => Some(value(status)),
        End::CompileError | End::Unreadable | End::Limit | End::Review => None,
    };
    // Where keys hold what the verifier let through, the file says so.
    let unverified = match climb.under_keys && expected.contains_key(UNDER_KEYS) {
        true => UNDER_KEYS,
        false => "unverified",
    };
    [
        ("code", rung(0).map(|rung| value(rung.code.id()))),
        ("stopped_by", rung(0).map(|rung| value(rung.layer.as_str()))),
        ("second_line", rung(1).map(|rung| value(rung.layer.as_str()))),
        ("further", (!further.is_empty()).then(|| value(further))),
        ("end", Some(value(climb.end.as_str()))),
        ("runs", runs),
        (unverified, climb.unverified.as_deref().map(value)),
    ]
}

/// The promise cannot be blessed away: `refused`, `contained` (refused, or an image that harms
/// nothing but its own call) or `harmless` (the same: it may well be admitted).
fn promise(expected: &DocumentMut, climb: &Climb) -> Option<String> {
    let promise = expected.get("promise").and_then(Item::as_str).unwrap_or("refused");
    let status = match &climb.end {
        End::Image(status) => Some(status.as_str()),
        End::CompileError | End::Unreadable | End::Limit | End::Review => None,
    };
    if let Some(status) = status.filter(|status| !CONTAINED.contains(status)) {
        return Some(format!("the worker answers `{status}`, which is no containment"));
    }
    let admitted = climb.rungs.is_empty() && status.is_some();
    match promise {
        "refused" if admitted => Some("it was admitted and has to be refused".to_owned()),
        "refused" | "contained" | "harmless" => None,
        other => Some(format!("`{other}` is no promise")),
    }
}
