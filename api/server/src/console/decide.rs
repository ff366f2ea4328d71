//! The forms of a review: a vote, and a note about a hotspot. Both end where the API's calls end.

use std::collections::BTreeSet;

use axum::extract::State;
use axum::response::{IntoResponse as _, Redirect, Response};
use chrono::{TimeDelta, Utc};
use mfaas_ident::TenantName;
use mfaas_rules::codes;
use mfaas_rules::review::{HotspotState, ReviewState, Terms};

use super::form::SignedForm;
use super::hotspots::{diff_url, file_url};
use super::review::{Dossier, GRANTS, grant_word};
use crate::caller::Caller;
use crate::extract::Path;
use crate::limits;
use crate::refusal::Refusal;
use crate::state::App;
use crate::votes;

/// Votes.
pub(super) async fn vote(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<i64>,
    form: SignedForm,
) -> Result<Response, Refusal> {
    let note = form.text("note")?;
    votes::check_note(&note)?;
    let terms = match form.renamed("vote", "voice")? {
        "no" => None,
        "yes" => Some(terms(&Dossier::read(&app, id).await?, &form)?),
        _ => return Err(Refusal::invalid("A vote is `yes` or `no`.")),
    };
    let state = votes::cast(&app, &caller.token, id, terms.as_ref(), &note).await?;
    let place = if state == ReviewState::Open { "#votes" } else { "" };
    Ok(Redirect::to(&format!("/reviews/{id}{place}")).into_response())
}

/// The terms of a yes: those that stand, or those that the first vote sets.
fn terms(dossier: &Dossier, form: &SignedForm) -> Result<Terms, Refusal> {
    if let Some(why) = dossier.only_no() {
        return Err(Refusal::new(codes::MF0908, why));
    }
    if form.optional("terms")? == Some("standing") {
        return Ok(dossier.review.terms.clone());
    }
    let tenant = form.optional("tenant")?.map(TenantName::parse).transpose();
    let mut grants = BTreeSet::new();
    for word in form.all("grant") {
        let known = GRANTS.into_iter().find(|grant| grant_word(*grant) == word);
        grants.insert(known.ok_or_else(|| Refusal::invalid("A grant is not one of those of the form."))?);
    }
    Ok(Terms {
        tenant: tenant.map_err(|error| Refusal::invalid(error.to_string()))?,
        grants,
        expires_at: form.optional("days")?.map(expires_at).transpose()?,
    })
}

fn expires_at(days: &str) -> Result<i64, Refusal> {
    let max = limits::TERMS_DAYS_MAX;
    let days = days.parse::<i64>().ok().filter(|days| (1..=max).contains(days));
    let life = days.and_then(TimeDelta::try_days);
    let life = life.ok_or_else(|| Refusal::invalid(format!("Days are a number from 1 to {max}.")))?;
    Ok((Utc::now() + life).timestamp())
}

/// Says what is at a hotspot of the report.
pub(super) async fn mark(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<i64>,
    form: SignedForm,
) -> Result<Response, Refusal> {
    let (key, note) = (form.renamed("hotspot", "spot")?, form.text("note")?);
    let state = HotspotState::parse(form.one("state")?);
    let state = state.ok_or_else(|| Refusal::invalid("A hotspot is unseen, seen, justified or unsound."))?;
    check_hotspot_note(state, &note)?;
    let dossier = Dossier::read(&app, id).await?;
    let hotspot = dossier.hotspots.iter().find(|hotspot| hotspot.key == key);
    let hotspot = hotspot.ok_or_else(|| Refusal::not_found("such hotspot in this review"))?;
    app.catalog.mark_hotspot(&caller.actor(), &caller.token.person, id, key, (state, &note)).await?;
    // The way back is made here and not taken from the form, which could lead anywhere.
    let page = match form.one("back")? {
        "file" => without_place(&file_url(id, &hotspot.file, hotspot.line)),
        "diff" => without_place(&diff_url(id, &hotspot.file, hotspot.line)),
        _ => format!("/reviews/{id}"),
    };
    Ok(Redirect::to(&format!("{page}#hotspot-{}", hotspot.number)).into_response())
}

fn without_place(url: &str) -> String {
    url.split('#').next().unwrap_or_default().to_owned()
}

fn check_hotspot_note(state: HotspotState, note: &str) -> Result<(), Refusal> {
    let max = limits::HOTSPOT_NOTE_CHARS_MAX;
    if note.chars().count() > max {
        return Err(Refusal::invalid(format!("A note about a hotspot has at most {max} characters.")));
    }
    if !note.is_empty() {
        votes::check_note(note)?;
    }
    if note.is_empty() && matches!(state, HotspotState::Justified | HotspotState::Unsound) {
        return Err(Refusal::invalid("Say why it is sound, or why it is not."));
    }
    Ok(())
}
