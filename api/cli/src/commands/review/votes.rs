//! Votes and notes in reviews.

use std::collections::BTreeSet;

use chrono::{TimeDelta, Utc};
use mfaas_ident::TenantName;
use mfaas_rules::profiles::std_items::Capability;
use mfaas_rules::review::{HotspotState, Terms};
use mfaas_wire::{CastVote, MarkHotspot, ReviewView};

use crate::failure::{Exit, Failure};
use crate::settings::Context;

/// The longest life of a yes that can be asked for, in days: ten years.
const DAYS_MAX: u32 = 3_653;

/// A yes.
#[derive(Debug, clap::Args)]
pub(crate) struct Approve {
    /// The review's number, as `review list` shows it.
    #[arg(value_name = "REVIEW")]
    review: i64,
    /// Why it is sound for hostile callers; kept in the audit log.
    #[arg(long)]
    note: String,
    /// Allow it for this tenant only. The second vote takes the terms of the first one when it names none.
    #[arg(long, value_name = "TENANT")]
    only: Option<TenantName>,
    /// A part of the standard library that functions do not have and this crate may use, for example `machine-code`.
    #[arg(long = "grant", value_name = "CAPABILITY", value_parser = capability)]
    grants: Vec<Capability>,
    /// Let the approval end by itself after so many days.
    #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u32).range(1..=i64::from(DAYS_MAX)))]
    days: Option<u32>,
}

/// A no.
#[derive(Debug, clap::Args)]
pub(crate) struct Deny {
    /// The review's number, as `review list` shows it.
    #[arg(value_name = "REVIEW")]
    review: i64,
    /// Why; deployers who wait for the crate read it.
    #[arg(long)]
    note: String,
}

/// What a reviewer found at a hotspot.
#[derive(Debug, clap::Args)]
pub(crate) struct Mark {
    /// The review's number, as `review list` shows it.
    #[arg(value_name = "REVIEW")]
    review: i64,
    /// File, line, column and kind, as the report names it: `src/lib.rs:12:5:unsafe`.
    #[arg(value_name = "HOTSPOT")]
    hotspot: String,
    /// What you found: `unseen`, `seen`, `justified` or `unsound`. While one hotspot is unsound nobody can approve.
    #[arg(value_name = "STATE", value_parser = hotspot_state)]
    state: HotspotState,
    /// Why.
    #[arg(long, default_value = "")]
    note: String,
}

fn capability(text: &str) -> Result<Capability, String> {
    serde_json::from_value(serde_json::Value::from(text)).map_err(|_| {
        "a capability is abort, allocator, backtrace, build-input, machine-code, threads, unwind or real"
            .to_owned()
    })
}

fn hotspot_state(text: &str) -> Result<HotspotState, String> {
    HotspotState::parse(text).ok_or_else(|| "a state is unseen, seen, justified or unsound".to_owned())
}

impl Approve {
    /// Says yes.
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let terms = self.terms(Utc::now().timestamp());
        let body = CastVote { approve: true, note: self.note, terms };
        cast(context, self.review, &body).await
    }

    /// `None` takes over what stands.
    fn terms(&self, now: i64) -> Option<Terms> {
        let named = self.only.is_some() || !self.grants.is_empty() || self.days.is_some();
        named.then(|| Terms {
            tenant: self.only.clone(),
            grants: self.grants.iter().copied().collect::<BTreeSet<_>>(),
            expires_at: self.days.map(|days| now + TimeDelta::days(i64::from(days)).num_seconds()),
        })
    }
}

impl Deny {
    /// Says no.
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        cast(context, self.review, &CastVote { approve: false, note: self.note, terms: None }).await
    }
}

impl Mark {
    /// Says what is there.
    pub(crate) async fn run(self, context: &Context) -> Result<Exit, Failure> {
        let body = MarkHotspot { hotspot: self.hotspot, state: self.state, note: self.note };
        let path = format!("/v1/reviews/{}/hotspots", self.review);
        let review: ReviewView = context.client()?.put(&path, &body).await?;
        context.screen.result(&review, || {
            format!("{} is {} in review {}", body.hotspot, body.state.as_str(), self.review)
        })?;
        Ok(Exit::Ok)
    }
}

async fn cast(context: &Context, review: i64, body: &CastVote) -> Result<Exit, Failure> {
    let path = format!("/v1/reviews/{review}/votes");
    let view: ReviewView = context.client()?.post(&path, body).await?;
    context.screen.result(&view, || standing(&view))?;
    Ok(Exit::Ok)
}

/// Where a review stands, in a sentence.
pub(crate) fn standing(view: &ReviewView) -> String {
    let yes = view.votes.iter().filter(|vote| vote.approve).count();
    format!(
        "review {} of {} {} is {}: {yes} of {} approvals",
        view.id,
        view.name,
        view.version,
        view.state.as_str(),
        view.people
    )
}

#[cfg(test)]
mod tests;
