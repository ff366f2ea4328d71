//! One review, for people. The whole report of facts is in `--json`.

use mfaas_wire::ReviewView;
use serde::Serialize;

use super::delta::reading;
use super::votes::standing;
use crate::failure::{Exit, Failure};
use crate::settings::Context;

/// What to show.
#[derive(Debug, clap::Args)]
pub(crate) struct Show {
    /// The review's number, as `review list` shows it.
    #[arg(value_name = "REVIEW")]
    pub(crate) review: i64,
}

/// A review with the facts that it rests on.
#[derive(Debug, Serialize)]
struct ReviewAndReport {
    review: ReviewView,
    report: serde_json::Value,
}

impl Show {
    /// Asks and shows.
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let client = context.client()?;
        let review: ReviewView = client.get(&format!("/v1/reviews/{}", self.review)).await?;
        let report = client.get(&format!("/v1/reviews/{}/report", self.review)).await?;
        let both = ReviewAndReport { review, report };
        context.screen.result(&both, || text(&both.review))?;
        Ok(Exit::Ok)
    }
}

fn text(view: &ReviewView) -> String {
    let mut lines = vec![
        standing(view),
        format!("  checksum   {}", view.checksum),
        format!(
            "  features   {}",
            if view.features.is_empty() { "-".to_owned() } else { view.features.join(", ") }
        ),
        format!("  suggested  {} (rules {})", suggestion(view), view.rules_revision),
    ];
    lines.extend(reasons(view).map(|reason| format!("    - {reason}")));
    lines.extend(view.trial.as_ref().map(|trial| format!("  tried out  {}", trial.sentence())));
    lines.extend(reading(view).into_iter().map(|line| format!("  {line}")));
    let requesters: Vec<&str> = view.requesters.iter().map(mfaas_ident::PersonName::as_str).collect();
    lines.push(format!("  asked by   {}", requesters.join(", ")));
    lines.extend(view.votes.iter().map(|vote| {
        let word = if vote.approve { "yes" } else { "no" };
        format!("  {word:<9}  {}: {}", vote.person, vote.note)
    }));
    lines.extend(view.hotspots.iter().map(|hotspot| {
        format!("  {:<9}  {} ({}) {}", hotspot.state.as_str(), hotspot.hotspot, hotspot.person, hotspot.note)
    }));
    lines.join("\n")
}

/// The rules' word; a judgement of other rules than we know is shown as unknown, not guessed at.
pub(crate) fn suggestion(view: &ReviewView) -> String {
    let word = view.judgement.get("suggestion");
    let word =
        word.and_then(|word| word.as_str().or_else(|| word.as_object()?.keys().next().map(String::as_str)));
    mfaas_ident::sanitise_line(word.unwrap_or("unknown"), 60).replace('_', " ")
}

fn reasons(view: &ReviewView) -> impl Iterator<Item = String> {
    let list = view.judgement.get("reasons").and_then(serde_json::Value::as_array);
    let texts = list.into_iter().flatten().filter_map(|reason| reason.get("text")?.as_str());
    texts.map(|text| mfaas_ident::sanitise_line(text, 300))
}
