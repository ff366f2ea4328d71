//! How much there is to read for a decision, in a few lines for people.

use mfaas_ident::sanitise_line;
use mfaas_wire::{DeltaView, FileDeltaView, ReviewView};

/// Files of a delta that are named; all of them are in `--json`.
const FILES_MAX: usize = 10;

/// The whole version, and what changed since the nearest one that is allowed, or why that is not known.
pub(crate) fn reading(view: &ReviewView) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(whole) = view.whole {
        let (other, files) = (whole.other_lines, whole.other_files);
        lines.push(format!(
            "to read    {} lines in {} files, {other} in {files} others",
            whole.lines, whole.files
        ));
    }
    match (&view.delta, &view.no_delta) {
        (Some(delta), _) => lines.extend(of_delta(delta)),
        (None, Some(why)) => lines.push(format!("delta      none: {}", sanitise_line(why, 1_000))),
        (None, None) => {}
    }
    lines
}

fn of_delta(delta: &DeltaView) -> Vec<String> {
    let who = sanitise_line(&delta.decided_by, 300);
    let from = sanitise_line(&delta.from, 100);
    let standing = match (delta.stands, delta.reviewed) {
        (false, _) => format!("from {from}, which is allowed NO MORE (was by {who})"),
        (true, false) => format!("from {from}, allowed by {who}, which nobody of this site has looked at"),
        (true, true) => format!("from {from}, allowed by {who}"),
    };
    let mut lines = vec![format!(
        "delta      {standing}: +{} -{} lines in {} files, +{} -{} in {} others",
        delta.added, delta.removed, delta.files, delta.other_added, delta.other_removed, delta.other_files
    )];
    lines.extend(delta.changes.iter().take(FILES_MAX).map(of_file));
    let more = delta.changes.len().saturating_sub(FILES_MAX);
    if more > 0 {
        lines.push(format!("  {more} further files"));
    }
    if delta.unkept_files > 0 {
        lines.push(format!("  {} files are no text and were not compared", delta.unkept_files));
    }
    lines
}

fn of_file(file: &FileDeltaView) -> String {
    let path = sanitise_line(&file.path, 500);
    let whole =
        if file.whole.is_empty() { String::new() } else { format!(" ({})", sanitise_line(&file.whole, 300)) };
    format!("  {:<7}  +{} -{}  {path}{whole}", sanitise_line(&file.change, 20), file.added, file.removed)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a panic is how a test fails")]
mod tests {
    use super::*;
    use serde_json::json;

    fn delta(reviewed: bool, stands: bool) -> DeltaView {
        serde_json::from_value(json!({
            "from": "1.0.3", "from_checksum": "a".repeat(64), "decided_by": "ann, bob\u{1b}[2J",
            "decided_at": "2026-01-01T00:00:00Z", "reviewed": reviewed, "stands": stands,
            "added": 120, "removed": 33, "files": 4, "other_added": 1, "other_removed": 2, "other_files": 1,
            "unkept_files": 1, "facts": {},
            "changes": [{ "path": "src/lib.rs", "change": "changed", "added": 7, "removed": 9, "whole": "too large" }],
        }))
        .unwrap()
    }

    #[test]
    fn a_delta_says_who_stands_for_its_beginning() {
        let text = of_delta(&delta(true, true)).join("\n");
        assert!(
            text.contains("from 1.0.3, allowed by ann, bob\\u{1b}[2J: +120 -33 lines in 4 files"),
            "{text}"
        );
        assert!(
            text.contains("changed  +7 -9  src/lib.rs (too large)") && text.contains("1 files are no text")
        );
        assert!(of_delta(&delta(false, true))[0].contains("nobody of this site has looked at"));
        assert!(of_delta(&delta(true, false))[0].contains("allowed NO MORE"));
    }
}
