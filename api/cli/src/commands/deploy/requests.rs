//! What a deployment waits for, in lines: the way to each crate, what could be used in its place, who decides.

use mfaas_rules::review::ReviewState;
use mfaas_wire::{DeltaSizeView, DeploymentView, MemberView, ReadingView, RequestView};

/// Whether the acquirer has not yet found out what it comes down to, and how much there is to read of it.
pub(super) fn is_being_looked_at(request: &RequestView) -> bool {
    is_open(request) || request.members.iter().any(|member| is_undecided(member) && member.reading.is_none())
}

fn is_open(request: &RequestView) -> bool {
    request.status == "open"
}

/// Everything that is known.
pub(super) fn lines(deployment: &DeploymentView) -> Vec<String> {
    let mut lines = Vec::new();
    for request in &deployment.requests {
        lines.push(format!(
            "{} -> {} {}: request {} is {}",
            deployment.function, request.name, request.requirement, request.id, request.status
        ));
        lines.push(format!("  {}", nearest(request)));
        lines.extend(request.members.iter().filter(|member| is_undecided(member)).flat_map(member));
        if is_open(request) {
            lines.push(format!(
                "  what it comes down to is being found out; `mfaas crate requests {}` tells it",
                request.id
            ));
        }
        lines.push(format!("  asked for by this deploy; by hand: {}", command(request)));
    }
    if let Some(url) = &deployment.review_url {
        lines.push(format!("reviewers decide at {url}; then the deployment goes on by itself"));
    }
    lines
}

fn nearest(request: &RequestView) -> String {
    match &request.nearest {
        Some(nearest) => {
            let features = nearest.features.join(", ");
            let with =
                if features.is_empty() { String::new() } else { format!(" with the features {features}") };
            format!("nearest allowed version: {}{with} (decided by {})", nearest.version, nearest.decided_by)
        }
        None => "no version of it is allowed".to_owned(),
    }
}

fn is_undecided(member: &MemberView) -> bool {
    member.state.is_some_and(|state| state != ReviewState::Approved)
}

fn member(member: &MemberView) -> [String; 2] {
    let review = member.review.map_or_else(String::new, |review| format!(" (review {review})"));
    let reading = match &member.reading {
        Some(reading) => to_read(reading),
        None => "how much there is to read is being found out".to_owned(),
    };
    [format!("  {} {}{review}", member.path.join(" -> "), member.version), format!("    {reading}")]
}

/// The shortest way to a decision.
fn to_read(reading: &ReadingView) -> String {
    let whole = match reading.lines {
        Some(lines) => format!("{lines} lines in all"),
        None => "its texts are not there".to_owned(),
    };
    match (&reading.delta, &reading.no_delta) {
        (Some(delta), _) => {
            let DeltaSizeView { from, added, removed, files } = delta;
            format!("delta from {from}: +{added} -{removed} lines in {files} files; {whole}")
        }
        (None, Some(why)) => format!("no delta: {why}; {whole}"),
        (None, None) => whole,
    }
}

/// The command that asks for the same.
fn command(request: &RequestView) -> String {
    let mut command = format!("mfaas crate request '{}@{}'", request.name, request.requirement);
    if !request.features.is_empty() {
        command.push_str(&format!(" --features {}", request.features.join(",")));
    }
    if !request.default_features {
        command.push_str(" --no-default-features");
    }
    command
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

    use super::*;

    #[test]
    fn a_deployer_who_waits_is_told_the_way_the_nearest_version_and_the_command() {
        let request = serde_json::json!({
            "id": 3, "tenant": "default", "name": "regex-lite", "requirement": "=0.1.5", "features": ["string"],
            "default_features": false, "status": "reviewing", "created_at": "2026-11-22T00:00:00Z",
            "nearest": { "version": "0.1.6", "features": ["std"], "decided_by": "seed" },
            "members": [
                { "name": "regex-lite", "version": "0.1.5", "path": ["regex-lite"], "review": 7, "state": "open",
                  "reading": { "lines": 900, "delta": { "from": "0.1.6", "added": 12, "removed": 40, "files": 3 } } },
                { "name": "memchr", "version": "2.7.4", "path": ["regex-lite", "memchr"] },
                { "name": "aho", "version": "1.0.0", "path": ["regex-lite", "aho"], "review": 5, "state": "approved" },
            ],
        });
        let deployment = serde_json::json!({
            "id": "0199a0a0-0000-7000-8000-000000000000", "tenant": "default", "function": "search", "state": "waiting",
            "created_at": "2026-11-22T00:00:00Z", "updated_at": "2026-11-22T00:00:00Z",
            "source_digest": "00".repeat(32), "source_bytes": 1, "attempts": 1,
            "review_url": "http://127.0.0.1/reviews/7", "requests": [request],
        });
        let said = lines(&serde_json::from_value(deployment).unwrap());
        assert_eq!(
            said,
            [
                "search -> regex-lite =0.1.5: request 3 is reviewing",
                "  nearest allowed version: 0.1.6 with the features std (decided by seed)",
                "  regex-lite 0.1.5 (review 7)",
                "    delta from 0.1.6: +12 -40 lines in 3 files; 900 lines in all",
                "  asked for by this deploy; by hand: mfaas crate request 'regex-lite@=0.1.5' --features string --no-default-features",
                "reviewers decide at http://127.0.0.1/reviews/7; then the deployment goes on by itself",
            ]
        );
    }
}
