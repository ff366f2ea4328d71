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
mod tests;
