//! One crate or one review, for people. The whole report of facts is in `--json`.

use mfaas_wire::{CrateView, Page, ReviewView};
use serde::Serialize;

use super::delta::reading;
use super::review::standing;
use crate::failure::{Exit, Failure};
use crate::screen::table;
use crate::settings::Context;

/// What to show.
#[derive(Debug, clap::Args)]
pub(super) struct Show {
    /// A crate's name, or a review's number.
    #[arg(value_name = "CRATE|REVIEW")]
    what: String,
}

/// A review with the facts that it rests on.
#[derive(Debug, Serialize)]
struct ReviewAndReport {
    review: ReviewView,
    report: serde_json::Value,
}

impl Show {
    /// Asks and shows.
    pub(super) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        match self.what.parse::<i64>() {
            Ok(id) => review(context, id).await,
            Err(_) => of_crate(context, &self.what).await,
        }
    }
}

async fn of_crate(context: &Context, name: &str) -> Result<Exit, Failure> {
    let name = super::crate_name(name)?;
    let mut page: Page<CrateView> = context.client()?.get("/v1/crates").await?;
    page.items.retain(|item| item.name == name);
    context.screen.result(&page, || {
        if page.items.is_empty() {
            return format!("{name} was never asked for; `mfaas allow request {name}` asks");
        }
        let row = |item: &CrateView| {
            vec![
                item.version.clone(),
                item.status.as_str().to_owned(),
                item.decided_by.clone().unwrap_or_else(|| "-".to_owned()),
                item.features.join(","),
                item.reason.clone(),
            ]
        };
        let rows: Vec<_> = page.items.iter().map(row).collect();
        table(&["version", "status", "decided by", "features", "reason"], &rows)
    })?;
    Ok(Exit::Ok)
}

async fn review(context: &Context, id: i64) -> Result<Exit, Failure> {
    let client = context.client()?;
    let review: ReviewView = client.get(&format!("/v1/reviews/{id}")).await?;
    let report = client.get(&format!("/v1/reviews/{id}/report")).await?;
    let both = ReviewAndReport { review, report };
    context.screen.result(&both, || text(&both.review))?;
    Ok(Exit::Ok)
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
    lines.extend(view.voices.iter().map(|voice| {
        let word = if voice.approve { "yes" } else { "no" };
        format!("  {word:<9}  {}: {}", voice.person, voice.note)
    }));
    lines.extend(
        view.spots.iter().map(|spot| {
            format!("  {:<9}  {} ({}) {}", spot.state.as_str(), spot.spot, spot.person, spot.note)
        }),
    );
    lines.join("\n")
}

/// The rules' word; a judgement of other rules than we know is shown as unknown, not guessed at.
pub(super) fn suggestion(view: &ReviewView) -> String {
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
