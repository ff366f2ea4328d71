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
mod tests;
