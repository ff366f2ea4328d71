//! `mfaas review list`: what waits for votes.

use mfaas_wire::{Page, ReviewView};

use super::show::suggestion;
use crate::failure::{Exit, Failure};
use crate::screen::table;
use crate::settings::Context;

/// The open reviews.
pub(crate) async fn list(context: &Context) -> Result<Exit, Failure> {
    let page: Page<ReviewView> = context.client()?.get("/v1/reviews?state=open&limit=1000").await?;
    context.screen.result(&page, || {
        if page.items.is_empty() {
            return "no review is open".to_owned();
        }
        let rows: Vec<_> = page.items.iter().map(row).collect();
        table(&["review", "crate", "version", "suggested", "approvals", "waiting", "since"], &rows)
    })?;
    Ok(Exit::Ok)
}

fn row(view: &ReviewView) -> Vec<String> {
    let yes = view.votes.iter().filter(|vote| vote.approve).count();
    vec![
        view.id.to_string(),
        view.name.to_string(),
        view.version.clone(),
        suggestion(view),
        format!("{yes} of {}", view.people),
        view.waiting.to_string(),
        view.opened_at.format("%Y-%m-%d %H:%M").to_string(),
    ]
}
